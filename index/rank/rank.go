// Package rank scores. It is pure: numbers in, numbers out, no clock and no
// disk. Start at [BM25]; [Score] collects what a score is made of, so that
// every one can be explained.
//
// The recipe: a session's score is BM25 over the session, plus BM25 over its
// best window of adjacent turns, plus half of BM25 over its best turn, plus
// half of the pairs of adjacent words. Other signals are bounded: each can
// break a tie, and none can outrank relevance.
package rank

import (
	"maps"
	"math"
	"time"
)

// The constants of BM25, and the weights of the parts.
const (
	k1          = 1.2
	BSession    = 0.75 // length normalisation over sessions
	BTurn       = 0.5  // over turns and windows
	Window      = 5    // adjacent turns of a window
	TurnWeight  = 0.5
	PairsWeight = 0.5
)

// IDF is the weight of a word that stands in df of n sessions.
func IDF(df, n int) float64 {
	return math.Log(1 + (float64(n)-float64(df)+0.5)/(float64(df)+0.5))
}

// BM25 is the part of one word in the score of a text: tf occurrences in a
// text of size words, where the average text has average words.
func BM25(idf, tf, size, average, b float64) float64 {
	if tf == 0 {
		return 0
	}
	if average <= 0 {
		average = 1
	}
	return idf * tf * (k1 + 1) / (tf + k1*(1-b+b*size/average))
}

// Score is a sum of relevance and bounded factors on it, by name.
type Score struct {
	parts   map[string]float64
	factors map[string]float64
}

// Add adds a part of the relevance.
func (s *Score) Add(name string, v float64) {
	if s.parts == nil {
		s.parts = map[string]float64{}
	}
	if v != 0 {
		s.parts[name] += v
	}
}

// Scale multiplies the relevance by a factor.
func (s *Score) Scale(name string, f float64) {
	if s.factors == nil {
		s.factors = map[string]float64{}
	}
	if f != 1 {
		s.factors[name] = f
	}
}

// Total is the score.
func (s *Score) Total() float64 {
	t := 0.0
	for _, v := range s.parts {
		t += v
	}
	for _, f := range s.factors {
		t *= f
	}
	return t
}

// Explain names everything the score is made of; factors begin with "×".
func (s *Score) Explain() map[string]float64 {
	out := maps.Clone(s.parts)
	if out == nil {
		out = map[string]float64{}
	}
	for name, f := range s.factors {
		out["×"+name] = f
	}
	return out
}

// The bounds of the signals.
const (
	freshest  = 1.05 // a session of today against one of long ago
	userBound = 1.10 // every match in what the user said
	titleMost = 1.15 // every word in the title
	reuseMost = 1.5
)

// Freshness is a gentle hint: from freshest today to 1 with a half-life of 30
// days. Age never divides, and a date ahead of the clock counts as today.
func Freshness(updated, now time.Time) float64 {
	if updated.IsZero() {
		return 1
	}
	days := max(now.Sub(updated).Hours()/24, 0)
	return 1 + (freshest-1)*math.Exp2(-days/30)
}

// Share is a factor that grows with the share of the words it is about, from 1
// to most.
func Share(part, whole int, most float64) float64 {
	if whole == 0 {
		return 1
	}
	return 1 + (most-1)*float64(min(part, whole))/float64(whole)
}

// Title is the factor for so many of the words standing in the title.
func Title(part, whole int) float64 { return Share(part, whole, titleMost) }

// User is the factor for so many of the matching turns being the user's.
func User(part, whole int) float64 { return Share(part, whole, userBound) }

// Reuse is the factor for a session that was recalled n times.
func Reuse(n int) float64 { return min(1+0.1*math.Log2(1+float64(max(n, 0))), reuseMost) }

// Pairs scores the adjacent words of a query that stand side by side in a text.
// Both are terms in order; idf gives the weight of a term.
func Pairs(query, text []string, idf func(string) float64) float64 {
	want := map[[2]string]bool{}
	for i := 1; i < len(query); i++ {
		want[[2]string{query[i-1], query[i]}] = true
	}
	met := map[[2]string]int{}
	for i := 1; i < len(text); i++ {
		if p := [2]string{text[i-1], text[i]}; want[p] {
			met[p]++
		}
	}
	t := 0.0
	for p, n := range met {
		tf := float64(n)
		t += (idf(p[0]) + idf(p[1])) / 2 * tf * (k1 + 1) / (tf + k1)
	}
	return t
}
