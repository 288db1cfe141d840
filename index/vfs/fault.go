package vfs

import (
	"errors"
	"io"
	"io/fs"
	"sync"
)

// ErrInjected is what a [Fault] fails with.
var ErrInjected = errors.New("injected fault")

// Plan says what a [Fault] fails. The zero Plan fails the first operation of any kind.
type Plan struct {
	N      int   // operations that succeed before the first failure
	Writes bool  // count and fail only what changes the disk
	Dead   bool  // the disk stays dead: every operation after the first failure fails as well
	Torn   bool  // a failing write stores the first half of its bytes
	Err    error // instead of ErrInjected
}

// Fault fails operations of another file system: those of [FS] and of the
// files it opens. Closing counts only for files that can be written, and
// closes them even when it fails. A lock is always released. Memory that is
// mapped is not watched.
type Fault struct {
	fs   FS
	plan Plan

	mu    sync.Mutex // guards what follows
	ops   int
	fired string
}

var _ FS = (*Fault)(nil)

// FailAt fails the operation after the first n, whatever it is.
func FailAt(fsys FS, n int) *Fault { return NewFault(fsys, Plan{N: n}) }

// NewFault fails operations as the plan says.
func NewFault(fsys FS, plan Plan) *Fault {
	if plan.Err == nil {
		plan.Err = ErrInjected
	}
	return &Fault{fs: fsys, plan: plan}
}

// Fired reports whether an operation has failed.
func (f *Fault) Fired() bool { return f.Op() != "" }

// Op names the first operation that failed, for messages: "sync /a/b".
func (f *Fault) Op() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Ops returns how many operations were counted.
func (f *Fault) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// do counts an operation, and returns the error it is to fail with.
func (f *Fault) do(op, name string, write bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dead := f.plan.Dead && f.fired != ""
	if f.plan.Writes && !write && !dead {
		return nil
	}
	n := f.ops
	f.ops++
	if n != f.plan.N && !dead {
		return nil
	}
	if f.fired == "" {
		f.fired = op + " " + name
	}
	return &fs.PathError{Op: op, Path: name, Err: f.plan.Err}
}

func (f *Fault) open(op, name string, write bool, open func(string) (File, error)) (File, error) {
	if err := f.do(op, name, write); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fault: f, name: name, write: write}, nil
}

// Open implements [FS].
func (f *Fault) Open(name string) (File, error) { return f.open("open", name, false, f.fs.Open) }

// Create implements [FS].
func (f *Fault) Create(name string) (File, error) { return f.open("create", name, true, f.fs.Create) }

// Append implements [FS].
func (f *Fault) Append(name string) (File, error) { return f.open("append", name, true, f.fs.Append) }

// Rename implements [FS].
func (f *Fault) Rename(oldname, newname string) error {
	if err := f.do("rename", newname, true); err != nil {
		return err
	}
	return f.fs.Rename(oldname, newname)
}

// Remove implements [FS].
func (f *Fault) Remove(name string) error {
	if err := f.do("remove", name, true); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

// MkdirAll implements [FS].
func (f *Fault) MkdirAll(name string) error {
	if err := f.do("mkdir", name, true); err != nil {
		return err
	}
	return f.fs.MkdirAll(name)
}

// ReadDir implements [FS].
func (f *Fault) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.do("readdir", name, false); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(name)
}

// Stat implements [FS].
func (f *Fault) Stat(name string) (fs.FileInfo, error) {
	if err := f.do("stat", name, false); err != nil {
		return nil, err
	}
	return f.fs.Stat(name)
}

// SyncDir implements [FS].
func (f *Fault) SyncDir(name string) error {
	if err := f.do("syncdir", name, true); err != nil {
		return err
	}
	return f.fs.SyncDir(name)
}

// Map implements [FS].
func (f *Fault) Map(name string) (Mapping, error) {
	if err := f.do("map", name, false); err != nil {
		return nil, err
	}
	return f.fs.Map(name)
}

// Lock implements [FS].
func (f *Fault) Lock(name string) (io.Closer, error) {
	if err := f.do("lock", name, true); err != nil {
		return nil, err
	}
	return f.fs.Lock(name)
}

// faultFile is an open file whose operations are counted.
type faultFile struct {
	File
	fault *Fault
	name  string
	write bool
}

func (f *faultFile) Read(b []byte) (int, error) {
	if err := f.fault.do("read", f.name, false); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

func (f *faultFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fault.do("readat", f.name, false); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *faultFile) Write(b []byte) (int, error) {
	err := f.fault.do("write", f.name, true)
	switch {
	case err == nil:
		return f.File.Write(b)
	case !f.fault.plan.Torn:
		return 0, err
	}
	n, werr := f.File.Write(b[:len(b)/2])
	return n, errors.Join(err, werr)
}

func (f *faultFile) Sync() error {
	if err := f.fault.do("sync", f.name, true); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.fault.do("truncate", f.name, true); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Stat() (fs.FileInfo, error) {
	if err := f.fault.do("stat", f.name, false); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

func (f *faultFile) Close() error {
	if !f.write {
		return f.File.Close()
	}
	return errors.Join(f.fault.do("close", f.name, true), f.File.Close())
}
