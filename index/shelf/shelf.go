// Package shelf keeps the files of the views: immutable, checksummed files
// that are read in place, and one manifest that says which of them count.
// FORMAT.md beside the code describes both.
//
// What it promises: a [Snapshot] is what one [Shelf.Publish] wrote, whole,
// whatever other processes publish meanwhile and wherever the machine stopped;
// and no byte of a file reaches a view before its checksum was compared.
// Everything that contradicts a checksum or a bound is [ErrCorrupt]: views are
// folds over the logs, so the answer is [Shelf.Reset] and a rebuild.
//
// Start at [Shelf]. A writer makes files with [Shelf.Create] and lists them
// with Publish; a reader takes a Snapshot and reads the [Section]s of its
// [File]s. [PickMerge] is the policy that keeps the files few.
package shelf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// Errors that callers tell apart.
var (
	// ErrCorrupt says that bytes on the shelf are not what was written there.
	ErrCorrupt = errors.New("index is corrupt")
	// ErrNewer says that a newer deja wrote what this one cannot read.
	ErrNewer = errors.New("index is from a newer deja")
)

// State is what the manifest says of one view.
type State struct {
	Version int             // of the view's own format, from 1; 0 says that there is no such view
	Known   record.Frontier // what the files are folded from
	Files   []FileRef       // oldest first
	Aux     []byte          // whatever else the view keeps in the manifest; small
}

// Newer returns [ErrNewer] if the state was written by a newer version of the
// view than the given one.
func (st State) Newer(view string, version int) error {
	if st.Version <= version {
		return nil
	}
	return fmt.Errorf("this index needs a deja with %s format %d, this one reads up to %d: %w",
		view, st.Version, version, ErrNewer)
}

// clone copies the state, so that neither side can change the other's. The
// frontier of the copy is never nil.
func (st State) clone() State {
	if st.Known = st.Known.Clone(); st.Known == nil {
		st.Known = record.Frontier{}
	}
	st.Files = slices.Clone(st.Files)
	st.Aux = slices.Clone(st.Aux)
	return st
}

// FileRef lists one file. Weight is what it costs to rewrite, in whatever unit
// the view uses for all its files; Finish fills in the size in bytes.
type FileRef struct {
	Name   string
	Size   int64
	Sum    uint32 // of the footer, which holds the sums of everything else
	Weight uint64
}

// Shelf is a directory of files and their manifest. Reading is free for all,
// in any number of goroutines and processes. Create, Publish and Reset are for
// one Shelf of the one process that holds the writer's lock; several files may
// be made at a time, while Publish and Reset are called one after the other.
type Shelf struct {
	fs  vfs.FS
	dir string

	mu     sync.Mutex         // guards what follows
	fresh  map[string]bool    // names made here that no manifest has listed yet
	mapped map[FileRef]*mount // files that snapshots hold; the key has no weight
}

// Open opens the shelf in a directory. A directory that is missing is an empty
// shelf; the first Create makes it.
func Open(fsys vfs.FS, dir string) (*Shelf, error) {
	info, err := fsys.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return &Shelf{fs: fsys, dir: dir, fresh: map[string]bool{}, mapped: map[FileRef]*mount{}}, nil
}

func (s *Shelf) path(name string) string { return path.Join(s.dir, name) }

// Generation returns the number of the newest Publish. It grows with each, and
// is 0 for a shelf that never had any.
func (s *Shelf) Generation() (uint64, error) {
	m, err := s.readManifest()
	return m.generation, err
}

// Publish replaces the states of the given views and leaves those of all
// others as they are, known to this program or not. A state of version 0 takes
// its view off the shelf. The files it names must be finished. Whatever stops
// Publish, readers see all of the states or none, and after an error either.
//
// Files that are not listed any more are removed; one that cannot be removed,
// because the system keeps a file that is in use, waits for the next Publish.
func (s *Shelf) Publish(states map[string]State) error {
	m, err := s.readManifest()
	if err != nil {
		return err
	}
	listed := m.files()
	m.generation++
	for view, st := range states {
		if st.Version == 0 {
			delete(m.views, view)
			continue
		}
		m.views[view] = st.clone()
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if err := s.checkNew(m.files(), listed); err != nil {
		return err
	}
	return s.replace(m)
}

// Reset empties the shelf, in whatever state it is. The generation goes on
// where it can be read, and else from a random number, so that a reader that
// compares it sees a change. The Writers of this Shelf end with it.
func (s *Shelf) Reset() error {
	old, err := s.readManifest()
	if err != nil {
		old.generation = randomGeneration()
	}
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return err
	}
	s.mu.Lock()
	clear(s.fresh)
	s.mu.Unlock()
	return s.replace(manifest{generation: old.generation + 1})
}

// checkNew makes sure that the files which the manifest is to list first are
// there, and that their names survive a crash before the manifest names them.
func (s *Shelf) checkNew(files, listed map[string]FileRef) error {
	added := false
	for name, ref := range files {
		if _, ok := listed[name]; ok {
			continue
		}
		added = true
		info, err := s.fs.Stat(s.path(name))
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if info.Size() != ref.Size {
			return fmt.Errorf("publish: %s has %d bytes instead of %d: %w", name, info.Size(), ref.Size, ErrCorrupt)
		}
	}
	if !added {
		return nil
	}
	return s.fs.SyncDir(s.dir)
}

// replace makes m the manifest, and removes what it does not list.
func (s *Shelf) replace(m manifest) error {
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return err
	}
	b := m.encode()
	if len(b) > maxManifest {
		return fmt.Errorf("publish: a manifest of %d bytes: %w", len(b), vfs.ErrTooLarge)
	}
	if err := vfs.WriteFile(s.fs, s.path(manifestName), b); err != nil {
		return err
	}
	files := m.files()
	s.mu.Lock()
	maps.DeleteFunc(s.fresh, func(name string, _ bool) bool { _, ok := files[name]; return ok })
	fresh := maps.Clone(s.fresh)
	s.mu.Unlock()

	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil //nolint:nilerr // the manifest is in place; the leftovers wait for the next Publish
	}
	for _, d := range names {
		name := d.Name()
		_, listed := files[name]
		if listed || fresh[name] || !strings.HasSuffix(name, fileSuffix) && !vfs.IsTemp(name) {
			continue
		}
		s.fs.Remove(s.path(name)) //nolint:errcheck // waits for the next Publish, as promised
	}
	return nil
}
