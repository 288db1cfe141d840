package redact

import "strings"

// The family of cookies: headers and the files of browsers and curl.
var cookieRules = []rule{
	{
		name: "cookie", kind: "cookie", match: (*Scrubber).matchCookie,
		anchors: []string{"cookie"},
		hit: []string{
			"Cookie: sessionid=‹an37›; theme=dark", "Set-Cookie: connect.sid=‹s%3A{an40}›; Path=/; HttpOnly", `"cookie": "a=1; sid=‹h32›"`, `-H 'Cookie: s=‹an24›'`,
			`curl --cookie "session=‹an18›" https://x.net`, `document.cookie = "auth_token=‹an41›; path=/"`,
		},
		miss: []string{
			"Set-Cookie: theme=dark; Path=/", "Cookie: lang=en", "cookie policy: strict", "CSRF_COOKIE_SECURE = True", "cookie: strict", "Cookie: seen=2026-01-02; n=12345678",
			"Set-Cookie: id=x; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "cookies.set(name, value2, opts3)",
		},
	},
	{
		name: "cookie-file", kind: "cookie", match: (*Scrubber).matchCookieFile,
		anchors: []string{"\ttrue\t", "\tfalse\t"},
		hit:     []string{".x.net\tTRUE\t/\tTRUE\t1790000000\tsid\t‹an18›", "#HttpOnly_.x.net\tFALSE\t/\tTRUE\t0\tauth\t‹h40›\nend"},
		miss:    []string{"a\tTRUE\tb", ".x.net\tTRUE\t/\tFALSE\t0\ttheme\tdark"},
	},
}

// cookiePairs bounds how many cookies of a header are looked at.
const cookiePairs = 64

// matchCookie marks the values of a cookie header that look generated.
func (s *Scrubber) matchCookie(at, end int) {
	i := end
	for i < len(s.text) && i < end+12 && strings.IndexByte("\"'\\]:= \t", s.text[i]) >= 0 {
		i++
	}
	if i == end {
		return
	}
	s.markPairs(i)
}

// markPairs marks the values of name=value pairs from i to the end of a line or
// a quotation.
func (s *Scrubber) markPairs(i int) {
	for range cookiePairs {
		i = s.run(setSpace, i)
		eq := s.upTo(setDotted, i, nameMax)
		if eq == i || eq >= len(s.text) || s.text[eq] != '=' {
			if eq < len(s.text) && s.text[eq] == ';' {
				i = eq + 1 // a flag such as HttpOnly
				continue
			}
			return
		}
		hi := s.run(setBare, eq+1)
		if v := s.text[eq+1 : hi]; cookieValue(v) && !oneOf(s.text[i:eq], attributes) {
			s.mark(eq+1, hi)
		}
		s.steps += min(hi-eq, profileMax)
		if hi >= len(s.text) || s.text[hi] != ';' {
			return
		}
		i = hi + 1
	}
}

var attributes = []string{"path", "domain", "expires", "max-age", "samesite", "priority", "version", "comment"}

// cookieValue decides about the value of a cookie: an opaque one may be a
// session, a readable one is a setting.
func cookieValue(v string) bool {
	v = v[:min(len(v), profileMax)]
	if len(v) < 12 || placeholder(v) {
		return false
	}
	p := profileOf(v)
	return p.digit > 0 && p.lower+p.upper >= 3 && p.turns > 2 && !kebab(v, p) && !isNumber(v, p)
}

// matchCookieFile marks the last field of a line of seven that tabs separate.
func (s *Scrubber) matchCookieFile(at, _ int) {
	host := s.back(setDotted, at, 128)
	if host > 0 && s.text[host-1] == '#' {
		host-- // #HttpOnly_
	}
	if host == at || host > 0 && s.sets[s.text[host-1]]&setLine != 0 {
		return
	}
	end := s.run(setLine, at)
	fields, last := 0, at
	for i := at; i < min(end, at+hashMax); i++ {
		if s.text[i] == '\t' {
			fields, last = fields+1, i+1
		}
	}
	s.steps += min(end-at, hashMax)
	if v := s.text[last:end]; fields == 6 && len(v) >= 8 && len(v) < hashMax && profileOf(v).digit > 0 && !placeholder(v) {
		s.mark(last, end)
	}
}
