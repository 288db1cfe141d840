// Package digest turns recorded text into something that may be shown: clean
// of what a terminal or an agent would obey, cut to a budget, framed. It is
// pure. Start at [Clean], which every output goes through. [Snippet] shows the
// lines of a turn that answer, [Session] a session within a budget, and
// [Frame] marks what an agent reads as history.
package digest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	escape     = '\x1b'
	joiner     = '\u200d'
	barred     = '\u200c' // joiner's opposite
	textStyle  = '\ufe0e' // of the emoji before it
	emojiStyle = '\ufe0f'
)

// Clean takes out what acts on a terminal or hides text: escape sequences,
// control characters but newline and tab, controls of direction, and what has
// no width. Line ends become newlines, and invalid UTF-8 becomes U+FFFD. Clean
// text stays as it is.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	var b strings.Builder
	b.Grow(len(s))
	var before, pending rune // the last rune that was kept, and a joiner after it
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == escape || 0x80 <= r && r < 0xa0 {
			n = max(n, sequence(s))
		}
		s = s[n:]
		switch {
		case r == '\r' && strings.HasPrefix(s, "\n"):
			continue
		case r == '\r', r == '\u0085', r == '\u2028', r == '\u2029':
			r = '\n'
		case r == joiner || r == barred:
			if isJoined(before) {
				pending = r
			}
			continue
		case r == textStyle || r == emojiStyle:
			if !isJoined(before) || before == textStyle || before == emojiStyle {
				continue
			}
		case !isShown(r):
			continue
		}
		// Between letters of scripts that need it, and within emoji, a joiner
		// says what they look like; anywhere else it only hides.
		if pending != 0 && isJoined(r) {
			b.WriteRune(pending)
		}
		b.WriteRune(r)
		before, pending = r, 0
	}
	return b.String()
}

// isPlain reports whether all is printable ASCII, newlines and tabs.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// isJoined reports whether a joiner beside r can mean something.
func isJoined(r rune) bool {
	return r > 0xff && r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsSymbol(r))
}

// isShown reports whether a character has a width or is white space, and does
// nothing else.
func isShown(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return true
	case r < 0x7f:
		return r >= ' '
	case r < 0xa0, r == 0xad: // C1, soft hyphen
		return false
	case r < 0x600 && r != 0x34f, 0x3041 <= r && r <= 0x30ff, 0x4e00 <= r && r <= 0xd7a3: // the letters of most texts
		return true
	}
	switch r {
	case 0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xffa0: // letters and marks of no width
		return false
	}
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// sequence is the length of the escape sequence at the start of s, 0 when
// there is none. One that does not end is as long as its introducer.
func sequence(s string) int {
	intro, n := utf8.DecodeRuneInString(s)
	if intro == escape && len(s) > 1 {
		switch c := s[1]; {
		case strings.IndexByte("[]PX^_", c) >= 0:
			intro, n = rune(c)+0x40, 2 // its 8-bit form
		case c >= 0x20 && c <= 0x7e:
			return n + plainSequence(s[n:])
		}
	}
	switch intro {
	case 0x9b: // control sequence: parameters, intermediates, a final byte
		return n + controlSequence(s[n:])
	case 0x9d, 0x90, 0x98, 0x9e, 0x9f: // a string up to its terminator
		return n + controlString(s[n:])
	}
	return 0
}

// plainSequence is what follows an escape: intermediates and a final byte.
func plainSequence(s string) int {
	i := 0
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
		i++
	}
	return i
}

func controlSequence(s string) int {
	i := 0
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x3f {
		i++
	}
	if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
		return i + 1
	}
	return 0
}

// controlString is a string that ends within its line, with its terminator.
func controlString(s string) int {
	for i := 0; i < len(s) && s[i] != '\n' && s[i] != '\r'; i++ {
		switch {
		case s[i] == '\a':
			return i + 1
		case strings.HasPrefix(s[i:], "\x1b\\"), strings.HasPrefix(s[i:], "\u009c"):
			return i + 2
		}
	}
	return 0
}
