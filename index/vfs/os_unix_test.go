//go:build unix

package vfs_test

import (
	"bufio"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deja-node/deja/index/vfs"
)

// TestPipesAreRefused would hang if a pipe without a writer were waited for.
func TestPipesAreRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(name, 0o600))
	fsys := vfs.OS{}
	_, mapErr := fsys.Map(name)
	for what, err := range map[string]error{
		"open":     openErr(fsys.Open(name)),
		"create":   openErr(fsys.Create(name)),
		"append":   openErr(fsys.Append(name)),
		"map":      mapErr,
		"a device": openErr(fsys.Open(os.DevNull)),
	} {
		wantErr(t, what, err, vfs.ErrNotRegular)
	}
	wantErr(t, "syncing a pipe as a directory", fsys.SyncDir(name), syscall.ENOTDIR)
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	fsys := vfs.OS{}
	must(t, fsys.MkdirAll(dir+"/a/b"))
	writeText(t, fsys, dir+"/a/b/created", "")
	must(t, openErr(fsys.Append(dir+"/a/b/appended")))
	must(t, vfs.WriteFile(fsys, dir+"/a/b/whole", nil))
	lock, err := fsys.Lock(dir + "/a/b/lock")
	must(t, err)
	defer lock.Close()
	must(t, filepath.WalkDir(dir+"/a", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
		return nil
	}))
}

// TestLinks: what users may keep elsewhere is found through a link, and
// nothing outside is emptied through one.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	fsys := vfs.OS{}
	writeText(t, fsys, dir+"/target", "kept")
	must(t, os.Symlink(dir+"/target", dir+"/link"))
	wantText(t, fsys, dir+"/link", "kept")
	m, err := fsys.Map(dir + "/link")
	must(t, err)
	must(t, m.Close())
	must(t, openErr(fsys.Append(dir+"/link")))
	if openErr(fsys.Create(dir+"/link")) == nil {
		t.Error("a file was created through a link")
	}
	if _, err := fsys.Lock(dir + "/link"); err == nil {
		t.Error("a lock was taken through a link")
	}
	wantText(t, fsys, dir+"/target", "kept")
}

func TestFullDiskIsENOSPC(t *testing.T) {
	quota := &fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}
	wantErr(t, "an exhausted quota", vfs.Explain(quota), syscall.ENOSPC)
	wantErr(t, "an exhausted quota", vfs.Explain(quota), syscall.EDQUOT)
	if err := vfs.Explain(fs.ErrClosed); errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v was taken for a full disk", err)
	}
}

var lockFile = flag.String("lock", "", "take the lock of this file, say so, and hold it until standard input ends")

// TestLockChild is the other process of TestLockAmongProcesses.
func TestLockChild(t *testing.T) {
	if *lockFile == "" {
		t.Skip("run by TestLockAmongProcesses")
	}
	lock, err := vfs.OS{}.Lock(*lockFile)
	must(t, err)
	_, err = os.Stdout.WriteString("held\n")
	must(t, err)
	_, err = io.Copy(io.Discard, os.Stdin)
	must(t, errors.Join(err, lock.Close()))
}

func TestLockAmongProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockChild$", "-lock="+name)
	out, err := child.StdoutPipe()
	must(t, err)
	_, err = child.StdinPipe()
	must(t, err)
	must(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, err = vfs.OS{}.Lock(name)
	wantErr(t, "a lock that another process holds", err, vfs.ErrLocked)
	must(t, child.Process.Kill())
	if child.Wait() == nil {
		t.Error("the other process ended by itself")
	}
	lock, err := vfs.OS{}.Lock(name)
	must(t, err) // the dead hold no locks
	must(t, lock.Close())
}
