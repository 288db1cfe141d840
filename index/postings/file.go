package postings

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"sort"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// file is one file, read in place. Its tables are checked when it is opened,
// docs, terms and lists when they are read: what contradicts a bound is
// corrupt, whatever its sum says.
type file struct {
	tables
	f      *shelf.File
	docs   uint32
	starts []uint32 // first doc of each range
	rows   shelf.Section
	lists  shelf.Section
	terms  shelf.Section
	index  shelf.Section // of the blocks of terms
	blocks int
}

func openFile(sf *shelf.File) (*file, error) {
	f := &file{f: sf}
	var streams, ranges, threads shelf.Section
	for _, s := range []struct {
		tag string
		to  *shelf.Section
		row int
	}{
		{secStreams, &streams, streamSize},
		{secRanges, &ranges, rangeSize},
		{secThreads, &threads, threadSize},
		{secDocs, &f.rows, docSize},
		{secLists, &f.lists, 1},
		{secTerms, &f.terms, 1},
		{secBlocks, &f.index, blockSize},
	} {
		section, ok := sf.Section(s.tag)
		if !ok || section.Len()%s.row != 0 {
			return nil, corrupt(sf, "section "+s.tag)
		}
		*s.to = section
	}
	f.blocks = f.index.Len() / blockSize
	if err := f.readStreams(streams); err != nil {
		return nil, err
	}
	if err := f.readRanges(ranges); err != nil {
		return nil, err
	}
	return f, f.readThreads(threads)
}

func (f *file) readStreams(sec shelf.Section) error {
	raw, err := sec.All()
	if err != nil {
		return err
	}
	for ; len(raw) > 0; raw = raw[streamSize:] {
		s := parseStream(raw)
		if n := len(f.streams); n > 0 && f.streams[n-1].Compare(s) >= 0 {
			return corrupt(f.f, "streams out of order")
		}
		f.streams = append(f.streams, s)
	}
	return nil
}

func (f *file) readRanges(sec shelf.Section) error {
	raw, err := sec.All()
	if err != nil {
		return err
	}
	next := make([]record.Seq, len(f.streams)) // ranges of a stream ascend
	total := uint64(0)
	for ; len(raw) > 0; raw = raw[rangeSize:] {
		r := parseRange(raw)
		if int(r.stream) >= len(f.streams) || r.count == 0 || r.first == 0 || r.first < next[r.stream] ||
			r.first > math.MaxUint64-record.Seq(r.count) {
			return corrupt(f.f, "range")
		}
		next[r.stream] = r.first + record.Seq(r.count)
		f.ranges = append(f.ranges, r)
		f.starts = append(f.starts, uint32(total))
		if total += uint64(r.count); total > math.MaxUint32 {
			return corrupt(f.f, "too many docs")
		}
	}
	if total*docSize != uint64(f.rows.Len()) {
		return corrupt(f.f, "ranges and docs of different lengths")
	}
	f.docs = uint32(total)
	return nil
}

func (f *file) readThreads(sec shelf.Section) error {
	raw, err := sec.All()
	if err != nil {
		return err
	}
	f.threads = make([]thread, 0, len(raw)/threadSize)
	for ; len(raw) > 0; raw = raw[threadSize:] {
		t := parseThread(raw)
		if n := len(f.threads); int(t.stream) >= len(f.streams) || n > 0 && f.threads[n-1].compare(t) >= 0 {
			return corrupt(f.f, "threads out of order")
		}
		f.threads = append(f.threads, t)
	}
	return nil
}

// doc returns a doc below f.docs.
func (f *file) doc(n uint32) (doc, error) {
	b, err := f.rows.Bytes(int(n)*docSize, docSize)
	if err != nil {
		return doc{}, err
	}
	d := unpack(binary.LittleEndian.Uint64(b))
	if d.thread != noThread && int(d.thread) >= len(f.threads) {
		return doc{}, corrupt(f.f, "doc of no thread")
	}
	return d, nil
}

// rangeOf returns the index of the range that holds a doc.
func (f *file) rangeOf(n uint32) int {
	return sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > n }) - 1
}

// pos is the place of a doc in the log.
func (f *file) pos(n uint32) record.Pos {
	i := f.rangeOf(n)
	r := f.ranges[i]
	return record.Pos{Stream: f.streams[r.stream], Seq: r.first + record.Seq(n-f.starts[i])}
}

// span is a list in the lists section.
type span struct{ off, len int }

// maxForms bounds the terms that one beginning stands for.
const maxForms = 1 << 10

// lookup appends the lists of one kind of a term, or of all terms that begin
// with it. There are none if the file does not have it.
func (f *file) lookup(dst []span, kind int, term []byte, begins bool) ([]span, error) {
	// The first block whose first term is greater, which no block before is.
	next, err := find(f.blocks, func(i int) (bool, error) {
		first, err := f.firstTerm(i)
		return bytes.Compare(first, term) > 0, err
	})
	if err != nil {
		return dst, err
	}
	c := f.termsIn(max(next-1, 0), f.blocks)
	for n := 0; n < maxForms && c.next(); {
		switch {
		case bytes.Equal(c.term, term), begins && bytes.HasPrefix(c.term, term):
			dst = append(dst, c.lists[kind])
			n++
		case bytes.Compare(c.term, term) > 0:
			return dst, nil
		}
	}
	return dst, c.err
}

// find is sort.Search for a predicate that may fail.
func find(n int, after func(int) (bool, error)) (int, error) {
	var failed error
	i := sort.Search(n, func(i int) bool {
		ok, err := after(i)
		failed = cmp.Or(failed, err)
		return ok || err != nil
	})
	return i, failed
}

func (f *file) firstTerm(block int) ([]byte, error) {
	c := f.termsIn(block, block+1)
	c.next()
	return c.term, c.err
}

// block returns where a block of terms begins, and the lists of its terms. One
// past the last gives the ends.
func (f *file) block(i int) (terms, lists int, err error) {
	if i == f.blocks {
		return f.terms.Len(), f.lists.Len(), nil
	}
	b, err := f.index.Bytes(i*blockSize, blockSize)
	if err != nil {
		return 0, 0, err
	}
	t, l := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if t > uint64(f.terms.Len()) || l > uint64(f.lists.Len()) {
		return 0, 0, corrupt(f.f, "block")
	}
	return int(t), int(l), nil
}

// termCursor walks the dictionary.
type termCursor struct {
	f     *file
	from  int // the block that comes next
	to    int // one past the last to walk
	rest  []byte
	off   int // of the lists of the term that comes next
	term  []byte
	lists [kinds]span
	err   error
}

// termsIn walks the terms of some blocks.
func (f *file) termsIn(from, to int) *termCursor { return &termCursor{f: f, from: from, to: to} }

// next moves to the next term. It returns false after the last, and at an error.
func (c *termCursor) next() bool {
	if len(c.rest) == 0 {
		if c.from >= c.to {
			return false
		}
		if c.err = c.open(); c.err != nil {
			return false
		}
	}
	shared, suffix := c.num(), c.num()
	if shared > uint64(len(c.term)) || suffix > uint64(len(c.rest)) || shared+suffix == 0 {
		return c.bad("term")
	}
	c.term = append(c.term[:shared], c.rest[:suffix]...)
	c.rest = c.rest[suffix:]
	sizes := [kinds]uint64{speech: c.num()}
	if sizes[speech]&1 != 0 {
		sizes[work] = c.num()
	}
	sizes[speech] >>= 1
	for k, n := range sizes {
		if n > uint64(c.f.lists.Len()-c.off) {
			return c.bad("list of a term")
		}
		c.lists[k] = span{c.off, int(n)}
		c.off += int(n)
	}
	return true
}

// open reads the next block.
func (c *termCursor) open() error {
	from, lists, err := c.f.block(c.from)
	if err != nil {
		return err
	}
	to, _, err := c.f.block(c.from + 1)
	if err != nil {
		return err
	}
	if from >= to {
		return corrupt(c.f.f, "blocks out of order")
	}
	if c.rest, err = c.f.terms.Bytes(from, to-from); err != nil {
		return err
	}
	c.off, c.term = lists, c.term[:0]
	c.from++
	return nil
}

// num reads a number. A malformed one is larger than any bound.
func (c *termCursor) num() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.rest = nil
		return math.MaxUint64
	}
	c.rest = c.rest[n:]
	return v
}

func (c *termCursor) bad(what string) bool {
	c.err = corrupt(c.f.f, what)
	return false
}

// postings walks one list.
type postings struct {
	f    *file
	rest []byte
	next uint32 // the doc before, plus 1
	tf   uint32
	err  error
}

func (f *file) postings(s span) (postings, error) {
	if s.len == 0 {
		return postings{f: f}, nil
	}
	b, err := f.lists.Bytes(s.off, s.len)
	return postings{f: f, rest: b}, err
}

// none is no doc.
const none = math.MaxUint32

// advance moves to the next posting and returns its doc, whose tf is then in
// tf. It returns none after the last, and at an error.
func (p *postings) advance() uint32 {
	if len(p.rest) == 0 {
		return none
	}
	code, n := uvarint(p.rest)
	tf := uint64(1)
	if code&1 != 0 {
		v, m := uvarint(p.rest[n:])
		n += m
		if tf = v + 2; m == 0 || v > math.MaxUint32-2 {
			n = 0
		}
	}
	doc := uint64(p.next) + code>>1 - 1
	if n == 0 || code < 2 || code>>1 > math.MaxUint32 || doc >= uint64(p.f.docs) {
		p.rest, p.err = nil, corrupt(p.f.f, "list")
		return none
	}
	p.rest = p.rest[n:]
	p.next, p.tf = uint32(doc)+1, uint32(tf)
	return uint32(doc)
}

// uvarint decodes a number; its length is 0 for a malformed one.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, n := binary.Uvarint(b)
	return v, max(n, 0)
}
