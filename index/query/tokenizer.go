// Package query says what a text is made of and what a search asks for. The
// same [Tokenizer] cuts text that is written and text that is asked, so that a
// word is found in whatever form it was said. Start at [Tokenizer] for the
// terms of a text, and at [Parse] for a question.
//
// A token is a run of letters, digits and underscores in lower case. The parts
// of an identifier (user and name in user_name, userName and USERName) are
// tokens besides the whole, and so is a dotted number (1.26.0). Scripts that
// put no spaces between words give pairs of adjacent characters. A term is
// what a token is filed under: its stem, where the language has one.
//
// What a token is, and what its term is, is part of the format of the index:
// package postings has to count a new version when either changes.
package query

import (
	"bytes"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// Bounds of a token in bytes. A longer run is base64, minified code or the
// like: nobody types it, and each would be a term of its own. Its first bytes
// stand for it, so that a pasted one is found, and only the first few of a
// text do.
const (
	minToken  = 2
	maxToken  = 64
	longToken = 32 // bytes that stand for a longer run
	maxLong   = 8  // longer runs of one text
)

// maxNumber is how many digits a component of a dotted number has: versions
// and addresses, not measured values.
const maxNumber = 5

// The kinds of a byte, as bits.
const (
	kindLower = 1
	kindUpper = 2
	kindDigit = 4
	kindUnder = 8
)

// kinds gives the kind of every byte; 0 for what separates words, and for the
// bytes of characters outside ASCII.
var kinds = [256]uint8{
	'0': 4, '1': 4, '2': 4, '3': 4, '4': 4, '5': 4, '6': 4, '7': 4, '8': 4, '9': 4, '_': 8,
	'a': 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1, 'g': 1, 'h': 1, 'i': 1, 'j': 1, 'k': 1, 'l': 1, 'm': 1,
	'n': 1, 'o': 1, 'p': 1, 'q': 1, 'r': 1, 's': 1, 't': 1, 'u': 1, 'v': 1, 'w': 1, 'x': 1, 'y': 1, 'z': 1,
	'A': 2, 'B': 2, 'C': 2, 'D': 2, 'E': 2, 'F': 2, 'G': 2, 'H': 2, 'I': 2, 'J': 2, 'K': 2, 'L': 2, 'M': 2,
	'N': 2, 'O': 2, 'P': 2, 'Q': 2, 'R': 2, 'S': 2, 'T': 2, 'U': 2, 'V': 2, 'W': 2, 'X': 2, 'Y': 2, 'Z': 2,
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Tokenizer cuts text into tokens. The zero value is ready; it is for one
// goroutine at a time.
type Tokenizer struct {
	buf    [maxToken]byte // the run in hand, in lower case
	wide   []byte         // a token with characters outside ASCII
	long   int            // longer runs of this text so far
	normal bool           // the text in hand has been normalised
}

// Each calls emit with every token of a text in order, the parts of an
// identifier after the whole. The bytes are valid during the call only, and
// must not be changed.
func (t *Tokenizer) Each(text string, emit func(token []byte)) {
	t.long = 0
	// A token in lower case is handed out as it stands in the text.
	t.each(unsafe.Slice(unsafe.StringData(text), len(text)), emit)
}

func (t *Tokenizer) each(text []byte, emit func([]byte)) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case kinds[c] != 0:
			i = t.ascii(text, i, emit)
		case c >= utf8.RuneSelf:
			i = t.run(text, i, i, emit)
		default:
			i++
		}
	}
}

// ascii takes the run of ASCII word characters at start and returns its end.
// A run that goes on outside ASCII is one word with what follows, unless that
// is of a script without spaces.
func (t *Tokenizer) ascii(text []byte, start int, emit func([]byte)) int {
	i := start + 1
	all := kinds[text[start]]
	for ; i < len(text); i++ {
		k := kinds[text[i]]
		if k == 0 {
			break
		}
		all |= k
	}
	if i < len(text) && text[i] >= utf8.RuneSelf && wordFollows(text[i:]) {
		return t.run(text, start, i, emit)
	}
	switch run := text[start:i]; {
	case len(run) < minToken:
	case len(run) > maxToken:
		t.longRun(run, emit)
	case all == kindLower, all == kindDigit:
		emit(run)
	case all == kindUpper, all == kindUpper|kindLower && isCapitalised(run):
		emit(t.lower(run))
	default:
		t.identifier(run, emit)
	}
	if i+1 < len(text) && text[i] == '.' && isDigit(text[i+1]) && isDigit(text[i-1]) {
		number(text, start, i, emit)
	}
	return i
}

// isCapitalised reports whether only the first of some letters is upper-case.
func isCapitalised(run []byte) bool {
	for _, c := range run[1:] {
		if kinds[c] == kindUpper {
			return false
		}
	}
	return true
}

// lower returns a run of ASCII in lower case, in buf.
func (t *Tokenizer) lower(run []byte) []byte {
	for i, c := range run {
		if kinds[c] == kindUpper {
			c |= 'a' - 'A'
		}
		t.buf[i] = c
	}
	return t.buf[:len(run)]
}

// longRun emits the first bytes of a run that is too long for a token.
func (t *Tokenizer) longRun(run []byte, emit func([]byte)) {
	run = trim(run)
	run = trim(run[:min(len(run), longToken)])
	if t.long++; t.long <= maxLong && len(run) >= minToken {
		emit(t.lower(run))
	}
}

// trim leaves out the underscores around a run.
func trim(run []byte) []byte { return bytes.Trim(run, "_") }

// identifier emits a run of several kinds of characters and its parts.
func (t *Tokenizer) identifier(run []byte, emit func([]byte)) {
	run = trim(run)
	if len(run) < minToken {
		return
	}
	whole := t.lower(run)
	emit(whole)
	for from := 0; from < len(run); {
		to := partEnd(run, from)
		if part := whole[from:to]; len(part) >= minToken {
			if len(part) < len(whole) {
				emit(part)
			}
			numbered(part, emit)
		}
		for from = to; from < len(run) && run[from] == '_'; from++ {
		}
	}
}

// partEnd returns where the part of an identifier that starts at from ends:
// at an underscore, at an upper-case letter after a lower-case one or a digit,
// and at the last upper-case letter of a run that a word follows (HTTPServer).
func partEnd(run []byte, from int) int {
	before := kinds[run[from]]
	for i := from + 1; i < len(run); i++ {
		k := kinds[run[i]]
		switch {
		case k == kindUnder:
			return i
		case k == kindUpper && before != kindUpper:
			return i
		case k == kindLower && before == kindUpper && i-1 > from:
			return i - 1
		}
		before = k
	}
	return len(run)
}

// numbered emits the word and the number of a part like sha256 or error404.
// Hashes, where letters and digits take turns, are left whole.
func numbered(part []byte, emit func([]byte)) {
	digits := len(part)
	for digits > 0 && isDigit(part[digits-1]) {
		digits--
	}
	if digits == 0 || digits == len(part) || slices.ContainsFunc(part[:digits], isDigit) {
		return
	}
	for _, half := range [...][]byte{part[:digits], part[digits:]} {
		if len(half) >= minToken {
			emit(half)
		}
	}
}

// number emits the dotted number whose first component ends at dot, in the
// run that begins at start. Its components are tokens by themselves.
func number(text []byte, start, dot int, emit func([]byte)) {
	first := dot
	for first > start && isDigit(text[first-1]) {
		first--
	}
	if first == start && start >= 2 && text[start-1] == '.' && isDigit(text[start-2]) {
		return // not the first component
	}
	end, size := dot, dot-first
	for size <= maxNumber && end+1 < len(text) && text[end] == '.' && isDigit(text[end+1]) {
		end, size = end+1, 0
		for end < len(text) && isDigit(text[end]) && size <= maxNumber {
			end, size = end+1, size+1
		}
	}
	if size <= maxNumber && end > dot && end-first <= maxToken {
		emit(text[first:end])
	}
}
