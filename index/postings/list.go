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

// list is a growing posting list of a memtable: encoded postings in chunks,
// but for the last, which other tokens of its doc still change.
type list struct {
	head   uint32 // address of the first chunk, 0 while there is none
	at     uint32 // where the next posting goes
	end    uint32 // of the current chunk; the address of the next stands there
	doc    uint32 // of the last posting, plus 1; 0 while there is none
	before uint32 // of the one before it, plus 1
	tf     uint32
	size   uint32 // of the current chunk
}

// Chunks double from the first to the largest size, so that a reader knows the
// size of each. None crosses a page.
const (
	firstChunk = 12
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

// chunk takes the room of a chunk of size bytes and its link.
func (p *pages) chunk(size uint32) uint32 {
	if len(p.pages) == 0 || p.used+size+linkSize > pageSize {
		p.used = 0
		if len(p.pages) == 0 {
			p.used = 1 // no chunk has the address 0
		}
		p.pages = append(p.pages, make([]byte, pageSize))
	}
	address := uint32(len(p.pages)-1)<<pageBits | p.used
	p.used += size + linkSize
	return address
}

// settle encodes the last posting of a list, to which nothing is added any more.
func (p *pages) settle(l *list) {
	if l.doc == 0 {
		return
	}
	var room [maxPosting]byte
	b := appendPosting(room[:0], uint64(l.doc-l.before), l.tf)
	l.before = l.doc
	for len(b) > 0 {
		if l.at == l.end {
			p.grow(l)
		}
		n := copy(p.at(l.at)[:l.end-l.at], b)
		l.at += uint32(n)
		b = b[n:]
	}
}

// grow gives a list its next chunk.
func (p *pages) grow(l *list) {
	if l.head == 0 {
		l.size = firstChunk
		l.head = p.chunk(l.size)
		l.at = l.head
	} else {
		l.size = min(2*l.size, maxChunk)
		next := p.chunk(l.size)
		binary.LittleEndian.PutUint32(p.at(l.end), next)
		l.at = next
	}
	l.end = l.at + l.size
}

// collect appends the encoded list, the last posting included.
func (p *pages) collect(b []byte, l *list) []byte {
	if l.doc == 0 {
		return b
	}
	for a, size := l.head, uint32(firstChunk); a != 0; size = min(2*size, maxChunk) {
		if a+size == l.end {
			b = append(b, p.at(a)[:l.at-a]...)
			break
		}
		b = append(b, p.at(a)[:size]...)
		a = binary.LittleEndian.Uint32(p.at(a + size))
	}
	return appendPosting(b, uint64(l.doc-l.before), l.tf)
}
