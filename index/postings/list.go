package postings

import (
	"encoding/binary"
)

// A posting says that a doc holds a term tf times. Encoded it is the distance
// from the doc before (from -1 for the first) and whether tf is more than 1, in
// one uvarint, and tf-2 in another where it is.

func appendPosting(b []byte, gap uint64, tf uint32) []byte {
	if tf == 1 {
		return binary.AppendUvarint(b, gap<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, gap<<1|1), uint64(tf-2))
}

// maxPosting is the longest encoding of a posting.
const maxPosting = 5 + 5

// list is a growing posting list of a memtable: encoded postings in chunks, the
// latest of them in buf, but for the last, which other tokens of its doc still
// change.
type list struct {
	buf    uint64 // encoded bytes that have no chunk yet, the first lowest
	head   uint32 // address of the first chunk, 0 while there is none
	at     uint32 // where the next byte goes
	doc    uint32 // of the last posting, plus 1; 0 while there is none
	before uint32 // of the one before it, plus 1
	tf     uint32
	size   uint16 // of the current chunk
	n      uint8  // bytes in buf
}

// lists are the lists of one kind, by term. They come in blocks, so that to
// have more of them moves none.
type lists struct{ blocks [][]list }

const listBlock = 1 << 10

func (l *lists) at(term uint32) *list {
	b := int(term / listBlock)
	for b >= len(l.blocks) {
		l.blocks = append(l.blocks, make([]list, listBlock))
	}
	return &l.blocks[b][term%listBlock]
}

func (l *lists) bytes() int { return len(l.blocks) * listBlock * 32 }

// Chunks double from the first to the largest size, so that a reader knows the
// size of each; the address of the next stands at the end of a chunk. They are
// aligned to their size, so that none crosses a page, and an address tells
// where its chunk ends.
const (
	firstChunk = 16
	maxChunk   = 4 << 10
	linkSize   = 4
	pageBits   = 18
	pageSize   = 1 << pageBits
)

// pages hold the chunks. An address is a page and an offset in it; 0 is none.
type pages struct {
	pages [][]byte
	used  uint32 // of the last page
}

func (p *pages) bytes() int { return len(p.pages) * pageSize }

func (p *pages) at(address uint32) []byte { return p.pages[address>>pageBits][address&(pageSize-1):] }

// room is how many bytes there are from an address to the link of its chunk.
func room(address uint32, size uint16) uint32 {
	return uint32(size) - linkSize - address&(uint32(size)-1)
}

// chunk takes the room of a chunk.
func (p *pages) chunk(size uint16) uint32 {
	at := (p.used + uint32(size) - 1) &^ (uint32(size) - 1)
	if len(p.pages) == 0 || at+uint32(size) > pageSize {
		at = 0
		if len(p.pages) == 0 {
			at = uint32(size) // no chunk has the address 0
		}
		p.pages = append(p.pages, make([]byte, pageSize))
	}
	p.used = at + uint32(size)
	return uint32(len(p.pages)-1)<<pageBits | at
}

// settle encodes the last posting of a list, to which nothing is added any more.
func (p *pages) settle(l *list) {
	if l.doc == 0 {
		return
	}
	gap := uint64(l.doc - l.before)
	l.before = l.doc
	if l.tf == 1 && gap < 1<<6 && l.n < 8 { // most of them
		l.buf |= gap << 1 << (8 * l.n)
		l.n++
		return
	}
	var room [maxPosting]byte
	for _, c := range appendPosting(room[:0], gap, l.tf) {
		if l.n == 8 {
			p.spill(l)
		}
		l.buf |= uint64(c) << (8 * l.n)
		l.n++
	}
}

// spill writes what is in buf to the chunks.
func (p *pages) spill(l *list) {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], l.buf)
	for b := bytes[:l.n]; len(b) > 0; {
		if l.head == 0 || room(l.at, l.size) == 0 {
			p.grow(l)
		}
		n := copy(p.at(l.at)[:room(l.at, l.size)], b)
		l.at += uint32(n)
		b = b[n:]
	}
	l.buf, l.n = 0, 0
}

// grow gives a list its next chunk.
func (p *pages) grow(l *list) {
	if l.head == 0 {
		l.size = firstChunk
		l.head = p.chunk(l.size)
		l.at = l.head
		return
	}
	l.size = min(2*l.size, maxChunk)
	next := p.chunk(l.size)
	binary.LittleEndian.PutUint32(p.at(l.at), next)
	l.at = next
}

// collect appends the encoded list, the last posting included.
func (p *pages) collect(b []byte, l *list) []byte {
	if l.doc == 0 {
		return b
	}
	for a, size := l.head, uint16(firstChunk); a != 0; size = min(2*size, maxChunk) {
		if a&^uint32(size-1) == l.at&^uint32(size-1) && size == l.size {
			b = append(b, p.at(a)[:l.at-a]...)
			break
		}
		b = append(b, p.at(a)[:size-linkSize]...)
		a = binary.LittleEndian.Uint32(p.at(a + uint32(size) - linkSize))
	}
	for i := range l.n {
		b = append(b, byte(l.buf>>(8*i)))
	}
	return appendPosting(b, uint64(l.doc-l.before), l.tf)
}
