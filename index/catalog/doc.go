// Package catalog is the view that knows: which sessions there are, which
// entries belong to each, which content the log holds already, and what was
// taken back. It is a fold over the logs, kept as immutable files of package
// shelf; FORMAT.md gives their layout.
//
// [View] is the writing side and answers the write gate's questions, with what
// is still in memory included. [Reader] is the reading side.
//
// A file is a partial aggregate over ranges of the logs: merging two files adds
// what they say of each session. Nothing depends on the order in which streams
// were folded, so incremental equals rebuild.
package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

const (
	// Name is the view's name on the shelf.
	Name = "catalog"
	// version goes up when the same entries give another file.
	version = 1
)

// The sections of a file.
const (
	secRanges   = "ranges"
	secDocs     = "docs"
	secCIDs     = "cids"
	secMIDs     = "mids"
	secSessions = "sessions"
	secData     = "data"
	secLists    = "lists"
	secDrops    = "drops"
	secTombs    = "tombs"
)

// Sizes of what has a fixed width, in bytes.
const (
	rangeSize   = 40
	docSize     = 16
	keySize     = 12 // short hash and doc
	sessionSize = 56
	dropSize    = 45
)

// The kinds of docs. They are on disk and may not change.
const (
	kindNone = 0 // no turn: metadata, a stub
	kindTurn = 1
	kindNote = 2
	kindPart = 3 // a later part of a turn whose text was split
)

// Roles as numbers within the view. They are on disk and may not change.
var roles = []record.Role{
	0: "", 1: record.RoleUser, 2: record.RoleAssistant, 3: record.RoleDeveloper, 4: record.RoleToolOutput,
	5: record.RoleFiles, 6: record.RoleCommand, 7: record.RoleEdit, 8: record.RoleSummary, 9: "other",
}

const roleOther = 9

func roleNumber(r record.Role) uint8 {
	for n, name := range roles {
		if n > 0 && name == r {
			return uint8(n)
		}
	}
	return roleOther
}

const (
	noSession = 1<<32 - 1
	noTime    = math.MinInt64
)

// doc is one entry as the view sees it.
type doc struct {
	session uint32 // ordinal within the file, noSession for none
	kind    uint8
	role    uint8
	time    int64 // Unix nanoseconds, noTime when unknown
}

func appendDoc(b []byte, d doc) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.session)
	b = append(b, d.kind, d.role, 0, 0)
	return binary.LittleEndian.AppendUint64(b, uint64(d.time))
}

func parseDoc(b []byte) doc {
	return doc{
		session: binary.LittleEndian.Uint32(b), kind: b[4], role: b[5],
		time: int64(binary.LittleEndian.Uint64(b[8:])),
	}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == noTime {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// docRange says that the docs from some number on are the entries from first on.
type docRange struct {
	stream record.StreamID
	first  record.Seq
	count  uint32
}

func (r docRange) next() record.Seq { return r.first + record.Seq(r.count) }

// extend adds count entries of a stream to the ranges, in the last one where
// they follow it.
func extend(rs []docRange, s record.StreamID, first record.Seq, count uint32) []docRange {
	if n := len(rs); n > 0 && rs[n-1].stream == s && rs[n-1].next() == first {
		rs[n-1].count += count
		return rs
	}
	return append(rs, docRange{s, first, count})
}

func appendStream(b []byte, s record.StreamID) []byte {
	return append(append(b, s.Node[:]...), s.Nonce[:]...)
}

func parseStream(b []byte) (s record.StreamID) {
	copy(s.Node[:], b)
	copy(s.Nonce[:], b[20:])
	return s
}

func appendRange(b []byte, r docRange) []byte {
	b = appendStream(b, r.stream)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.first))
	return binary.LittleEndian.AppendUint32(b, r.count)
}

func parseRange(b []byte) docRange {
	return docRange{parseStream(b), record.Seq(binary.LittleEndian.Uint64(b[28:])), binary.LittleEndian.Uint32(b[36:])}
}

// drop is a run of entries that a supersede takes back.
type drop struct {
	stream   record.StreamID
	from, to record.Seq
}

func appendDrop(b []byte, d drop) []byte {
	b = appendStream(b, d.stream)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.from))
	b = binary.LittleEndian.AppendUint64(b, uint64(d.to))
	return append(b, 0)
}

func parseDrop(b []byte) drop {
	return drop{parseStream(b), record.Seq(binary.LittleEndian.Uint64(b[28:])), record.Seq(binary.LittleEndian.Uint64(b[36:]))}
}

// key is one row of a sorted table from a short hash to a doc.
type key struct {
	hash uint64
	doc  uint32
}

func compareKeys(a, b key) int {
	switch {
	case a.hash != b.hash && a.hash < b.hash:
		return -1
	case a.hash != b.hash:
		return 1
	case a.doc < b.doc:
		return -1
	case a.doc > b.doc:
		return 1
	}
	return 0
}

func appendKey(b []byte, k key) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, k.hash), k.doc)
}

func parseKey(b []byte) key {
	return key{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])}
}

// midHash is the key of a harness's own message id.
func midHash(harness, mid string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{harness, "\x00", mid} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	return h ^ h>>29
}

func corrupt(f *shelf.File, what string) error {
	return fmt.Errorf("%s: %s: %w", f.Ref().Name, what, shelf.ErrCorrupt)
}
