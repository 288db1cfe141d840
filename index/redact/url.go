package redact

import "strings"

// The family of credentials in URLs: scheme://user:password@host, whatever the
// scheme, and a token in the place of the user.
var urlRules = []rule{{
	name: "url-credentials", kind: "url-credentials", match: (*Scrubber).matchURL,
	anchors: []string{"://"},
	hit: []string{
		"DATABASE_URL=postgres://app:‹an24›@db0.internal:5432/app?x=1", `"dsn": "redis://:‹word›@db6.internal:6379/0",`, "mysql://app:‹{l5}@{l4}›@db2.internal/app",
		"git clone https://x-access-token:‹an40›@git.example.net/acme/app.git", "https://‹an40›@git.example.net/acme/app.git", "jdbc:postgresql://app:‹pw›@db1/app",
		"http.proxy http://svc:‹pw›@proxy.corp:3128", "amqp://app:‹k{an5}/{an6}›@mq:5672/v", "connecting to mongodb+srv://app:‹pw›@c0.example.net failed",
		"ftp://app:‹{an4}#{an6}›@host/x", "see postgres://app:‹pw›@db1.",
	},
	miss: []string{
		"postgres://localhost:5432/app", "https://user@host.x.net/path", "ssh://git@git.x.net:22/a/b.git", "postgres://user:${PGPASSWORD}@localhost:5432/db",
		"https://user:<password>@host/", "http://localhost:8080/login?next=/@scope/x", "postgres://user:password@localhost/db", "https://host.x.net:8443/a@b",
		"mongodb://db1,db2/app?replicaSet=rs0", "https://registry.example.net/@babel/core", "https://user:****@host", "http://%s:%s@host/",
	},
}}

const (
	credentialsMax = 512 // bytes of the user and password of a URL
	slashedMax     = 128 // bytes of a password from its first slash on
)

// matchURL marks the password of a URL, or the token in place of its user.
func (s *Scrubber) matchURL(_, end int) {
	stop := s.run(setSecret, end)
	if stop-end > credentialsMax {
		return
	}
	auth := s.text[end:stop]
	s.steps += len(auth)
	last := strings.LastIndexByte(auth, '@')
	if last < 0 && stop < len(s.text) && s.text[stop] == '/' {
		last = s.slashed(end, stop)
	}
	if last < 0 {
		return
	}
	user, pass, split := strings.Cut(s.text[end:end+last], ":")
	switch {
	case !split:
		if p := profileOf(user); p.n >= opaqueMin && p.digit > 0 && p.soft+p.hard <= 4 && !placeholder(user) && !isUUID(user) {
			s.mark(end, end+last)
		}
	case pass != "" && !docPassword(pass):
		s.mark(end+len(user)+1, end+last)
	}
}

// slashed finds the @ behind a password with a slash in it: what stands between
// colon and slash is then no port.
func (s *Scrubber) slashed(end, stop int) int {
	colon := strings.IndexByte(s.text[end:stop], ':')
	if colon < 0 || strings.Trim(s.text[end+colon+1:stop], "0123456789") == "" {
		return -1
	}
	at := strings.IndexByte(s.text[stop:min(s.run(setArg, stop), stop+slashedMax)], '@')
	if at < 0 {
		return -1
	}
	return stop + at - end
}

// docPassword reports whether a password is one that documentation writes.
func docPassword(p string) bool {
	return oneOf(p, []string{"password", "passwd", "pass", "pwd", "secret", "token", "xxx", "pw", "key", "api_key", "apikey"}) || placeholder(p) || strings.Trim(p, "*.xX") == ""
}
