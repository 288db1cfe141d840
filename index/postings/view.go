package postings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// View is the writing side. It is for one goroutine of the process that holds
// the writer's lock.
type View struct {
	sh    *shelf.Shelf
	state shelf.State
	known record.Frontier // of files and memory
	mem   *memtable
}

// Open continues the view from its state on the shelf. A state of another
// version is where the caller resets it.
func Open(sh *shelf.Shelf, st shelf.State) (*View, error) {
	if err := st.Newer(Name, version); err != nil {
		return nil, err
	}
	v := &View{sh: sh, state: st, known: record.Frontier{}, mem: newMemtable()}
	if st.Version != version {
		return v, v.Reset()
	}
	for s, h := range st.Known {
		v.known[s] = h
	}
	return v, nil
}

// Name implements journal.View.
func (v *View) Name() string { return Name }

// Version implements journal.View.
func (v *View) Version() int { return version }

// Known implements journal.View.
func (v *View) Known() record.Frontier { return v.known.Clone() }

// Reset forgets everything; the next Flush publishes an empty view.
func (v *View) Reset() error {
	v.state = shelf.State{Version: version, Known: record.Frontier{}}
	v.known = record.Frontier{}
	v.mem = newMemtable()
	return nil
}

// Size is about how many bytes of memory the view holds.
func (v *View) Size() int { return v.mem.bytes() }

// Apply implements journal.View.
func (v *View) Apply(_ context.Context, s record.StreamID, from record.Seq, entries []record.Entry) error {
	if want := v.known[s].Seq + 1; from != want {
		return fmt.Errorf("postings: entry %d of %s where %d is next", from, s, want)
	}
	if len(entries) == 0 {
		return nil
	}
	for i := range entries {
		v.apply(s, &entries[i])
	}
	v.mem.ranges = extend(v.mem.ranges, s, from, uint32(len(entries)))
	v.known[s] = record.Head{Seq: from + record.Seq(len(entries)) - 1}
	return nil
}

func (v *View) apply(s record.StreamID, e *record.Entry) {
	role := roleNumber(e)
	if e.Kind != record.KindMsg && e.Kind != record.KindNote || role == roleNone {
		v.mem.skip()
		return
	}
	text := e.Text.String()
	if role == roleEdit {
		// The removed text is searched by nobody; the path is.
		text, _, _ = strings.Cut(text, "\n")
	}
	v.mem.begin(isWork(role))
	v.mem.text(text)
	if e.Note != nil {
		for _, tag := range e.Note.Tags {
			v.mem.text(tag)
		}
	}
	v.mem.end(record.SessionOf(s.Node, record.SessionKey{Harness: e.Harness, Native: e.Session}), role)
}

// Flush turns what is in memory into a file and merges what is due. It returns
// the state to publish.
func (v *View) Flush(ctx context.Context) (shelf.State, error) {
	if len(v.mem.docs) > 0 {
		ref, err := v.mem.flush(v.sh)
		if err != nil {
			return shelf.State{}, err
		}
		v.state.Files = append(v.state.Files, ref)
		v.mem = newMemtable()
	}
	for {
		pick := shelf.PickMerge(v.state.Files)
		if pick == nil {
			break
		}
		if err := ctx.Err(); err != nil {
			return shelf.State{}, err
		}
		if err := v.merge(pick); err != nil {
			return shelf.State{}, err
		}
	}
	v.state.Known = v.known.Clone()
	return v.state, nil
}

// merge replaces the picked files, which are adjacent, by one.
func (v *View) merge(pick []int) (err error) {
	first, last := pick[0], pick[len(pick)-1]
	old := slices.Clone(v.state.Files[first : last+1])
	var files []*file
	defer func() {
		for _, f := range files {
			err = errors.Join(err, v.sh.Release(f.f))
		}
	}()
	for _, ref := range old {
		sf, err := v.sh.Hold(ref)
		if err != nil {
			return err
		}
		f, err := openFile(sf)
		if err != nil {
			return errors.Join(err, v.sh.Release(sf))
		}
		files = append(files, f)
	}
	ref, err := merge(v.sh, files)
	if err != nil {
		return err
	}
	v.state.Files = slices.Replace(v.state.Files, first, last+1, ref)
	for _, ref := range old {
		err = errors.Join(err, v.sh.Discard(ref))
	}
	return err
}
