package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/gofrs/flock"
)

// OS is the real disk. Open, Append and Map follow a symbolic link, so that
// users may keep such a file elsewhere; Create and Lock do not, so that
// nothing outside is emptied through a link.
type OS struct{}

var _ FS = OS{}

// Open implements [FS].
func (OS) Open(name string) (File, error) { return openRegular(name, os.O_RDONLY) }

// Create implements [FS].
func (OS) Create(name string) (File, error) {
	return openRegular(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|noFollow)
}

// Append implements [FS].
func (OS) Append(name string) (File, error) {
	return openRegular(name, os.O_RDWR|os.O_CREATE|os.O_APPEND)
}

// Rename implements [FS].
func (OS) Rename(oldname, newname string) error { return explain(rename(oldname, newname)) }

// Remove implements [FS].
func (OS) Remove(name string) error { return remove(name) }

// MkdirAll implements [FS].
func (o OS) MkdirAll(name string) error {
	var missing []string
	for dir := filepath.Clean(name); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return explain(err)
	}
	for _, dir := range slices.Backward(missing) {
		if err := o.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// ReadDir implements [FS].
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat implements [FS].
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir implements [FS].
func (OS) SyncDir(name string) error { return explain(syncDir(name)) }

// Map implements [FS].
func (o OS) Map(name string) (Mapping, error) {
	f, err := openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written, and the mapping outlives the descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(info.Size())
	if size < 0 || int64(size) != info.Size() {
		return nil, &fs.PathError{Op: "map", Path: name, Err: ErrTooLarge}
	}
	if size == 0 {
		return heapMapping(nil), nil
	}
	m, err := mapFile(f.File, size)
	if err != nil {
		return nil, &fs.PathError{Op: "map", Path: name, Err: err}
	}
	return m, nil
}

// Lock implements [FS].
func (OS) Lock(name string) (io.Closer, error) {
	access := os.O_RDONLY
	if runtime.GOOS == "aix" || runtime.GOOS == "solaris" || runtime.GOOS == "illumos" {
		access = os.O_RDWR // these lock only what they may write
	}
	l := flock.New(name, flock.SetFlag(access|os.O_CREATE|noFollow|noWait), flock.SetPermissions(0o600))
	held, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, explain(err))
	}
	if !held {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	return l, nil
}

// osFile is an open regular file whose errors say ENOSPC when the disk is full.
type osFile struct{ *os.File }

func openRegular(name string, flag int) (osFile, error) {
	f, err := openFile(name, flag|noWait)
	if err != nil {
		return osFile{}, explain(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close() //nolint:errcheck // the first error is the one to report
		return osFile{}, err
	}
	return osFile{f}, nil
}

func (f osFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, explain(err)
}

func (f osFile) Sync() error { return explain(f.File.Sync()) }

func (f osFile) Truncate(size int64) error { return explain(f.File.Truncate(size)) }

func (f osFile) Close() error { return explain(f.File.Close()) }

// heapMapping is a mapping that lives in ordinary memory.
type heapMapping []byte

func (m heapMapping) Bytes() []byte { return m }

func (m heapMapping) Close() error { return nil }

// readMapping reads the first size bytes of f where they cannot be mapped.
func readMapping(f *os.File, size int) (Mapping, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), b); err != nil {
		return nil, err
	}
	return heapMapping(b), nil
}
