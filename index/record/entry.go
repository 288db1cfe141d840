package record

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/deja-node/deja/index/redact"
)

// Role says who or what produced a turn. Roles are strings in the log;
// unknown ones are kept and shown as they are.
type Role string

// The roles that deja itself writes.
const (
	RoleUser       Role = "user"
	RoleAssistant  Role = "assistant"
	RoleDeveloper  Role = "developer"
	RoleToolOutput Role = "tool-output"
	RoleFiles      Role = "files"
	RoleCommand    Role = "command"
	RoleEdit       Role = "edit"
	RoleSummary    Role = "summary"
	RoleMeta       Role = "meta" // an entry without speech; older readers drop it as blank
)

// Speech reports whether an ordinary search serves the role. Work records
// (tool output, files, commands, edits) and digests are served when asked for.
func (r Role) Speech() bool {
	switch r {
	case RoleToolOutput, RoleFiles, RoleCommand, RoleEdit, RoleSummary, RoleMeta:
		return false
	}
	return true
}

// Kind says what an entry is. Unknown kinds are stored and relayed, and never interpreted.
type Kind string

// The kinds of entries.
const (
	KindMsg       Kind = "msg"       // one turn of a session
	KindNote      Kind = "note"      // an explicit note: role user, harness deja
	KindSession   Kind = "session"   // metadata of a session; the newest in log order wins
	KindSupersede Kind = "supersede" // drops entries that a rewind or a better redaction replaced
	KindTomb      Kind = "tomb"      // forgets
	KindUntomb    Kind = "untomb"    // takes a tomb back
	KindClaim     Kind = "claim"     // reserved for the per-repo memory
	KindCard      Kind = "card"      // a node card
	KindStub      Kind = "stub"      // in memory only: an entry whose line was replaced by its leaf hash
)

// Turn is one raw turn of a transcript, as its source decoded it. It may hold
// secrets: it is never stored, logged or sent.
type Turn struct {
	Session string    // native session id
	Role    Role      //
	Time    time.Time // UTC; zero when unknown
	Text    string    //
	Native  string    // the harness's own message id, if it has one
	Exit    *int      // exit status of a command, where known
}

// Session is the raw metadata of a session, as its source decoded it.
type Session struct {
	Harness string
	Native  string
	Cwd     string
	Branch  string
	Model   string
	Title   string
	Parent  string // native id of the parent session
	Kind    string // "", "subagent" or "fork"
	Agent   string
	Source  string // path of the transcript, home-relative where it lies in the home
	Project string // set by the project rule; a source may leave a guess
	Guessed bool   // Project is a guess from a folder's name
	Remote  string // repository remote URL, scheme and user dropped
	Root    string // root commit of the repository
	Started time.Time
	Updated time.Time
}

// Entry is one line of a log. Every text in it is scrubbed. Fields that do not
// belong to the kind are zero; FORMAT.md of package batch gives the JSON name
// and the meaning of each.
type Entry struct {
	Kind    Kind
	Harness string
	Session string
	Project redact.Text
	Role    Role
	Text    redact.Text
	Time    time.Time // UTC, zero when unknown; display only, never used for progress
	Origin  string    // the origin's name for itself; a label, not an identity
	Salt    [8]byte   // keeps a stub's hash from confirming a guess of short text
	N       int       // counts repeats of one (session, role, time, text), from 0
	Mid     string    // the harness's own message id
	Exit    *int
	Part    int // 1-based part of a record whose text was split, 0 when whole
	Parts   int

	Meta   *SessionMeta // kind session
	Note   *NoteMeta    // kind note
	Drop   *Drop        // kinds supersede, tomb, untomb
	For    string       // cid of what a replacement stands for, on msg entries after a supersede
	Stub   *Stub        // kind stub
	Raw    []byte       // unknown kinds, claims and cards: the line itself
	Line   int          // length of the encoded line in bytes, set by the decoder
	Source StreamID     // stream the entry was read from, set by readers
	Seq    Seq          // position in it, set by readers
}

// SessionMeta is what a session entry carries.
type SessionMeta struct {
	Title, Cwd, Root, Branch, Model redact.Text
	Remote                          redact.Text
	Kind, Parent, Agent             string
	Source                          redact.Text // the harness's path, home-relative
	Started                         time.Time
	Gone                            bool // the transcript has vanished; the log keeps the session
}

// NoteMeta is what a note entry carries beside its text.
type NoteMeta struct {
	State   string // accepted, rejected, superseded or stale; empty for a plain note
	Tags    []string
	Of      string // promoted notes: provenance "harness:native id"
	Title   redact.Text
	Evident time.Time // promoted notes: last activity of the source session
}

// Range names the entries From to To, both included, of a stream.
type Range struct {
	Stream   StreamID
	From, To Seq
}

// Drop says which entries a supersede or a tomb removes, or which tombs an
// untomb cancels.
type Drop struct {
	ID      string  // of a tomb
	Ranges  []Range // entries known by position
	CIDs    []CID   // entries whose position is unknown to the dropper
	Session *SessionKey
	Project string
	Before  time.Time
	Erase   int    // tomb: 0 removes the bytes at once, else after so many days
	Why     string // "user", "rewind", "redaction"
	Reach   string
	Cancels []string // untomb
}

// Stub stands in for an entry that was withheld or forgotten.
type Stub struct {
	Reason string // "withheld" or "forgotten"
	Leaf   Hash
}

// Text limits of one entry.
const (
	MaxText = 1 << 20 // bytes of text in one entry; longer records are split into parts
	MaxLine = 8 << 20 // bytes of one encoded line that a reader accepts
)

// Reasons why a stub stands where an entry was.
const (
	Withheld  = "withheld"  // policy keeps it from this node
	Forgotten = "forgotten" // a tomb removed it
	Damaged   = "damaged"   // the disk lost it; set by readers, never stored or sent
)

// StoredText returns a string as a log keeps it: valid UTF-8, with U+FFFD in
// the place of every run of bytes that are not.
func StoredText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// The years that a log keeps. The nanoseconds since 1970 of every moment in
// them fit 64 bits.
const (
	minYear = 1700
	maxYear = 2261
)

// StoredTime returns a time as a log keeps it: UTC without a monotonic clock,
// and zero when it lies outside of the years 1700 to 2261.
func StoredTime(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if y := t.Year(); y < minYear || y > maxYear {
		return time.Time{}
	}
	return t
}

// CID computes the content id that every node derives alike: SHA-256 over
// "deja-cid-1" and the length-prefixed harness, session, role, time (UTC
// nanoseconds since 1970, eight bytes; 0 when unknown), n, part and text, all
// as a log keeps them. It holds no node id, so that copies of one record on
// two machines collapse.
func (e *Entry) CID() CID {
	buf := cidBuffers.Get().(*[]byte) //nolint:errcheck // the pool holds nothing else
	b := append((*buf)[:0], "deja-cid-1"...)
	b = appendField(b, e.Harness)
	b = appendField(b, e.Session)
	b = appendField(b, string(e.Role))
	var at uint64
	if t := StoredTime(e.Time); !t.IsZero() {
		at = uint64(t.UnixNano())
	}
	b = binary.BigEndian.AppendUint64(b, at)
	b = binary.BigEndian.AppendUint64(b, uint64(e.N))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Part))
	b = appendField(b, e.Text.String())
	c := CID(sha256.Sum256(b))
	if cap(b) <= maxPooled {
		*buf = b
		cidBuffers.Put(buf)
	}
	return c
}

// cidBuffers holds the buffers in which the fields of an id are laid out, so
// that an id costs one pass of the hash and no allocation.
var cidBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 64 << 10

func appendField(b []byte, s string) []byte {
	s = StoredText(s)
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
