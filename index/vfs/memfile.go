package vfs

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"
)

// memFile is an open file of a [Mem].
type memFile struct {
	fs     *Mem
	name   string
	node   *node
	write  bool
	atEnd  bool // every write goes to the end
	off    int
	closed bool
}

func (f *memFile) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// begin locks the file system for an operation on an open file.
func (f *memFile) begin(op string, write bool) error {
	f.fs.mu.Lock()
	switch {
	case f.closed:
		f.fs.mu.Unlock()
		return f.fail(op, fs.ErrClosed)
	case write && !f.write:
		f.fs.mu.Unlock()
		return f.fail(op, syscall.EBADF)
	}
	return nil
}

func (f *memFile) Read(b []byte) (int, error) {
	if err := f.begin("read", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if f.off >= len(f.node.data) && len(b) > 0 {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[min(f.off, len(f.node.data)):])
	f.off += n
	return n, nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.fail("readat", fs.ErrInvalid)
	}
	if err := f.begin("readat", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n := copy(b, f.node.data[min(off, int64(len(f.node.data))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	if err := f.begin("write", true); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if f.atEnd {
		f.off = len(f.node.data)
	}
	fits := b
	if f.fs.quota > 0 {
		free := max(0, f.fs.quota-f.fs.root.used())
		inside := max(0, len(f.node.data)-f.off)
		fits = b[:min(int64(len(b)), free+int64(inside))]
	}
	if len(fits) > 0 {
		f.edit(edit{off: f.off, data: slices.Clone(fits)})
	}
	f.off += len(fits)
	if len(fits) < len(b) {
		return len(fits), f.fail("write", syscall.ENOSPC)
	}
	return len(b), nil
}

func (f *memFile) Truncate(size int64) error {
	if size < 0 {
		return f.fail("truncate", fs.ErrInvalid)
	}
	if err := f.begin("truncate", true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	if int(size) != len(f.node.data) {
		f.edit(edit{off: int(size), cut: true})
	}
	return nil
}

// edit changes the contents. Bytes that a mapping or the synced state may
// share stay as they are: all of data is taken to be shared, so that only
// writes at the end change an array in place.
func (f *memFile) edit(e edit) {
	n := f.node
	n.data = e.apply(n.data, len(n.data))
	n.edits = append(n.edits, e)
	f.fs.touch(n)
}

func (f *memFile) Sync() error {
	if err := f.begin("sync", false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.node.synced = f.node.data[:len(f.node.data):len(f.node.data)]
	f.node.edits = nil
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	if err := f.begin("stat", false); err != nil {
		return nil, err
	}
	defer f.fs.mu.Unlock()
	return f.node.info(f.name), nil
}

func (f *memFile) Close() error {
	if err := f.begin("close", false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}

func (n *node) info(name string) fs.FileInfo {
	mode := fs.FileMode(0o600)
	if n.isDir() {
		mode = fs.ModeDir | 0o700
	}
	return memInfo{name: path.Base(name), size: int64(len(n.data)), mode: mode, mod: n.mod}
}

// memInfo is a file's description at one moment.
type memInfo struct {
	name string
	size int64
	mode fs.FileMode
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
