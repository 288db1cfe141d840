package redact

import "strings"

// A shape is the form of a credential: bytes that stand as they are, and holes.
// {an36} is 36 letters or digits, {an36-40} 36 to 40, {an36+} 36 or more.
// A hole's letters name its set:
//
//	d digits      h hex, lower case   x hex, either case   u A-Z and digits
//	l a-z, digits an letters, digits  w an and _           t w and -
//	o t and .     b base64
//
// The last hole takes all that it can and, when its length is bounded, nothing
// of its set may follow. A shape begins with its anchor, or with one hole of a
// fixed length before it.

// hole is a parsed hole; next is the shape after it.
type hole struct {
	set      set
	min, max int // max < 0: no bound
	next     string
}

func parseHole(shape string) hole {
	end := strings.IndexByte(shape, '}')
	body, h := shape[1:end], hole{next: shape[end+1:]}
	letters := strings.IndexAny(body, "0123456789")
	switch body[:letters] {
	case "d":
		h.set = setDigit
	case "h":
		h.set = setLowHex
	case "x":
		h.set = setHex
	case "u":
		h.set = setUpper
	case "l":
		h.set = setLower
	case "an":
		h.set = setAlnum
	case "w":
		h.set = setWord
	case "t":
		h.set = setToken
	case "o":
		h.set = setDotted
	case "b":
		h.set = setBase64
	}
	n, i := 0, letters
	for ; i < len(body) && isDigit(body[i]); i++ {
		n = n*10 + int(body[i]-'0')
	}
	h.min, h.max = n, n
	if i < len(body) && body[i] == '+' {
		h.max = -1
	} else if i < len(body) {
		h.max = 0
		for i++; i < len(body); i++ {
			h.max = h.max*10 + int(body[i]-'0')
		}
	}
	return h
}

// matchShape marks what has the shape of the rule that runs.
func (s *Scrubber) matchShape(shape string, at, end int) {
	lit, before := literal(shape)
	lo := at
	if before != "" {
		h := parseHole(before)
		if lo = s.back(h.set, at, h.max); at-lo < h.min {
			return
		}
	}
	if !s.startsToken(lo) || len(lit) < 4 && before == "" && s.inGenerated(lo, lit) {
		return
	}
	hi, ok := s.fill(shape[len(before)+len(lit):], end)
	if !ok {
		return
	}
	for hi > end && s.text[hi-1] == '.' {
		hi-- // of the sentence
	}
	body := s.text[end:hi]
	if at-lo > hi-end {
		body = s.text[lo:at]
	}
	s.steps += min(len(body), profileMax)
	if written(body) || placeholder(body) {
		return
	}
	s.mark(lo, s.unwrap(hi))
}

// fill matches the rest of a shape at i.
func (s *Scrubber) fill(shape string, i int) (hi int, ok bool) {
	for shape != "" {
		if shape[0] != '{' {
			if i >= len(s.text) || s.text[i] != shape[0] {
				return 0, false
			}
			i, shape = i+1, shape[1:]
			continue
		}
		h := parseHole(shape)
		shape = h.next
		var j int
		switch {
		case h.max < 0:
			j = s.run(h.set, i)
		case shape == "":
			j = s.upTo(h.set, i, h.max+1)
		default:
			j = s.upTo(h.set, i, h.max)
		}
		if j-i < h.min || h.max >= 0 && j-i > h.max {
			return 0, false
		}
		i = j
	}
	return i, true
}

// written reports whether the body of a token was written by hand: words, or
// one letter again and again.
func written(body string) bool {
	p := profileOf(body)
	return p.digit == 0 && !p.jumbled() && (p.upper == 0 || p.lower == 0 || p.soft > 2) || p.distinct < 4
}

// startsToken reports whether a token can begin at i: after anything but a
// letter or digit, after an escape such as \n or %3D, or after the end of what
// is redacted already.
func (s *Scrubber) startsToken(i int) bool {
	if i == 0 || !isAlnum(s.text[i-1]) || escaped(s.text, i-1) {
		return true
	}
	if n := len(s.found); n > 0 && s.found[n-1].hi == i {
		return true
	}
	return i >= 3 && s.text[i-3] == '%' && s.sets[s.text[i-1]]&s.sets[s.text[i-2]]&setHex != 0
}

// inGenerated reports whether a short literal at i may be three bytes out of a
// longer value: after a mark of base64, or of its variant for URLs.
func (s *Scrubber) inGenerated(i int, lit string) bool {
	if i == 0 {
		return false
	}
	switch s.text[i-1] {
	case '-', '_':
		return true
	case '/', '+':
		return !strings.ContainsAny(lit, "-_")
	}
	return false
}

const (
	wrapMin   = 60 // a terminal as narrow as this wraps lines
	wrapLines = 8
)

// unwrap extends a token that ends at hi over the line ends that a terminal put
// into it: the line is full, and the next begins with more of the like.
func (s *Scrubber) unwrap(hi int) int {
	for range wrapLines {
		if hi >= len(s.text) || s.text[hi] != '\n' {
			return hi
		}
		width := hi - s.back(setLine, hi, 2*nearMax)
		end := s.upTo(setOpaque, hi+1, width)
		rest := s.text[hi+1 : end]
		p := profileOf(rest)
		if width < wrapMin || p.digit == 0 || p.lower == 0 || len(rest) < 8 || p.turns*4 < p.n || strings.Contains(rest, "://") {
			return hi
		}
		if end < len(s.text) && s.sets[s.text[end]]&setBlank == 0 && s.text[end] != '"' && s.text[end] != '\'' {
			return hi
		}
		hi = end
	}
	return hi
}
