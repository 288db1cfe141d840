package postings

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
)

// memtable is what was applied since the last flush. Tokens and terms lie in
// one arena behind an open-addressed table, lists grow in chunks of pages, and
// nothing is allocated per token.
type memtable struct {
	cut  query.Tokenizer
	emit func([]byte) // bound once, so that no closure is made per text
	seed maphash.Seed // and the keys: nobody can write texts whose tokens collide
	keys [2]uint64

	arena  []byte
	table  []token // open-addressed, at most two thirds full
	tokens int     // in the table
	terms  []word
	lists  [kinds][]list // of each term
	pages  pages

	docs    []uint64 // packed
	ranges  []docRange
	streams []record.StreamID
	threads []thread // in the order in which they came
	index   map[threadKey]uint32
	last    lastThread

	now  uint32 // the doc in hand plus 1
	kind int
	size uint32 // tokens of the doc in hand

	short  [512]short // of the doc in hand, not filed yet
	shorts int
}

// shortToken is how many bytes a token has that its head holds whole.
const shortToken = 8

type short struct {
	head uint64
	len  uint32
}

// word lies in the arena.
type word struct {
	at  uint32
	len uint32
}

// token is a word as texts have it, and the term it is filed under. Its first
// bytes stand here too: most comparisons end with them.
type token struct {
	head uint64
	word // of length 0 in a free slot
	term uint32
}

type threadKey struct {
	session record.SessionID
	stream  uint32
}

// lastThread spares the hash of a session's name: turns come in runs.
type lastThread struct {
	harness, native string
	stream          uint32
	thread          uint32
	valid           bool
}

func newMemtable() *memtable {
	m := &memtable{seed: maphash.MakeSeed(), table: make([]token, 1<<10), index: map[threadKey]uint32{}}
	for i := range m.keys {
		m.keys[i] = maphash.Comparable(m.seed, i)
	}
	m.emit = m.add
	return m
}

// bytes is about what the memtable occupies.
func (m *memtable) bytes() int {
	return cap(m.arena) + 24*cap(m.table) + 8*cap(m.terms) + 28*(cap(m.lists[speech])+cap(m.lists[work])) +
		m.pages.bytes() + 8*cap(m.docs) + 96*len(m.threads) + 16*cap(m.ranges)
}

// stream returns the index of a stream, which is added if it is new.
func (m *memtable) stream(s record.StreamID) uint32 {
	i := slices.Index(m.streams, s)
	if i < 0 {
		i = len(m.streams)
		m.streams = append(m.streams, s)
	}
	return uint32(i)
}

// thread returns the index of what a stream holds of a session.
func (m *memtable) thread(stream uint32, harness, native string) uint32 {
	if l := &m.last; l.valid && l.stream == stream && l.native == native && l.harness == harness {
		return l.thread
	}
	id := record.SessionOf(m.streams[stream].Node, record.SessionKey{Harness: harness, Native: native})
	key := threadKey{id, stream}
	n, ok := m.index[key]
	if !ok {
		n = uint32(len(m.threads))
		m.index[key] = n
		m.threads = append(m.threads, thread{session: id, stream: stream})
	}
	m.last = lastThread{harness, native, stream, n, true}
	return n
}

// blank takes a doc number for an entry without text.
func (m *memtable) blank() { m.docs = append(m.docs, doc{thread: noThread}.pack()) }

// begin starts the next doc, text adds to it, and end completes it.
func (m *memtable) begin(kind int) { m.now, m.kind, m.size = uint32(len(m.docs))+1, kind, 0 }

func (m *memtable) text(s string) { m.cut.Each(s, m.emit) }

func (m *memtable) end(n uint32, role uint8) {
	m.countShort()
	t := &m.threads[n]
	m.docs = append(m.docs, doc{thread: n, place: t.turns[m.kind], role: role, size: m.size}.pack())
	t.turns[m.kind]++
	t.tokens[m.kind] += uint64(m.size)
}

// add files one token of the doc in hand. Short ones, whose first bytes are all
// of them, are gathered: looking many up in a row hides the latency of memory.
func (m *memtable) add(raw []byte) {
	m.size++
	if len(raw) > shortToken {
		m.count(m.termOf(headOf(raw), raw))
		return
	}
	m.short[m.shorts] = short{headOf(raw), uint32(len(raw))}
	if m.shorts++; m.shorts == len(m.short) {
		m.countShort()
	}
}

// countShort files the tokens that were gathered.
func (m *memtable) countShort() {
	for i := range m.short[:m.shorts] {
		s := &m.short[i]
		mask := uint64(len(m.table) - 1)
		at := m.hashShort(s.head, s.len) & mask
		for m.table[at].len != 0 && (m.table[at].head != s.head || m.table[at].len != s.len) {
			at = (at + 1) & mask
		}
		if m.table[at].len == 0 {
			var raw [shortToken]byte
			binary.LittleEndian.PutUint64(raw[:], s.head)
			m.count(m.learn(s.head, raw[:s.len]))
			continue
		}
		m.count(m.table[at].term)
	}
	m.shorts = 0
}

// count counts a term for the doc in hand.
func (m *memtable) count(term uint32) {
	l := &m.lists[m.kind][term]
	if l.doc == m.now {
		l.tf++
		return
	}
	m.pages.settle(l)
	l.doc, l.tf = m.now, 1
}

// termOf returns the term that a token is filed under.
func (m *memtable) termOf(head uint64, raw []byte) uint32 {
	mask := uint64(len(m.table) - 1)
	for i := m.hash(head, raw) & mask; ; i = (i + 1) & mask {
		t := &m.table[i]
		if t.len == 0 {
			return m.learn(head, raw)
		}
		if t.head == head && t.len == uint32(len(raw)) && (len(raw) <= shortToken || string(m.bytesOf(t.word)) == string(raw)) {
			return t.term
		}
	}
}

// headOf is the first eight bytes of a token as a number.
func headOf(raw []byte) uint64 {
	if len(raw) >= 8 {
		return binary.LittleEndian.Uint64(raw)
	}
	if cap(raw) >= 8 {
		return binary.LittleEndian.Uint64(raw[:8]) & (1<<(8*len(raw)) - 1)
	}
	var b [8]byte
	copy(b[:], raw)
	return binary.LittleEndian.Uint64(b[:])
}

func (m *memtable) hash(head uint64, raw []byte) uint64 {
	if len(raw) > shortToken {
		return maphash.Bytes(m.seed, raw)
	}
	return m.hashShort(head, uint32(len(raw)))
}

func (m *memtable) hashShort(head uint64, n uint32) uint64 {
	hi, lo := bits.Mul64(head^m.keys[0], m.keys[1]^uint64(n))
	return hi ^ lo
}

func (m *memtable) bytesOf(w word) []byte { return m.arena[w.at : w.at+w.len] }

// learn files a token that is met for the first time. Its stem is a token too,
// and a term is its own stem, so that all forms of a word lead to one term.
func (m *memtable) learn(head uint64, raw []byte) uint32 {
	t := token{head: head, word: word{uint32(len(m.arena)), uint32(len(raw))}}
	m.arena = append(m.arena, raw...)
	if s := string(raw); query.Stem(s) != s {
		stem := []byte(query.Stem(s))
		t.term = m.termOf(headOf(stem), stem)
	} else {
		t.term = uint32(len(m.terms))
		m.terms = append(m.terms, t.word)
		for k := range m.lists {
			m.lists[k] = append(m.lists[k], list{})
		}
	}
	if m.tokens++; 3*m.tokens > 2*len(m.table) {
		old := m.table
		m.table = make([]token, 2*len(old))
		for _, o := range old {
			if o.len > 0 {
				m.place(o)
			}
		}
	}
	m.place(t)
	return t.term
}

// place enters a token into the table.
func (m *memtable) place(t token) {
	mask := uint64(len(m.table) - 1)
	i := m.hash(t.head, m.bytesOf(t.word)) & mask
	for m.table[i].len != 0 {
		i = (i + 1) & mask
	}
	m.table[i] = t
}

// sorted returns the terms that have a list in the order of their bytes.
func (m *memtable) sorted() []uint32 {
	type row struct {
		prefix uint64 // the first eight bytes, which settle most comparisons
		term   uint32
	}
	rows := make([]row, 0, len(m.terms))
	for n, w := range m.terms {
		if m.lists[speech][n].doc != 0 || m.lists[work][n].doc != 0 {
			var b [8]byte
			copy(b[:], m.bytesOf(w))
			rows = append(rows, row{binary.BigEndian.Uint64(b[:]), uint32(n)})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if c := cmp.Compare(a.prefix, b.prefix); c != 0 {
			return c
		}
		return bytes.Compare(m.bytesOf(m.terms[a.term]), m.bytesOf(m.terms[b.term]))
	})
	order := make([]uint32, len(rows))
	for i, r := range rows {
		order[i] = r.term
	}
	return order
}
