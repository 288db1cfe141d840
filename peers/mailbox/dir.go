package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Dir opens the mailbox in a directory, which must exist: a stick that is not
// plugged in is an error and not an empty mailbox. The directory is held open;
// nothing outside it can be reached, whatever links lie in it.
func Dir(dir string, opt Options) (*Box, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("mailbox %s: %w", opt.Name, err)
	}
	return &Box{folder: &disk{root: root}, opt: opt}, nil
}

// Close releases what the mailbox holds open. An SFTP client stays its owner's.
func (b *Box) Close() error {
	if d, ok := b.folder.(io.Closer); ok {
		return d.Close()
	}
	return nil
}

// disk is a folder on a file system of this machine.
type disk struct{ root *os.Root }

func (d *disk) Close() error { return d.root.Close() }

func (d *disk) readDir(ctx context.Context, dir string) (infos []fs.FileInfo, err error) {
	if dir == "" {
		dir = "."
	}
	f, err := d.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		entries, err := f.ReadDir(1024)
		if errors.Is(err, io.EOF) {
			return infos, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed while being listed
			}
			if err != nil {
				return nil, err
			}
			infos = append(infos, info)
		}
		if len(infos) > maxEntries {
			return infos, nil
		}
	}
}

func (d *disk) lstat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d *disk) mkdir(name string) error { return d.root.Mkdir(name, 0o700) }

func (d *disk) read(name string, size int64) (data []byte, err error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != size {
		return nil, fmt.Errorf("no file of %d bytes: %w", size, fs.ErrNotExist)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	return data, nil
}

func (d *disk) write(name string, data []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *disk) rename(from, to string) error  { return d.root.Rename(from, to) }
func (d *disk) replace(from, to string) error { return d.root.Rename(from, to) }
func (d *disk) remove(name string) error      { return d.root.Remove(name) }

func (d *disk) settle(dir string) (err error) {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return syncDir(f)
}

func (d *disk) free() (int64, bool) { return freeSpace(d.root) }

func (d *disk) full(err error) bool { return noSpace(err) }
