package postings

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// tables are the parts of a file that are small.
type tables struct {
	streams []record.StreamID // sorted
	ranges  []docRange
	threads []thread // sorted
}

// fileWriter writes one file: tables first, then the docs, then the terms in
// ascending order. Lists are streamed, the dictionary is gathered.
type fileWriter struct {
	w      *shelf.Writer
	docs   uint64
	blocks []byte
	terms  []byte
	before []byte // the term before
	count  int
	lists  uint64 // bytes of lists so far
	buf    []byte
}

func startFile(sh *shelf.Shelf, t tables) (*fileWriter, error) {
	if len(t.threads) >= noThread {
		return nil, fmt.Errorf("postings: %d sessions are too many for one file", len(t.threads))
	}
	w, err := sh.Create(Name)
	if err != nil {
		return nil, err
	}
	f := &fileWriter{w: w}
	w.Section(secStreams)
	for _, s := range t.streams {
		f.write(appendStream(f.buf[:0], s))
	}
	w.Section(secRanges)
	for _, r := range t.ranges {
		f.write(appendRange(f.buf[:0], r))
	}
	w.Section(secThreads)
	for _, th := range t.threads {
		f.write(appendThread(f.buf[:0], th))
	}
	w.Section(secDocs)
	return f, nil
}

// write passes bytes on and keeps the buffer. The writer keeps its first error
// for Finish.
func (f *fileWriter) write(b []byte) {
	f.buf = b
	f.w.Write(b) //nolint:errcheck // Finish returns it
}

// doc adds the next doc.
func (f *fileWriter) doc(packed uint64) {
	f.docs++
	f.write(binary.LittleEndian.AppendUint64(f.buf[:0], packed))
}

// term adds a term with its encoded lists.
func (f *fileWriter) term(term []byte, lists [kinds][]byte) {
	if f.count == 0 {
		f.w.Section(secLists)
	}
	shared := 0
	if f.count%blockTerms == 0 {
		f.blocks = binary.LittleEndian.AppendUint64(f.blocks, uint64(len(f.terms)))
		f.blocks = binary.LittleEndian.AppendUint64(f.blocks, f.lists)
	} else {
		for shared < min(len(term), len(f.before)) && term[shared] == f.before[shared] {
			shared++
		}
	}
	f.count++
	f.before = append(f.before[:0], term...)
	f.terms = binary.AppendUvarint(f.terms, uint64(shared))
	f.terms = binary.AppendUvarint(f.terms, uint64(len(term)-shared))
	f.terms = append(f.terms, term[shared:]...)
	if len(lists[work]) == 0 {
		f.terms = binary.AppendUvarint(f.terms, uint64(len(lists[speech]))<<1)
	} else {
		f.terms = binary.AppendUvarint(f.terms, uint64(len(lists[speech]))<<1|1)
		f.terms = binary.AppendUvarint(f.terms, uint64(len(lists[work])))
	}
	for _, l := range lists {
		f.w.Write(l) //nolint:errcheck // Finish returns it
		f.lists += uint64(len(l))
	}
}

func (f *fileWriter) finish() (shelf.FileRef, error) {
	if f.count == 0 {
		f.w.Section(secLists)
	}
	f.w.Section(secTerms)
	f.w.Write(f.terms) //nolint:errcheck // Finish returns it
	f.w.Section(secBlocks)
	f.w.Write(f.blocks) //nolint:errcheck // Finish returns it
	ref, err := f.w.Finish()
	ref.Weight = f.docs
	return ref, err
}

// abort gives up an unfinished file because of err.
func (f *fileWriter) abort(err error) error { return errors.Join(err, f.w.Abort()) }

// flush writes the memtable as a file.
func (m *memtable) flush(sh *shelf.Shelf) (shelf.FileRef, error) {
	t, renamed := m.tables()
	f, err := startFile(sh, t)
	if err != nil {
		return shelf.FileRef{}, err
	}
	for _, w := range m.docs {
		d := unpack(w)
		if d.thread != noThread {
			w += uint64(renamed[d.thread])<<16 - uint64(d.thread)<<16
		}
		f.doc(w)
	}
	var lists [kinds][]byte
	for _, n := range m.sorted() {
		for k := range lists {
			lists[k] = m.pages.collect(lists[k][:0], &m.lists[k][n])
		}
		f.term(m.bytesOf(m.terms[n]), lists)
	}
	return f.finish()
}

// tables returns the tables in the order of a file, and where each thread went.
func (m *memtable) tables() (tables, []uint32) {
	streams := slices.SortedFunc(slices.Values(m.streams), record.StreamID.Compare)
	place := make([]uint32, len(streams))
	for i, s := range m.streams {
		n, _ := slices.BinarySearchFunc(streams, s, record.StreamID.Compare)
		place[i] = uint32(n)
	}
	t := tables{streams: streams, ranges: slices.Clone(m.ranges), threads: slices.Clone(m.threads)}
	for i := range t.ranges {
		t.ranges[i].stream = place[t.ranges[i].stream]
	}
	for i := range t.threads {
		t.threads[i].stream = place[t.threads[i].stream]
	}
	order := make([]uint32, len(t.threads))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return t.threads[a].compare(t.threads[b]) })
	renamed := make([]uint32, len(order))
	sorted := make([]thread, len(order))
	for i, old := range order {
		renamed[old], sorted[i] = uint32(i), t.threads[old]
	}
	t.threads = sorted
	return t, renamed
}
