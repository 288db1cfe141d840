package sources

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Store is one directory of transcripts.
type Store struct {
	Root      string // absolute path
	Only      string // the one file that is read, when the directory is not ours to walk
	Subagents bool   // sessions of sub-agents are read
	Home      string // home directory, for what is shown of paths
}

// Outcome says how looking at a store went.
type Outcome string

// The outcomes of a discovery.
const (
	Ready   Outcome = "ready"   // the store was walked
	Missing Outcome = "missing" // there is no such directory; with files known from before: unplugged
	Denied  Outcome = "denied"  // it may not be read
	Failed  Outcome = "failed"  // it is not a directory, or the disk failed
)

// Discovery is what was found in one store.
type Discovery struct {
	Store    Store
	Outcome  Outcome
	Reason   string // why the outcome is not Ready
	Files    []File
	Problems []Problem // what was passed over
	// Complete says that every directory was read. Only then does the absence
	// of a file mean that its transcript is gone, and even then nothing is
	// forgotten.
	Complete bool
}

// Problem is something in a store that could not be read.
type Problem struct {
	Path   string // relative to the store
	Reason string
}

// File is one transcript, or a file with something about transcripts.
type File struct {
	Key      string // stable name within the store: marks are kept under it
	Rel      string // slash-separated path relative to the store
	Size     int64
	Modified time.Time
	Changed  time.Time // of the inode, by the system's own clock; zero where the system does not tell
	ID       FileID
	Family   string // files of one family may hold copies of the same turns; set by Arrange
}

// FileID tells files apart whatever their names; zero where the system does not say.
type FileID struct{ Dev, Ino uint64 }

// maxDepth bounds how deep a store is walked.
const maxDepth = 8

// Discover looks at every store of the source. It fails for no store: each has
// its outcome. A cancelled walk is Failed and incomplete.
func (s Source) Discover(ctx context.Context, env Env) []Discovery {
	var found []Discovery
	for _, st := range s.Stores(env) {
		found = append(found, s.discover(ctx, st))
	}
	return found
}

func (s Source) discover(ctx context.Context, st Store) Discovery {
	d := Discovery{Store: st}
	info, err := os.Stat(st.Root)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		d.Outcome, d.Reason = outcome(err), reason(err)
		return d
	}
	w := walk{source: s, found: &d}
	if err := w.dir(ctx, "", 0); err != nil {
		d.Outcome, d.Reason = outcome(err), reason(err)
		return d
	}
	if s.tidy != nil {
		d.Files = s.tidy(d.Files)
	}
	d.Outcome, d.Complete = Ready, !w.blind
	return d
}

func outcome(err error) Outcome {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return Failed
}

// reason gives the cause without the path, which stands beside it.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

type walk struct {
	source Source
	found  *Discovery
	blind  bool // a directory could not be read
}

// dir walks one directory. The error is that of the directory itself.
func (w *walk) dir(ctx context.Context, rel string, depth int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	st := w.found.Store
	entries, err := readDir(filepath.Join(st.Root, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if rel != "" {
			name = rel + "/" + name
		}
		switch {
		case st.Only != "" && name != st.Only:
		case e.IsDir():
			if depth+1 >= maxDepth || !w.source.admits(st, name, true) {
				continue
			}
			if err := w.dir(ctx, name, depth+1); ctx.Err() != nil {
				return err
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.blind = true
				w.pass(name, reason(err))
			}
		case w.source.admits(st, name, false):
			w.file(name, e)
		}
	}
	return nil
}

// readDir lists a directory in the order the system gives.
func readDir(name string) (entries []fs.DirEntry, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err = f.ReadDir(-1)
	return entries, errors.Join(err, f.Close())
}

func (w *walk) pass(rel, why string) {
	w.found.Problems = append(w.found.Problems, Problem{Path: rel, Reason: why})
}

// file takes in a regular file. Whatever else carries the name of a transcript
// is passed over: a link may lead out of the store, and a pipe never ends.
func (w *walk) file(rel string, e fs.DirEntry) {
	if !e.Type().IsRegular() {
		w.pass(rel, kindOf(e.Type()))
		return
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return // gone since the directory was listed
	}
	if err != nil {
		w.blind = true
		w.pass(rel, reason(err))
		return
	}
	f := File{Key: rel, Rel: rel}
	if w.source.key != nil {
		f.Key = w.source.key(rel)
	}
	f.stat(info)
	w.found.Files = append(w.found.Files, f)
}

// stat takes over what the system says of a file.
func (f *File) stat(info fs.FileInfo) {
	f.Size, f.Modified = info.Size(), info.ModTime()
	f.Changed, f.ID = inode(info)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "not a regular file"
}

// shown is the path of a file as it may be stored: relative to the home where
// it lies in it.
func (st Store) shown(rel string) string {
	full := filepath.ToSlash(filepath.Join(st.Root, filepath.FromSlash(rel)))
	home := filepath.ToSlash(st.Home)
	if rest, ok := strings.CutPrefix(full, strings.TrimSuffix(home, "/")+"/"); ok && home != "" {
		return "~/" + rest
	}
	return full
}

// stem is the last part of a path without its extensions. It may serve as an
// id, and is valid UTF-8 whatever the name is.
func stem(rel string) string {
	base, _, _ := strings.Cut(path.Base(rel), ".")
	return valid(base)
}

func valid(name string) string { return strings.ToValidUTF8(name, "\ufffd") }
