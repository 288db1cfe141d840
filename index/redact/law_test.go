package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/deja-node/deja/index/redact"
)

// pieces are what texts are made of at random: cases of all rules, whole and
// cut, words, marks, and what has no meaning.
func pieces() []string {
	var all []string
	for _, c := range redact.Cases() {
		all = append(all, c.Text)
	}
	return append(
		all, "the", "password", "is", "token", ": ", "=", "==", "\"", "'", "`", "\\n", "\\", "\n", "\r\n", "\t", " ", "://", "@", "-----BEGIN RSA PRIVATE KEY-----",
		"-----END RSA PRIVATE KEY-----", "[redacted:", "]", "[redacted:token]", "ghp_", "eyJ", "sk-", "пароль", "密码是", "é", "\u200b", "\u00a0", "\x1b[32m", "\x1b[0m", "\xff", "\xe2\x80",
		"curl -u ", "mysql -p", "--password ", "kind: Secret\n", "data:\n  ", "<", ">", "{", "}", "‹an24›", "‹pw›", "‹word›", "‹uuid›", "‹h40›", "%3D", "%26", strings.Repeat(" ", 600), strings.Repeat("\t", 70), strings.Repeat("a1B", 200), strings.Repeat("word ", 60), ";", ",", "(", ")", "|",
	)
}

func randomText(rng *rand.Rand, from []string) string {
	var b strings.Builder
	for range 1 + rng.IntN(12) {
		p := from[rng.IntN(len(from))]
		if parts := split(p); len(parts)%2 == 1 {
			p = fill(rng, p)
		}
		if rng.IntN(4) == 0 {
			i := rng.IntN(len(p) + 1)
			p = p[i : i+rng.IntN(len(p)-i+1)]
		}
		b.WriteString(p)
		if rng.IntN(3) == 0 {
			b.WriteByte(" \n\t=:\"',"[rng.IntN(8)])
		}
	}
	return b.String()
}

// TestScrubbingTwiceIsScrubbingOnce and keeps valid UTF-8 valid.
func TestScrubbingTwiceIsScrubbingOnce(t *testing.T) {
	rng, from := newRand(t), pieces()
	a, b := redact.New(redact.Options{}), redact.New(redact.Options{})
	changed := 0
	for range 20_000 {
		text := randomText(rng, from)
		once := a.Scrub(text).String()
		if twice := b.Scrub(once).String(); twice != once {
			t.Fatalf("%q\nbecomes %q\nand then %q", text, once, twice)
		}
		if utf8.ValidString(text) && !utf8.ValidString(once) {
			t.Fatalf("%q becomes invalid: %q", text, once)
		}
		if once != text {
			changed++
		}
	}
	if n := a.Counts()["unstable-text"]; n > 0 {
		t.Errorf("%d texts needed too many rounds", n)
	}
	if changed < 5000 {
		t.Errorf("only %d texts had secrets", changed)
	}
}

// TestNothingIsAdded: without its redactions, the scrubbed text is the raw
// text with parts left out, in order.
func TestNothingIsAdded(t *testing.T) {
	rng, from := newRand(t), pieces()
	s := redact.New(redact.Options{})
	for range 5000 {
		text := randomText(rng, from)
		if strings.Contains(text, "redacted") {
			continue
		}
		rest, out := text, s.Scrub(text).String()
		for i, part := range strings.Split(out, "[redacted:") {
			if i > 0 {
				_, part, _ = strings.Cut(part, "]")
			}
			at := strings.Index(rest, part)
			if at < 0 {
				t.Fatalf("%q\nbecomes %q\nwhere %q is new", text, out, part)
			}
			rest = rest[at+len(part):]
		}
	}
}

// TestSecretsGoWhereverTheyStand puts secrets that need no context between
// random prose.
func TestSecretsGoWhereverTheyStand(t *testing.T) {
	rng := newRand(t)
	s := redact.New(redact.Options{})
	prose := strings.Fields("the deploy job printed a line and stopped; see internal/auth/token_store.go:42 (commit 7a81a64c), then `go test ./...` says ok, " +
		"because 12 of 40 keys were cached. I think \"it works\" — да, конечно — 好的 => retry = true; x := map[string]int{}")
	for _, c := range redact.Cases() {
		parts := split(c.Text)
		if !c.Hit || len(parts) != 3 || !strings.HasPrefix(c.Text, "the job printed") {
			continue
		}
		var words []string
		for range 40 {
			words = append(words, prose[rng.IntN(len(prose))])
		}
		value := secret(rng, parts[1])
		before, after := strings.Join(words[:20], " "), strings.Join(words[20:], " ")
		want := before + "\n[redacted:" + c.Kind + "]\n" + after
		if got := s.Scrub(before + "\n" + value + "\n" + after).String(); got != want {
			t.Errorf("%s: %q\nbecomes %q", c.Rule, value, got)
		}
	}
}

func TestDisabledScrubberChangesNothing(t *testing.T) {
	text := fill(newRand(t), "API_TOKEN=‹an24›")
	s := redact.New(redact.Options{Disabled: true})
	if got := s.Scrub(text).String(); got != text || len(s.Counts()) > 0 {
		t.Errorf("%q becomes %q, counts %v", text, got, s.Counts())
	}
}

func TestCountsPerKind(t *testing.T) {
	rng := newRand(t)
	s := redact.New(redact.Options{})
	s.Scrub(fill(rng, "A=‹ghp_{an36}› B=‹ghp_{an36}›\npassword: ‹pw›"))
	s.Scrub("no secret here")
	if c := s.Counts(); c["github"] != 2 || c["password"] != 1 || len(c) != 2 {
		t.Errorf("counts are %v", c)
	}
	if taken := s.Take(); taken["github"] != 2 {
		t.Errorf("took %v", taken)
	}
	if c := s.Counts(); len(c) != 0 {
		t.Errorf("counts after Take are %v", c)
	}
}

// TestHiddenBytes puts escapes and marks without width into and around secrets.
func TestHiddenBytes(t *testing.T) {
	rng := newRand(t)
	s := redact.New(redact.Options{})
	for _, c := range []struct{ text, want string }{
		{"token \x1b[32m‹ghp_{an8}›\x1b[0m\x1b[1m‹{an28}›\x1b[0m ok", "token \x1b[32m[redacted:github]\x1b[0m ok"},
		{"\x1b[36mDB_PASSWORD\x1b[0m=\x1b[33m‹pw›\x1b[0m", "\x1b[36mDB_PASSWORD\x1b[0m=\x1b[33m[redacted:password]\x1b[0m"},
		{"pass\u200bword: ‹word›", "pass\u200bword: [redacted:password]"},
		{"password:\u00a0‹word›", "password:\u00a0[redacted:password]"},
		{"password: ‹{l4}›\u2060‹k{d4}›", "password: [redacted:password]"},
		{`"\u001b[31mtoken=\u001b[0m‹an30›\u001b[0m"`, `"\u001b[31mtoken=\u001b[0m[redacted:token]\u001b[0m"`},
		{"plain \x1b[31mred\x1b[0m and\u00a0wide", "plain \x1b[31mred\x1b[0m and\u00a0wide"},
	} {
		if got := s.Scrub(fill(rng, c.text)).String(); got != c.want {
			t.Errorf("%q\nbecomes %q\nnot     %q", c.text, got, c.want)
		}
	}
}

func TestNoSecretNoAllocation(t *testing.T) {
	s := redact.New(redact.Options{})
	text := strings.Repeat("The key is to keep it simple: token := next(tokens); password: string, see https://x.net/a?b=c and config/app.yml\n", 50)
	if got := s.Scrub(text).String(); got != text {
		t.Fatalf("the text has a secret: %q", got)
	}
	if n := testing.AllocsPerRun(20, func() { s.Scrub(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLinear counts the bytes that the scrubber looks at in texts made to slow
// it down: four times the text is four times the work, and a bounded number of
// looks for every byte.
func TestLinear(t *testing.T) {
	rng := newRand(t)
	for name, unit := range worst(rng) {
		checkLinear(t, name, unit, 64<<10)
	}
	seen := map[string]int{}
	for _, c := range redact.Cases() {
		if seen[c.Kind]++; seen[c.Kind] <= 12 {
			checkLinear(t, c.Rule+": "+c.Text, fill(rng, c.Text)+" ", 8<<10)
		}
	}
}

func checkLinear(t *testing.T, name, unit string, n int) {
	t.Helper()
	steps := func(n int) int {
		s := redact.New(redact.Options{})
		s.Scrub(strings.Repeat(unit, n/len(unit)+1)[:n])
		return s.Steps()
	}
	small, large := steps(n), steps(4*n)
	if large > 5*small {
		t.Errorf("%s: %d bytes take %d steps, four times as many %d", name, n, small, large)
	}
	if per := large / (4 * n); per > 100 {
		t.Errorf("%s: %d steps for every byte", name, per)
	}
}

// worst returns texts whose repetition would be slow if anything were
// quadratic: anchors that fail late, runs that do not end, quotes that do not
// close.
func worst(rng *rand.Rand) map[string]string {
	units := map[string]string{
		"base64 line": hole(rng, "b4096"), "password=": "password=", "password: ": "password: ", "eyJ": "eyJ", "eyJ.": "eyJhbGciOiJIUz.", "colons": ":", "hex lines": hole(rng, "h64") + "\n",
		"hex line": hole(rng, "h4096"), "minified": `var a=et=24,n=t.password,r=e.token;return n?r:null}(w,d);!function(e,t){"use strict";`, "dashes": "-", "begin": "-----BEGIN RSA PRIVATE KEY-----\n",
		"begin cert": "-----BEGIN CERTIFICATE-----" + hole(rng, "b40"), "quotes": `password="`, "open quote": "token='x ", "guillemets": "password: «", "urls": "https://", "url at": "a://b:c@", "url colon": "x://y:",
		"kind": "kind: Secret\n", "kind data": "data:\n  a: b\nkind: Secret\n", "mysql": "mysql ", "curl": "curl -u ", "sshpass": "sshpass -p -p ", "machine": "machine ", "cookie": "cookie: a=b; ",
		"told": "password is ", "login": "log in ", "cyrillic": "пароль ", "chinese": "密码", "escape": "\x1b[0m", "escape begin": "\x1b[", "zero width": "\u200b", "spaces": " ", "name": "password_",
		"name spaces": "password" + strings.Repeat(" ", 60), "newlines": "password:\n\n\n", "backslashes": `password\`, "escaped quotes": `password=\"\`, "dollar": "$6$", "hash": "$2a$10$" + hole(rng, "an20"),
		"redacted": "[redacted:x", "redacted whole": "[redacted:token] ", "tabs": "\tTRUE\t", "piped": "--password-stdin ", "sk-": "sk-", "sk- long": "sk-" + hole(rng, "an31") + "-", "ghp": "ghp_" + hole(rng, "an30") + " ",
		"us": "-us1", "atlas": ".atlasv1.", "AKIA": "AKIA", "aws ids": "AKIA" + hole(rng, "u16") + "+", "variable": `variable "password" { `, "hooks": "hooks.slack.com/services/", "basic": "basic ", "authorization": "authorization: digest ",
		"nbsp": "password:\u00a0", "slash": "x://y:k/", "5432": "a:5432:", "private-lines": "private-lines:", "base64,": ";base64,", "identified": "identified by ", "lines": hole(rng, "an32") + "\n",
	}
	return units
}

func FuzzScrub(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for _, c := range redact.Cases() {
		if seen[c.Rule]++; seen[c.Rule] <= 2 {
			f.Add(fill(rng, c.Text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := redact.New(redact.Options{})
		once := s.Scrub(text).String()
		if twice := s.Scrub(once).String(); twice != once {
			t.Fatalf("%q\nbecomes %q\nand then %q", text, once, twice)
		}
		if utf8.ValidString(text) && !utf8.ValidString(once) {
			t.Fatalf("%q becomes invalid: %q", text, once)
		}
	})
}
