//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	noWait   = unix.O_NONBLOCK // opening a pipe returns at once, to be refused
	noFollow = unix.O_NOFOLLOW
)

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o600) }

func rename(oldname, newname string) error { return os.Rename(oldname, newname) }

func remove(name string) error { return os.Remove(name) }

// explain adds ENOSPC to an exhausted quota: to its owner the disk is full.
func explain(err error) error {
	if errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", err, syscall.ENOSPC)
	}
	return err
}

// syncDir asks for what a file system can give: some have no way to sync a
// directory and say so.
func syncDir(name string) error {
	d, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

func mapFile(f *os.File, size int) (Mapping, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, errors.ErrUnsupported) {
		return readMapping(f, size)
	}
	if err != nil {
		return nil, err
	}
	return &pages{b: b}, nil
}

// pages is a memory-mapped file.
type pages struct {
	b     []byte
	unmap sync.Once
}

func (p *pages) Bytes() []byte { return p.b }

func (p *pages) Close() error {
	var err error
	p.unmap.Do(func() {
		err = unix.Munmap(p.b)
		p.b = nil
	})
	return err
}
