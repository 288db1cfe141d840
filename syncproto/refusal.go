package syncproto

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/deja-node/deja/index/record"
)

// Code classifies a refusal on the wire. Codes that a node does not know are
// treated like [CodeInternal].
type Code string

// The codes of version 2.
const (
	CodeVersion     Code = "E_VERSION"      // no common version
	CodeAuth        Code = "E_AUTH"         // the node key was not proved
	CodeNodeChanged Code = "E_NODE_CHANGED" // another node answers than the one expected
	CodePolicy      Code = "E_POLICY"       // the policy does not allow it
	CodeFork        Code = "E_FORK"         // two histories claim one place in a stream
	CodeBatch       Code = "E_BATCH"        // a batch that does not verify
	CodeQuota       Code = "E_QUOTA"        // an origin sends more than it may
	CodeLimit       Code = "E_LIMIT"        // a limit of the protocol
	CodeBusy        Code = "E_BUSY"         // try later
	CodeFrame       Code = "E_FRAME"        // bytes that are not of this protocol
	CodeInternal    Code = "E_INTERNAL"     // a fault of the side that says so
)

// Refusal says why a node does not take or give something. With a stream it
// concerns that stream alone and the exchange goes on; without, it ends the
// exchange.
type Refusal struct {
	Code    Code
	Stream  record.StreamID // zero when it ends the exchange
	Msg     string
	Retry   time.Duration // when to try again, 0 when the refuser does not know
	Headers [][]byte      // [CodeFork]: the two signed headers, the refuser's own first
	Remote  bool          // said by the peer; Msg is then its text, made harmless
}

// Error implements error.
func (r *Refusal) Error() string {
	var b strings.Builder
	if r.Remote {
		b.WriteString("the peer refuses: ")
	}
	if !r.Stream.IsZero() {
		fmt.Fprintf(&b, "stream %s: ", r.Stream)
	}
	if r.Msg != "" {
		b.WriteString(r.Msg)
		b.WriteString(" ")
	}
	fmt.Fprintf(&b, "(%s)", r.Code)
	return b.String()
}

// Permanent reports whether trying again cannot help until somebody changes
// something on one of the nodes.
func (r *Refusal) Permanent() bool {
	switch r.Code {
	case CodeVersion, CodeAuth, CodeNodeChanged, CodePolicy, CodeFork, CodeLimit:
		return true
	}
	return false
}

// ErrCut says that the link ended before the exchange was complete. What was
// accepted is kept; trying again resumes at the next batch.
var ErrCut = errors.New("the link was cut before the exchange was complete")

// refuse makes the refusal that ends an exchange.
func refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Limits of what a peer can make us print.
const (
	maxName  = 120 // runes of a name
	maxWords = 300 // runes of a message
)

// harmless flattens text of a peer for people to read: control, format and
// invalid characters become spaces, runs of them one, at most limit runes.
func harmless(s string, limit int) string {
	var b strings.Builder
	n, gap := 0, false
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) {
			r = ' '
		}
		if r == ' ' {
			gap = true
			continue
		}
		if gap && n > 0 {
			b.WriteByte(' ')
			n++
		}
		gap = false
		if n >= limit {
			return b.String()
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}
