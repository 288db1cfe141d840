package postings

import (
	"encoding/binary"
	"slices"

	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
)

// memtable is what was applied since the last flush. Terms live in one byte
// arena behind an open-addressed table; lists grow in chunks of one slab. It
// makes no allocation per token.
type memtable struct {
	cut  query.Tokenizer
	emit func([]byte) // bound once, so that no closure is made per text

	arena  []byte // bytes of the raw tokens and of the terms
	tokens []token
	table  []uint32 // index into tokens + 1
	terms  []term
	lists  [2][]list // speech and work, by term
	slab   []byte

	docs     []doc
	ranges   []docRange
	sessions map[record.SessionID]uint32
	ids      []record.SessionID

	now  uint32 // the doc in hand
	side int    // the lists that it goes to
	size uint32 // its tokens so far
}

// token is a word as it stands in texts; term is what it is filed under. The
// first sixteen bytes stand in the token itself, so that most lookups touch
// nothing else.
type token struct {
	head [2]uint64
	at   uint32
	term uint32
	len  uint8
}

// term is one entry of the dictionary: its bytes in the arena.
type term struct {
	at  uint32
	len uint8
}

// list is a growing posting list: pairs of doc gap and term frequency as
// varints, in chunks of the slab. The pair of the last doc is kept apart until
// another doc comes.
type list struct {
	head, at, end uint32 // first chunk, write position, end of the current chunk
	size          uint32 // of the current chunk
	last          uint32 // doc of the pending pair + 1
	before        uint32 // doc of the pair before + 1
	tf            uint32
	docs          uint32
}

const (
	firstChunk = 12
	maxChunk   = 4 << 10
	chunkLink  = 4 // bytes at the end of a chunk that name the next
)

func newMemtable() *memtable {
	m := &memtable{table: make([]uint32, 1<<14), sessions: map[record.SessionID]uint32{}}
	// Offset 0 of the slab means "no chunk".
	m.slab = append(m.slab, 0)
	m.emit = m.add
	return m
}

// bytes is about what the memtable occupies.
func (m *memtable) bytes() int {
	return cap(m.arena) + 32*cap(m.tokens) + 4*cap(m.table) + 8*cap(m.terms) + 28*(cap(m.lists[0])+cap(m.lists[1])) + cap(m.slab) + 12*cap(m.docs) + 48*len(m.ids)
}

// begin starts the next doc.
func (m *memtable) begin(work bool) {
	m.now, m.side, m.size = uint32(len(m.docs)), 0, 0
	if work {
		m.side = 1
	}
}

// text adds the tokens of a text to the doc in hand.
func (m *memtable) text(s string) { m.cut.Each(s, m.emit) }

// end finishes the doc in hand.
func (m *memtable) end(session record.SessionID, role uint8) {
	n, ok := m.sessions[session]
	if !ok {
		n = uint32(len(m.ids))
		m.sessions[session] = n
		m.ids = append(m.ids, session)
	}
	m.docs = append(m.docs, doc{session: n, role: role, size: m.size})
}

// skip takes a doc number for an entry without text.
func (m *memtable) skip() {
	m.docs = append(m.docs, doc{session: noSession})
}

func (m *memtable) add(raw []byte) {
	l := &m.lists[m.side][m.find(raw)]
	m.size++
	if l.last == m.now+1 {
		l.tf++
		return
	}
	m.settle(l)
	l.last, l.tf = m.now+1, 1
}

// settle writes the pending pair of a list.
func (m *memtable) settle(l *list) {
	if l.last == 0 {
		return
	}
	m.put(l, uint64(l.last-l.before))
	m.put(l, uint64(l.tf))
	l.before, l.last = l.last, 0
	l.docs++
}

func (m *memtable) put(l *list, v uint64) {
	for v >= 0x80 {
		m.putByte(l, byte(v)|0x80)
		v >>= 7
	}
	m.putByte(l, byte(v))
}

func (m *memtable) putByte(l *list, b byte) {
	if l.at == l.end {
		m.grow(l)
	}
	m.slab[l.at] = b
	l.at++
}

// grow gives a list another chunk. Chunks double from firstChunk to maxChunk,
// so a reader knows the length of each.
func (m *memtable) grow(l *list) {
	at := uint32(len(m.slab))
	if l.head == 0 {
		l.head, l.size = at, firstChunk
	} else {
		binary.LittleEndian.PutUint32(m.slab[l.end:], at)
		l.size = min(2*l.size, maxChunk)
	}
	n := len(m.slab) + int(l.size) + chunkLink
	m.slab = slices.Grow(m.slab, int(l.size)+chunkLink)[:n]
	l.at, l.end = at, at+l.size
}

// collect appends the bytes of a settled list.
func (m *memtable) collect(dst []byte, l *list) []byte {
	if l.head == 0 {
		return dst
	}
	size := uint32(firstChunk)
	for at := l.head; ; size = min(2*size, maxChunk) {
		if at+size == l.end {
			return append(dst, m.slab[at:l.at]...)
		}
		dst = append(dst, m.slab[at:at+size]...)
		at = binary.LittleEndian.Uint32(m.slab[at+size:])
	}
}

// find returns the term of a raw token.
func (m *memtable) find(raw []byte) uint32 {
	head := headOf(raw)
	h := hash(head, raw)
	mask := uint64(len(m.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		n := m.table[i]
		if n == 0 {
			return m.learn(raw, head, h, i)
		}
		t := &m.tokens[n-1]
		if t.head == head && int(t.len) == len(raw) && (len(raw) <= len(head)*8 || string(m.arena[t.at:t.at+uint32(t.len)]) == string(raw)) {
			return t.term
		}
	}
}

// headOf is the first sixteen bytes of a token as two words, zeros after its
// end. The tokenizer's tokens lie in a buffer that is longer than they are.
func headOf(raw []byte) [2]uint64 {
	if cap(raw) < 16 {
		raw = append(make([]byte, 0, 16), raw...)
	}
	b := raw[:16]
	head := [2]uint64{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
	if n := len(raw); n < 16 {
		head[0] &= headMask[n][0]
		head[1] &= headMask[n][1]
	}
	return head
}

// headMask keeps the first n bytes of a head.
var headMask = func() (t [16][2]uint64) {
	for n := range t {
		t[n][0] = 1<<(8*min(n, 8)) - 1
		if n > 8 {
			t[n][1] = 1<<(8*(n-8)) - 1
		}
	}
	return t
}()

// learn files a token that is met for the first time.
func (m *memtable) learn(raw []byte, head [2]uint64, h, slot uint64) uint32 {
	t := token{head: head, at: uint32(len(m.arena)), len: uint8(len(raw))}
	m.arena = append(m.arena, raw...)
	stem := query.Stem(string(raw))
	if stem != string(raw) {
		t.term = m.find([]byte(stem))
		// The stem may have moved the table; find the free slot again.
		mask := uint64(len(m.table) - 1)
		for slot = h & mask; m.table[slot] != 0; slot = (slot + 1) & mask {
		}
	} else {
		t.term = uint32(len(m.terms))
		m.terms = append(m.terms, term{at: t.at, len: t.len})
		m.lists[0], m.lists[1] = append(m.lists[0], list{}), append(m.lists[1], list{})
	}
	m.tokens = append(m.tokens, t)
	m.table[slot] = uint32(len(m.tokens))
	if 2*len(m.tokens) > len(m.table) {
		m.rehash()
	}
	return t.term
}

func (m *memtable) rehash() {
	m.table = make([]uint32, 2*len(m.table))
	mask := uint64(len(m.table) - 1)
	for n, t := range m.tokens {
		i := hash(t.head, m.arena[t.at:t.at+uint32(t.len)]) & mask
		for m.table[i] != 0 {
			i = (i + 1) & mask
		}
		m.table[i] = uint32(n + 1)
	}
}

// hash mixes the head and, of a longer token, the rest of it.
func hash(head [2]uint64, raw []byte) uint64 {
	h := (head[0] ^ uint64(len(raw))*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>32 ^ head[1]) * 0x94d049bb133111eb
	for i := len(head) * 8; i < len(raw); i++ {
		h = (h ^ uint64(raw[i])) * 1099511628211
	}
	return h ^ h>>31
}

// sorted returns the terms in the order of their bytes.
func (m *memtable) sorted() []uint32 {
	order := make([]uint32, 0, len(m.terms))
	for i := range m.terms {
		for k := range m.lists {
			m.settle(&m.lists[k][i])
		}
		if m.lists[0][i].docs+m.lists[1][i].docs > 0 {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int { return slices.Compare(m.bytesOf(a), m.bytesOf(b)) })
	return order
}

func (m *memtable) bytesOf(n uint32) []byte {
	t := &m.terms[n]
	return m.arena[t.at : t.at+uint32(t.len)]
}
