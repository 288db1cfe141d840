package shelf

import (
	"errors"
	"io/fs"
)

// Hold opens one finished file, listed or not, for the view that merges it.
// Release gives it back.
func (s *Shelf) Hold(ref FileRef) (*File, error) { return s.acquire(ref) }

// Release gives a file back that Hold opened. Nothing that came from it may be
// used any more.
func (s *Shelf) Release(f *File) error { return s.release(f) }

// Discard removes a finished file that was never listed: one that a merge has
// already replaced. A listed file is left to the next Publish.
func (s *Shelf) Discard(ref FileRef) error {
	s.mu.Lock()
	fresh := s.fresh[ref.Name]
	delete(s.fresh, ref.Name)
	s.mu.Unlock()
	if !fresh {
		return nil
	}
	if err := s.fs.Remove(s.path(ref.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
