package rank_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/rank"
)

func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// TestBM25 holds the laws that make it a relevance.
func TestBM25(t *testing.T) {
	rng := newRand(t)
	for range 2000 {
		f := rank.Field{Average: 1 + 200*rng.Float64(), B: rng.Float64()}
		size, tf := 1+1000*rng.Float64(), float64(1+rng.IntN(50))
		n := 1 + rng.IntN(1000)
		df := rng.IntN(n + 1)
		idf := rank.IDF(df, n)
		score := rank.BM25(idf, tf, f.Norm(size))
		switch {
		case idf <= 0 || df > 0 && rank.IDF(df-1, n) <= idf:
			t.Fatalf("a rarer word does not weigh more: %v for %d of %d", idf, df, n)
		case score <= 0 || score >= 2.2*idf:
			t.Fatalf("%v lies outside of its bounds", score)
		case rank.BM25(idf, tf+1, f.Norm(size)) <= score:
			t.Fatal("one more occurrence does not help")
		case f.B > 0 && rank.BM25(idf, tf, f.Norm(2*size)) >= score:
			t.Fatal("a longer text is not held against it")
		case !near(rank.BM25(idf, tf, f.Norm(f.Average)), idf*tf*2.2/(tf+1.2)):
			t.Fatal("a text of average length is not the plain formula")
		}
	}
	if rank.BM25(1, 0, 1) != 0 || rank.IDF(9, 3) <= 0 || (rank.Field{}).Norm(5) <= 0 {
		t.Error("what cannot be is not harmless")
	}
}

// TestExplanationIsTheScore holds that nothing is left out of an explanation.
func TestExplanationIsTheScore(t *testing.T) {
	rng := newRand(t)
	for range 1000 {
		var s rank.Score
		for range rng.IntN(6) {
			s.Add([]string{rank.PartSession, rank.PartWindow, rank.PartTurn, rank.PartPairs, rank.PartDate}[rng.IntN(5)], rng.Float64())
		}
		for range rng.IntN(4) {
			s.Scale([]string{"title", "fresh"}[rng.IntN(2)], 0.5+rng.Float64())
		}
		sum, factor := 0.0, 1.0
		for name, v := range s.Explain() {
			if strings.HasPrefix(name, "×") {
				factor *= v
			} else {
				sum += v
			}
		}
		if !near(sum*factor, s.Total()) || !near(sum, s.Relevance()) {
			t.Fatalf("%v explain %v", s.Explain(), s.Total())
		}
	}
	if (rank.Score{}).Total() != 0 || len((rank.Score{}).Explain()) != 0 {
		t.Error("nothing has a score")
	}
}

// bounds are what the documentation of Signals promises.
var bounds = map[string]struct{ least, most float64 }{
	"user": {1, 1.1}, "title": {1, 1.1}, "phrase": {1, 1.35}, "decision": {1, 1.5}, "outcome": {0.7, 1.1},
	"lifecycle": {0.5, 1.1}, "promoted": {1, 1.25}, "reuse": {1, 1.5}, "fresh": {1, 1.05},
}

func randomSignals(rng *rand.Rand) rank.Signals {
	share := func() float64 {
		return []float64{0, 0.3, 1, 5, -1, math.NaN(), math.Inf(1)}[rng.IntN(7)]
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return rank.Signals{
		User: share(), Title: share(), Phrase: share(), Decision: rng.IntN(2) == 0, Promoted: rng.IntN(2) == 0,
		Outcome: rank.Outcome(rng.IntN(5) - 2), Lifecycle: rank.Lifecycle(rng.IntN(7) - 1), Reuse: []int{0, 1, 9, 1 << 40, -3}[rng.IntN(5)],
		Updated: now.Add(time.Duration(rng.Int64N(2e18) - 1e18)), Now: now,
	}
}

func TestSignalsAreBounded(t *testing.T) {
	rng := newRand(t)
	met := map[string]bool{}
	for range 5000 {
		var s rank.Score
		s.Add(rank.PartSession, 1)
		randomSignals(rng).Apply(&s)
		for name, v := range s.Explain() {
			name, isFactor := strings.CutPrefix(name, "×")
			if !isFactor {
				continue
			}
			met[name] = true
			if b := bounds[name]; !(v >= b.least && v <= b.most) {
				t.Fatalf("%s is %v, which is not between %v and %v", name, v, b.least, b.most)
			}
		}
	}
	if len(met) != len(bounds) {
		t.Errorf("only %v were met", met)
	}
}

// TestSilentSignalsSayNothing holds that what is not known changes no score.
func TestSilentSignalsSayNothing(t *testing.T) {
	for name, g := range map[string]rank.Signals{
		"zero": {}, "no clock": {Updated: time.Unix(1, 0)}, "no time": {Now: time.Unix(1e9, 0)},
		"long ago": {Updated: time.Unix(0, 0), Now: time.Unix(4e9, 0)},
	} {
		var s rank.Score
		s.Add(rank.PartSession, 3)
		g.Apply(&s)
		if !near(s.Total(), 3) {
			t.Errorf("%s: %v", name, s.Explain())
		}
	}
}

// TestAgeIsAHint holds that what is old and better stays first, and that among
// equals the newer is.
func TestAgeIsAHint(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	score := func(relevance float64, age time.Duration) float64 {
		var s rank.Score
		s.Add(rank.PartSession, relevance)
		rank.Signals{Updated: now.Add(-age), Now: now}.Apply(&s)
		return s.Total()
	}
	year := 365 * 24 * time.Hour
	if score(1.06, 10*year) <= score(1, 0) {
		t.Error("a better answer of long ago is hidden by one of today")
	}
	if score(1, time.Hour) <= score(1, year) {
		t.Error("of two equal answers the older is first")
	}
	if score(1, -year) > score(1, 0) {
		t.Error("a clock that is ahead gains something")
	}
}

func TestReuseGrowsSlowly(t *testing.T) {
	factor := func(n int) float64 {
		var s rank.Score
		s.Add(rank.PartSession, 1)
		rank.Signals{Reuse: n}.Apply(&s)
		return s.Total()
	}
	for n, want := range map[int]float64{0: 1, 1: 1.1, 3: 1.2, 7: 1.3, 31: 1.5, 1 << 30: 1.5} {
		if !near(factor(n), want) {
			t.Errorf("%d times: %v, want %v", n, factor(n), want)
		}
	}
}

func TestPairs(t *testing.T) {
	q := query.Parse("the connection pool deadlocks")
	idf := func(term string) float64 {
		return map[string]float64{"connect": 1, "pool": 2, "deadlock": 3}[term]
	}
	p := rank.NewPairs(q.Words, idf, 10)
	at := func(s string) float64 { return p.Best(s) }
	both, one, apart := at("connection pools deadlocked here"), at("a pool deadlock here"), at("deadlock of a pool connection")
	switch {
	case apart != 0:
		t.Errorf("words that do not stand side by side have %v", apart)
	case one <= 0 || both <= one:
		t.Errorf("two pairs have %v, and one %v", both, one)
	case at("pool deadlock") <= at("pool deadlock"+strings.Repeat(" other", 50)):
		t.Error("the length of a text does not matter")
	case p.Best("nothing", "a pool deadlock here", "") != one:
		t.Error("the best text does not count")
	case p.Best() != 0 || rank.NewPairs(nil, idf, 10).Best("x y") != 0 || rank.NewPairs([]string{"x", "y"}, idf, 0).Best("x y") != 0:
		t.Error("without pairs there is a score")
	}
	if x, y := at("connection pool deadlock"), rank.NewPairs(q.Words, idf, 10).Best("connection pool deadlock"); x != y {
		t.Errorf("%v and %v for the same", x, y)
	}
}

func BenchmarkPairs(b *testing.B) {
	q := query.Parse("how did we fix the deadlock in the connection pool")
	text := strings.Repeat("The connection pool deadlocks when every worker waits for a free slot while it holds the lock. ", 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		rank.NewPairs(q.Words, func(string) float64 { return 1 }, 50).Best(text)
	}
}
