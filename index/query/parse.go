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
	Terms   []string // what is looked for, each once, in the order of the text
	Words   []string // every term in the order of the text, for what stands side by side
	Phrases []Phrase // quoted text
}

// Bounds of what one question costs; what a user types is far below them. A
// pasted log counts with its beginning.
const (
	maxTerms   = 64
	maxWords   = 256
	maxPhrases = 8
)

// Terms returns the terms of a text in order.
func Terms(text string) []string {
	var cut Tokenizer
	var out []string
	cut.Each(text, func(token []byte) { out = append(out, Stem(string(token))) })
	return out
}

// Parse takes a question apart. Nothing in it is an operator but double
// quotes: whatever a user pastes is words.
func Parse(text string) Query {
	q := Query{Text: text, Phrases: phrases(text)}
	var plain, common []string
	seen := map[string]bool{}
	var cut Tokenizer
	cut.Each(text, func(token []byte) {
		if len(q.Words) == maxWords {
			return
		}
		word := string(token)
		term := Stem(word)
		q.Words = append(q.Words, term)
		switch {
		case seen[term]:
		case isCommon(word):
			common = append(common, term)
		default:
			plain = append(plain, term)
		}
		seen[term] = true
	})
	if len(plain) == 0 {
		plain = common
	}
	q.Terms = plain[:min(len(plain), maxTerms)]
	return q
}

// isCommon reports whether a word says nothing about what is sought. Such
// words count only in a question that has no others.
func isCommon(word string) bool {
	switch word {
	case "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does",
		"doing", "for", "from", "had", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its",
		"may", "me", "might", "my", "no", "not", "of", "on", "or", "our", "out", "she", "should", "so", "some", "that", "the", "their",
		"them", "then", "there", "these", "they", "this", "those", "to", "us", "was", "we", "were", "what", "when", "where", "which",
		"who", "whom", "whose", "why", "will", "with", "would", "you", "your":
		return true
	}
	return false
}

// ParseSince reads how far back to look: 30d, 12h, 2w, 90m, a date or a moment.
func ParseSince(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	if t, ok := parseSpan(s, now); ok {
		return t, nil
	}
	for _, form := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is neither a span like 30d, 12h or 2w nor a date like 2026-01-31", s)
}

// maxSpan bounds the number of a span, so that it fits a time.Duration.
const maxSpan = 10_000

func parseSpan(s string, now time.Time) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil || n > maxSpan {
		return time.Time{}, false
	}
	switch s[len(s)-1] {
	case 'm':
		return now.Add(-time.Duration(n) * time.Minute), true
	case 'h':
		return now.Add(-time.Duration(n) * time.Hour), true
	case 'd':
		return now.AddDate(0, 0, -int(n)), true
	case 'w':
		return now.AddDate(0, 0, -7*int(n)), true
	}
	return time.Time{}, false
}
