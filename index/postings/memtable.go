package postings

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
)

// memtable is what was applied since the last flush.
type memtable struct {
	cut   query.Tokenizer
	emit  func([]byte) // bound once, so that no closure is made per text
	words vocabulary
	lists [kinds]lists // of each term
	pages pages

	docs    []uint64 // packed
	ranges  []docRange
	streams []record.StreamID
	threads []thread // in the order in which they came
	index   map[threadKey]uint32
	last    lastThread

	now  uint32 // the doc in hand plus 1
	kind int
	size uint32 // tokens of the doc in hand

	short  [512]uint64 // keys of tokens of the doc in hand that are not filed yet
	shorts int
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
	m := &memtable{words: newVocabulary(), index: map[threadKey]uint32{}}
	m.emit = m.add
	return m
}

// bytes is about what the memtable occupies.
func (m *memtable) bytes() int {
	return m.words.bytes() + m.lists[speech].bytes() + m.lists[work].bytes() + m.pages.bytes() +
		8*cap(m.docs) + 96*len(m.threads) + 16*cap(m.ranges)
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

// add files one token of the doc in hand. Short ones are gathered first: to
// look many up in a row hides the latency of memory.
func (m *memtable) add(raw []byte) {
	m.size++
	if len(raw) > shortToken {
		m.count(m.words.long(raw))
		return
	}
	m.short[m.shorts] = keyOf(raw)
	if m.shorts++; m.shorts == len(m.short) {
		m.countShort()
	}
}

// countShort files the tokens that were gathered.
func (m *memtable) countShort() {
	for _, key := range m.short[:m.shorts] {
		m.count(m.words.short(key))
	}
	m.shorts = 0
}

// count counts a term for the doc in hand.
func (m *memtable) count(term uint32) {
	l := m.lists[m.kind].at(term)
	if l.doc == m.now {
		l.tf++
		return
	}
	m.pages.settle(l)
	l.doc, l.tf = m.now, 1
}

// sorted returns the terms that have a list in the order of their bytes.
func (m *memtable) sorted() []uint32 {
	type row struct {
		prefix uint64 // the first eight bytes, which settle most comparisons
		term   uint32
	}
	rows := make([]row, 0, len(m.words.terms))
	for n := range uint32(len(m.words.terms)) {
		if m.lists[speech].at(n).doc != 0 || m.lists[work].at(n).doc != 0 {
			var b [8]byte
			copy(b[:], m.words.term(n))
			rows = append(rows, row{binary.BigEndian.Uint64(b[:]), n})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if c := cmp.Compare(a.prefix, b.prefix); c != 0 {
			return c
		}
		return bytes.Compare(m.words.term(a.term), m.words.term(b.term))
	})
	order := make([]uint32, len(rows))
	for i, r := range rows {
		order[i] = r.term
	}
	return order
}
