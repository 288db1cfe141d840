package redact

import (
	"math/bits"
	"sync"
)

// The scan folds every byte to one of 64 classes and looks the last three up
// in a bitmap of the grams with which anchors begin. Letters, digits and the
// marks that secrets are written with have a class of their own, either case
// the same; the rest share.
const (
	classBits = 6
	gramBits  = 3 * classBits
	gramMask  = 1<<gramBits - 1
	headBits  = 10
	stride    = 16 // a run of opaqueMin bytes has one at a multiple of it
	opaqueMin = 20 // runs shorter than this are nobody's secret without a name
)

// tables is what all scrubbers share: built once, on first use.
type tables struct {
	class   [256]uint8
	sets    [256]set
	filter  [1 << gramBits / 64]uint64
	head    [1 << headBits]uint16 // first anchor of a gram's chain, 0 for none
	anchors []anchor              // anchors[0] is unused
	rules   []*rule
	runs    []uint16 // rules for long runs
}

type anchor struct {
	word   string
	gram   uint32
	rule   uint16
	next   uint16
	offset uint8 // of the gram in the word
}

var shared = sync.OnceValue(buildTables)

func buildTables() *tables {
	t := &tables{anchors: make([]anchor, 1, 640), rules: make([]*rule, 0, 320)}
	for i := range 256 {
		t.class[i], t.sets[i] = class(byte(i)), members(byte(i))
	}
	for _, family := range families() {
		for i := range family {
			t.rules = append(t.rules, &family[i])
		}
	}
	for i := len(t.rules) - 1; i >= 0; i-- {
		r := t.rules[i]
		for _, w := range r.words() {
			t.add(w, uint16(i))
		}
		if r.shape == "" && r.anchors == nil {
			t.runs = append(t.runs, uint16(i))
		}
	}
	return t
}

// add enters an anchor at the head of its chain.
func (t *tables) add(word string, rule uint16) {
	a := anchor{word: word, rule: rule}
	if word[0] >= 0x80 && len(word) > 3 {
		a.offset = 1 // lead bytes of a script are all alike
	}
	for i := range 3 {
		a.gram = a.gram<<classBits | uint32(t.class[word[int(a.offset)+i]])
	}
	t.filter[a.gram>>6] |= 1 << (a.gram & 63)
	head := &t.head[headOf(a.gram)]
	a.next = *head
	*head = uint16(len(t.anchors))
	t.anchors = append(t.anchors, a)
}

func headOf(gram uint32) uint32 { return gram * 2654435769 >> (32 - headBits) }

// class folds a byte: 1 to 26 letters, 27 to 36 digits, then marks, then
// thirteen classes of bytes beyond ASCII. Zero is all the rest.
func class(c byte) uint8 {
	const marks = "_-.:/$=@ \t~{\"["
	switch {
	case isAlpha(c):
		return c | 0x20 - 'a' + 1
	case isDigit(c):
		return c - '0' + 27
	case c >= 0x80:
		return c%13 + 37 + uint8(len(marks))
	}
	for i := range len(marks) {
		if marks[i] == c {
			return uint8(i) + 37
		}
	}
	return 0
}

// scan walks over the text once and lets rules mark what they find.
func (s *Scrubber) scan(text string) {
	s.text, s.pass, s.document, s.command, s.first, s.memo = text, 0, 0, span{}, len(s.found), [setCount]memo{}
	t, seen, gram := s.tables, 0, uint32(0)
	for i := 0; i < len(text); {
		for stop := min(i+stride, len(text)); i < stop; i++ {
			gram = (gram<<classBits | uint32(t.class[text[i]])) & gramMask
			if t.filter[gram>>6]>>(gram&63)&1 == 0 {
				continue
			}
			s.tryAnchors(gram, i-2)
			if s.pass > i+1 {
				i, gram = s.pass, 0
				break
			}
		}
		if i >= seen && i < len(text) && t.sets[text[i]]&setOpaque != 0 {
			seen = s.tryRun(i)
		}
	}
	s.steps += len(text)
}

// tryAnchors runs the rules whose anchors stand at the gram at i.
func (s *Scrubber) tryAnchors(gram uint32, i int) {
	t := s.tables
	for next := t.head[headOf(gram)]; next != 0; {
		a := &t.anchors[next]
		next = a.next
		at := i - int(a.offset)
		end := at + len(a.word)
		if a.gram != gram || at < 0 || end > len(s.text) {
			continue
		}
		r := t.rules[a.rule]
		if r.exact || r.shape != "" {
			if s.text[at:end] != a.word {
				continue
			}
		} else if !equalFold(s.text[at:end], a.word) {
			continue
		}
		if n := len(s.found); n > s.first && s.found[n-1].rule == a.rule && at < s.found[n-1].hi {
			continue // inside what the rule has found already
		}
		s.steps += len(a.word)
		s.rule = a.rule
		if r.shape != "" {
			s.matchShape(r.shape, at, end)
		} else {
			r.match(s, at, end)
		}
	}
}

// tryRun measures the run of opaque bytes around i and, when it is long
// enough, runs the rules for such runs. It returns the end of the run.
func (s *Scrubber) tryRun(i int) int {
	lo, hi := s.back(setOpaque, i, stride), s.run(setOpaque, i)
	if hi-lo >= opaqueMin {
		for _, r := range s.tables.runs {
			s.rule = r
			s.tables.rules[r].match(s, lo, hi)
		}
	}
	return hi
}

func bit(in set) int { return bits.TrailingZeros32(uint32(in)) }
