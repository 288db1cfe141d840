package redact

import "strings"

// The family of values without any name: one long generated word alone on its
// line, as a program prints a key that it has made.
var entropyRules = []rule{{
	name: "bare-line", kind: "entropy", match: (*Scrubber).matchLine,
	hit:  []string{"‹an32›\n", "here it is:\n\n    ‹{an20}_{an19}›\n\nkeep it safe"},
	miss: []string{"‹h40›\n", "‹uuid›", "toolu_‹an24›\n", "TestHTTP2ServerPushesAgain2026\n", "nanoid ‹an21›", "‹b76›\n‹b76›\n‹b40›\n", "TestSyncExportRedactsAgainAndAgain1\n", "internal/auth/Token_store2_refresh_test.go"},
}}

const (
	lineMin = 24
	lineMax = 128
)

// matchLine marks a run of opaque bytes that has a line to itself and is not
// one of the lines of a longer block.
func (s *Scrubber) matchLine(lo, hi int) {
	if hi-lo < lineMin || hi-lo > lineMax || hi-lo == 64 || hi-lo == 76 {
		return
	}
	before, after := s.back(setSpace, lo, 64), s.upTo(setSpace, hi, 64)
	if before > 0 && s.text[before-1] != '\n' || after < len(s.text) && s.text[after] != '\n' && s.text[after] != '\r' {
		return
	}
	if before > 1 && s.back(setOpaque, before-1, opaqueMin) == before-1-opaqueMin {
		return
	}
	if next := s.upTo(setBlank, after, 4); s.upTo(setOpaque, next, 2*opaqueMin) == next+2*opaqueMin {
		return
	}
	v := s.text[lo:hi]
	s.steps += 3 * len(v)
	if p := profileOf(v); p.digit < 2 || p.spelled*5 > p.n*2 {
		return
	}
	if !identifier(v) && strings.IndexByte(strings.TrimRight(v, "="), '=') < 0 && unnamed(v) {
		s.mark(lo, hi)
	}
}

// identifier reports whether a value is an id with a short word before it, as
// services give their objects: msg_..., chatcmpl-...
func identifier(v string) bool {
	i := 0
	for i < len(v) && isLower(v[i]) {
		i++
	}
	return i >= 2 && i <= 12 && i < len(v) && (v[i] == '_' || v[i] == '-') && len(v)-i <= 34
}
