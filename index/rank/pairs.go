package rank

import (
	"maps"
	"slices"

	"github.com/deja-node/deja/index/query"
)

// pairWeight is the weight of two words that stand side by side, against the
// sum of their own weights. No index counts pairs, so they have no other.
const pairWeight = 0.7

// Pairs scores texts by the words of a question that stand side by side in them
// as they do in the question. It is for one goroutine.
type Pairs struct {
	cut    query.Tokenizer
	field  Field
	weight map[[2]string]float64
	order  [][2]string // of summation, so that a score is the same every time
	terms  map[string]string
}

// NewPairs takes the words of a question in order, the weight of each term, and
// the average size of a turn.
func NewPairs(words []string, idf func(term string) float64, turn float64) *Pairs {
	p := &Pairs{field: Field{turn, BTurn}, weight: map[[2]string]float64{}, terms: map[string]string{}}
	for i := 1; i < len(words); i++ {
		pair := [2]string{words[i-1], words[i]}
		if w := pairWeight * (idf(pair[0]) + idf(pair[1])); w > 0 {
			p.weight[pair] = w
		}
	}
	p.order = slices.SortedFunc(maps.Keys(p.weight), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return p
}

// Best returns the score of the best of some texts.
func (p *Pairs) Best(texts ...string) float64 {
	best := 0.0
	if len(p.weight) == 0 {
		return best
	}
	for _, t := range texts {
		best = max(best, p.score(t))
	}
	return best
}

// maxText bounds the text that is read of a turn, in bytes.
const maxText = 64 << 10

func (p *Pairs) score(text string) float64 {
	text = text[:min(len(text), maxText)]
	met := map[[2]string]int{}
	before, size := "", 0
	p.cut.Each(text, func(token []byte) {
		size++
		term := p.termOf(token)
		if pair := [2]string{before, term}; p.weight[pair] > 0 {
			met[pair]++
		}
		before = term
	})
	norm, t := p.field.Norm(float64(size)), 0.0
	for _, pair := range p.order {
		t += BM25(p.weight[pair], float64(met[pair]), norm)
	}
	return t
}

// maxTerms bounds what is remembered of the texts.
const maxTerms = 1 << 15

// termOf remembers the term of each token: texts say the same words again.
func (p *Pairs) termOf(token []byte) string {
	if term, ok := p.terms[string(token)]; ok {
		return term
	}
	if len(p.terms) == maxTerms {
		clear(p.terms)
	}
	s := string(token)
	term := query.Stem(s)
	p.terms[s] = term
	return term
}
