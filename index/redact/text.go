// Package redact is the scrubber: it turns raw text into [Text], the only
// form of text that the log, the views and the wire accept.
//
// Start at [Scrubber]. The value of a secret becomes "[redacted:kind]"; names
// and the words around it stay, so that a scrubbed text can still be searched.
// Four things always hold: scrubbing twice is scrubbing once; valid UTF-8
// stays valid; the time is linear in the text, whatever the text; a text
// without secrets is returned as it is, without an allocation. Redaction is a
// floor, not a promise: rules know shapes and names, they do not know secrets.
//
// A rule is a row of data: anchors (words it cannot match without), a matcher,
// and the texts it must and must not change. The rows stand in one file per
// family (provider.go, assign.go, url.go ...), gates that families share in
// gate.go. scan.go walks over a text once and runs a rule only where one of its
// anchors stands. To add a provider, add a row to provider.go: its shape is
// its anchor, its matcher and its test.
package redact

// Version numbers the rules. It grows with every change that makes a rule find
// more, so that a node can scrub again what it stored under older rules.
const Version = 1

// Text is text that has been through a [Scrubber]. The zero value is the empty
// text. No other package can make one from a string, which is what makes
// "redact before every write path" a property of the types.
type Text struct{ s string }

// String returns the scrubbed text.
func (t Text) String() string { return t.s }

// Len is the length of the text in bytes.
func (t Text) Len() int { return len(t.s) }

// Trusted vouches for a string that was scrubbed before it was stored. Only
// the batch decoder calls it, for lines of a log that has been verified.
func Trusted(s string) Text { return Text{s} }
