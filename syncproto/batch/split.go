package batch

import (
	"strings"
	"unicode/utf8"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
)

// SplitText cuts a text into parts of at most [record.MaxText] bytes, between
// characters. [JoinText] puts them together again.
func SplitText(t redact.Text) []redact.Text {
	s := record.StoredText(t.String())
	var parts []redact.Text
	for len(s) > record.MaxText {
		at := record.MaxText
		for !utf8.RuneStart(s[at]) {
			at--
		}
		parts = append(parts, redact.Trusted(s[:at]))
		s = s[at:]
	}
	return append(parts, redact.Trusted(s))
}

// JoinText is the text whose parts are given in order.
func JoinText(parts []redact.Text) redact.Text {
	if len(parts) == 1 {
		return parts[0]
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.String())
	}
	return redact.Trusted(b.String())
}
