package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Query is what a user asked, taken apart.
type Query struct {
	Text    string
	Terms   []string // stems, each once, in the order of the text
	Words   []string // all terms in the order of the text, for pairs
	Phrases []string // quoted text, as typed
}

// maxTerms bounds what one query costs; what a user types is far below it.
const maxTerms = 64

// stop are words that say nothing about what is sought. They count only in a
// query that has no other.
var stop = map[string]bool{
	"a": true, "an": true, "and": true, "are": true, "as": true, "at": true, "be": true, "but": true, "by": true, "can": true,
	"did": true, "do": true, "does": true, "for": true, "from": true, "had": true, "has": true, "have": true, "how": true,
	"i": true, "if": true, "in": true, "is": true, "it": true, "its": true, "me": true, "my": true, "not": true, "of": true,
	"on": true, "or": true, "our": true, "so": true, "that": true, "the": true, "their": true, "them": true, "there": true,
	"they": true, "this": true, "to": true, "us": true, "was": true, "we": true, "were": true, "what": true, "when": true,
	"where": true, "which": true, "who": true, "why": true, "will": true, "with": true, "would": true, "you": true, "your": true,
}

// Parse takes a query apart. Nothing in it is an operator but double quotes:
// whatever a user pastes is words.
func Parse(text string) Query {
	q := Query{Text: text}
	var plain, common []string
	var cut Tokenizer
	cut.Each(text, func(token []byte) {
		word := string(token)
		term := Stem(word)
		q.Words = append(q.Words, term)
		if stop[word] {
			common = append(common, term)
		} else {
			plain = append(plain, term)
		}
	})
	if len(plain) == 0 {
		plain = common
	}
	seen := map[string]bool{}
	for _, t := range plain {
		if !seen[t] && len(q.Terms) < maxTerms {
			seen[t] = true
			q.Terms = append(q.Terms, t)
		}
	}
	q.Phrases = phrases(text)
	return q
}

// phrases finds quoted text. A quote without its end is no quote.
func phrases(text string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(text, `"`)
		if !ok {
			return out
		}
		inside, after, ok := strings.Cut(rest, `"`)
		if !ok {
			return out
		}
		if p := strings.TrimSpace(inside); p != "" {
			out = append(out, p)
		}
		text = after
	}
}

// HasPhrase reports whether a text holds a phrase word for word, whatever the
// case and the white space between the words.
func HasPhrase(text, phrase string) bool {
	return strings.Contains(fold(text), fold(phrase))
}

func fold(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }

// ParseSince reads how far back to look: 30d, 12h, 2w, 90m or a date.
func ParseSince(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	units := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	if n := len(s); n > 1 {
		if unit, ok := units[s[n-1]]; ok {
			if v, err := strconv.Atoi(s[:n-1]); err == nil && v >= 0 && v <= 1e6 {
				return now.Add(-time.Duration(v) * unit), nil
			}
		}
	}
	for _, form := range []string{"2006-01-02", time.RFC3339, "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is neither a span like 30d, 12h or 2w nor a date like 2026-01-31", s)
}
