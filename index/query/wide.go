package query

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// run takes the run of word characters that begins at start, is ASCII up to i
// and has a character outside ASCII there. It returns the end of the run.
func (t *Tokenizer) run(text []byte, start, i int, emit func([]byte)) int {
	end, stable := i, true
	for end < len(text) {
		r, n := utf8.DecodeRune(text[end:])
		if !isWord(r) {
			break
		}
		stable = stable && isStable(r)
		end += n
	}
	if end == i {
		_, n := utf8.DecodeRune(text[i:])
		return i + n
	}
	run := text[start:end]
	if !stable && !t.normal && !norm.NFKC.IsNormal(run) {
		// One spelling for each character: composed, and of normal width.
		t.normal = true
		t.each(norm.NFKC.Bytes(run), emit)
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
func segment(run []byte, from int) (to int, dense, plain bool) {
	plain = true
	for to = from; to < len(run); {
		r, n := utf8.DecodeRune(run[to:])
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
func (t *Tokenizer) word(s []byte, emit func([]byte)) {
	t.wide = t.wide[:0]
	stable := true
	for s = trim(s); len(s) > 0 && len(t.wide) <= maxToken; {
		r, n := utf8.DecodeRune(s)
		stable = stable && isStable(r) && r != 'ß'
		t.wide = appendFolded(t.wide, r)
		s = s[n:]
	}
	if !stable && !norm.NFC.IsNormal(t.wide) {
		t.wide = norm.NFC.Bytes(t.wide)
	}
	if len(t.wide) > maxToken {
		if t.long++; t.long <= maxLong {
			emitWord(firstRunes(t.wide, longToken), emit)
		}
		return
	}
	emitWord(t.wide, emit)
	if !bytes.Contains(t.wide, underscore) {
		return
	}
	for part := range bytes.SplitSeq(t.wide, underscore) {
		emitWord(part, emit)
	}
}

var underscore = []byte{'_'}

// emitWord emits a word that has more than one character.
func emitWord(w []byte, emit func([]byte)) {
	if w = trim(w); utf8.RuneCount(w) >= minToken {
		emit(w)
	}
}

// firstRunes returns at most n bytes of whole characters.
func firstRunes(b []byte, n int) []byte {
	for n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:min(n, len(b))]
}

// pairs emits every two adjacent characters; one alone stands for itself.
func (t *Tokenizer) pairs(s []byte, emit func([]byte)) {
	_, last := utf8.DecodeRune(s)
	if last == len(s) {
		emit(s)
		return
	}
	for from, to := 0, last; to < len(s); {
		_, n := utf8.DecodeRune(s[to:])
		emit(s[from : to+n])
		from, to = to, to+n
	}
}

// appendFolded appends a character so that its cases, and spellings that
// people do not tell apart, are one.
func appendFolded(b []byte, r rune) []byte {
	switch {
	case 'а' <= r && r <= 'я':
	case 'А' <= r && r <= 'Я':
		r += 'а' - 'А'
	case r == 'ё', r == 'Ё':
		r = 'е'
	case r == 'ß', r == 'ẞ':
		return append(b, "ss"...)
	case r == 'ς':
		r = 'σ'
	default:
		r = unicode.ToLower(r)
	}
	return utf8.AppendRune(b, r)
}

// wordFollows reports whether a text begins with a character outside ASCII
// that belongs to the word before it.
func wordFollows(s []byte) bool {
	r, _ := utf8.DecodeRune(s)
	return isWord(r) && !isDense(r)
}

// isWord reports whether words are made of r.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return kinds[byte(r)] != 0
	}
	return isStable(r) || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// isStable reports whether r is a letter that stays as it is under
// normalisation, next to others of its like. Most letters of most texts are
// met here, which spares them the tables.
func isStable(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return true
	case r <= 0x131: // Latin
		return r >= 0xc0 && r != 0xd7 && r != 0xf7
	case r <= 0x45f: // Cyrillic
		return r >= 0x400
	case r <= 0x3096: // Hiragana
		return r >= 0x3041
	case r <= 0x30fa: // Katakana
		return r >= 0x30a1
	case r <= 0x9fff: // Han
		return r >= 0x4e00
	}
	return 0xac00 <= r && r <= 0xd7a3 // Hangul
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

// isDense reports whether r is of a script in dense.
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

// IsSingle reports whether a term is one character of a script without spaces.
// Texts have it in pairs, so a search looks for all that begin with it.
func IsSingle(term string) bool {
	r, n := utf8.DecodeRuneInString(term)
	return n == len(term) && isDense(r)
}
