package mailbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/deja-node/deja/peers/mailbox"
)

func openDir(t testing.TB, path, tag string) *mailbox.Box {
	t.Helper()
	box, err := mailbox.Dir(path, mailbox.Options{Name: "usb", Tag: tag})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

func TestDir(t *testing.T) {
	conform(t, func(t *testing.T) carrier {
		path := t.TempDir()
		open := func(tag string) *mailbox.Box { return openDir(t, path, tag) }
		return carrier{box: open("first"), path: path, open: open}
	})
}

// A directory that is not there is no empty mailbox; one that has gone neither.
func TestDirMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stick")
	if _, err := mailbox.Dir(path, mailbox.Options{Name: "usb"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A link in the mailbox does not lead out of it, whoever put it there.
func TestDirLinksStayInside(t *testing.T) {
	outside, path := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(path, "b")); err != nil {
		t.Skip(err)
	}
	box := openDir(t, path, "first")
	if err := box.Put(t.Context(), batchName(1, 1), []byte("x"), false); err == nil {
		t.Error("written through a link")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside lies %v, %v", entries, err)
	}
}

// Files and directories are for their owner alone.
func TestDirModes(t *testing.T) {
	path := t.TempDir()
	put(t, openDir(t, path, "first"), batchName(1, 1), []byte("x"), false)
	for name, want := range map[string]fs.FileMode{"b": 0o700, dir: 0o700, batchName(1, 1): 0o600} {
		info, err := os.Stat(filepath.Join(path, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want && filepath.Separator == '/' {
			t.Errorf("%s has mode %o", name, got)
		}
	}
}

// A full disk is told with the mailbox, the file and the bytes.
func TestDirFull(t *testing.T) {
	box := mailbox.Interpose(openDir(t, t.TempDir(), "first"), func(op string) error {
		if op == "write" {
			return &fs.PathError{Op: "write", Path: "x", Err: noSpace}
		}
		return nil
	})
	err := box.Put(t.Context(), batchName(1, 1), make([]byte, 12345), false)
	full, ok := errors.AsType[*mailbox.FullError](err)
	if !ok || full.Box != "usb" || full.Path != batchName(1, 1) || full.Need != 12345 {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(err, noSpace) {
		t.Error("the cause is lost")
	}
	if names := list(t, box, dir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}
