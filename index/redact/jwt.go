package redact

// The family of JSON web tokens: signed ones of three parts, encrypted ones of
// five, and what a terminal has left of them.
var jwtRules = []rule{{
	name: "jwt", kind: "jwt", match: (*Scrubber).matchJWT, exact: true,
	anchors: []string{"eyJ"},
	hit: []string{
		"id_token=‹eyJ{t33}.eyJ{t80}.{t43}›", "cookie holds ‹eyJ{t33}.eyJ{t80}.{t86}› until noon", `{"jwt": "‹eyJ{t33}.eyJ{t80}.{t43}›"}`,
		"‹eyJ{t33}..{t16}.{t80}.{t22}›", "‹eyJ{t33}.eyJ{t80}.›",
	},
	miss: []string{"eyJ is how a base64 JSON object starts", "eyJ.eyJ.x", "eyJhbGciOiJIUzI1NiJ9"},
}}

// matchJWT marks a header, a payload and what follows with dots between.
func (s *Scrubber) matchJWT(at, end int) {
	if !s.startsToken(at) {
		return
	}
	dot := s.run(setToken, end)
	if dot-at < 12 || dot >= len(s.text) || s.text[dot] != '.' {
		return
	}
	hi := s.run(setToken, dot+1)
	if hi-dot < 8 && !(hi == dot+1 && hi < len(s.text) && s.text[hi] == '.') {
		return
	}
	for range 3 {
		if hi >= len(s.text) || s.text[hi] != '.' {
			break
		}
		hi = s.run(setToken, hi+1)
	}
	if !written(s.text[end:dot]) {
		s.mark(at, s.unwrap(hi))
	}
}
