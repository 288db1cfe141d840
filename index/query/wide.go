package query

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// run takes the run of word characters that begins at start, is ASCII up to i
// and has a character outside ASCII there. It returns the end of the run.
func (t *Tokenizer) run(text string, start, i int, emit func([]byte)) int {
	end := i
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !isWord(r) {
			break
		}
		end += n
	}
	if end == i {
		_, n := utf8.DecodeRuneInString(text[i:])
		return i + n
	}
	run := text[start:end]
	if !t.normal && !norm.NFKC.IsNormalString(run) {
		// One spelling for each character: composed, and of normal width.
		t.normal = true
		t.each(norm.NFKC.String(run), emit)
		t.normal = false
		return end
	}
	for from := 0; from < len(run); {
		to, dense, plain := segment(run, from)
		switch {
		case dense:
			t.pairs(run[from:to], emit)
		case plain:
			t.ascii(run[:to], from, emit)
		default:
			t.word(run[from:to], emit)
		}
		from = to
	}
	return end
}

// segment returns where the script changes between one with spaces and one
// without, whether it is the latter until there, and whether that is all ASCII.
func segment(run string, from int) (to int, dense, plain bool) {
	plain = true
	for to = from; to < len(run); {
		r, n := utf8.DecodeRuneInString(run[to:])
		d := isDense(r)
		if to > from && d != dense {
			break
		}
		dense = d
		plain = plain && r < utf8.RuneSelf
		to += n
	}
	return to, dense, plain
}

// word emits one word that is not all ASCII, and its parts if underscores
// separate some.
func (t *Tokenizer) word(s string, emit func([]byte)) {
	t.wide = t.wide[:0]
	runes, unders := 0, 0
	for _, r := range s {
		if len(t.wide) > maxToken {
			break
		}
		if r == '_' {
			unders++
		}
		t.wide = appendFolded(t.wide, r)
		runes++
	}
	switch {
	case len(t.wide) > maxToken:
		if t.long++; t.long <= maxLong {
			cut := longToken
			for !utf8.RuneStart(t.wide[cut]) {
				cut--
			}
			emit(t.wide[:cut])
		}
		return
	case runes < minToken:
		return
	}
	emit(t.wide)
	if unders == 0 {
		return
	}
	from := 0
	for i := 0; i <= len(t.wide); i++ {
		if i < len(t.wide) && t.wide[i] != '_' {
			continue
		}
		if i-from < len(t.wide) && utf8.RuneCount(t.wide[from:i]) >= minToken {
			emit(t.wide[from:i])
		}
		from = i + 1
	}
}

// pairs emits every two adjacent characters; one alone stands for itself.
func (t *Tokenizer) pairs(s string, emit func([]byte)) {
	_, last := utf8.DecodeRuneInString(s)
	if last == len(s) {
		t.wide = append(t.wide[:0], s...)
		emit(t.wide)
		return
	}
	for from, to := 0, last; to < len(s); {
		_, n := utf8.DecodeRuneInString(s[to:])
		t.wide = append(t.wide[:0], s[from:to+n]...)
		emit(t.wide)
		from, to = to, to+n
	}
}

// appendFolded appends a character so that its cases, and spellings that
// people do not tell apart, are one.
func appendFolded(b []byte, r rune) []byte {
	switch r {
	case 'ß', 'ẞ':
		return append(b, "ss"...)
	case 'ς':
		r = 'σ'
	case 'ё', 'Ё':
		r = 'е'
	default:
		r = unicode.ToLower(r)
	}
	return utf8.AppendRune(b, r)
}

// wordFollows reports whether a text begins with a character outside ASCII
// that belongs to the word before it.
func wordFollows(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return isWord(r) && !isDense(r)
}

// isWord reports whether words are made of r.
func isWord(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return ascii[byte(r)] != 0
	case 0x4e00 <= r && r <= 0x9fff, 0xac00 <= r && r <= 0xd7a3: // Han, Hangul
		return true
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// dense are the blocks of scripts that put no spaces between words, or glue
// particles to them.
var dense = [...][2]rune{
	{0x0e00, 0x0eff},   // Thai, Lao
	{0x1000, 0x109f},   // Myanmar
	{0x1100, 0x11ff},   // Hangul Jamo
	{0x1780, 0x17ff},   // Khmer
	{0x2e80, 0x2fdf},   // radicals
	{0x3005, 0x31ff},   // Kana, Bopomofo, Jamo
	{0x3400, 0x4dbf},   // Han
	{0x4e00, 0x9fff},   // Han
	{0xa960, 0xa97f},   // Jamo
	{0xac00, 0xd7ff},   // Hangul
	{0xf900, 0xfaff},   // Han
	{0xff66, 0xffdc},   // Kana and Jamo of half width
	{0x1b000, 0x1b16f}, // Kana
	{0x20000, 0x323af}, // Han
}

func isDense(r rune) bool {
	if r < dense[0][0] {
		return false
	}
	for _, d := range dense {
		if r <= d[1] {
			return r >= d[0]
		}
	}
	return false
}
