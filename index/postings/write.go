package postings

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// fileWriter writes one file: first the tables, then terms in ascending order.
type fileWriter struct {
	w      *shelf.Writer
	blocks []byte
	terms  []byte // of the whole file: the lists are streamed, the dictionary is gathered
	lists  uint64 // bytes of lists so far
	before []byte // term before
	n      int
	buf    []byte
}

func startFile(sh *shelf.Shelf, ranges []docRange, sessions []record.SessionID, docs func(emit func(doc))) (*fileWriter, error) {
	w, err := sh.Create(Name)
	if err != nil {
		return nil, err
	}
	f := &fileWriter{w: w}
	w.Section(secRanges)
	for _, r := range ranges {
		f.write(appendRange(f.buf[:0], r))
	}
	w.Section(secSessions)
	for _, id := range sessions {
		f.write(binary.LittleEndian.AppendUint64(f.buf[:0], uint64(id)))
	}
	w.Section(secDocs)
	docs(func(d doc) { f.write(appendDoc(f.buf[:0], d)) })
	w.Section(secLists)
	return f, nil
}

// write passes bytes on. The writer keeps its first error for Finish.
func (f *fileWriter) write(b []byte) {
	f.buf = b
	f.w.Write(b) //nolint:errcheck // as said
}

// posting is one list as it is stored.
type posting struct {
	docs  uint32
	bytes []byte
}

// term adds a term with its lists.
func (f *fileWriter) term(term []byte, lists [2]posting) {
	shared := 0
	if f.n%blockTerms == 0 {
		f.blocks = binary.LittleEndian.AppendUint64(f.blocks, uint64(len(f.terms)))
		f.blocks = binary.LittleEndian.AppendUint64(f.blocks, f.lists)
	} else {
		for shared < min(len(term), len(f.before)) && term[shared] == f.before[shared] {
			shared++
		}
	}
	f.n++
	f.terms = binary.AppendUvarint(f.terms, uint64(shared))
	f.terms = binary.AppendUvarint(f.terms, uint64(len(term)-shared))
	f.terms = append(f.terms, term[shared:]...)
	for _, l := range lists {
		f.terms = binary.AppendUvarint(f.terms, uint64(l.docs))
		f.terms = binary.AppendUvarint(f.terms, uint64(len(l.bytes)))
		f.w.Write(l.bytes) //nolint:errcheck // Finish reports it
		f.lists += uint64(len(l.bytes))
	}
	f.before = append(f.before[:0], term...)
}

func (f *fileWriter) finish(docs uint64) (shelf.FileRef, error) {
	f.w.Section(secTerms)
	f.w.Write(f.terms) //nolint:errcheck // Finish reports it
	f.w.Section(secBlocks)
	f.w.Write(f.blocks) //nolint:errcheck // Finish reports it
	ref, err := f.w.Finish()
	// Small files weigh alike, so that a few of them are merged soon.
	ref.Weight = max(docs, 512)
	return ref, err
}

// flush writes the memtable as a file.
func (m *memtable) flush(sh *shelf.Shelf) (shelf.FileRef, error) {
	order := make([]uint32, len(m.ids)) // old ordinals in the order of their ids
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return compareIDs(m.ids[a], m.ids[b]) })
	renamed := make([]uint32, len(order))
	ids := make([]record.SessionID, len(order))
	for i, old := range order {
		renamed[old], ids[i] = uint32(i), m.ids[old]
	}
	f, err := startFile(sh, m.ranges, ids, func(emit func(doc)) {
		for _, d := range m.docs {
			if d.session != noSession {
				d.session = renamed[d.session]
			}
			emit(d)
		}
	})
	if err != nil {
		return shelf.FileRef{}, err
	}
	var buf [2][]byte
	for _, n := range m.sorted() {
		var lists [2]posting
		for k := range lists {
			l := &m.lists[k][n]
			buf[k] = m.collect(buf[k][:0], l)
			lists[k] = posting{l.docs, buf[k]}
		}
		f.term(m.bytesOf(n), lists)
	}
	return f.finish(uint64(len(m.docs)))
}

func compareIDs(a, b record.SessionID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// merge writes files as one: their docs one after the other, their sessions
// united, their lists joined with the doc numbers shifted.
func merge(sh *shelf.Shelf, files []*file) (shelf.FileRef, error) {
	var (
		ranges  []docRange
		offsets []uint32
		total   uint32
	)
	for _, f := range files {
		offsets = append(offsets, total)
		total += f.docs
		for _, r := range f.ranges {
			ranges = extend(ranges, r.stream, r.first, r.count)
		}
	}
	ids, renamed, err := unite(files)
	if err != nil {
		return shelf.FileRef{}, err
	}
	var bad error
	out, err := startFile(sh, ranges, ids, func(emit func(doc)) {
		for i, f := range files {
			for n := range f.docs {
				d, err := f.doc(n)
				if err != nil {
					bad = err
					return
				}
				if d.session != noSession {
					d.session = renamed[i][d.session]
				}
				emit(d)
			}
		}
	})
	if err != nil {
		return shelf.FileRef{}, err
	}
	if bad == nil {
		bad = out.mergeTerms(files, offsets)
	}
	if bad != nil {
		out.w.Abort() //nolint:errcheck // an unlisted file counts for nothing
		return shelf.FileRef{}, bad
	}
	return out.finish(uint64(total))
}

// unite joins the sorted session tables and says where each old ordinal went.
func unite(files []*file) ([]record.SessionID, [][]uint32, error) {
	var all []record.SessionID
	tables := make([][]record.SessionID, len(files))
	for i, f := range files {
		ids, err := f.sessionIDs()
		if err != nil {
			return nil, nil, err
		}
		tables[i] = ids
		all = append(all, ids...)
	}
	slices.SortFunc(all, compareIDs)
	all = slices.Compact(all)
	renamed := make([][]uint32, len(files))
	for i, ids := range tables {
		renamed[i] = make([]uint32, len(ids))
		at := 0
		for k, id := range ids {
			for all[at] != id {
				at++
			}
			renamed[i][k] = uint32(at)
		}
	}
	return all, renamed, nil
}

// mergeTerms joins the dictionaries.
func (f *fileWriter) mergeTerms(files []*file, offsets []uint32) error {
	cursors := make([]*termCursor, len(files))
	for i, in := range files {
		cursors[i] = in.allTerms()
		if err := cursors[i].next(); err != nil {
			return err
		}
	}
	var buf [2][]byte
	var least []byte
	for {
		found := false
		for _, c := range cursors {
			if !c.done && (!found || bytes.Compare(c.term, least) < 0) {
				least, found = append(least[:0], c.term...), true
			}
		}
		if !found {
			return nil
		}
		var lists [2]posting
		for k := range lists {
			buf[k] = buf[k][:0]
			last := uint32(0) // doc + 1
			for i, c := range cursors {
				if c.done || !bytes.Equal(c.term, least) {
					continue
				}
				pairs, err := c.f.pairs(c.lists[k])
				if err != nil {
					return err
				}
				for pairs.next() {
					at := pairs.doc + offsets[i] + 1
					buf[k] = binary.AppendUvarint(buf[k], uint64(at-last))
					buf[k] = binary.AppendUvarint(buf[k], uint64(pairs.tf))
					last = at
					lists[k].docs++
				}
				if pairs.err != nil {
					return pairs.err
				}
			}
			lists[k].bytes = buf[k]
		}
		f.term(least, lists)
		for _, c := range cursors {
			if !c.done && bytes.Equal(c.term, least) {
				if err := c.next(); err != nil {
					return err
				}
			}
		}
	}
}
