package query

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Phrase is quoted text that has to stand word for word in what is found,
// whatever the case, the width and the white space.
type Phrase struct{ folded string }

// String returns the phrase as it is compared.
func (p Phrase) String() string { return p.folded }

// In reports whether a text holds the phrase, and not just as a part of longer
// words.
func (p Phrase) In(text string) bool {
	if p.folded == "" {
		return true
	}
	text = fold(text)
	for from := 0; ; {
		i := strings.Index(text[from:], p.folded)
		if i < 0 {
			return false
		}
		i += from
		if end := i + len(p.folded); !splits(text, i) && !splits(text, end) {
			return true
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		from = i + n
	}
}

// splits reports whether a cut at i goes through a word.
func splits(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i:])
	return isWord(before) && isWord(after) && !isDense(before) && !isDense(after)
}

// phrases finds quoted text that holds a word. A quote without its end is none.
func phrases(text string) []Phrase {
	var out []Phrase
	text = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "＂", `"`).Replace(text)
	for len(out) < maxPhrases {
		_, rest, ok := strings.Cut(text, `"`)
		if !ok {
			break
		}
		inside, after, ok := strings.Cut(rest, `"`)
		if !ok {
			break
		}
		if p := fold(inside); strings.ContainsFunc(p, isWord) {
			out = append(out, Phrase{p})
		}
		text = after
	}
	return out
}

// fold gives all spellings of a text that count as one the same form.
func fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	if !norm.NFKC.IsNormalString(s) {
		s = norm.NFKC.String(s)
	}
	var room [utf8.UTFMax]byte
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.Write(appendFolded(room[:0], r))
	}
	return b.String()
}
