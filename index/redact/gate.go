package redact

import (
	"math"
	"strings"
)

// profileMax bounds what a gate looks at; the rest of a longer value is like it.
const profileMax = 128

// profile is what gates ask about a value.
type profile struct {
	n                   int
	lower, upper, digit int
	soft                int // - _ . / : which also join words
	hard                int // every other mark
	foreign             int // bytes beyond ASCII
	blank               int
	turns               int // neighbours of different classes
	spelled             int // letters in runs of four or more of lower case, as words have
	distinct            int // different bytes
	hexOnly             bool
}

func profileOf(v string) profile {
	v = v[:min(len(v), profileMax)]
	p := profile{n: len(v), hexOnly: true}
	var seen [4]uint64
	var last *int
	lowers := 0
	for i := range len(v) {
		c := v[i]
		class := p.class(c)
		*class++
		if last != nil && class != last {
			p.turns++
		}
		last = class
		if lowers++; class != &p.lower {
			lowers = 0
		}
		if lowers == 4 {
			p.spelled += 4
		} else if lowers > 4 {
			p.spelled++
		}
		p.hexOnly = p.hexOnly && (isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f')
		if seen[c>>6]>>(c&63)&1 == 0 {
			seen[c>>6] |= 1 << (c & 63)
			p.distinct++
		}
	}
	return p
}

// class returns the count that a byte belongs to.
func (p *profile) class(c byte) *int {
	switch {
	case isLower(c):
		return &p.lower
	case isUpper(c):
		return &p.upper
	case isDigit(c):
		return &p.digit
	case c >= 0x80:
		return &p.foreign
	case c <= ' ':
		return &p.blank
	case c == '-' || c == '_' || c == '.' || c == '/' || c == ':':
		return &p.soft
	}
	return &p.hard
}

// letters reports whether the value has nothing but letters.
func (p profile) letters() bool { return p.lower+p.upper+p.foreign == p.n }

// digits reports whether the value has nothing but digits.
func (p profile) digits() bool { return p.digit == p.n }

// wordy reports whether the value reads like words, joined or not: no digit,
// no mark that joins nothing, few changes of case.
func (p profile) wordy() bool {
	return p.digit == 0 && p.hard == 0 && !p.jumbled()
}

// jumbled reports whether letters of both cases follow each other as they do
// in generated values and not in names: camel case changes its case twice a
// word.
func (p profile) jumbled() bool {
	return p.n >= 16 && p.upper >= 2 && p.lower >= 2 && p.turns*5 >= p.n*2
}

// generated reports whether the value looks drawn at random from letters of
// both cases and digits.
func (p profile) generated() bool {
	return p.n >= opaqueMin && p.upper > 1 && p.lower > 1 && p.digit > 0 &&
		p.hard <= p.n/8+2 && p.blank == 0 && p.foreign == 0 && p.turns*10 >= p.n*3
}

// entropy returns the bits per byte of a value.
func entropy(v string) float64 {
	v = v[:min(len(v), profileMax)]
	var count [256]uint16
	for i := range len(v) {
		count[v[i]]++
	}
	sum, n := 0.0, float64(len(v))
	for _, c := range count {
		if c > 1 {
			sum += float64(c) * math.Log2(float64(c))
		}
	}
	return math.Log2(n) - sum/n
}

// unnamedMax bounds a value without a strong name: longer ones are data.
const unnamedMax = 512

// unnamed decides about a value that only a weak name, or none, stands for:
// long, of mixed classes, near the entropy that its length allows, and nothing
// that is known to be harmless.
func unnamed(v string) bool {
	if len(v) < opaqueMin || len(v) > unnamedMax {
		return false
	}
	p := profileOf(v)
	if !p.generated() || p.hexOnly || isUUID(v) || placeholder(v) || isPath(v, p) || isDigest(v) {
		return false
	}
	return entropy(v) >= min(4, math.Log2(float64(p.n))-0.9) // one random value in a thousand has less
}

// named decides about a value that a strong name stands for. quoted values may
// hold what would be code outside quotes; word says that the name asks for a
// password, which may be short and may be a number.
func named(v string, quoted, word bool) bool {
	v = v[:min(len(v), profileMax)]
	if len(v) < 6 {
		return false
	}
	p := profileOf(v)
	if p.blank > 0 || p.wordy() || p.distinct < 3 || p.digit == 0 && !p.jumbled() && !strongMark(v, p, quoted) || placeholder(v) {
		return false
	}
	switch {
	case p.digits():
		return word || p.n >= 16
	case isPath(v, p), isAlgorithm(v), isNumber(v, p), isDigest(v):
		return false
	case p.jumbled():
		return true
	case !quoted && (isCode(v, p) || !word && camel(v, p)):
		return false
	}
	return p.digit == 0 || !kebab(v, p)
}

// strongMark decides about a value without digits that has a mark which joins
// no words: a mark at its end alone is punctuation.
func strongMark(v string, p profile, quoted bool) bool {
	if p.hard == 0 || p.lower+p.upper < 4 {
		return false
	}
	inner := 0
	for i := 1; i < len(v)-1; i++ {
		switch v[i] {
		case '!', '#', '$', '%', '^', '*', '?', '+', '@', '~':
			inner++
		}
	}
	return inner > 0 && (quoted || p.upper > 0 && p.lower > 0)
}

// kebab reports whether the value is a name of words joined by dashes whose
// digits are a number of their own: app-config-v2, web-tls-2024.
func kebab(v string, p profile) bool {
	if p.upper > 0 || p.hard > 0 || p.soft == 0 {
		return false
	}
	words := 0
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '/' }) {
		q := profileOf(part)
		switch {
		case q.letters():
			words++
		case q.digits() && q.n <= 4, part[0] == 'v' && q.digit == q.n-1:
		default:
			return false
		}
	}
	return words > 0
}

// isNumber reports whether the value is an amount, an address or a date.
func isNumber(v string, p profile) bool {
	if strings.Trim(v, "0123456789.,:+-_/%") == "" {
		return true
	}
	if v[0] == '#' && len(v) <= 9 && profileOf(v[1:]).hexOnly {
		return true // a colour
	}
	if hex, ok := strings.CutPrefix(strings.TrimLeft(v, "+-"), "0x"); ok && len(hex) <= 16 && profileOf(hex).hexOnly {
		return true
	}
	rest := strings.TrimLeft(v, "0123456789.")
	if len(rest) < len(v) && oneOf(rest, units) {
		return true
	}
	return len(v) >= 10 && p.digit >= 8 && isDigit(v[0]) && v[4] == '-' && v[7] == '-' // 2026-01-02T...
}

var units = []string{"ms", "s", "sec", "secs", "seconds", "m", "min", "mins", "minutes", "h", "hours", "d", "days", "b", "kb", "mb", "gb", "kib", "mib", "gib", "px", "em", "rem", "bytes", "bits", "chars", "tokens", "k", "x"}

// isAlgorithm reports whether the value names an algorithm or an encoding:
// such names have digits and follow words like token and password.
func isAlgorithm(v string) bool {
	for _, name := range algorithms {
		if hasPrefixFold(v, name) {
			rest := v[len(name):]
			if strings.Trim(rest, "0123456789-_/.") == "" || oneOf(strings.TrimLeft(rest, "0123456789-_/"), modes) {
				return true
			}
		}
	}
	return false
}

var (
	algorithms = []string{
		"sha", "md", "hmac-sha", "hmacsha", "hs", "rs", "es", "ps", "aes", "base", "utf", "oauth", "ed", "curve", "x", "argon", "pbkdf",
		"chacha", "scrypt", "bcrypt", "rsa", "ecdsa", "secp", "int", "uint", "float", "char", "varchar", "string", "bytes", "http", "tls", "v",
	}
	modes = []string{"gcm", "cbc", "ctr", "ecb", "id", "i", "hmac", "sha", "sha256", "sha512", "poly1305", "encoded", "k1", "r1", "url", "-sha256", "gcm-siv", "le", "be"}
)

// isDigest reports whether the value says itself that it is a digest.
func isDigest(v string) bool {
	for _, p := range []string{"sha1-", "sha256-", "sha384-", "sha512-", "sha1:", "sha256:", "sha384:", "sha512:", "md5:", "h1:", "blake2b:", "blake3:"} {
		if hasPrefixFold(v, p) {
			return true
		}
	}
	return false
}

func isUUID(v string) bool {
	if len(v) != 36 {
		return false
	}
	for i := range len(v) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (v[i] == '-') {
			return false
		}
	}
	return true
}
