// Package vfs is the seam between deja's own files and the disk. The log, the
// views, the node's state and the spool reach the disk through [FS] alone, so
// that tests can lose power at any write and fail any operation.
//
// Start at [FS]. [OS] is the real disk; [NewMem] is one in memory that can be
// cloned as it might look after a crash; [Fault] fails the n-th operation.
// [WriteFile] replaces a small file whole, [ReadFile] reads one within a bound.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// FS is a file system as deja's own data needs it. Names are slash-separated
// and absolute on the real disk. Files are created with mode 0600 and
// directories with 0700. Errors satisfy errors.Is with the fs sentinels.
type FS interface {
	// Open opens a file for reading. Like every other way to a file it refuses
	// what is no regular file with [ErrNotRegular], and never waits for a
	// writer to come.
	Open(name string) (File, error)
	// Create opens a file for writing and reading, emptied if it exists.
	Create(name string) (File, error)
	// Append opens a file for reading and for writing at its end, made if it is missing.
	Append(name string) (File, error)
	// Rename replaces newname by oldname. It is durable after SyncDir.
	Rename(oldname, newname string) error
	// Remove removes a file or an empty directory. It is durable after SyncDir.
	Remove(name string) error
	// MkdirAll makes a directory and its missing parents, durably.
	MkdirAll(name string) error
	// ReadDir lists a directory in the order of the names.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Map returns the contents of a file that never changes while it is
	// mapped. The bytes must not be written and are gone after Close.
	Map(name string) (Mapping, error)
	// Lock takes an exclusive advisory lock on a file, made if it is missing.
	// It returns [ErrLocked] when another process, or another Lock of this
	// one, holds it. Closing the result releases it.
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	Stat() (fs.FileInfo, error)
	// Sync makes what was written durable.
	Sync() error
	// Truncate cuts the file to size bytes.
	Truncate(size int64) error
}

// Mapping is a file's contents in memory.
type Mapping interface {
	Bytes() []byte
	io.Closer
}

// Errors that callers tell apart. A full disk satisfies
// errors.Is(err, syscall.ENOSPC) on every system.
var (
	// ErrLocked says that somebody else holds the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrNotRegular says that a name leads to a directory, a pipe or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge says that a file is larger than its reader accepts.
	ErrTooLarge = errors.New("file too large")
)
