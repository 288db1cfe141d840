package sources

import (
	"encoding/binary"
	"time"

	"github.com/deja-node/deja/sources/jsonl"
)

// Mark says how far a file has been read, and what reading on needs to know.
// It is opaque; nil stands for nothing.
type Mark []byte

// The layout of a mark, all integers big endian: version, flags, extractor
// version (2 bytes), then eight bytes each of offset, size, modification and
// change time in nanoseconds, device, inode, then the prefix sum (8), the tail
// (16) and the decoder's state to the end. The values may never change.
const (
	markVersion   = 1
	markHeader    = 4 + 6*8 + 8 + 16
	flagPending   = 1 << 0 // a call waits for its result
	flagNoAgents  = 1 << 1 // sessions of sub-agents were left out
	flagsOfReader = flagNoAgents
)

// mark is a Mark taken apart.
type mark struct {
	flags   byte
	version uint16 // of the extractor
	at      jsonl.Position
	size    int64 // of what was read, a torn last line included
	stat    File  // Modified, Changed and ID when it was read
	state   []byte
}

// Pending reports whether a settled decode would yield something more of the
// same bytes.
func (m Mark) Pending() bool { return len(m) >= markHeader && m[1]&flagPending != 0 }

// Size returns how many bytes the file had when the mark was made, an
// unfinished last line included.
func (m Mark) Size() int64 {
	p, _ := parseMark(m)
	return p.size
}

// Touched returns the mark for a file whose content was found to be the same
// under another stat, so that the next glance is content with the stat.
func (m Mark) Touched(f File) Mark {
	p, ok := parseMark(m)
	if !ok || p.size != f.Size {
		return m
	}
	p.stat = f
	return p.mark()
}

func (p mark) mark() Mark {
	m := make(Mark, 0, markHeader+len(p.state))
	m = append(m, markVersion, p.flags)
	m = binary.BigEndian.AppendUint16(m, p.version)
	for _, v := range [...]uint64{uint64(p.at.Offset), uint64(p.size), nanos(p.stat.Modified), nanos(p.stat.Changed), p.stat.ID.Dev, p.stat.ID.Ino} {
		m = binary.BigEndian.AppendUint64(m, v)
	}
	m = binary.BigEndian.AppendUint32(m, p.at.Sum.Castagnoli)
	m = binary.BigEndian.AppendUint32(m, p.at.Sum.IEEE)
	m = append(m, p.at.Tail[:]...)
	return append(m, p.state...)
}

func parseMark(m Mark) (mark, bool) {
	var p mark
	if len(m) < markHeader || m[0] != markVersion {
		return p, false
	}
	u64 := func(i int) uint64 { return binary.BigEndian.Uint64(m[4+8*i:]) }
	p.flags, p.version = m[1], binary.BigEndian.Uint16(m[2:])
	p.at.Offset, p.size = int64(u64(0)), int64(u64(1))
	p.stat = File{Size: p.size, Modified: fromNanos(u64(2)), Changed: fromNanos(u64(3)), ID: FileID{Dev: u64(4), Ino: u64(5)}}
	p.at.Sum.Castagnoli = binary.BigEndian.Uint32(m[52:])
	p.at.Sum.IEEE = binary.BigEndian.Uint32(m[56:])
	copy(p.at.Tail[:], m[60:])
	p.state = m[markHeader:]
	return p, p.at.Offset >= 0 && p.size >= 0
}

func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func fromNanos(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n))
}
