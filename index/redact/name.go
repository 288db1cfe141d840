package redact

import "strings"

// strength says how much the name of a value tells about it.
type strength uint8

const (
	none   strength = iota
	weak            // key, salt, auth: a value that looks generated is secret
	strong          // api_key, token: any value that is no word is secret
	word            // password: so is a short one or a number
)

// name is the name that stands before a value, as it is written in the text.
type name struct {
	lo, hi int
	dashes int // before it, as of a flag
	parts  int
	strength
}

// nameMax bounds what is looked at on either side of an anchor.
const nameMax = 48

// nameAt reads the name around an anchor.
func (s *Scrubber) nameAt(at, end int) name {
	if s.sets[s.text[end-1]]&setToken == 0 {
		end-- // the anchor ends with a separator
	}
	n := name{lo: s.back(setToken, at, nameMax), hi: s.upTo(setToken, end, nameMax)}
	for n.lo < at && s.text[n.lo] == '-' {
		n.lo++
		n.dashes++
	}
	if escaped(s.text, n.lo) {
		n.lo++ // the letter belongs to \n or \t
	}
	n.strength, n.parts = strengthOf(s.text[n.lo:n.hi])
	return n
}

// escaped reports whether the byte at i is the letter of an escape like \n.
func escaped(text string, i int) bool {
	return i > 0 && i < len(text) && text[i-1] == '\\' && (text[i] == 'n' || text[i] == 't' || text[i] == 'r')
}

// strengthOf judges a name by its last part that says anything: in
// DB_PASSWORD_PROD that is PASSWORD, in passwordHashIterations Iterations. It
// also returns the number of parts.
func strengthOf(n string) (strength, int) {
	var store [nameParts]string
	parts := split(n, store[:0])
	count := len(parts)
	for len(parts) > 1 && neutral(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return none, count
	}
	last, before := parts[len(parts)-1], parts[:len(parts)-1]
	for _, b := range before {
		if oneOf(b, harmless) {
			return none, count
		}
	}
	last = strings.TrimRight(last, "0123456789")
	if hasSuffixFold(last, "key") {
		return keyStrength(last[:len(last)-3], before), count
	}
	switch {
	case hasSuffix(last, passwords), equalFold(last, "pw"):
		return word, count
	case hasSuffixFold(last, "pass"):
		if oneOf(last, notPass) {
			return none, count
		}
		return word, count
	case hasSuffix(last, secrets):
		return strong, count
	case oneOf(last, strongWords):
		return strong, count
	case oneOf(last, weakWords):
		return weak, count
	}
	return none, count
}

// keyStrength judges a name that ends in key by what stands before it.
func keyStrength(glued string, before []string) strength {
	if glued == "" {
		if len(before) == 0 {
			return weak
		}
		glued = before[len(before)-1]
	}
	switch {
	case oneOf(glued, harmless):
		return none
	case hasSuffix(glued, keyOwners):
		return strong
	}
	return weak
}

// nameParts bounds the parts a name is split into.
const nameParts = 16

// split cuts a name at _ and - and where camel case begins a new word.
func split(n string, parts []string) []string {
	from := 0
	cut := func(to int) {
		if to > from && len(parts) < nameParts {
			parts = append(parts, n[from:to])
		}
	}
	for i := range len(n) {
		switch c := n[i]; {
		case c == '_' || c == '-':
			cut(i)
			from = i + 1
		case i > from && isUpper(c) && (!isUpper(n[i-1]) || i+1 < len(n) && isLower(n[i+1])):
			cut(i)
			from = i
		}
	}
	cut(len(n))
	return parts
}

// neutral reports whether a part says nothing about what the name stands for.
func neutral(part string) bool {
	return strings.Trim(part, "0123456789") == "" || oneOf(part, neutralWords)
}

func hasSuffix(s string, words []string) bool {
	for _, w := range words {
		if hasSuffixFold(s, w) {
			return true
		}
	}
	return false
}

var (
	passwords = []string{"password", "passwd", "passphrase", "passcode", "passwort", "pwd"}
	notPass   = []string{"bypass", "compass", "surpass", "trespass", "overpass", "underpass", "encompass", "renderpass", "subpass", "buypass"}
	secrets   = []string{"secret", "token", "apikey", "credential"}

	strongWords = []string{"pat", "jwt", "psk", "bearer", "otp", "totp", "mnemonic"}
	weakWords   = []string{"auth", "authorization", "salt", "seed", "hmac", "pepper", "cred", "creds", "credentials", "license", "nonce", "sid"}

	// keyOwners before key make it a secret of its own.
	keyOwners = []string{
		"api", "app", "secret", "access", "private", "encryption", "encrypt", "crypt", "signing", "sign", "master", "admin", "auth", "account", "service",
		"shared", "deploy", "client", "storage", "hmac", "jwt", "aes", "webhook", "session", "cookie", "integration", "license", "subscription",
		"preshared", "consumer", "write", "read", "server", "root", "global", "ssh", "ingest", "security", "decryption",
	}
	// harmless parts make a name one of something public or opaque.
	harmless = []string{
		"public", "pub", "cache", "primary", "foreign", "sort", "partition", "idempotency", "object", "dedupe", "react", "i18n", "translation",
		"verifying", "verification", "fingerprint", "hash", "digest", "checksum", "map", "shortcut", "hot", "storybook", "page", "row", "column", "next", "previous",
	}
	neutralWords = []string{
		"base", "value", "val", "text", "str", "string", "plain", "raw", "prod", "production", "stage", "staging", "dev", "test", "live", "local", "main",
		"old", "new", "prev", "current", "default", "root", "admin", "primary", "secondary", "b64", "base64", "env", "confirm", "confirmation", "again", "a", "b", "ci", "v",
	}
)
