package redact

import "strings"

// value is what was found after a name.
type value struct {
	lo, hi int
	quoted bool
	apart  bool // on a later line than the name
	sep    separator
}

// separator is what stands between a name and its value.
type separator uint8

const (
	sepNone  separator = iota
	sepEqual           // = and its kin
	sepColon
	sepBlank   // blanks alone
	sepEncoded // = in a URL within a URL, where the value ends with the next %26
	sepOther   // a mark that only a quoted value may follow
)

// valueOf reads from the end of a name over the separator to the value.
func (s *Scrubber) valueOf(n name) (value, bool) {
	i := n.hi
	for i < len(s.text) && i < n.hi+8 && strings.IndexByte("\"'`\\])", s.text[i]) >= 0 {
		i++
	}
	sep, next := s.separator(n, s.run(setSpace, i), i > n.hi)
	if sep == sepNone {
		return value{}, false
	}
	i = s.run(setSpace, next)
	if i < len(s.text) && (s.text[i] == '\n' || s.text[i] == '\r') {
		return s.lineValue(i, sep)
	}
	v := value{sep: sep}
	if v.lo, v.hi, v.quoted = s.quotedAt(i); v.quoted || sep == sepOther {
		return v, v.quoted
	}
	v.lo, v.hi = i, s.bareEnd(i)
	if sep == sepEncoded {
		if n := strings.Index(s.text[v.lo:min(v.hi, v.lo+nearMax)], "%26"); n >= 0 {
			v.hi = v.lo + n
		}
	}
	if next, ok := s.annotated(v); ok {
		if v.lo, v.hi, v.quoted = s.quotedAt(next); !v.quoted {
			v.lo, v.hi = next, s.bareEnd(next)
		}
	}
	return v, true
}

// separator reads the separator at i, after the name and the marks that close
// it. It returns where the value may begin.
func (s *Scrubber) separator(n name, i int, closed bool) (separator, int) {
	rest := s.text[min(i, len(s.text)):]
	if rest == "" {
		return sepNone, 0
	}
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "=="), strings.HasPrefix(rest, ">="), strings.HasPrefix(rest, "=~"), strings.HasPrefix(rest, "::"):
		return sepNone, 0
	case strings.HasPrefix(rest, "=>"), strings.HasPrefix(rest, ":="), strings.HasPrefix(rest, "?="), strings.HasPrefix(rest, ":-"):
		return sepEqual, i + 2
	case c == '=':
		return sepEqual, i + 1
	case c == ':':
		return sepColon, i + 1
	case strings.HasPrefix(rest, "："), strings.HasPrefix(rest, "＝"):
		return sepColon, i + len("：")
	case c == '>' && (closed || n.lo > 0 && s.text[n.lo-1] == '<'):
		return sepEqual, i + 1
	case hasPrefixFold(rest, "%3d"):
		return sepEncoded, i + 3
	case strings.HasPrefix(rest, "-> ") && i > n.hi:
		return sepEqual, i + 3
	case c == '\n', c == '\r', c == ',' && closed:
		if next := s.valueLabel(i); next > 0 {
			return sepEqual, next
		}
		return sepOther, i + 1
	case c == '(' && !closed:
		return sepOther, i + 1
	case strings.HasPrefix(rest, "| ") && i > n.hi:
		return sepEqual, i + 1 // a cell of a table
	case c == '{' && closed:
		return s.blockDefault(i)
	case hasPrefixFold(rest, "value="):
		return sepOther, i + len("value=")
	case i > n.hi && (s.sets[s.text[i-1]]&setSpace != 0):
		return sepBlank, i
	}
	return sepNone, 0
}

// valueLabel finds where the value begins when a name is itself a value, as in
// name: DB_PASSWORD, then value: on the next line or in the next field.
func (s *Scrubber) valueLabel(i int) int {
	for end := min(i+nearMax, len(s.text)); i < end && (s.sets[s.text[i]]&setBlank != 0 || strings.IndexByte(",\"'\\", s.text[i]) >= 0); i++ {
		s.steps++
	}
	if !hasPrefixFold(s.text[i:], "value") {
		return 0
	}
	i += len("value")
	for i < len(s.text) && strings.IndexByte("\"'\\ ", s.text[i]) >= 0 {
		i++
	}
	if i >= len(s.text) || s.text[i] != ':' && s.text[i] != '=' {
		return 0
	}
	return i + 1
}

// blockMax bounds how far the default of a block may stand from its name.
const blockMax = 160

// blockDefault finds the default of a block, as in variable "name" { default = "value" }.
func (s *Scrubber) blockDefault(i int) (separator, int) {
	block := s.text[i:min(i+blockMax, len(s.text))]
	if end := strings.IndexByte(block, '}'); end >= 0 {
		block = block[:end]
	}
	s.steps += len(block)
	at := strings.Index(block, "default")
	if at < 0 {
		return sepNone, 0
	}
	i = s.run(setSpace, i+at+len("default"))
	if i >= len(s.text) || s.text[i] != '=' {
		return sepNone, 0
	}
	return sepOther, i + 1
}

// lineValue reads a value that stands alone on a line after that of its name,
// which ends at i with a separator.
func (s *Scrubber) lineValue(i int, sep separator) (value, bool) {
	lo := s.run(setBlank, i)
	if sep != sepEqual && sep != sepColon || lo > i+64 {
		return value{}, false
	}
	hi := s.bareEnd(lo)
	if end := s.run(setSpace, hi); end < len(s.text) && s.text[end] != '\n' && s.text[end] != '\r' {
		return value{}, false
	}
	return value{lo: lo, hi: hi, sep: sep, apart: true}, true
}

// bareEnd returns the end of a value without quotes. A mark that ends a
// sentence is not part of it.
func (s *Scrubber) bareEnd(i int) int {
	hi := s.run(setBare, i)
	for hi > i && (s.text[hi-1] == '.' || s.text[hi-1] == ':') {
		hi--
	}
	return hi
}

// annotated reports whether a value is the type of what follows an equals
// sign, as in password: str = "...", and where that begins.
func (s *Scrubber) annotated(v value) (int, bool) {
	if v.sep != sepColon && v.sep != sepBlank || !oneOf(s.text[v.lo:v.hi], typeNames) {
		return 0, false
	}
	i := s.run(setSpace, v.hi)
	if i >= len(s.text) || s.text[i] != '=' {
		return 0, false
	}
	return s.run(setSpace, i+1), true
}

var typeNames = []string{"str", "string", "&str", "any", "text", "bytes", "char", "std::string"}

// quotes are the pairs beyond ASCII that a value may stand between.
var quotes = [...][2]string{{"«", "»"}, {"“", "”"}, {"„", "“"}, {"「", "」"}, {"『", "』"}, {"‘", "’"}, {"‹", "›"}}

// quotedAt reads a quoted value at i: its quotes may be escaped, as JSON in
// JSON has them, and have a prefix, as in b"" and @"".
func (s *Scrubber) quotedAt(i int) (lo, hi int, ok bool) {
	t := s.text
	if i+1 < len(t) && strings.IndexByte("bBrRfFuU@", t[i]) >= 0 && (t[i+1] == '"' || t[i+1] == '\'') {
		i++
	}
	start := i
	for i < len(t) && t[i] == '\\' && i < start+8 {
		i++
	}
	if i >= len(t) {
		return 0, 0, false
	}
	if q := strings.IndexByte("\"'`", t[i]); q >= 0 {
		if strings.HasPrefix(t[i:], `"""`) || strings.HasPrefix(t[i:], "'''") {
			i += 2
		}
		return s.quotedEnd(i+1, [...]set{setDouble, setSingle, setTick}[q], t[i], i > start && t[start] == '\\')
	}
	if t[i] < 0x80 || i > start {
		return 0, 0, false
	}
	for _, q := range quotes {
		if strings.HasPrefix(t[i:], q[0]) {
			lo = i + len(q[0])
			n := strings.Index(t[lo:min(lo+nearMax, len(t))], q[1])
			s.steps += max(n, nearMax)
			return lo, lo + n, n >= 0
		}
	}
	return 0, 0, false
}

// quotedEnd finds the end of a quoted value that starts at lo. Inside quotes
// that are not escaped themselves a backslash takes the next byte with it.
func (s *Scrubber) quotedEnd(lo int, in set, quote byte, escaped bool) (_, hi int, ok bool) {
	hi = lo
	for range 64 {
		hi = s.run(in, hi)
		switch {
		case hi >= len(s.text):
			return 0, 0, false
		case s.text[hi] == quote:
			return lo, hi, true
		case s.text[hi] != '\\':
			return 0, 0, false
		case escaped:
			return lo, hi, true
		}
		hi = min(hi+2, len(s.text))
	}
	return 0, 0, false
}
