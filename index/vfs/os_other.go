//go:build !unix

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

const (
	noWait   = 0
	noFollow = 0
)

// openFile goes through a root, because that opens files on Windows so that
// they can be replaced and removed while they are read.
func openFile(name string, flag int) (*os.File, error) {
	var f *os.File
	err := within(name, func(dir *os.Root, base string) (err error) {
		f, err = dir.OpenFile(base, flag, 0o600)
		return err
	})
	return f, err
}

// rename replaces newname even where somebody reads it, as long as the two
// names share a directory.
func rename(oldname, newname string) error {
	if filepath.Dir(oldname) != filepath.Dir(newname) {
		return os.Rename(oldname, newname)
	}
	return within(oldname, func(dir *os.Root, base string) error {
		return dir.Rename(base, filepath.Base(newname))
	})
}

func remove(name string) error {
	return within(name, func(dir *os.Root, base string) error { return dir.Remove(base) })
}

// within calls do with the directory of name, and gives its error the whole name.
func within(name string, do func(dir *os.Root, base string) error) error {
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err == nil {
		err = errors.Join(do(dir, filepath.Base(name)), dir.Close())
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		e.Path = name
	}
	return err
}

// What Windows says when a disk is full.
const (
	errorHandleDiskFull = syscall.Errno(39)
	errorDiskFull       = syscall.Errno(112)
)

func explain(err error) error {
	if runtime.GOOS == "windows" && (errors.Is(err, errorDiskFull) || errors.Is(err, errorHandleDiskFull)) {
		return fmt.Errorf("%w: %w", err, syscall.ENOSPC)
	}
	return err
}

// syncDir has nothing to do: Windows writes directories with the files in them.
func syncDir(string) error { return nil }

func mapFile(f *os.File, size int) (Mapping, error) { return readMapping(f, size) }
