package redact

import "strings"

// The family of secrets told in a sentence, where no mark stands between the
// word and the value: "the admin password is ...". The value must hold a digit
// or a mark that joins no words, and ends where a blank follows.
var proseRules = []rule{
	{
		name: "told", kind: "password", match: (*Scrubber).matchTold,
		anchors: []string{"password", "passwort", "kennwort", "passphrase", "passcode", "passwd", "token", "secret", "api key", "credentials", "pw ", "wachtwoord", "parola", "senha", "clave"},
		hit: []string{
			"the admin password is ‹word›, please change it", "My password was ‹pw› before the rotation", `use the password "‹pw›" for staging`, "the token is ‹word› and it never expires",
			"PW for the wifi is ‹word› btw", `failed for user "svc" with password "‹word›"`, "ssh as root with ‹pw› as the password", "I set the db password to ‹pw›.", "your temporary password: ‹word›",
			"credentials are admin:‹pw›", "das Admin-Passwort ist ‹pw›", "the secret for the webhook is ‹pw›", "the password is `‹word›`", "with the password ‹pw›", "password\t‹pw›", "token ‹an32› was revoked", "SET PASSWORD FOR 'u'@'h' = '‹pw›';", "The password is now ‹word›.",
		},
		miss: []string{
			"the password is wrong", "the password is the same as staging", "password must contain at least 8 characters", "the token is valid until 2026-11-02", "the token is base64-encoded",
			"the password is AES-256 encrypted", "The password for the demo user is documented in the wiki", "the secret is in config/prod2.yml", "the password is 128-bit", "la clave es entender el problema",
			"password is not set for user postgres@localhost", "the token is $TOKEN1", "set the password to at least 12 chars", "the api key is missing from request2", "password Field2 is", "token TestHTTP2ServerPushes2Again fails", "token count=Foo2!x",
		},
	},
	{
		name: "login-pair", kind: "password", match: (*Scrubber).matchPair,
		anchors: []string{"log in ", "login ", "log into ", "logged in ", "sign in ", "signed in ", "login: ", "zugangsdaten: ", "credentials: ", "creds: ", "/password: ", "/pass: "},
		hit:     []string{"log in with bob / ‹pw›", "login as admin/‹pw› on staging", "sign in with bob:‹pw›", "credentials: admin / ‹pw›", "user/password: admin/‹pw›"},
		miss:    []string{"log in with bob / alice", "login flow and/or logout2", "login http://x.net/a1", "login took 10:31:22"},
	},
}

const (
	toldWords = 8  // between the word and the value
	toldMax   = 96 // bytes of them, and of the value
)

// matchTold walks over the words after the one that names a secret until one
// says that the value follows.
func (s *Scrubber) matchTold(at, end int) {
	if at > 0 && (isWord(s.text[at-1]) || s.text[at-1] >= 0x80) && !escaped(s.text, at-1) {
		return
	}
	s.toldBefore(at)
	if end < len(s.text) && s.text[end-1] != ' ' && s.sets[s.text[end]]&setSpace == 0 {
		return
	}
	i, limit, copula := end, min(end+toldMax, len(s.text)), none
	for n := range toldWords {
		i = s.run(setSpace, i)
		if i >= limit {
			return
		}
		if lo, hi, ok := s.quotedAt(i); ok {
			if (n == 0 || copula > none) && told(s.text[lo:hi], true) {
				s.mark(lo, hi)
				return
			}
			i = s.afterQuote(hi)
			continue
		}
		stop := s.upTo(setArg, i, 2*toldMax)
		w := s.text[i:stop]
		if w == "" {
			return
		}
		s.steps += 2 * len(w)
		if copula > none && s.markTold(i, stop, copula == strong) || n == 0 && s.markSharp(i, stop) {
			return
		}
		if lo, hi, ok := s.quotedAt(s.run(setSpace, stop)); ok && w == "=" && told(s.text[lo:hi], true) {
			s.mark(lo, hi) // SET PASSWORD FOR ... = '...'
			return
		}
		switch {
		case oneOf(w, copulas), w[len(w)-1] == ':':
			copula = strong
		case oneOf(w, looser) && copula < strong:
			copula = weak
		case oneOf(w, adverbs):
		case copula > none, strings.IndexByte(".,;!?)", w[len(w)-1]) >= 0:
			return
		}
		i = stop
	}
}

var (
	copulas = []string{"is", "was", "are", "be", "—", "–", "becomes", "equals", "ist", "lautet", "war", "es", "era", "est", "é", "jest", "to", "è"}
	looser  = []string{"as", "with", "-"}
	adverbs = []string{"now", "still", "currently", "just", "simply", "probably", "set", "to", "changed", "been", "jetzt", "ahora", "agora", "maintenant", "teraz"}
)

// toldBefore marks a value that stands before the word: "with ... as the password".
func (s *Scrubber) toldBefore(at int) {
	before := s.text[max(at-8, 0):at]
	gone := 0
	switch {
	case strings.HasSuffix(before, " as the "):
		gone = 8
	case strings.HasSuffix(before, " as "):
		gone = 4
	default:
		return
	}
	hi := at - gone
	lo := s.back(setArg, hi, toldMax+1)
	s.markTold(lo, hi, false)
}

// markTold marks a word of a sentence if it can be a secret; of user:secret it
// marks the second half.
func (s *Scrubber) markTold(lo, hi int, sure bool) bool {
	for hi > lo && strings.IndexByte(".,;:)]}", s.text[hi-1]) >= 0 {
		hi--
	}
	for lo < hi && (s.text[lo] == '(' || s.text[lo] == '*') {
		lo++
	}
	if lo == hi || hi-lo > toldMax || placeholder(s.text[lo:hi]) {
		return false
	}
	if n := strings.IndexByte(s.text[lo:hi], ':'); n > 0 && variable(s.text[lo:lo+n]) {
		lo, sure = lo+n+1, false
	}
	if !told(s.text[lo:hi], sure) {
		return false
	}
	s.mark(lo, hi)
	return true
}

// markSharp marks a word that follows the one for a secret directly, with
// nothing to say that it is one: letters, digits and marks mixed as in no name,
// or a generated value.
func (s *Scrubber) markSharp(lo, hi int) bool {
	for hi > lo && strings.IndexByte(".,;:)]}", s.text[hi-1]) >= 0 {
		hi--
	}
	v := s.text[lo:hi]
	p := profileOf(v)
	sharp := p.digit > 0 && p.hard > 0 && p.upper > 0 && p.lower > 0 && !strings.ContainsAny(v, "=/")
	if !sharp && (p.spelled*5 > p.n*2 || !unnamed(v)) || !told(v, true) {
		return false
	}
	s.mark(lo, hi)
	return true
}

// told decides about a word of a sentence. Unless the sentence is sure to give
// a secret, a word with a number behind it is the name of something.
func told(v string, sure bool) bool {
	if len(v) < 6 || len(v) > toldMax || placeholder(v) {
		return false
	}
	p := profileOf(v)
	head, _, joined := strings.Cut(v, "-")
	switch {
	case p.blank > 0 || p.foreign > 0, p.lower+p.upper == 0, strings.ContainsAny(v, "()[]{}<>|&;\\"), strings.Contains(v, "://"), strings.IndexByte(v, '@') > 0 && strings.IndexByte(v, '.') > 0 && p.hard == 1:
		return false
	case isPath(v, p), isNumber(v, p), isAlgorithm(v), isDigest(v), kebab(v, p), isCode(v, p) && p.soft > 0 && p.digit < 2:
		return false
	case joined && (isAlgorithm(head) || strings.Trim(head, "0123456789") == ""):
		return false // SHA-256 based, 12-character
	case p.jumbled():
		return true
	case p.digit == 0:
		return strongMark(v, p, false)
	case sure:
		return true
	}
	w := strings.TrimRight(v, "0123456789")
	return w != "" && !profileOf(w).wordy()
}

// matchPair marks the second half of user / password after words like log in.
func (s *Scrubber) matchPair(at, end int) {
	if at > 0 && isWord(s.text[at-1]) && isWord(s.text[at]) {
		return
	}
	i, limit, slash := end, min(end+toldMax, len(s.text)), false
	for range toldWords {
		i = s.run(setSpace, i)
		stop := s.upTo(setArg, i, 2*toldMax)
		if i >= limit || stop == i {
			return
		}
		w := s.text[i:stop]
		s.steps += 2 * len(w)
		half := strings.IndexAny(w, ":/")
		switch {
		case slash:
			s.markTold(i, stop, false)
			return
		case half > 0 && variable(w[:half]) && s.markTold(i+half+1, stop, false):
			return
		}
		slash = w == "/"
		i = stop
	}
}
