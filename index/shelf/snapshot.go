package shelf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// maxTries bounds how often a reader starts again because a writer published
// between the manifest and the files it names.
const maxTries = 100

// Snapshot is what one Publish wrote. It stays readable after later ones have
// removed its files, until Close.
type Snapshot struct {
	shelf    *Shelf
	manifest manifest
	files    map[string][]*File
	once     sync.Once
}

// mount is a mapped file and how many snapshots hold it.
type mount struct {
	file *File
	held int
}

// Snapshot opens what was published last: the states of all views, and the
// files of the given views, or of all if none is given. It returns
// [ErrCorrupt] if a file is missing or damaged as far as opening it tells, and
// [ErrNewer] for a shelf that only a newer deja can read.
//
// Snapshots of one Shelf share files, together with what is known to be intact.
func (s *Shelf) Snapshot(views ...string) (*Snapshot, error) {
	var last uint64 // generation whose files were not there; every one that lists files is greater
	for range maxTries {
		m, err := s.readManifest()
		if err != nil {
			return nil, err
		}
		snap := &Snapshot{shelf: s, manifest: m, files: map[string][]*File{}}
		err = snap.open(views)
		if err == nil {
			return snap, nil
		}
		err = errors.Join(err, snap.Close())
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if m.generation == last {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		last = m.generation
	}
	return nil, fmt.Errorf("%s was published %d times while it was opened: %w", s.dir, maxTries, fs.ErrNotExist)
}

// open maps the files of the given views, or of all.
func (n *Snapshot) open(views []string) error {
	if len(views) == 0 {
		views = slices.Collect(maps.Keys(n.manifest.views))
	}
	for _, view := range views {
		for _, ref := range n.manifest.views[view].Files {
			f, err := n.shelf.acquire(ref)
			if err != nil {
				return err
			}
			n.files[view] = append(n.files[view], f)
		}
	}
	return nil
}

// Generation returns the number of the Publish.
func (n *Snapshot) Generation() uint64 { return n.manifest.generation }

// State returns what the manifest says of a view, and the zero State for one
// that is not on the shelf.
func (n *Snapshot) State(view string) State { return n.manifest.views[view].clone() }

// Views returns the names of the views on the shelf in order.
func (n *Snapshot) Views() []string { return slices.Sorted(maps.Keys(n.manifest.views)) }

// Files returns the files of a view, oldest first, as its State lists them.
func (n *Snapshot) Files(view string) ([]*File, error) {
	files := n.files[view]
	if len(files) != len(n.manifest.views[view].Files) {
		return nil, fmt.Errorf("the snapshot was taken without view %s: %w", view, fs.ErrInvalid)
	}
	return slices.Clone(files), nil
}

// Verify reads everything, and returns an error for each file that is not
// what was written.
func (n *Snapshot) Verify(ctx context.Context) error {
	var errs []error
	for _, view := range slices.Sorted(maps.Keys(n.files)) {
		for _, f := range n.files[view] {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			errs = append(errs, f.Verify())
		}
	}
	return errors.Join(errs...)
}

// Close gives the files back. Nothing that came from them may be used any more.
func (n *Snapshot) Close() error {
	var err error
	n.once.Do(func() {
		for _, files := range n.files {
			for _, f := range files {
				err = errors.Join(err, n.shelf.release(f))
			}
		}
		n.files = nil
	})
	return err
}

// key is what a mapped file is known by.
func (r FileRef) key() FileRef {
	r.Weight = 0
	return r
}

// acquire returns the mapped file, mapping it if no snapshot has it.
func (s *Shelf) acquire(ref FileRef) (*File, error) {
	if f := s.share(ref, nil); f != nil {
		return f, nil
	}
	f, err := openFile(s.fs, s.dir, ref)
	if err != nil {
		return nil, err
	}
	kept := s.share(ref, f)
	if kept == f {
		return f, nil
	}
	if err := f.close(); err != nil {
		return nil, errors.Join(err, s.release(kept))
	}
	return kept, nil
}

// share counts one more holder of a file: of the one that is mapped, or else
// of f, which may be nil.
func (s *Shelf) share(ref FileRef, f *File) *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mapped[ref.key()]
	if m == nil {
		if f == nil {
			return nil
		}
		m = &mount{file: f}
		s.mapped[ref.key()] = m
	}
	m.held++
	return m.file
}

func (s *Shelf) release(f *File) error {
	s.mu.Lock()
	m := s.mapped[f.ref.key()]
	m.held--
	last := m.held == 0
	if last {
		delete(s.mapped, f.ref.key())
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	return f.close()
}
