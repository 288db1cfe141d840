package postings

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// file is one file, read in place.
type file struct {
	f        *shelf.File
	sessions shelf.Section
	table    shelf.Section // docs
	terms    shelf.Section
	blocks   shelf.Section
	lists    shelf.Section
	ranges   []docRange
	starts   []uint32 // first doc of each range
	docs     uint32
	blockN   int
}

func openFile(sf *shelf.File) (*file, error) {
	f := &file{f: sf}
	var ranges shelf.Section
	for tag, sec := range map[string]*shelf.Section{
		secRanges: &ranges, secSessions: &f.sessions, secDocs: &f.table,
		secTerms: &f.terms, secBlocks: &f.blocks, secLists: &f.lists,
	} {
		s, ok := sf.Section(tag)
		if !ok {
			return nil, corrupt(sf, "no section "+tag)
		}
		*sec = s
	}
	raw, err := ranges.All()
	if err != nil {
		return nil, err
	}
	var total uint64
	for ; len(raw) >= rangeSize; raw = raw[rangeSize:] {
		r := parseRange(raw)
		f.ranges = append(f.ranges, r)
		f.starts = append(f.starts, uint32(total))
		total += uint64(r.count)
	}
	if total*docSize != uint64(f.table.Len()) || total >= noSession || f.blocks.Len()%blockSize != 0 || f.sessions.Len()%sessionSize != 0 {
		return nil, corrupt(sf, "tables of different lengths")
	}
	f.docs, f.blockN = uint32(total), f.blocks.Len()/blockSize
	return f, nil
}

func (f *file) doc(n uint32) (doc, error) {
	b, err := f.table.Bytes(int(n)*docSize, docSize)
	if err != nil {
		return doc{}, err
	}
	d := parseDoc(b)
	if d.session != noSession && int(d.session) >= f.sessions.Len()/sessionSize {
		return doc{}, corrupt(f.f, "doc of no session")
	}
	return d, nil
}

// pos is the place of a doc in the log.
func (f *file) pos(n uint32) record.Pos {
	i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > n }) - 1
	r := f.ranges[i]
	return record.Pos{Stream: r.stream, Seq: r.first + record.Seq(n-f.starts[i])}
}

func (f *file) sessionIDs() ([]record.SessionID, error) {
	raw, err := f.sessions.All()
	if err != nil {
		return nil, err
	}
	ids := make([]record.SessionID, 0, len(raw)/sessionSize)
	for ; len(raw) > 0; raw = raw[sessionSize:] {
		id := record.SessionID(binary.LittleEndian.Uint64(raw))
		if n := len(ids); n > 0 && ids[n-1] >= id {
			return nil, corrupt(f.f, "sessions out of order")
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// block returns where a block of terms and its lists begin. One past the last
// gives the ends.
func (f *file) block(i int) (terms, lists int, err error) {
	if i == f.blockN {
		return f.terms.Len(), f.lists.Len(), nil
	}
	b, err := f.blocks.Bytes(i*blockSize, blockSize)
	if err != nil {
		return 0, 0, err
	}
	return int(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint64(b[8:])), nil
}

// span is a list in the lists section.
type span struct {
	docs uint32
	off  int
	len  int
}

// lookup finds a term. It is not found without an error.
func (f *file) lookup(term []byte) (lists [2]span, found bool, err error) {
	lo, hi := 0, f.blockN // the first block whose first term is greater
	for lo < hi {
		mid := (lo + hi) / 2
		first, err := f.firstTerm(mid)
		if err != nil {
			return lists, false, err
		}
		if bytes.Compare(first, term) > 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == 0 {
		return lists, false, nil
	}
	c := f.termsFrom(lo - 1)
	c.last = lo
	for {
		if err := c.next(); err != nil || c.done {
			return lists, false, err
		}
		switch bytes.Compare(c.term, term) {
		case 0:
			return c.lists, true, nil
		case 1:
			return lists, false, nil
		}
	}
}

func (f *file) firstTerm(block int) ([]byte, error) {
	c := f.termsFrom(block)
	c.last = block + 1
	if err := c.next(); err != nil {
		return nil, err
	}
	return c.term, nil
}

// termCursor walks the dictionary.
type termCursor struct {
	f     *file
	block int    // that comes next
	last  int    // one past the last block to walk
	rest  []byte // of the block in hand
	off   int    // of the lists of the term that comes next
	term  []byte
	lists [2]span
	done  bool
}

func (f *file) allTerms() *termCursor {
	c := f.termsFrom(0)
	c.last = f.blockN
	return &c
}

func (f *file) termsFrom(block int) termCursor { return termCursor{f: f, block: block} }

func (c *termCursor) next() error {
	if len(c.rest) == 0 {
		if c.block >= c.last {
			c.done = true
			return nil
		}
		from, lists, err := c.f.block(c.block)
		if err != nil {
			return err
		}
		to, _, err := c.f.block(c.block + 1)
		if err != nil {
			return err
		}
		if from < 0 || from > to || to > c.f.terms.Len() || lists < 0 || lists > c.f.lists.Len() {
			return corrupt(c.f.f, "blocks out of order")
		}
		if c.rest, err = c.f.terms.Bytes(from, to-from); err != nil {
			return err
		}
		c.off, c.term = lists, c.term[:0]
		c.block++
	}
	return c.parse()
}

func (c *termCursor) parse() error {
	shared, suffix := c.num(), c.num()
	if shared > uint64(len(c.term)) || suffix > uint64(len(c.rest)) {
		return corrupt(c.f.f, "term")
	}
	c.term = append(c.term[:shared], c.rest[:suffix]...)
	c.rest = c.rest[suffix:]
	for k := range c.lists {
		docs, n := c.num(), c.num()
		if docs > uint64(c.f.docs) || n > uint64(c.f.lists.Len()-c.off) {
			return corrupt(c.f.f, "list of term")
		}
		c.lists[k] = span{docs: uint32(docs), off: c.off, len: int(n)}
		c.off += int(n)
	}
	return nil
}

// num reads a number; a malformed one is larger than any bound.
func (c *termCursor) num() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.rest = nil
		return 1 << 63
	}
	c.rest = c.rest[n:]
	return v
}

// pairs walks one list.
type pairs struct {
	f    *file
	rest []byte
	doc  uint32
	tf   uint32
	some bool
	err  error
}

func (f *file) pairs(s span) (*pairs, error) {
	if s.len == 0 {
		return &pairs{f: f}, nil
	}
	b, err := f.lists.Bytes(s.off, s.len)
	if err != nil {
		return nil, err
	}
	return &pairs{f: f, rest: b}, nil
}

func (p *pairs) next() bool {
	if len(p.rest) == 0 {
		return false
	}
	gap, n := uvarint(p.rest)
	tf, k := uvarint(p.rest[n:])
	if n == 0 || k == 0 || gap == 0 {
		p.err = corrupt(p.f.f, "list")
		return false
	}
	p.rest = p.rest[n+k:]
	at := uint64(gap) - 1
	if p.some {
		at = uint64(p.doc) + uint64(gap)
	}
	if at >= uint64(p.f.docs) {
		p.err = corrupt(p.f.f, "list of too many docs")
		return false
	}
	p.doc, p.tf, p.some = uint32(at), uint32(tf), true
	return true
}

// uvarint decodes the short numbers that lists are made of.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, n := binary.Uvarint(b)
	return v, max(n, 0)
}
