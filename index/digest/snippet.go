package digest

import (
	"strings"

	"github.com/deja-node/deja/index/query"
)

// Snippet picks the lines of a text that answer best: the one that holds most
// of the weight of the words, and its neighbours as far as the budget of bytes
// allows. weight gives the weight of a term, 0 for one that was not asked.
func Snippet(text string, weight func(term string) float64, budget int) string {
	lines := strings.Split(Clean(text), "\n")
	best, at := -1.0, 0
	var cut query.Tokenizer
	for i, l := range lines {
		seen := map[string]bool{}
		score := 0.0
		cut.Each(l, func(token []byte) {
			term := query.Stem(string(token))
			if !seen[term] {
				seen[term] = true
				score += weight(term)
			}
		})
		if score > best {
			best, at = score, i
		}
	}
	line := strings.TrimSpace(lines[at])
	if len(line) > budget {
		return around(line, weight, budget)
	}
	out := line
	for next := at + 1; next < len(lines); next++ {
		l := strings.TrimSpace(lines[next])
		if l == "" {
			continue
		}
		if len(out)+1+len(l) > budget {
			break
		}
		out += "\n" + l
	}
	return out
}

// around cuts a long line so that its first weighty word is in what is left.
func around(line string, weight func(string) float64, budget int) string {
	words := strings.Fields(line)
	first := 0
	var cut query.Tokenizer
	for i, w := range words {
		hit := false
		cut.Each(w, func(token []byte) { hit = hit || weight(query.Stem(string(token))) > 0 })
		if hit {
			first = i
			break
		}
	}
	from, size := first, 0
	for from > 0 && size+len(words[from-1])+1 < budget/3 {
		from--
		size += len(words[from]) + 1
	}
	out := strings.Join(words[from:], " ")
	if from > 0 {
		out = "…" + out
	}
	return Cut(out, budget)
}
