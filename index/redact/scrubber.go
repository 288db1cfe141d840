package redact

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options say how to scrub.
type Options struct {
	// Disabled lets every text through as it is. It is the user's own decision
	// (DEJA_NO_REDACT=1) and unsafe: credentials are then stored and sent.
	Disabled bool
}

// Scrubber turns raw text into [Text] and counts what it took out. It is cheap
// to make and not safe for concurrent use.
type Scrubber struct {
	*tables
	off    bool
	counts map[string]int

	// The round in progress.
	text     string
	rule     uint16 // that runs now
	pass     int    // where the scan goes on, when a rule has passed over text
	found    []span
	first    int  // of the spans of this scan
	command  span // the last command line that was split
	memo     [setCount]memo
	document int // where the last Kubernetes document ended
	steps    int // bytes looked at since the scrubber was made
	view     view
}

// span is what a rule found: the bytes from lo to hi are secret.
type span struct {
	lo, hi int
	rule   uint16
}

// maxRounds bounds how often a text is scrubbed anew because what was taken
// out laid open something else. Two rounds are the rule, the second of which
// finds nothing.
const maxRounds = 8

// kindUnstable stands for a whole text that still yields secrets after
// maxRounds: one that somebody made for this purpose.
const kindUnstable = "unstable-text"

// New returns a scrubber.
func New(o Options) *Scrubber {
	return &Scrubber{tables: shared(), off: o.Disabled, counts: map[string]int{}}
}

// Scrub returns the text with its secrets replaced by "[redacted:kind]".
func (s *Scrubber) Scrub(text string) Text {
	if s.off {
		return Text{text}
	}
	defer func() { s.text, s.view.text = "", "" }() // a scrubber must not keep texts alive
	for range maxRounds {
		s.search(text)
		if len(s.found) == 0 {
			return Text{text}
		}
		text = s.replace(text)
	}
	s.counts[kindUnstable]++
	return Text{"[redacted:" + kindUnstable + "]"}
}

// search fills s.found with the secrets of the text, in order and without
// overlap.
func (s *Scrubber) search(text string) {
	s.found = s.found[:0]
	s.scan(text)
	if s.view.strip(text) {
		s.steps += len(text)
		raw := len(s.found)
		s.scan(s.view.text)
		for i := raw; i < len(s.found); i++ {
			f := &s.found[i]
			f.lo, f.hi = s.view.raw(f.lo), s.view.raw(f.hi-1)+1
		}
	}
	if len(s.found) > 1 {
		s.resolve()
	}
}

// resolve sorts the spans (leftmost, then longest, then the order of the
// rules) and joins those that overlap under the name of the first: nothing
// that any rule took for a secret survives.
func (s *Scrubber) resolve() {
	slices.SortFunc(s.found, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi), cmp.Compare(a.rule, b.rule))
	})
	kept := s.found[:1]
	for _, f := range s.found[1:] {
		if last := &kept[len(kept)-1]; f.lo < last.hi {
			last.hi = max(last.hi, f.hi)
		} else {
			kept = append(kept, f)
		}
	}
	s.found = kept
}

// replace takes the spans out of the text and counts them.
func (s *Scrubber) replace(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 16*len(s.found))
	at := 0
	for _, f := range s.found {
		kind := s.rules[f.rule].kind
		s.counts[kind]++
		b.WriteString(text[at:f.lo])
		b.WriteString("[redacted:")
		b.WriteString(kind)
		b.WriteByte(']')
		at = f.hi
	}
	b.WriteString(text[at:])
	return b.String()
}

// mark reports the bytes from lo to hi as secret, for the rule that runs now.
func (s *Scrubber) mark(lo, hi int) {
	for lo > 0 && lo < hi && !utf8.RuneStart(s.text[lo]) {
		lo--
	}
	for hi > lo && hi < len(s.text) && !utf8.RuneStart(s.text[hi]) {
		hi++
	}
	if lo < hi {
		s.found = append(s.found, span{lo, hi, s.rule})
	}
}

// Counts returns how many secrets of each kind were taken out since the
// scrubber was made, or since [Scrubber.Take].
func (s *Scrubber) Counts() map[string]int { return maps.Clone(s.counts) }

// Take returns the counts and begins at zero again.
func (s *Scrubber) Take() map[string]int {
	taken := s.counts
	s.counts = map[string]int{}
	return taken
}
