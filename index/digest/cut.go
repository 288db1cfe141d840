package digest

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const dots = "…"

// Cut shortens s to at most limit bytes, between characters as people see
// them, and says so by an ellipsis. With no room even for that it is empty.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if limit < len(dots) {
		return ""
	}
	return trimEnd(s[:boundary(s, limit-len(dots))]) + dots
}

// trimEnd leaves out white space, and joiners that join nothing any more.
func trimEnd(s string) string { return strings.TrimRight(s, " \t\n\u200c\u200d") }

// boundary returns the last end of a character, as people see them, that is
// not after limit.
func boundary(s string, limit int) int {
	if limit >= len(s) {
		return len(s)
	}
	// Where two ASCII characters meet one ends, but for CR and LF.
	from := limit
	for from > 0 && (s[from-1] >= utf8.RuneSelf || s[from] >= utf8.RuneSelf || s[from] == '\n') {
		from--
	}
	end, state := from, -1
	for rest := s[from:]; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if end+len(cluster) > limit {
			break
		}
		end += len(cluster)
	}
	return end
}

// firstCharacter is the length of the first character, as people see them.
func firstCharacter(s string) int {
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(s, -1)
	return len(cluster)
}
