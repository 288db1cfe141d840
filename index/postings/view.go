package postings

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Open continues the view from its state on the shelf. A state of an older
// version counts as none: Known is then empty, and the logs are folded again.
func Open(sh *shelf.Shelf, st shelf.State) (*View, error) {
	if err := st.Newer(Name, version); err != nil {
		return nil, err
	}
	v := &View{sh: sh}
	if st.Version != version {
		return v, v.Reset()
	}
	v.state, v.mem, v.known = st, newMemtable(), record.Frontier{}
	v.state.Files = slices.Clone(st.Files)
	maps.Copy(v.known, st.Known)
	return v, nil
}

// Name implements journal.View.
func (v *View) Name() string { return Name }

// Version implements journal.View.
func (v *View) Version() int { return version }

// Known implements journal.View.
func (v *View) Known() record.Frontier { return v.known.Clone() }

// Reset implements journal.View. The state of the next Flush has nothing of
// what was there before.
func (v *View) Reset() error {
	v.state = shelf.State{Version: version}
	v.known = record.Frontier{}
	v.mem = newMemtable()
	return nil
}

// Size is about how many bytes of memory the view holds.
func (v *View) Size() int { return v.mem.bytes() }

// Apply implements journal.View.
func (v *View) Apply(_ context.Context, s record.StreamID, from record.Seq, entries []record.Entry) error {
	if want := v.known[s].Seq + 1; from != want {
		return fmt.Errorf("postings: entry %d of stream %s where %d is next", from, s, want)
	}
	if len(entries) == 0 {
		return nil
	}
	n := v.mem.stream(s)
	for i := range entries {
		v.mem.entry(n, &entries[i])
	}
	v.mem.ranges = extend(v.mem.ranges, docRange{stream: n, count: uint32(len(entries)), first: from})
	v.known[s] = record.Head{Seq: from + record.Seq(len(entries)) - 1}
	return nil
}

// entry files one entry. Of an edit the path is searched, the first line, and
// not the text that came and went.
func (m *memtable) entry(stream uint32, e *record.Entry) {
	role := uint8(roleNone)
	switch e.Kind {
	case record.KindMsg:
		role = roleNumber(e.Role)
	case record.KindNote:
		role = roleNote
	}
	text := e.Text.String()
	if role == roleNone || text == "" {
		m.blank()
		return
	}
	if role == roleEdit {
		text, _, _ = strings.Cut(text, "\n")
	}
	thread := m.thread(stream, e.Harness, e.Session)
	m.begin(kindOf(role))
	m.text(text)
	if e.Note != nil {
		m.text(e.Note.Title.String())
		for _, tag := range e.Note.Tags {
			m.text(tag)
		}
	}
	m.end(thread, role)
}

// Flush turns what is in memory into a file, merges what is due, and returns
// the state to publish. After an error nothing is lost: what was in memory is
// still there, or in a file that the next Flush returns.
func (v *View) Flush(ctx context.Context) (shelf.State, error) {
	if len(v.mem.docs) > 0 {
		ref, err := v.mem.flush(v.sh)
		if err != nil {
			return shelf.State{}, err
		}
		v.state.Files = append(v.state.Files, ref)
		v.mem = newMemtable()
	}
	for pick := shelf.PickMerge(v.state.Files); pick != nil; pick = shelf.PickMerge(v.state.Files) {
		if err := v.merge(ctx, pick[0], pick[len(pick)-1]+1); err != nil {
			return shelf.State{}, err
		}
	}
	st := v.state
	st.Files = slices.Clone(st.Files)
	st.Known = v.known.Clone()
	return st, nil
}

// merge replaces some neighbouring files by one.
func (v *View) merge(ctx context.Context, from, to int) (err error) {
	old := slices.Clone(v.state.Files[from:to])
	var held []*shelf.File
	defer func() {
		for _, f := range held {
			err = errors.Join(err, v.sh.Release(f))
		}
	}()
	files := make([]*file, 0, len(old))
	for _, ref := range old {
		sf, err := v.sh.Hold(ref)
		if err != nil {
			return err
		}
		held = append(held, sf)
		f, err := openFile(sf)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	ref, err := mergeFiles(ctx, v.sh, files)
	if err != nil {
		return err
	}
	v.state.Files = slices.Replace(v.state.Files, from, to, ref)
	for _, ref := range old {
		err = errors.Join(err, v.sh.Discard(ref))
	}
	return err
}
