package redact

import "strings"

// The family of authorization headers. Other headers, such as X-Api-Key, are
// names with values: assign.go.
var headerRules = []rule{
	{
		name: "bearer", kind: "bearer-token", match: (*Scrubber).matchScheme,
		anchors: []string{"bearer"},
		hit:     []string{"Authorization: Bearer ‹an41›", `curl -H "Authorization: Bearer ‹t43›" https://x`, `"Bearer ‹an20›"`, "authorization: bearer ‹uuid›", "Bearer ‹h40›"},
		miss: []string{
			"Authorization: Bearer $TOKEN", "Authorization: Bearer <token>", "a bearer token is required", `TrimPrefix(h, "Bearer ")`, "TestX/bearer_token_in_header",
			"Bearer authentication1 is used", "bearer-token-2024-in-header", "Bearer [redacted:x]",
		},
	},
	{
		name: "basic", kind: "basic-auth", match: (*Scrubber).matchScheme,
		anchors: []string{"basic "},
		hit:     []string{`"Authorization": "Basic ‹{b30}==›"`, "Proxy-Authorization: Basic ‹b24›"},
		miss:    []string{"basic authentication is enabled", "Basic realm=\"x1\"", "basic understanding2 of", "Visual Basic 2015projectfile"},
	},
	{
		name: "authorization", kind: "authorization", match: (*Scrubber).matchAuthorization,
		anchors: []string{"authorization"},
		hit: []string{
			"> authorization: token ‹an39›", "Authorization: ‹an40›", `Authorization: Digest username="svc", response="‹an29›"`, "Authorization: ApiKey ‹an32›",
			`{"authorization":"‹an32›"}`,
		},
		miss: []string{"authorization: denied for role viewer", "authorization: optional", "authorization: Optional[str] = Header(None)", "authorization: token required2"},
	},
}

// matchScheme marks what follows Bearer or Basic: a header, or a quotation of one.
func (s *Scrubber) matchScheme(at, end int) {
	if at > 0 && isWord(s.text[at-1]) && !escaped(s.text, at-1) {
		return
	}
	lo := s.run(setSpace, end)
	if lo == end && s.text[end-1] != ' ' {
		return
	}
	hi := s.run(setOpaque, lo)
	v := strings.TrimRight(s.text[lo:min(hi, lo+nearMax)], ".")
	s.steps += len(v)
	p := profileOf(v)
	if p.n < 12 || p.digit == 0 || kebab(v, p) || placeholder(v) || trailingDigits(v, p) || isPath(v, p) && p.n < 32 {
		return
	}
	if basic := fold(s.text[at+1]) == 'a'; basic && (p.upper == 0 || p.lower == 0) {
		return // base64 of two words has both
	}
	for s.text[hi-1] == '.' {
		hi--
	}
	s.mark(lo, s.unwrap(hi))
}

// trailingDigits reports whether a value is one word and a short number.
func trailingDigits(v string, p profile) bool {
	w := strings.TrimRight(v, "0123456789")
	return p.digit <= 2 && len(v)-len(w) == p.digit && p.soft+p.hard == 0 && !profileOf(w).jumbled()
}

// matchAuthorization marks the credentials of a header that has neither scheme.
func (s *Scrubber) matchAuthorization(at, end int) {
	n := s.nameAt(at, end)
	if n.hi != end {
		return
	}
	n.strength = strong
	v, ok := s.valueOf(n)
	if !ok || v.sep == sepBlank {
		return
	}
	lo := v.lo
	first := s.upTo(setToken, lo, 24)
	switch {
	case oneOf(s.text[lo:first], []string{"bearer", "basic"}):
		return
	case oneOf(s.text[lo:first], []string{"digest", "aws4-hmac-sha256"}):
		s.markFields(first)
		return
	case oneOf(s.text[lo:first], []string{"token", "apikey", "api-key", "key", "sso-key", "genie", "bot"}):
		lo = s.run(setSpace, first)
		v.hi = s.bareEnd(lo)
	}
	if v.hi-lo >= 12 && named(s.text[lo:v.hi], false, false) && !trailingDigits(s.text[lo:v.hi], profileOf(s.text[lo:v.hi])) {
		s.mark(lo, v.hi)
	}
}

// markFields marks the fields of a digest header that prove something.
func (s *Scrubber) markFields(i int) {
	end := s.upTo(setLine, i, nearMax)
	for _, field := range [...]string{"response=", "signature=", "cnonce="} {
		at := strings.Index(s.text[i:end], field)
		if at < 0 {
			continue
		}
		lo := i + at + len(field)
		for lo < end && (s.text[lo] == '"' || s.text[lo] == '\\') {
			lo++
		}
		hi := s.run(setOpaque, lo)
		if hi-lo >= 8 && !placeholder(s.text[lo:hi]) {
			s.mark(lo, hi)
		}
	}
}
