package redact

import "strings"

// passRules let the scan pass over text that holds no secrets although it looks
// as if it did: what is redacted already, and data that says what it is.
var passRules = []rule{
	{
		name: "redacted", match: (*Scrubber).passRedacted, anchors: []string{"[redacted:"},
		miss: []string{"password: [redacted:password]", "curl -u bob:[redacted:command-line] x", "https://u:[redacted:url-credentials]@h/", "the token is [redacted:token]."},
	},
	{
		name: "data-url", match: (*Scrubber).passData, anchors: []string{";base64,"},
		miss: []string{`<img src="data:image/png;base64,‹b400›">`, "![x](data:image/gif;base64,‹b400›)"},
	},
}

// The family of private keys in files: PEM and PGP armor, whole or cut short, in
// JSON, indented, numbered, quoted or as a diff; and the format of PuTTY.
var keyFileRules = []rule{
	{
		name: "private-key", kind: "private-key", match: (*Scrubber).matchArmor,
		anchors: []string{"-----begin ", "---- begin ssh2 encrypted private"},
		hit: []string{
			"key file:\n‹pem›\nnext", `{"type":"service_account","private_key":"‹pem:json›\n","client_email":"x"}`, `KEY="‹pem:json-json›"`, "‹pem:spaces› ok", "‹pem:crlf›\r\nnext",
			"  tls.key: |\n    ‹pem:indented›\nkind: x", "-‹pem:diff›\n context", `key := "‹pem:quoted›"`, "     1\t‹pem:numbered›\n", "$ head -6 id\n‹pem:cut›\n$ ls -la\n",
			"‹pem:cut›", "‹pgp›\n", "‹pem:headers›\nnext line", "> ‹pem›",
		},
		miss: []string{
			"‹cert›\nnext", `"‹pub›"`, "it starts with -----BEGIN RSA PRIVATE KEY-----\nand ends elsewhere", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n‹lines›\n-----END PGP PUBLIC KEY BLOCK-----",
			"grep -r 'BEGIN OPENSSH PRIVATE KEY' .", "if strings.HasPrefix(s, \"-----BEGIN EC PRIVATE KEY-----\") {",
		},
	},
	{
		name: "putty-key", kind: "private-key", match: (*Scrubber).matchPutty,
		anchors: []string{"private-lines:"},
		hit:     []string{"Private-Lines: 3\n‹lines›\nPrivate-MAC: x"},
		miss:    []string{"Private-Lines: 14", "Private-Lines: 2\nand some words\n"},
	},
}

// passRedacted passes over an earlier redaction.
func (s *Scrubber) passRedacted(_, end int) {
	if hi := s.upTo(setToken, end, 64); hi > end && hi < len(s.text) && s.text[hi] == ']' {
		s.pass = hi + 1
	}
}

// passData passes over the bytes of a data URL.
func (s *Scrubber) passData(_, end int) { s.pass = s.run(setBase64, end) }

// matchArmor marks a block whose label says that it is private, and passes over
// one that is public.
func (s *Scrubber) matchArmor(at, end int) {
	label := s.upTo(setLine, end, 64)
	s.steps += label - end
	n := strings.Index(s.text[end:label], "----")
	if n < 0 {
		return
	}
	name := s.text[end : end+n]
	body := end + n
	for body < len(s.text) && s.text[body] == '-' {
		body++
	}
	hi, lines := s.armorBody(body)
	if lines == 0 {
		return
	}
	s.pass = hi
	if containsFold(name, "private") || containsFold(name, "secret") {
		s.mark(at, hi)
	}
}

// matchPutty marks the lines that a PuTTY key calls private.
func (s *Scrubber) matchPutty(_, end int) {
	lo := s.run(setLine, end)
	if hi, lines := s.armorBody(lo); lines > 0 {
		s.mark(s.run(setBlank, lo), hi)
		s.pass = hi
	}
}

// armorMax bounds a block: the longest RSA keys take 13 KB.
const armorMax = 64 << 10

// armorBody reads the lines of a block from i to the end of its last one, which
// is the END line when the block is whole. Lines end where a line ends or where
// a string writes \n, and may have the marks of a listing before them.
func (s *Scrubber) armorBody(i int) (hi, lines int) {
	limit := min(i+armorMax, len(s.text))
	hi = i
	for i < limit {
		i = s.lineStart(i, limit)
		end := s.upTo(setBase64, i, limit-i)
		switch rest := s.text[i:limit]; {
		case hasPrefixFold(rest, "-----end "), hasPrefixFold(rest, "---- end "):
			stop := s.upTo(setLine, i+9, 64)
			if n := strings.Index(s.text[i+9:stop], "----"); n >= 0 {
				return s.upTo(setToken, i+9+n, 5), lines
			}
			return stop, lines
		case s.armorLine(i, end, limit):
			hi, i = end, end
			lines++
		default:
			next := s.armorHeader(i, limit)
			if next == i {
				return hi, lines
			}
			i = next
		}
	}
	return hi, lines
}

// armorLine reports whether the base64 from i to end is a line of a block. A
// short one is the last: the END line or the end of the text follows.
func (s *Scrubber) armorLine(i, end, limit int) bool {
	if end == i {
		return false
	}
	if end-i >= 16 {
		p := profileOf(s.text[i:min(end, i+64)])
		return p.upper > 0 && p.lower > 0 && p.turns*4 >= p.n
	}
	next := s.lineStart(end, limit)
	return next == len(s.text) || strings.HasPrefix(s.text[next:], "----")
}

// lineStart passes over everything that may stand between two lines of a block:
// line ends and their escapes, quotes, the margin of a listing or a diff.
func (s *Scrubber) lineStart(i, limit int) int {
	from := i
	for i < limit {
		switch c := s.text[i]; {
		case s.sets[c]&setBlank != 0, strings.IndexByte("\"'`,+>|#*\\", c) >= 0:
			i++
			if c == '\\' && i < limit && (s.text[i] == 'n' || s.text[i] == 'r' || s.text[i] == 't') {
				i++
			}
		case c == '-' && (!strings.HasPrefix(s.text[i:], "----") || strings.HasPrefix(s.text[i:], "------")):
			i++
		case isDigit(c):
			// A line number: digits, then a margin.
			end := s.upTo(setDigit, i, 6)
			if end >= limit || strings.IndexByte("\t |:", s.text[end]) < 0 {
				return i
			}
			i = end + 1
		default:
			s.steps += i - from
			return i
		}
	}
	return i
}

// armorHeader passes over a header of a block, such as Proc-Type: 4,ENCRYPTED.
func (s *Scrubber) armorHeader(i, limit int) int {
	end := s.upTo(setToken, i, 32)
	if end == i || end >= limit || s.text[end] != ':' {
		return i
	}
	for end < limit && s.text[end] != '\n' && s.text[end] != '\\' && end < i+nearMax {
		end++
	}
	return end
}
