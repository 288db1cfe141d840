package batch

import (
	"bytes"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values nest.
const maxDepth = 32

// scanner reads one JSON value from front to back, as RFC 8259 has it and
// nothing looser: what a line says must not depend on who reads it. The first
// fault sticks, and every call after it does nothing.
//
// Two things are settled that the RFC leaves open: half a surrogate pair is
// U+FFFD, and so is a run of bytes that are no UTF-8.
type scanner struct {
	b     []byte
	i     int
	depth int
	bad   bool
	fresh bool   // an object or array was opened, and nothing read in it yet
	buf   []byte // the last string that had to be rewritten
}

func (s *scanner) reset(b []byte) { s.b, s.i, s.depth, s.bad, s.fresh = b, 0, 0, false, false }

// fail records a fault.
func (s *scanner) fail() { s.bad = true }

// peek returns the first byte of the next token, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take consumes one byte if it is next.
func (s *scanner) take(c byte) bool {
	if s.bad || s.peek() != c {
		return false
	}
	s.i++
	return true
}

// open enters an object or an array, if the next value is one.
func (s *scanner) open(c byte) bool {
	if !s.take(c) {
		return false
	}
	s.depth++
	if s.depth > maxDepth {
		s.fail()
	}
	s.fresh = true
	return !s.bad
}

// more reports whether the object or array that closes with c goes on, and
// leaves it otherwise.
func (s *scanner) more(c byte) bool {
	if s.bad {
		return false
	}
	first := s.fresh
	s.fresh = false
	if s.take(c) {
		s.depth--
		return false
	}
	if !first && !s.take(',') {
		s.fail()
	}
	return !s.bad
}

// key reads a name and its colon. The bytes are valid until the next string.
func (s *scanner) key() []byte {
	k, ok := s.str()
	if !ok || !s.take(':') {
		s.fail()
		return nil
	}
	return k
}

// end reports whether the whole input was one sound value.
func (s *scanner) end() bool {
	return !s.bad && s.peek() == 0 && s.i == len(s.b)
}

// str reads a string. A value of another type is skipped, and not ok. The
// bytes are valid until the next string.
func (s *scanner) str() ([]byte, bool) {
	if !s.take('"') {
		s.skip()
		return nil, false
	}
	start := s.i
	s.i += special(s.b[s.i:])
	if s.i < len(s.b) && s.b[s.i] == '"' {
		out := s.b[start:s.i]
		s.i++
		return s.valid(out), true
	}
	s.buf = append(s.buf[:0], s.b[start:s.i]...)
	for s.i < len(s.b) && !s.bad {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.valid(s.buf), true
		case c == '\\':
			s.escape()
		default: // a control character
			s.fail()
			return nil, false
		}
		n := special(s.b[s.i:])
		s.buf = append(s.buf, s.b[s.i:s.i+n]...)
		s.i += n
	}
	s.fail()
	return nil, false
}

var replacement = []byte("\uFFFD")

func (s *scanner) valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	s.buf = bytes.ToValidUTF8(b, replacement)
	return s.buf
}

// escape reads one escape and appends what it stands for.
func (s *scanner) escape() {
	if s.i+1 >= len(s.b) {
		s.fail()
		return
	}
	c := s.b[s.i+1]
	s.i += 2
	switch c {
	case '"', '\\', '/':
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'r':
		c = '\r'
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'u':
		s.unicode()
		return
	default:
		s.fail()
		return
	}
	s.buf = append(s.buf, c)
}

// unicode reads what follows a \u, together with the other half of a pair.
func (s *scanner) unicode() {
	r, ok := s.hex(s.i)
	if !ok {
		s.fail()
		return
	}
	s.i += 4
	if utf16.IsSurrogate(r) {
		low, ok := rune(0), false
		if bytes.HasPrefix(s.b[s.i:], []byte(`\u`)) {
			low, ok = s.hex(s.i + 2)
		}
		r = utf16.DecodeRune(r, low)
		if ok && r != utf8.RuneError {
			s.i += 6
		}
	}
	s.buf = utf8.AppendRune(s.buf, r)
}

// hex reads four hexadecimal digits at a place.
func (s *scanner) hex(at int) (rune, bool) {
	if at+4 > len(s.b) {
		return 0, false
	}
	var r rune
	for _, c := range s.b[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// integer reads a whole number that is written without a fraction or an
// exponent and has at most 18 digits. Any other value is skipped, and not ok.
func (s *scanner) integer() (int64, bool) {
	s.peek()
	from := s.i
	s.skip()
	if s.bad {
		return 0, false
	}
	digits, negative := bytes.CutPrefix(s.b[from:s.i], []byte{'-'})
	if len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// truth reads a boolean. Any other value is skipped, and not ok.
func (s *scanner) truth() (value, ok bool) {
	s.peek()
	from := s.i
	s.skip()
	if s.bad {
		return false, false
	}
	word := string(s.b[from:s.i])
	return word == "true", word == "true" || word == "false"
}

// skip passes one value of any type.
func (s *scanner) skip() {
	if s.bad {
		return
	}
	switch s.peek() {
	case '"':
		s.str()
	case '{':
		for ok := s.open('{'); ok && s.more('}'); {
			s.key()
			s.skip()
		}
	case '[':
		for ok := s.open('['); ok && s.more(']'); {
			s.skip()
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scanner) word(w string) {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		s.fail()
		return
	}
	s.i += len(w)
}

func (s *scanner) number() {
	s.optional('-')
	if !s.optional('0') {
		s.digits()
	}
	if s.optional('.') {
		s.digits()
	}
	if s.optional('e') || s.optional('E') {
		if !s.optional('+') {
			s.optional('-')
		}
		s.digits()
	}
}

func (s *scanner) optional(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) digits() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		s.fail()
	}
}

// special returns how many bytes come before the first that a JSON string
// cannot hold as it is: a quote, a backslash or a control character. It looks
// at eight bytes at a time.
func special[T string | []byte](b T) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := eight(b[i : i+8])
		quote := x ^ ones*'"'
		slash := x ^ ones*'\\'
		// The lowest high bit set marks the first such byte; bits above it may be wrong.
		m := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// eight reads the first eight bytes, lowest first.
func eight[T string | []byte](b T) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
