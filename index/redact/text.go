// Package redact is the scrubber: it turns raw text into [Text], the only
// form of text that the log, the views and the wire accept.
//
// Start at [Scrubber]. A rule is data (a name, anchors, a matcher and a gate);
// the families of rules are one file each.
package redact

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
