package redact

import (
	"sort"
	"strings"
)

// view is a text as a reader sees it: without the escape sequences that colour
// a terminal and without marks that have no width. Secrets that such bytes
// split or surround are found in it and cut out of the raw text.
type view struct {
	text string
	buf  []byte
	cuts []cut
}

// cut says how much longer the raw text is up to a place in the view.
type cut struct{ at, gone int }

// signs are what a text holds that has a view of its own: escapes, as they are
// and as JSON or a shell writes them; spaces and joiners without width, the
// byte order mark, the soft hyphen; and spaces that are not the space.
var signs = [...]string{
	"\x1b[", `\u001b[`, `\x1b[`, `\033[`, `\e[`,
	"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad",
	"\u00a0", "\u2007", "\u2009", "\u202f", "\u3000",
}

// escapes and spaces say which signs begin an escape sequence and which become
// a space; those between are left out.
const (
	escapes = 5
	spaces  = 11
)

// maxEscape bounds an escape sequence.
const maxEscape = 32

// strip sets up the view of a text. It reports false, at the cost of a few
// fast searches, when the view would be the text itself.
func (v *view) strip(text string) bool {
	first := len(text)
	for _, sign := range signs {
		if i := strings.Index(text[:first], sign); i >= 0 {
			first = i
		}
	}
	if first == len(text) {
		return false
	}
	v.buf, v.cuts = append(v.buf[:0], text[:first]...), v.cuts[:0]
	for i := first; i < len(text); {
		n, space := hidden(text[i:])
		if n == 0 || space {
			c := text[i]
			if space {
				c = ' '
			}
			v.buf = append(v.buf, c)
			i++
			n--
		}
		if n > 0 {
			i += n
			v.cuts = append(v.cuts, cut{len(v.buf), i - len(v.buf)})
		}
	}
	v.text = string(v.buf)
	return len(v.cuts) > 0
}

// hidden returns the length of the sign that s begins with, and whether it is a space.
func hidden(s string) (n int, space bool) {
	switch c := s[0]; {
	case c != 0x1b && c != '\\' && c < 0x80:
		return 0, false
	case c >= 0x80:
		for i, sign := range signs[escapes:] {
			if strings.HasPrefix(s, sign) {
				return len(sign), i >= spaces-escapes
			}
		}
		return 0, false
	}
	for _, start := range signs[:escapes] {
		if strings.HasPrefix(s, start) {
			return escapeLen(s, len(start)), false
		}
	}
	return 0, false
}

// escapeLen returns the length of the escape sequence in s whose parameters
// begin at i, 0 if it has no end.
func escapeLen(s string, i int) int {
	for ; i < min(len(s), maxEscape); i++ {
		switch c := s[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x7e:
			return 0
		}
	}
	return 0
}

// raw returns the place in the raw text of the byte at i in the view.
func (v *view) raw(i int) int {
	n := sort.Search(len(v.cuts), func(n int) bool { return v.cuts[n].at > i })
	if n == 0 {
		return i
	}
	return i + v.cuts[n-1].gone
}
