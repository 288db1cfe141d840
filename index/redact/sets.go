package redact

// set is a set of bytes; a byte can be asked for several sets at once.
type set uint32

const (
	setDigit   set = 1 << iota
	setHex         // either case
	setLowHex      // lower case
	setUpper       // A-Z and digits
	setLower       // a-z and digits
	setAlnum       // A-Z, a-z and digits
	setWord        // alnum and _
	setToken       // word and -
	setDotted      // token and .
	setBase64      // alnum and + / =
	setOpaque      // what generated values are written with: token, base64, . and ~
	setSpace       // space and tab
	setBlank       // space and line ends
	setLine        // all but line ends
	setArg         // one word of a command line: no blank, no quote
	setBare        // a value without quotes; ends where code or prose go on
	setHost        // a host with its port
	setSecret      // user:password of a URL: no blank, quote, angle, slash
	setDouble      // inside "": no ", backslash or line end
	setSingle      // inside ''
	setTick        // inside ``
	setPlain       // printable ASCII without quotes and backslash
	setForeign     // bytes of anything but ASCII
	setCount   = iota
)

// members returns the sets that c is in. Bytes of a rune beyond ASCII are
// members together or not at all, so the ends of a run never split a rune.
func members(c byte) (in set) {
	add := func(yes bool, s set) {
		if yes {
			in |= s
		}
	}
	digit, lower, upper := isDigit(c), isLower(c), isUpper(c)
	alnum := digit || lower || upper
	word := alnum || c == '_'
	token := word || c == '-'
	end := c == '\n' || c == '\r'
	blank := end || c == ' ' || c == '\t'
	quote := c == '"' || c == '\'' || c == '`'
	ascii := c > ' ' && c < 0x7f

	add(digit, setDigit)
	add(digit || c|0x20 >= 'a' && c|0x20 <= 'f', setHex)
	add(digit || c >= 'a' && c <= 'f', setLowHex)
	add(digit || upper, setUpper)
	add(digit || lower, setLower)
	add(alnum, setAlnum)
	add(word, setWord)
	add(token, setToken)
	add(token || c == '.', setDotted)
	add(alnum || c == '+' || c == '/' || c == '=', setBase64)
	add(token || c == '+' || c == '/' || c == '=' || c == '.' || c == '~', setOpaque)
	add(c == ' ' || c == '\t', setSpace)
	add(blank, setBlank)
	add(!end, setLine)
	add(!blank && !quote, setArg)
	add(bare(c), setBare)
	add(token || c == '.' || c == ':' || c == '[' || c == ']', setHost)
	add(!blank && !quote && c > ' ' && c != '<' && c != '>' && c != '/' && c != '\\', setSecret)
	add(!end && c != '"' && c != '\\', setDouble)
	add(!end && c != '\'' && c != '\\', setSingle)
	add(!end && c != '`' && c != '\\', setTick)
	add(ascii && !quote && c != '\\', setPlain)
	add(c >= 0x80, setForeign)
	return in
}

// bare reports whether c continues a value that has no quotes. Letters of two
// bytes (Latin, Greek, Cyrillic) do; the marks of U+0080 to U+00BF and all
// that takes three bytes, such as the comma of Chinese, do not.
func bare(c byte) bool {
	switch c {
	case '"', '\'', '`', '<', '>', '(', ')', '[', ']', '{', '}', ',', ';', '&', '|', '\\', 0x7f:
		return false
	}
	return c > ' ' && c < 0xc0 || c >= 0xc3 && c < 0xe0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isAlnum(c byte) bool { return isAlpha(c) || isDigit(c) }

// isWord reports whether c belongs to a name.
func isWord(c byte) bool { return isAlnum(c) || c == '_' }

// fold lowers an ASCII letter.
func fold(c byte) byte {
	if isUpper(c) {
		return c | 0x20
	}
	return c
}

// equalFold reports whether s is the lower-case word.
func equalFold(s, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i := range len(s) {
		if fold(s[i]) != word[i] {
			return false
		}
	}
	return true
}

func hasPrefixFold(s, word string) bool {
	return len(s) >= len(word) && equalFold(s[:len(word)], word)
}

func hasSuffixFold(s, word string) bool {
	return len(s) >= len(word) && equalFold(s[len(s)-len(word):], word)
}

// oneOf reports whether s is one of the lower-case words.
func oneOf(s string, words []string) bool {
	for _, w := range words {
		if equalFold(s, w) {
			return true
		}
	}
	return false
}

// nearMax bounds how far a rule looks for what belongs to its anchor.
const nearMax = 256

// memo is the last run that was measured of one set.
type memo struct{ from, to int }

// run returns the end of the run of bytes in one set that starts at i. The
// last run of every set is remembered, so that many anchors in one long run
// cost its length once.
func (s *Scrubber) run(in set, i int) int {
	m := &s.memo[bit(in)]
	if m.from <= i && i < m.to {
		return m.to
	}
	j := i
	for j < len(s.text) && s.sets[s.text[j]]&in != 0 {
		if j == m.from && m.to > j {
			j = m.to
			break
		}
		j++
	}
	s.steps += j - i
	*m = memo{i, j}
	return j
}

// upTo is run, at most n bytes of it and without the memo.
func (s *Scrubber) upTo(in set, i, n int) int {
	j, end := i, min(i+n, len(s.text))
	for j < end && s.sets[s.text[j]]&in != 0 {
		j++
	}
	s.steps += j - i
	return j
}

// back returns the start of the run of bytes in one set that ends at i, at
// most n bytes of it.
func (s *Scrubber) back(in set, i, n int) int {
	j, end := i, max(i-n, 0)
	for j > end && s.sets[s.text[j-1]]&in != 0 {
		j--
	}
	s.steps += i - j
	return j
}
