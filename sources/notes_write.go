package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/deja-node/deja/sources/jsonl"
)

// ErrNoteTooLong says that a note does not fit on a line.
var ErrNoteTooLong = errors.New("note too long")

// maxNote bounds one line of the notes, far below what a reader accepts.
const maxNote = 1 << 20

// AppendNote files a note: one line, written at once and made durable, under a
// lock that every writer takes. The file and its directory are made where they
// are missing, for the user alone. A link in place of the file is refused, and
// a last line that a crash cut short is ended first, so that it costs nothing
// but itself.
func AppendNote(ctx context.Context, file string, n Note) (err error) {
	line, err := json.Marshal(n.line())
	if err != nil {
		return err
	}
	if len(line) > maxNote {
		return fmt.Errorf("%d bytes: %w", len(line), ErrNoteTooLong)
	}
	if _, why := n.line().note(); why != "" {
		return fmt.Errorf("note with %s", why)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return locked(ctx, file, func() error { return appendLine(file, line) })
}

// locked runs f while no other writer of the notes runs.
func locked(ctx context.Context, file string, f func() error) (err error) {
	lock := flock.New(file+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, time.Millisecond); err != nil {
		return fmt.Errorf("lock of %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return f()
}

func appendLine(file string, line []byte) (err error) {
	if err := refuseLink(file); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "append", Path: file, Err: errors.New(kindOf(info.Mode()))}
	}
	if info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// refuseLink fails when a link stands in place of a file. Where the system can
// refuse to follow one, opening does so again.
func refuseLink(file string) error {
	info, err := os.Lstat(file)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return &fs.PathError{Op: "write", Path: file, Err: errors.New("refusing to write through a symbolic link")}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RewriteNotes removes the notes that drop names, and reports how many. All
// other lines, unreadable ones included, stay byte for byte. The file is
// replaced whole.
func RewriteNotes(ctx context.Context, file string, drop func(Note) bool) (dropped int, err error) {
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	err = locked(ctx, file, func() error {
		dropped, err = rewrite(file, drop)
		return err
	})
	return dropped, err
}

func rewrite(file string, drop func(Note) bool) (dropped int, err error) {
	if err := refuseLink(file); err != nil {
		return 0, err
	}
	old, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	kept := make([]byte, 0, len(old))
	for line := range bytes.Lines(old) {
		var l noteLine
		if err := json.Unmarshal(jsonl.Trim(line), &l); err == nil {
			if n, why := l.note(); why == "" && drop(n) {
				dropped++
				continue
			}
		}
		kept = append(kept, line...)
	}
	if dropped == 0 {
		return 0, nil
	}
	return dropped, replace(file, kept)
}

// replace puts new contents in place of a file, or leaves it as it was.
func replace(file string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".notes-*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = io.Copy(tmp, bytes.NewReader(data))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return err
	}
	return syncDir(filepath.Dir(file))
}
