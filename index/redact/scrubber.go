package redact

import (
	"maps"
	"strings"
)

// Version goes up when the same text would be scrubbed differently, so that
// what was stored before can be scrubbed again.
const Version = 1

// Options of a scrubber.
type Options struct {
	Disabled bool // pass text through; such a store must never leave the machine
}

// Scrubber replaces secrets by "[redacted:<kind>]" and leaves keys and prose
// alone. It is for one goroutine, and counts what it replaced.
//
// One scan over the text stops at anchors: bytes at which a rule can begin.
// A rule sees the text and the anchor, and says which bytes are secret. Its
// look-behind and look-ahead are bounded, so the time is linear.
type Scrubber struct {
	off    bool
	counts map[string]int
	total  int
}

// New makes a scrubber.
func New(o Options) *Scrubber { return &Scrubber{off: o.Disabled} }

// Counts returns how many secrets of each kind were replaced.
func (s *Scrubber) Counts() map[string]int { return maps.Clone(s.counts) }

// Take returns how many secrets were replaced since the last Take.
func (s *Scrubber) Take() int {
	n := s.total
	s.total = 0
	return n
}

// Scrub returns the text without its secrets. It is idempotent, and allocates
// nothing when there is none.
func (s *Scrubber) Scrub(text string) Text {
	if s.off {
		return Text{text}
	}
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		a := anchors[text[i]]
		if a == anchorNone || a == anchorWord && i > 0 && wordByte[text[i-1]] {
			i++
			continue
		}
		f := match(text, i, a)
		if f.kind == "" || f.from < done {
			i++
			continue
		}
		out.WriteString(text[done:f.from])
		out.WriteString("[redacted:" + f.kind + "]")
		done = f.to
		i = max(f.to, i+1)
		s.count(f.kind)
	}
	if done == 0 {
		return Text{text}
	}
	out.WriteString(text[done:])
	return Text{out.String()}
}

func (s *Scrubber) count(kind string) {
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[kind]++
	s.total++
}

// finding is a run of secret bytes; without a kind there is none.
type finding struct {
	kind     string
	from, to int
}

// The anchors.
const (
	anchorNone   = 0
	anchorWord   = 1 // the first byte of a token with a known prefix
	anchorAssign = 2 // between a name and a value
	anchorDash   = 3 // "-----BEGIN"
	anchorSpace  = 4 // before the value of "Bearer"
)

// anchors maps a byte to what can begin there. Both cases of a letter stand in
// the table, so that no lower-cased copy is needed.
var anchors = [256]uint8{
	'=': anchorAssign, ':': anchorAssign, '-': anchorDash, 'b': anchorWord, 'B': anchorWord,
	'A': anchorWord, 'E': anchorWord, 'S': anchorWord,
	'a': anchorWord, 'd': anchorWord, 'e': anchorWord, 'f': anchorWord, 'g': anchorWord, 'h': anchorWord, 'i': anchorWord,
	'k': anchorWord, 'l': anchorWord, 'n': anchorWord, 'p': anchorWord, 'r': anchorWord, 's': anchorWord, 't': anchorWord,
	'v': anchorWord, 'x': anchorWord, 'y': anchorWord,
}

// wordByte marks what a token may consist of.
var wordByte = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
	}
	return t
}()

// match asks the rules of an anchor.
func match(text string, i int, anchor uint8) finding {
	switch anchor {
	case anchorWord:
		return token(text, i)
	case anchorAssign:
		if strings.HasPrefix(text[i:], "://") {
			return credentials(text, i)
		}
		return assignment(text, i)
	case anchorDash:
		return privateKey(text, i)
	}
	return finding{}
}
