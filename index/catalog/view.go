package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// View is the writing side. It is for one goroutine of the process that holds
// the writer's lock.
type View struct {
	Reader // answers over the files and what is in memory

	sh    *shelf.Shelf
	state shelf.State
	known record.Frontier
}

// Open continues the view from its state on the shelf. A state of another
// version begins anew.
func Open(sh *shelf.Shelf, st shelf.State) (*View, error) {
	if err := st.Newer(Name, version); err != nil {
		return nil, err
	}
	v := &View{sh: sh, state: st, known: record.Frontier{}}
	if st.Version != version {
		return v, v.Reset()
	}
	v.mem = newMemtable()
	maps.Copy(v.known, st.Known)
	return v, v.reopen()
}

// reopen holds the files of the state, and gives back those held before.
func (v *View) reopen() error {
	old := v.files
	v.files = nil
	for _, ref := range v.state.Files {
		sf, err := v.sh.Hold(ref)
		if err != nil {
			return err
		}
		f, err := openFile(sf)
		if err != nil {
			return errors.Join(err, v.sh.Release(sf))
		}
		v.files = append(v.files, f)
	}
	for _, f := range old {
		if err := v.sh.Release(f.f); err != nil {
			return err
		}
	}
	return v.loadDrops()
}

// Close gives the files back.
func (v *View) Close() error {
	var err error
	for _, f := range v.files {
		err = errors.Join(err, v.sh.Release(f.f))
	}
	v.files = nil
	return err
}

// Name implements journal.View.
func (v *View) Name() string { return Name }

// Version implements journal.View.
func (v *View) Version() int { return version }

// Known implements journal.View.
func (v *View) Known() record.Frontier { return v.known.Clone() }

// Reset forgets everything; the next Flush publishes an empty view.
func (v *View) Reset() error {
	err := v.Close()
	v.state = shelf.State{Version: version, Known: record.Frontier{}}
	v.known = record.Frontier{}
	v.Reader = Reader{mem: newMemtable(), dropped: dropIndex{}, touched: map[record.SessionID]bool{}}
	return err
}

// Size is about how many bytes of memory the view holds.
func (v *View) Size() int { return v.mem.bytes() }

// Apply implements journal.View.
func (v *View) Apply(_ context.Context, s record.StreamID, from record.Seq, entries []record.Entry) error {
	if want := v.known[s].Seq + 1; from != want {
		return fmt.Errorf("catalog: entry %d of %s where %d is next", from, s, want)
	}
	for i := range entries {
		e := &entries[i]
		seq := from + record.Seq(i)
		v.mem.apply(s, seq, e)
		v.mem.ranges = extend(v.mem.ranges, s, seq, 1)
		// A copy can come after another log has taken it back.
		if len(v.dropped) > 0 && v.dropped.covers(record.Pos{Stream: s, Seq: seq}) {
			if err := v.drop(drop{s, seq, seq}); err != nil {
				return err
			}
		}
		if e.Kind == record.KindSupersede && e.Drop != nil {
			if err := v.takeBack(e.Drop); err != nil {
				return err
			}
		}
	}
	if len(entries) > 0 {
		v.known[s] = record.Head{Seq: from + record.Seq(len(entries)) - 1}
	}
	return nil
}

func (v *View) takeBack(d *record.Drop) error {
	for _, r := range d.Ranges {
		if err := v.drop(drop{r.Stream, r.From, r.To}); err != nil {
			return err
		}
	}
	for _, c := range d.CIDs {
		if err := v.dropCID(c); err != nil {
			return err
		}
	}
	return nil
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
		if err := v.reopen(); err != nil {
			return shelf.State{}, err
		}
	}
	for {
		pick := shelf.PickMerge(v.state.Files)
		if pick == nil {
			break
		}
		if err := ctx.Err(); err != nil {
			return shelf.State{}, err
		}
		if err := v.mergeFiles(pick[0], pick[len(pick)-1]+1); err != nil {
			return shelf.State{}, err
		}
	}
	v.state.Known = v.known.Clone()
	return v.state, nil
}

// mergeFiles replaces the files from first to before end by one.
func (v *View) mergeFiles(first, end int) error {
	old := slices.Clone(v.state.Files[first:end])
	ref, err := merge(v.sh, v.files[first:end])
	if err != nil {
		return err
	}
	v.state.Files = slices.Replace(v.state.Files, first, end, ref)
	if err := v.reopen(); err != nil {
		return err
	}
	for _, ref := range old {
		err = errors.Join(err, v.sh.Discard(ref))
	}
	return err
}
