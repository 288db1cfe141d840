package digest

import (
	"slices"
	"strings"

	"github.com/deja-node/deja/index/query"
)

const (
	// maxSnippetText bounds the text that a snippet is looked for in.
	maxSnippetText = 256 << 10
	// minPiece and maxPiece bound the pieces of a long line, in bytes.
	minPiece = 24
	maxPiece = 80
)

// Snippet returns the part of a text that answers, clean and of at most budget
// bytes: the lines around the one that holds most of the weight of the words.
// weight gives the weight of a term, 0 for one that was not asked.
func Snippet(text string, weight func(term string) float64, budget int) string {
	if len(text) > maxSnippetText {
		text = strings.ToValidUTF8(text[:maxSnippetText], "")
	}
	w := weigher{weight: weight, known: map[string]float64{}}
	var lines []string
	best, at := 0.0, 0
	for line := range strings.SplitSeq(Clean(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if score := w.of(line); score > best {
			best, at = score, len(lines)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return ""
	}
	if len(lines[at]) > budget {
		return w.within(lines[at], budget)
	}
	// What follows the line explains it. Where the text ends with it, what
	// leads to it does.
	from, to, size := at, at+1, len(lines[at])
	for to < len(lines) && size+1+len(lines[to]) <= budget {
		size += 1 + len(lines[to])
		to++
	}
	for to == len(lines) && from > 0 && size+1+len(lines[from-1]) <= budget {
		from--
		size += 1 + len(lines[from])
	}
	return strings.Join(lines[from:to], "\n")
}

// weigher gives texts the weight of the terms in them.
type weigher struct {
	cut    query.Tokenizer
	weight func(term string) float64
	known  map[string]float64 // by token
	met    []string           // tokens of the text in hand that weigh something
}

// of sums the weights of the distinct words of a text.
func (w *weigher) of(text string) float64 {
	w.met = w.met[:0]
	sum := 0.0
	w.cut.Each(text, func(token []byte) {
		v, ok := w.known[string(token)]
		if !ok {
			v = w.weight(query.Stem(string(token)))
			w.known[string(token)] = v
		}
		if v <= 0 {
			return
		}
		if slices.Contains(w.met, string(token)) {
			return
		}
		w.met = append(w.met, string(token))
		sum += v
	})
	return sum
}

// within returns the part of one long line that holds most of the weight.
func (w *weigher) within(line string, budget int) string {
	room := budget - 2*len(dots)
	if room <= 0 {
		return Cut(line, budget)
	}
	pieces := split(line, min(max(room/4, minPiece), maxPiece))
	best, from, to := -1.0, 0, 0
	for i, end := 0, 0; i < len(pieces); i++ {
		for end < len(pieces) && pieces[end].end-pieces[i].at <= room {
			end++
		}
		if end == i {
			end++ // larger than the budget by itself
		}
		if score := w.of(line[pieces[i].at:pieces[end-1].end]); score > best {
			best, from, to = score, pieces[i].at, pieces[end-1].end
		}
		if end == len(pieces) {
			break
		}
	}
	out := trimEnd(strings.TrimSpace(line[from:to]))
	if from > 0 {
		out = dots + out
	}
	if to < len(line) {
		return Cut(out, budget-len(dots)) + dots
	}
	return Cut(out, budget)
}

type piece struct{ at, end int }

// split cuts a line into pieces of about size bytes, after spaces where there
// are some and between characters otherwise.
func split(line string, size int) []piece {
	var out []piece
	for at := 0; at < len(line); {
		end := at + boundary(line[at:], size)
		if end < len(line) {
			if space := strings.LastIndexByte(line[at:end], ' '); space > 0 {
				end = at + space + 1
			}
		}
		if end == at {
			end = at + firstCharacter(line[at:])
		}
		out = append(out, piece{at, end})
		at = end
	}
	return out
}
