package mailbox

import (
	"context"
	"io/fs"
)

// Interpose lets a test fail the operations of a box on its folder: before each
// one fault is asked. A write that fails leaves the first half of its data.
func Interpose(b *Box, fault func(op string) error) *Box {
	return &Box{folder: &faulty{b.folder, fault}, opt: b.opt}
}

type faulty struct {
	folder
	fault func(op string) error
}

func (f *faulty) readDir(ctx context.Context, dir string) ([]fs.FileInfo, error) {
	if err := f.fault("readDir"); err != nil {
		return nil, err
	}
	return f.folder.readDir(ctx, dir)
}

func (f *faulty) lstat(name string) (fs.FileInfo, error) {
	if err := f.fault("lstat"); err != nil {
		return nil, err
	}
	return f.folder.lstat(name)
}

func (f *faulty) mkdir(name string) error {
	if err := f.fault("mkdir"); err != nil {
		return err
	}
	return f.folder.mkdir(name)
}

func (f *faulty) read(name string, size int64) ([]byte, error) {
	if err := f.fault("read"); err != nil {
		return nil, err
	}
	return f.folder.read(name, size)
}

func (f *faulty) write(name string, data []byte) error {
	if err := f.fault("write"); err != nil {
		f.folder.write(name, data[:len(data)/2]) //nolint:errcheck // it fails anyway
		return err
	}
	return f.folder.write(name, data)
}

func (f *faulty) rename(from, to string) error {
	if err := f.fault("rename"); err != nil {
		return err
	}
	return f.folder.rename(from, to)
}

func (f *faulty) replace(from, to string) error {
	if err := f.fault("replace"); err != nil {
		return err
	}
	return f.folder.replace(from, to)
}

func (f *faulty) remove(name string) error {
	if err := f.fault("remove"); err != nil {
		return err
	}
	return f.folder.remove(name)
}

func (f *faulty) settle(dir string) error {
	if err := f.fault("settle"); err != nil {
		return err
	}
	return f.folder.settle(dir)
}
