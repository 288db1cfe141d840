// Package rank scores. It is pure: numbers and texts in, numbers out, no clock
// and no disk. Start at [Score], which collects what a score is made of, so
// that every one can be explained; [Field] is the relevance of a text, [Pairs]
// what stands side by side in it, and [Signals] is all that is not relevance.
//
// The recipe: the score of a session is BM25 over the whole session, plus BM25
// over its best window of adjacent turns, plus half of BM25 over its best turn,
// plus the pairs of adjacent words in its best turns, plus a share of the best
// score of all for sessions of a date that the question names. A word weighs
// by how few sessions hold it in the first part, and by how few turns do in the
// others. No part demands that all words are there.
//
// Signals multiply, and each is bounded (see [Signals]): they decide between
// answers of like relevance, and none hides a better one.
package rank

import "math"

// The constants of BM25, and the weights of the parts.
const (
	k1          = 1.2
	BSession    = 0.75 // how much the length of a session counts against it
	BTurn       = 0.5  // the same for turns and windows
	Window      = 5    // adjacent turns of a window
	TurnWeight  = 0.5
	PairsWeight = 0.5
	DateWeight  = 0.7 // of the best score, for a session that fits the date
)

// The names of the parts.
const (
	PartSession = "session"
	PartWindow  = "window"
	PartTurn    = "turn"
	PartPairs   = "pairs"
	PartDate    = "date"
)

// IDF is the weight of a word that stands in df of n texts. It is never negative.
func IDF(df, n int) float64 {
	df = min(df, n)
	return math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5))
}

// Field is a kind of text: how long they are on average, and how much the
// length of one counts.
type Field struct {
	Average float64
	B       float64
}

// Norm is what BM25 holds against a text for its length.
func (f Field) Norm(size float64) float64 {
	if f.Average <= 0 {
		return k1
	}
	return k1 * (1 - f.B + f.B*size/f.Average)
}

// BM25 is the score of one word in a text that holds it tf times, where norm is
// the text's Norm.
func BM25(idf, tf, norm float64) float64 {
	if tf == 0 {
		return 0
	}
	return idf * tf * (k1 + 1) / (tf + norm)
}

// Score is a sum of relevance and bounded factors on it, by name. The zero
// Score is 0.
type Score struct {
	parts   []named
	factors []named
}

type named struct {
	name  string
	value float64
}

// Add adds a part of the relevance.
func (s *Score) Add(name string, v float64) {
	if v != 0 {
		s.parts = append(s.parts, named{name, v})
	}
}

// Scale multiplies the relevance by a factor.
func (s *Score) Scale(name string, f float64) {
	if f != 1 {
		s.factors = append(s.factors, named{name, f})
	}
}

// Relevance is the sum of the parts.
func (s Score) Relevance() float64 {
	t := 0.0
	for _, p := range s.parts {
		t += p.value
	}
	return t
}

// Total is the score.
func (s Score) Total() float64 {
	t := s.Relevance()
	for _, f := range s.factors {
		t *= f.value
	}
	return t
}

// factorMark begins the names of factors.
const factorMark = "×"

// Explain names everything that the score is made of: the parts, which add up,
// and the factors on their sum, whose names begin with "×".
func (s Score) Explain() map[string]float64 {
	out := make(map[string]float64, len(s.parts)+len(s.factors))
	for _, p := range s.parts {
		out[p.name] += p.value
	}
	for _, f := range s.factors {
		name := factorMark + f.name
		if before, ok := out[name]; ok {
			f.value *= before
		}
		out[name] = f.value
	}
	return out
}
