package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// tempSuffix ends the names of files that are being written.
const tempSuffix = ".tmp"

// TempName returns a name in the directory of name that nobody else uses, for
// a file that is to become name by a rename.
func TempName(name string) string { return name + "." + rand.Text() + tempSuffix }

// IsTemp reports whether a name was made by [TempName]. Such a file that is
// not being written was left by a crash, and may be removed.
func IsTemp(name string) bool {
	rest, ok := strings.CutSuffix(path.Base(name), tempSuffix)
	dot := strings.LastIndexByte(rest, '.')
	return ok && dot > 0 && len(rest)-dot-1 == len(rand.Text())
}

// WriteFile replaces the contents of a file, made if it is missing. Whatever
// fails or stops the machine, the file has its old contents or all of the new;
// once WriteFile has returned nil it is the new. Nothing else is left behind
// by an error.
func WriteFile(fsys FS, name string, data []byte) error {
	temp := TempName(name)
	if err := writeSynced(fsys, temp, data); err != nil {
		return discard(fsys, temp, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return discard(fsys, temp, err)
	}
	return fsys.SyncDir(path.Dir(name))
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// discard removes the file that err kept from being finished.
func discard(fsys FS, name string, err error) error {
	if rerr := fsys.Remove(name); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return errors.Join(err, rerr)
	}
	return err
}

// ReadFile returns the contents of a file of at most limit bytes, and
// [ErrTooLarge] for a longer one.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d: %w", name, size, limit, ErrTooLarge)
	}
	b := make([]byte, size)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}
