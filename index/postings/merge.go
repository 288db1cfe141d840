package postings

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// union is what the tables of some files, oldest first, say together.
type union struct {
	tables
	parts []part
}

// part says where the tables of one file went in the union.
type part struct {
	*file
	streams []uint32
	threads []uint32
	before  [][kinds]uint32 // turns that each thread has in older files
}

// unite joins the tables of files.
func unite(files []*file) (*union, error) {
	u := &union{parts: make([]part, len(files))}
	for _, f := range files {
		u.streams = append(u.streams, f.streams...)
	}
	slices.SortFunc(u.streams, record.StreamID.Compare)
	u.streams = slices.Compact(u.streams)
	next := make([]record.Seq, len(u.streams))
	for i, f := range files {
		p := &u.parts[i]
		p.file = f
		for _, s := range f.streams {
			n, _ := slices.BinarySearchFunc(u.streams, s, record.StreamID.Compare)
			p.streams = append(p.streams, uint32(n))
		}
		for _, r := range f.ranges {
			r.stream = p.streams[r.stream]
			if r.first < next[r.stream] {
				return nil, corrupt(f.f, "entries that an older file has")
			}
			next[r.stream] = r.first + record.Seq(r.count)
			u.ranges = extend(u.ranges, r)
		}
	}
	u.uniteThreads()
	return u, nil
}

// uniteThreads merges the sorted tables of threads.
func (u *union) uniteThreads() {
	longest := 0
	for i := range u.parts {
		p := &u.parts[i]
		longest = max(longest, len(p.file.threads))
		p.threads = make([]uint32, 0, len(p.file.threads))
		p.before = make([][kinds]uint32, 0, len(p.file.threads))
	}
	u.threads = make([]thread, 0, longest)
	for {
		var sum thread
		found := false
		for i := range u.parts {
			if t, ok := u.parts[i].head(); ok && (!found || t.compare(sum) < 0) {
				sum, found = thread{session: t.session, stream: t.stream}, true
			}
		}
		if !found {
			return
		}
		for i := range u.parts {
			p := &u.parts[i]
			t, ok := p.head()
			if !ok || t.compare(sum) != 0 {
				continue
			}
			p.threads = append(p.threads, uint32(len(u.threads)))
			p.before = append(p.before, sum.turns)
			for k := range kinds {
				sum.turns[k] += t.turns[k]
				sum.tokens[k] += t.tokens[k]
			}
		}
		u.threads = append(u.threads, sum)
	}
}

// head returns the first thread that has no place in the union yet.
func (p *part) head() (thread, bool) {
	if len(p.threads) == len(p.file.threads) {
		return thread{}, false
	}
	t := p.file.threads[len(p.threads)]
	t.stream = p.streams[t.stream]
	return t, true
}

// doc returns a doc with its thread and place in the union.
func (p *part) doc(n uint32) (doc, error) {
	d, err := p.file.doc(n)
	if err != nil || d.thread == noThread {
		return d, err
	}
	d.place += p.before[d.thread][kindOf(d.role)]
	d.thread = p.threads[d.thread]
	return d, nil
}

// mergeFiles writes files, oldest first, as one: their docs one after the
// other, their tables united, their lists joined with the doc numbers shifted.
func mergeFiles(ctx context.Context, sh *shelf.Shelf, files []*file) (shelf.FileRef, error) {
	u, err := unite(files)
	if err != nil {
		return shelf.FileRef{}, err
	}
	out, err := startFile(sh, u.tables)
	if err != nil {
		return shelf.FileRef{}, err
	}
	if err := out.mergeDocs(ctx, u.parts); err != nil {
		return shelf.FileRef{}, out.abort(err)
	}
	if err := out.mergeTerms(ctx, files); err != nil {
		return shelf.FileRef{}, out.abort(err)
	}
	return out.finish()
}

func (f *fileWriter) mergeDocs(ctx context.Context, parts []part) error {
	for i := range parts {
		for n := range parts[i].docs {
			if n%4096 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			d, err := parts[i].doc(n)
			if err != nil {
				return err
			}
			f.doc(d.pack())
		}
	}
	return nil
}

func (f *fileWriter) mergeTerms(ctx context.Context, files []*file) error {
	m, err := startDictionary(files)
	if err != nil {
		return err
	}
	starts := make([]uint64, len(files)+1)
	for i, in := range files {
		starts[i+1] = starts[i] + uint64(in.docs)
	}
	if docs := starts[len(files)]; docs > math.MaxUint32 {
		return fmt.Errorf("postings: %d entries are too many for one file", docs)
	}
	var lists [kinds][]byte
	for n := 0; m.next(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for k := range lists {
			if lists[k], err = m.join(lists[k][:0], k, starts); err != nil {
				return err
			}
		}
		f.term(m.term, lists)
	}
	return m.err
}

// dictionary walks the dictionaries of some files together.
type dictionary struct {
	cursors []*termCursor // of the files that have terms left
	files   []int         // which file each is of
	term    []byte
	err     error
}

func startDictionary(files []*file) (*dictionary, error) {
	m := &dictionary{}
	for i, f := range files {
		m.cursors = append(m.cursors, f.termsIn(0, f.blocks))
		m.files = append(m.files, i)
	}
	for i := len(files) - 1; i >= 0; i-- {
		m.step(i)
	}
	return m, m.err
}

// step moves a cursor on, and drops it at its end.
func (m *dictionary) step(i int) {
	c := m.cursors[i]
	if c.next() {
		return
	}
	if c.err != nil {
		m.err = c.err
	}
	m.cursors = slices.Delete(m.cursors, i, i+1)
	m.files = slices.Delete(m.files, i, i+1)
}

// next moves to the least term that was not visited.
func (m *dictionary) next() bool {
	for i := len(m.cursors) - 1; i >= 0; i-- {
		if m.term != nil && bytes.Equal(m.cursors[i].term, m.term) {
			m.step(i)
		}
	}
	if m.err != nil || len(m.cursors) == 0 {
		return false
	}
	least := m.cursors[0].term
	for _, c := range m.cursors[1:] {
		if bytes.Compare(c.term, least) < 0 {
			least = c.term
		}
	}
	if m.term != nil && bytes.Compare(least, m.term) <= 0 {
		m.err = corrupt(m.cursors[0].f.f, "terms out of order")
		return false
	}
	m.term = append(m.term[:0], least...)
	return true
}

// each calls visit with every posting of the term in the lists of one kind.
func (m *dictionary) each(kind int, visit func(file int, doc, tf uint32) error) error {
	for i, c := range m.cursors {
		if !bytes.Equal(c.term, m.term) {
			continue
		}
		p, err := c.f.postings(c.lists[kind])
		if err != nil {
			return err
		}
		for n := p.advance(); n != none; n = p.advance() {
			if err := visit(m.files[i], n, p.tf); err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// join appends the lists of one kind as one, where the docs of each file begin
// at its start.
func (m *dictionary) join(b []byte, kind int, starts []uint64) ([]byte, error) {
	next := uint64(0)
	err := m.each(kind, func(file int, doc, tf uint32) error {
		at := starts[file] + uint64(doc) + 1
		b = appendPosting(b, at-next, tf)
		next = at
		return nil
	})
	return b, err
}
