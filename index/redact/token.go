package redact

import "strings"

// provider is a kind of token that its prefix gives away.
type provider struct {
	kind   string
	prefix string
	min    int    // bytes after the prefix
	exact  int    // exactly so many, 0 for any number from min on
	extra  string // bytes besides letters, digits and underscore
}

// providers holds the public formats of well-known tokens, by first byte.
var providers = map[byte][]provider{
	'A': {
		{kind: "aws-access-key", prefix: "AKIA", exact: 16},
		{kind: "aws-access-key", prefix: "ASIA", exact: 16},
		{kind: "google-api-key", prefix: "AIza", min: 33, extra: "-"},
	},
	'S': {{kind: "sendgrid-key", prefix: "SG.", min: 40, extra: "-."}},
	'd': {{kind: "digitalocean-token", prefix: "dop_v1_", min: 40}, {kind: "databricks-token", prefix: "dapi", exact: 32}},
	'g': {
		{kind: "github-token", prefix: "ghp_", min: 30},
		{kind: "github-token", prefix: "gho_", min: 30},
		{kind: "github-token", prefix: "ghu_", min: 30},
		{kind: "github-token", prefix: "ghs_", min: 30},
		{kind: "github-token", prefix: "ghr_", min: 30},
		{kind: "github-token", prefix: "github_pat_", min: 40},
		{kind: "gitlab-token", prefix: "glpat-", min: 18, extra: "-."},
		{kind: "groq-key", prefix: "gsk_", min: 30},
		{kind: "grafana-token", prefix: "glsa_", min: 30},
	},
	'h': {{kind: "huggingface-token", prefix: "hf_", min: 30}, {kind: "vault-token", prefix: "hvs.", min: 20, extra: "-"}},
	'l': {{kind: "linear-key", prefix: "lin_api_", min: 30}},
	'n': {{kind: "npm-token", prefix: "npm_", min: 30}, {kind: "notion-token", prefix: "ntn_", min: 30}},
	'p': {{kind: "pypi-token", prefix: "pypi-", min: 40, extra: "-"}, {kind: "perplexity-key", prefix: "pplx-", min: 30}},
	'r': {{kind: "replicate-token", prefix: "r8_", min: 30}, {kind: "stripe-key", prefix: "rk_live_", min: 16}},
	's': {
		{kind: "anthropic-key", prefix: "sk-ant-", min: 20, extra: "-"},
		{kind: "openai-key", prefix: "sk-proj-", min: 20, extra: "-"},
		{kind: "openai-key", prefix: "sk-", min: 32, extra: "-"},
		{kind: "stripe-key", prefix: "sk_live_", min: 16},
		{kind: "stripe-key", prefix: "sk_test_", min: 16},
		{kind: "shopify-token", prefix: "shpat_", exact: 32},
	},
	'x': {
		{kind: "slack-token", prefix: "xoxb-", min: 20, extra: "-"},
		{kind: "slack-token", prefix: "xoxp-", min: 20, extra: "-"},
		{kind: "slack-token", prefix: "xapp-", min: 20, extra: "-"},
		{kind: "xai-key", prefix: "xai-", min: 30},
	},
}

// maxToken bounds how far a token is followed.
const maxToken = 4 << 10

// token matches what begins with a known prefix, JSON web tokens, and what
// follows "Bearer" or "Basic".
func token(text string, i int) finding {
	rest := text[i:]
	switch rest[0] {
	case 'e':
		if strings.HasPrefix(rest, "eyJ") {
			return jwt(text, i)
		}
	case 'b', 'B':
		return scheme(text, i)
	}
	for _, p := range providers[rest[0]] {
		if !strings.HasPrefix(rest, p.prefix) {
			continue
		}
		n := run(rest[len(p.prefix):], p.extra)
		if p.exact > 0 && n == p.exact || p.exact == 0 && n >= p.min && mixed(rest[len(p.prefix):len(p.prefix)+n]) {
			return finding{p.kind, i, i + len(p.prefix) + n}
		}
	}
	return finding{}
}

// run is the length of the token at the start of s.
func run(s, extra string) int {
	n := 0
	for n < len(s) && n < maxToken && (wordByte[s[n]] || extra != "" && strings.IndexByte(extra, s[n]) >= 0) {
		n++
	}
	for n > 0 && (s[n-1] == '.' || s[n-1] == '-') {
		n--
	}
	return n
}

// mixed reports whether a token has a digit or both cases: a slug of words has not.
func mixed(s string) bool {
	var lower, upper, digit bool
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'z':
			lower = true
		case c >= 'A' && c <= 'Z':
			upper = true
		}
	}
	return digit || lower && upper
}

// jwt matches three base64url parts of which the first two are JSON objects.
func jwt(text string, i int) finding {
	end, dots := i, 0
	for end < len(text) && end-i < maxToken {
		switch c := text[end]; {
		case wordByte[c] || c == '-':
		case c == '.' && dots < 2:
			dots++
		default:
			goto stop
		}
		end++
	}
stop:
	parts := strings.Split(text[i:end], ".")
	if len(parts) == 3 && len(parts[0]) >= 10 && strings.HasPrefix(parts[1], "eyJ") && len(parts[2]) >= 8 {
		return finding{"jwt", i, end}
	}
	return finding{}
}

// scheme matches the credentials of an Authorization header.
func scheme(text string, i int) finding {
	for _, s := range []struct {
		word, kind string
		min        int
	}{{"bearer ", "bearer-token", 16}, {"basic ", "basic-auth", 8}} {
		if len(text)-i < len(s.word) || !strings.EqualFold(text[i:i+len(s.word)], s.word) {
			continue
		}
		from := i + len(s.word)
		n := run(text[from:], "-.~+/=")
		for n < len(text)-from && text[from+n] == '=' {
			n++
		}
		if v := text[from : from+n]; n >= s.min && mixed(v) && !placeholder(v) {
			return finding{s.kind, from, from + n}
		}
	}
	return finding{}
}

// privateKey matches a PEM or PGP private key block, also one that is cut off
// or written on one line with escapes.
func privateKey(text string, i int) finding {
	const begin, end = "-----BEGIN ", "-----END "
	if !strings.HasPrefix(text[i:], begin) {
		return finding{}
	}
	head := text[i+len(begin):]
	head = head[:min(len(head), 64)]
	name, _, ok := strings.Cut(head, "-----")
	if !ok || !strings.Contains(name, "PRIVATE KEY") {
		return finding{}
	}
	from := i + len(begin) + len(name) + len("-----")
	const maxKey = 64 << 10
	body := text[from:]
	body = body[:min(len(body), maxKey)]
	if n := strings.Index(body, end); n >= 0 {
		return finding{"private-key", from, from + n}
	}
	n := 0
	for n < len(body) && (wordByte[body[n]] || strings.IndexByte("+/=\\\r\n -:,", body[n]) >= 0) {
		n++
	}
	if n < 16 {
		return finding{}
	}
	return finding{"private-key", from, from + n}
}
