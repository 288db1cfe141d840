package v1

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/deja-node/deja/index/vfs"
)

// Files returns the batch files of a directory, in the order in which they were
// written. Everything else in it is none of ours.
func Files(fsys vfs.FS, dir string) ([]Name, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []Name
	for _, e := range entries {
		if n, ok := ParseName(e.Name()); ok && e.Type().IsRegular() && n.String() == e.Name() {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Source, b.Source))
	})
	return names, nil
}

// Open opens a batch file of a directory.
func Open(fsys vfs.FS, dir string, n Name) (io.ReadCloser, error) {
	return fsys.Open(path.Join(dir, n.String()))
}

// Create makes a batch file of what fill writes. The file is there as a whole
// or not at all; without a line it is not made.
func Create(fsys vfs.FS, dir string, n Name, fill func(*Writer) error) (made bool, err error) {
	final := path.Join(dir, n.String())
	if _, err := fsys.Stat(final); !errors.Is(err, fs.ErrNotExist) {
		return false, errors.Join(err, fmt.Errorf("%s: %w", final, fs.ErrExist))
	}
	part := final + ".part"
	f, err := fsys.Create(part)
	if err != nil {
		return false, err
	}
	w := NewWriter(f)
	err = fill(w)
	if err == nil {
		err = w.Finish()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil || w.lines == 0 {
		return false, errors.Join(err, fsys.Remove(part))
	}
	if err := fsys.Rename(part, final); err != nil {
		return false, errors.Join(err, fsys.Remove(part))
	}
	return true, fsys.SyncDir(dir)
}
