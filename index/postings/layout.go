package postings

import (
	"cmp"
	"encoding/binary"
	"math/bits"

	"github.com/deja-node/deja/index/record"
)

// The sections of a file, and the sizes of their rows. FORMAT.md explains them;
// none may change without another version.
const (
	secStreams = "streams"
	secRanges  = "ranges"
	secThreads = "threads"
	secDocs    = "docs"
	secLists   = "lists"
	secTerms   = "terms"
	secBlocks  = "blocks"

	streamSize = 28
	rangeSize  = 16
	threadSize = 36
	docSize    = 8
	blockSize  = 16
	blockTerms = 32 // terms of one block
)

func appendStream(b []byte, s record.StreamID) []byte {
	return append(append(b, s.Node[:]...), s.Nonce[:]...)
}

func parseStream(b []byte) (s record.StreamID) {
	copy(s.Node[:], b)
	copy(s.Nonce[:], b[len(s.Node):])
	return s
}

// docRange says that count docs are the entries of a stream from first on. The
// stream is an index into the file's table.
type docRange struct {
	stream uint32
	count  uint32
	first  record.Seq
}

// extend adds count entries of a stream to the ranges, to the last one where
// they follow it.
func extend(rs []docRange, r docRange) []docRange {
	if n := len(rs); n > 0 && rs[n-1].stream == r.stream && rs[n-1].first+record.Seq(rs[n-1].count) == r.first {
		rs[n-1].count += r.count
		return rs
	}
	return append(rs, r)
}

func appendRange(b []byte, r docRange) []byte {
	b = binary.LittleEndian.AppendUint32(b, r.stream)
	b = binary.LittleEndian.AppendUint32(b, r.count)
	return binary.LittleEndian.AppendUint64(b, uint64(r.first))
}

func parseRange(b []byte) docRange {
	return docRange{
		stream: binary.LittleEndian.Uint32(b),
		count:  binary.LittleEndian.Uint32(b[4:]),
		first:  record.Seq(binary.LittleEndian.Uint64(b[8:])),
	}
}

// thread is what one stream holds of one session: how many turns, and how many
// tokens in them, by kind.
type thread struct {
	session record.SessionID
	stream  uint32
	turns   [kinds]uint32
	tokens  [kinds]uint64
}

func (t thread) compare(o thread) int {
	return cmp.Or(cmp.Compare(t.session, o.session), cmp.Compare(t.stream, o.stream))
}

func appendThread(b []byte, t thread) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(t.session))
	b = binary.LittleEndian.AppendUint32(b, t.stream)
	for k := range kinds {
		b = binary.LittleEndian.AppendUint32(b, t.turns[k])
	}
	for k := range kinds {
		b = binary.LittleEndian.AppendUint64(b, t.tokens[k])
	}
	return b
}

func parseThread(b []byte) thread {
	return thread{
		session: record.SessionID(binary.LittleEndian.Uint64(b)),
		stream:  binary.LittleEndian.Uint32(b[8:]),
		turns:   [kinds]uint32{binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])},
		tokens:  [kinds]uint64{binary.LittleEndian.Uint64(b[20:]), binary.LittleEndian.Uint64(b[28:])},
	}
}

const (
	noThread = 1<<24 - 1 // of a doc without text
	maxPlace = 1<<24 - 1
)

// doc is one entry as the view sees it.
type doc struct {
	thread uint32 // index into the file's table
	place  uint32 // among the turns of its kind in the thread, modulo 2^24
	role   uint8
	size   uint32 // tokens, about
}

func (d doc) pack() uint64 {
	return uint64(d.place&maxPlace)<<40 | uint64(d.thread)<<16 | uint64(d.role)<<12 | packSize(d.size)
}

func unpack(w uint64) doc {
	return doc{
		place:  uint32(w >> 40),
		thread: uint32(w>>16) & noThread,
		role:   uint8(w >> 12 & 0xf),
		size:   unpackSize(w & 0xfff),
	}
}

// packSize keeps the nine upper bits of a number and how many follow them, in
// twelve bits.
func packSize(n uint32) uint64 {
	shift := max(bits.Len32(n)-9, -1) + 1
	if shift == 0 {
		return uint64(n)
	}
	if shift > 15 {
		return 0xfff
	}
	return uint64(shift)<<8 | uint64(n>>(shift-1))&0xff
}

func unpackSize(w uint64) uint32 {
	shift := w >> 8
	if shift == 0 {
		return uint32(w)
	}
	return uint32((w&0xff | 0x100) << (shift - 1))
}
