// Package postings is the view that finds: which entries hold which words. It
// is a fold over the logs, kept as immutable files of package shelf that are
// read in place; FORMAT.md gives their layout.
//
// [View] is the writing side: it folds entries into memory, and Flush turns
// that into a file and merges small files into larger ones. [Reader] is the
// reading side: [Reader.Search] ranks sessions for a query.
//
// Every entry of a covered range of a log is a doc, numbered within its file
// in the order of the ranges, so a doc tells its place in the log. Words of
// speech and words of work records are filed apart: an ordinary search reads
// the first lists only.
package postings

import (
	"encoding/binary"
	"fmt"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

const (
	// Name is the view's name on the shelf.
	Name = "postings"
	// version goes up when the same entries give another file.
	version = 1
)

// The sections of a file.
const (
	secRanges   = "ranges"
	secSessions = "sessions"
	secDocs     = "docs"
	secTerms    = "terms"
	secBlocks   = "blocks"
	secLists    = "lists"
)

// Sizes of what has a fixed width, in bytes.
const (
	rangeSize   = 40
	sessionSize = 8
	docSize     = 8
	blockSize   = 16
	blockTerms  = 16 // terms of one block
)

// Roles as numbers within the view. They are on disk and may not change.
const (
	roleNone       = 0 // no text: metadata, a stub
	roleUser       = 1
	roleAssistant  = 2
	roleDeveloper  = 3
	roleToolOutput = 4
	roleFiles      = 5
	roleCommand    = 6
	roleEdit       = 7
	roleSummary    = 8
	roleOther      = 9  // one this version does not know; counts as speech
	roleNote       = 10 // an explicit note
)

var roleNumbers = map[record.Role]uint8{
	record.RoleUser: roleUser, record.RoleAssistant: roleAssistant, record.RoleDeveloper: roleDeveloper,
	record.RoleToolOutput: roleToolOutput, record.RoleFiles: roleFiles, record.RoleCommand: roleCommand,
	record.RoleEdit: roleEdit, record.RoleSummary: roleSummary, record.RoleMeta: roleNone,
}

func roleNumber(e *record.Entry) uint8 {
	if e.Kind == record.KindNote {
		return roleNote
	}
	if n, ok := roleNumbers[e.Role]; ok {
		return n
	}
	return roleOther
}

// isWork reports whether a role's words are filed with the work records.
func isWork(role uint8) bool { return role >= roleToolOutput && role <= roleSummary }

// isSpeech reports whether an ordinary search serves a role.
func isSpeech(role uint8) bool { return role != roleNone && !isWork(role) }

const (
	noSession = 1<<32 - 1
	maxSize   = 1<<24 - 1
)

// doc is one entry as the view sees it.
type doc struct {
	session uint32 // ordinal within the file, noSession for none
	role    uint8
	size    uint32 // tokens, at most maxSize
}

func appendDoc(b []byte, d doc) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.session)
	return binary.LittleEndian.AppendUint32(b, uint32(d.role)<<24|min(d.size, maxSize))
}

func parseDoc(b []byte) doc {
	w := binary.LittleEndian.Uint32(b[4:])
	return doc{session: binary.LittleEndian.Uint32(b), role: uint8(w >> 24), size: w & maxSize}
}

// docRange says that the docs from start on are the entries from first on.
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

func appendRange(b []byte, r docRange) []byte {
	b = append(b, r.stream.Node[:]...)
	b = append(b, r.stream.Nonce[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.first))
	return binary.LittleEndian.AppendUint32(b, r.count)
}

func parseRange(b []byte) docRange {
	var r docRange
	copy(r.stream.Node[:], b)
	copy(r.stream.Nonce[:], b[20:])
	r.first = record.Seq(binary.LittleEndian.Uint64(b[28:]))
	r.count = binary.LittleEndian.Uint32(b[36:])
	return r
}

func corrupt(f *shelf.File, what string) error {
	return fmt.Errorf("%s: %s: %w", f.Ref().Name, what, shelf.ErrCorrupt)
}
