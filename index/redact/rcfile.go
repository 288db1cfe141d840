package redact

import "strings"

// The family of files that programs read passwords from and that assign.go does
// not understand, because nothing stands between name and value.
var rcfileRules = []rule{
	{
		name: "netrc", kind: "netrc", match: (*Scrubber).matchNetrc, anchors: []string{"machine ", "default login "},
		hit:  []string{"machine api.x.net login bot password ‹pw›", "machine git.x.net\n  login bot\n  password ‹an20›\n", "default login anonymous password ‹word›"},
		miss: []string{"machine learning login flow password reset", "machine api.x.net login bot", "the machine has 16GB", "machine x login y password $PASS"},
	},
	{
		name: "pgpass", kind: "pgpass", match: (*Scrubber).matchPgpass, anchors: []string{":5432:", ":5433:", ":6432:", ":*:*:"},
		hit:  []string{"db1:5432:app:svc:‹pw›", "*:5432:*:svc:‹word›\n"},
		miss: []string{"docker run -p 5432:5432:tcp pg", "localhost:5432:app", "db1:5432:app:svc:$PW12345", "host:5432: connection: refused: again1"},
	},
	{
		name: "redis-conf", kind: "password", match: (*Scrubber).matchDirective, anchors: []string{"requirepass", "masterauth", "sentinel auth-pass"},
		hit:  []string{"requirepass ‹word›", `CONFIG SET requirepass "‹pw›"`},
		miss: []string{"# requirepass foobared", "requirepass is unset", `requirepass ""`},
	},
}

// matchNetrc marks the password of an entry: machine, login and password, each
// with a value, on one line or several.
func (s *Scrubber) matchNetrc(at, end int) {
	if at > 0 && s.sets[s.text[at-1]]&setBlank == 0 {
		return
	}
	i, login := end, fold(s.text[at]) == 'd'
	for range 8 {
		lo := s.run(setBlank, i)
		i = s.upTo(setArg, lo, nearMax)
		switch s.text[lo:i] {
		case "login", "account":
			login = true
		case "machine", "":
			return
		case "password":
			lo = s.run(setBlank, i)
			if hi := s.upTo(setArg, lo, nearMax); login && given(s.text[lo:hi]) {
				s.mark(lo, hi)
			}
			return
		}
	}
}

// matchPgpass marks the last of five fields of a line that colons separate.
func (s *Scrubber) matchPgpass(at, end int) {
	host := s.back(setDotted, at, 128)
	if host > 0 && s.text[host-1] == '*' {
		host--
	}
	if host > 0 && s.sets[s.text[host-1]]&setArg != 0 {
		return
	}
	hi := s.run(setArg, end)
	if hi-end > nearMax {
		return
	}
	rest := s.text[end:hi]
	s.steps += len(rest)
	fields := 1 // the database
	if strings.HasSuffix(s.text[at:end], "*:*:") {
		fields = 0
	}
	for range fields + 1 {
		_, after, ok := strings.Cut(rest, ":")
		if !ok {
			return
		}
		rest = after
	}
	if given(rest) {
		s.mark(hi-len(rest), hi)
	}
}

// matchDirective marks the word after a directive.
func (s *Scrubber) matchDirective(_, end int) {
	var store [1]argument
	if args, _ := s.arguments(end, store[:0:1]); len(args) > 0 && args[0].lo > end {
		s.markGiven(args[0].lo, args[0].hi, 0)
	}
}
