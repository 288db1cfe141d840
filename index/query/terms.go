// Package query says what a text is made of and what a search asks for. The
// same [Tokenizer] cuts text that is written and text that is asked, so that a
// word is found in whatever form it was said. Start at [Tokenizer] and [Parse].
package query

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// Lengths of a token in bytes. Longer runs are base64, minified code and the
// like: nobody asks for them, and each would be a term of its own.
const (
	minToken = 2
	maxToken = 64
	minPart  = 3 // of a part of an identifier
)

// The classes of a byte.
const (
	classOther = 0
	classLower = 1
	classUpper = 2
	classDigit = 3
	classUnder = 4
	classWide  = 5 // of a character outside ASCII
)

// classes and lower are plain tables, so that they cost nothing at start-up.
var (
	classes = [256]uint8{
		'0': 3, '1': 3, '2': 3, '3': 3, '4': 3, '5': 3, '6': 3, '7': 3, '8': 3, '9': 3, '_': 4,
		'a': 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1, 'g': 1, 'h': 1, 'i': 1, 'j': 1, 'k': 1, 'l': 1, 'm': 1,
		'n': 1, 'o': 1, 'p': 1, 'q': 1, 'r': 1, 's': 1, 't': 1, 'u': 1, 'v': 1, 'w': 1, 'x': 1, 'y': 1, 'z': 1,
		'A': 2, 'B': 2, 'C': 2, 'D': 2, 'E': 2, 'F': 2, 'G': 2, 'H': 2, 'I': 2, 'J': 2, 'K': 2, 'L': 2, 'M': 2,
		'N': 2, 'O': 2, 'P': 2, 'Q': 2, 'R': 2, 'S': 2, 'T': 2, 'U': 2, 'V': 2, 'W': 2, 'X': 2, 'Y': 2, 'Z': 2,
	}
)

func class(c byte) uint8 {
	if c >= utf8.RuneSelf {
		return classWide
	}
	return classes[c]
}

// Tokenizer cuts text into tokens: runs of letters, digits and underscores in
// lower case, the parts of identifiers besides, and pairs of adjacent
// characters where a script writes no spaces. It is for one goroutine.
type Tokenizer struct {
	buf  []byte // the token in hand, in lower case
	cuts []int  // where its parts begin
	runs []rune
}

// Each calls emit with every token of a text, in order, parts after the whole.
// The bytes are valid during the call only.
func (t *Tokenizer) Each(text string, emit func(token []byte)) {
	for i := 0; i < len(text); {
		c := classes[text[i]]
		switch {
		case c != classOther:
			i = t.ascii(text, i, emit)
		case text[i] >= utf8.RuneSelf:
			i = t.wide(text, i, emit)
		default:
			i++
		}
	}
}

// ascii takes the run of ASCII word characters at i. A run that goes on
// outside ASCII is taken as a wide one.
func (t *Tokenizer) ascii(text string, i int, emit func([]byte)) int {
	t.buf, t.cuts = t.buf[:0], t.cuts[:0]
	start := i
	before := uint8(classOther)
	for ; i < len(text); i++ {
		c := text[i]
		k := classes[c]
		if k == classOther {
			break
		}
		if k == classUpper {
			c += 'a' - 'A'
		}
		if k != before && before != classOther && t.cut(text, i, before, k) {
			t.cuts = append(t.cuts, i-start)
		}
		before = k
		if i-start < maxToken {
			t.buf = append(t.buf, c)
		}
	}
	if i < len(text) && text[i] >= utf8.RuneSelf {
		return t.wide(text, start, emit)
	}
	if i-start <= maxToken {
		t.emit(emit)
	}
	return i
}

// cut reports whether a new part of an identifier begins at i: after an
// underscore, at an upper-case letter after a lower-case one, and at the last
// upper-case letter of a run that a word follows (HTTPServer).
func (t *Tokenizer) cut(text string, i int, before, k uint8) bool {
	switch {
	case before == classUnder, k == classUnder:
		return true
	case k == classUpper:
		return before == classLower
	case k == classLower && before == classUpper:
		return i >= 2 && classes[text[i-2]] == classUpper
	}
	return false
}

// emit hands out the token in buf and its parts.
func (t *Tokenizer) emit(emit func([]byte)) {
	whole := t.buf
	for len(whole) > 0 && whole[0] == '_' {
		whole = whole[1:]
	}
	for len(whole) > 0 && whole[len(whole)-1] == '_' {
		whole = whole[:len(whole)-1]
	}
	if len(whole) < minToken {
		return
	}
	emit(whole)
	if len(t.cuts) == 0 {
		return
	}
	from := 0
	for _, to := range append(t.cuts, len(t.buf)) {
		part := t.buf[from:to]
		from = to
		if len(part) >= minPart && part[0] != '_' && len(part) < len(whole) {
			emit(part)
		}
	}
}

// wide takes a run of word characters that are not all ASCII: folded in form,
// width and case. Scripts without spaces give pairs of characters.
func (t *Tokenizer) wide(text string, i int, emit func([]byte)) int {
	end := i
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !wordRune(r) {
			break
		}
		end += n
	}
	if end == i {
		_, n := utf8.DecodeRuneInString(text[i:])
		return i + n
	}
	run := norm.NFC.String(width.Fold.String(text[i:end]))
	t.runs = t.runs[:0]
	for _, r := range run {
		t.runs = append(t.runs, unicode.ToLower(r))
	}
	for from := 0; from < len(t.runs); {
		to := from + 1
		dense := denseRune(t.runs[from])
		for to < len(t.runs) && denseRune(t.runs[to]) == dense {
			to++
		}
		if dense {
			t.pairs(t.runs[from:to], emit)
		} else {
			t.word(t.runs[from:to], emit)
		}
		from = to
	}
	return end
}

func (t *Tokenizer) word(rs []rune, emit func([]byte)) {
	t.buf, t.cuts = t.buf[:0], t.cuts[:0]
	for i, r := range rs {
		if i > 0 && (r == '_') != (rs[i-1] == '_') {
			t.cuts = append(t.cuts, len(t.buf))
		}
		t.buf = utf8.AppendRune(t.buf, r)
		if len(t.buf) > maxToken {
			return
		}
	}
	t.emit(emit)
}

// pairs emits every two adjacent characters; one alone stands for itself.
func (t *Tokenizer) pairs(rs []rune, emit func([]byte)) {
	if len(rs) == 1 {
		t.buf = utf8.AppendRune(t.buf[:0], rs[0])
		emit(t.buf)
		return
	}
	for i := 1; i < len(rs); i++ {
		t.buf = utf8.AppendRune(utf8.AppendRune(t.buf[:0], rs[i-1]), rs[i])
		emit(t.buf)
	}
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return classes[byte(r)] != classOther
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// denseRune reports whether r is of a script that writes no spaces.
func denseRune(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}
