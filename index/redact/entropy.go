package redact

import "strings"

// The family of values without any name: one long generated word alone on its
// line, as a program prints a key that it has made.
var entropyRules = []rule{{
	name: "bare-line", kind: "entropy", match: (*Scrubber).matchLine,
	hit:  []string{"‹an32›\n", "here it is:\n\n    ‹{an20}_{an19}›\n\nkeep it safe"},
	miss: []string{"‹h40›\n", "‹uuid›", "toolu_‹an24›\n", "TestHTTP2ServerPushesAgain2026\n", "nanoid ‹an21›", "‹b76›\n‹b76›\n‹b40›\n", "‹an32›\n‹an32›\n", "‹an32›\n[redacted:entropy]\n", "OpVCVTDQ2PDMasked256\n\tOpVCVTDQ2PSMasked128\n", "TestSyncExportRedactsAgainAndAgain1\n", "internal/auth/Token_store2_refresh_test.go"},
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
	if s.listed(before, after) {
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

// listed reports whether the line before or after is one word as well: then
// this is one of a list of names or of the lines of a block. What has been
// redacted counts as a word, lest a list goes entry by entry.
func (s *Scrubber) listed(before, after int) bool {
	const min = 12
	if hi := s.back(setBlank, before, 64); hi < before {
		if strings.HasSuffix(s.text[:hi], "[redacted:entropy]") {
			return true
		}
		lo := s.back(setOpaque, hi, lineMax)
		if lo = s.back(setSpace, lo, 64); hi-lo >= min && (lo == 0 || s.text[lo-1] == '\n') {
			return true
		}
	}
	lo := s.upTo(setBlank, after, 64)
	hi := s.upTo(setOpaque, lo, lineMax)
	return strings.HasPrefix(s.text[lo:], "[redacted:entropy]") || hi-lo >= min && (hi == len(s.text) || s.sets[s.text[hi]]&setBlank != 0)
}
