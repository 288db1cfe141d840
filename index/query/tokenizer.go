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
	"unicode/utf8"
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

// ascii gives for every byte its kind (high bits) and its lower case. All
// other bytes, those of characters outside ASCII among them, are 0.
var ascii = [256]uint16{
	'0': 4<<8 | '0', '1': 4<<8 | '1', '2': 4<<8 | '2', '3': 4<<8 | '3', '4': 4<<8 | '4',
	'5': 4<<8 | '5', '6': 4<<8 | '6', '7': 4<<8 | '7', '8': 4<<8 | '8', '9': 4<<8 | '9',
	'_': 8<<8 | '_',
	'a': 1<<8 | 'a', 'b': 1<<8 | 'b', 'c': 1<<8 | 'c', 'd': 1<<8 | 'd', 'e': 1<<8 | 'e', 'f': 1<<8 | 'f', 'g': 1<<8 | 'g',
	'h': 1<<8 | 'h', 'i': 1<<8 | 'i', 'j': 1<<8 | 'j', 'k': 1<<8 | 'k', 'l': 1<<8 | 'l', 'm': 1<<8 | 'm', 'n': 1<<8 | 'n',
	'o': 1<<8 | 'o', 'p': 1<<8 | 'p', 'q': 1<<8 | 'q', 'r': 1<<8 | 'r', 's': 1<<8 | 's', 't': 1<<8 | 't', 'u': 1<<8 | 'u',
	'v': 1<<8 | 'v', 'w': 1<<8 | 'w', 'x': 1<<8 | 'x', 'y': 1<<8 | 'y', 'z': 1<<8 | 'z',
	'A': 2<<8 | 'a', 'B': 2<<8 | 'b', 'C': 2<<8 | 'c', 'D': 2<<8 | 'd', 'E': 2<<8 | 'e', 'F': 2<<8 | 'f', 'G': 2<<8 | 'g',
	'H': 2<<8 | 'h', 'I': 2<<8 | 'i', 'J': 2<<8 | 'j', 'K': 2<<8 | 'k', 'L': 2<<8 | 'l', 'M': 2<<8 | 'm', 'N': 2<<8 | 'n',
	'O': 2<<8 | 'o', 'P': 2<<8 | 'p', 'Q': 2<<8 | 'q', 'R': 2<<8 | 'r', 'S': 2<<8 | 's', 'T': 2<<8 | 't', 'U': 2<<8 | 'u',
	'V': 2<<8 | 'v', 'W': 2<<8 | 'w', 'X': 2<<8 | 'x', 'Y': 2<<8 | 'y', 'Z': 2<<8 | 'z',
}

func kind(c byte) uint16  { return ascii[c] >> 8 }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Tokenizer cuts text into tokens. The zero value is ready; it is for one
// goroutine at a time.
type Tokenizer struct {
	buf    [2 * maxToken]byte // the token in hand, in lower case; a power of two
	wide   []byte             // a token with characters outside ASCII
	long   int                // longer runs of this text so far
	normal bool               // the text in hand has been normalised
}

// Each calls emit with every token of a text in order, the parts of an
// identifier after the whole. The bytes are valid during the call only.
func (t *Tokenizer) Each(text string, emit func(token []byte)) {
	t.long = 0
	t.each(text, emit)
}

func (t *Tokenizer) each(text string, emit func([]byte)) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case ascii[c] != 0:
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
func (t *Tokenizer) ascii(text string, start int, emit func([]byte)) int {
	i, n := start, 0
	var kinds, uppers uint16
	for ; i < len(text); i++ {
		b := ascii[text[i]]
		if b == 0 {
			break
		}
		t.buf[n%len(t.buf)] = byte(b)
		n++
		kinds |= b
		uppers += b >> 9 & 1
	}
	if i < len(text) && text[i] >= utf8.RuneSelf && wordFollows(text[i:]) {
		return t.run(text, start, i, emit)
	}
	switch kinds >>= 8; {
	case n > maxToken:
		t.longRun(text[start:i], emit)
	case n < minToken:
	case kinds&(kinds-1) == 0 && kinds != kindUnder, // of one kind
		kinds == kindLower|kindUpper && uppers == 1 && kind(text[start]) == kindUpper: // Capitalised
		emit(t.buf[:n])
	default:
		t.identifier(text[start:i], emit)
	}
	if i+1 < len(text) && text[i] == '.' && isDigit(text[i+1]) && isDigit(text[i-1]) {
		t.number(text, start, i, emit)
	}
	return i
}

// longRun emits the first bytes of a run that is too long for a token.
func (t *Tokenizer) longRun(run string, emit func([]byte)) {
	if t.long++; t.long > maxLong {
		return
	}
	for i := range longToken {
		t.buf[i] = byte(ascii[run[i]])
	}
	emit(t.buf[:longToken])
}

// identifier emits a run of several kinds of characters, whose lower case is
// in buf, and its parts.
func (t *Tokenizer) identifier(run string, emit func([]byte)) {
	first, last := 0, len(run)
	for first < last && run[first] == '_' {
		first++
	}
	for last > first && run[last-1] == '_' {
		last--
	}
	if last-first < minToken {
		return
	}
	emit(t.buf[first:last])
	for from := first; from < last; {
		to := partEnd(run[:last], from)
		if to-from >= minToken {
			if to-from < last-first {
				emit(t.buf[from:to])
			}
			t.numbered(run[from:to], from, emit)
		}
		for from = to; from < last && run[from] == '_'; from++ {
		}
	}
}

// partEnd returns where the part of an identifier that starts at from ends:
// at an underscore, at an upper-case letter after a lower-case one or a digit,
// and at the last upper-case letter of a run that a word follows (HTTPServer).
func partEnd(run string, from int) int {
	for i := from + 1; i < len(run); i++ {
		switch before, k := kind(run[i-1]), kind(run[i]); {
		case k == kindUnder:
			return i
		case k == kindUpper && before != kindUpper:
			return i
		case k == kindLower && before == kindUpper && i-1 > from:
			return i - 1
		}
	}
	return len(run)
}

// numbered emits the word and the number of a part like sha256 or error404,
// which begins at from in buf. Hashes, where letters and digits take turns,
// are left whole.
func (t *Tokenizer) numbered(part string, from int, emit func([]byte)) {
	digits := len(part)
	for digits > 0 && isDigit(part[digits-1]) {
		digits--
	}
	if digits == 0 || digits == len(part) {
		return
	}
	for i := range digits {
		if isDigit(part[i]) {
			return
		}
	}
	if digits >= minToken {
		emit(t.buf[from : from+digits])
	}
	if len(part)-digits >= minToken {
		emit(t.buf[from+digits : from+len(part)])
	}
}

// number emits the dotted number whose first component ends at dot, in the
// run that begins at start. Its components are tokens by themselves.
func (t *Tokenizer) number(text string, start, dot int, emit func([]byte)) {
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
		emit(t.buf[:copy(t.buf[:], text[first:end])])
	}
}
