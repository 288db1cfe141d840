package rank

import (
	"math"
	"time"
)

// Signals are what speaks for or against a session beside its relevance. The
// zero value says nothing, and so does every field that is zero.
//
//	signal     least  most   what it says
//	user       1      1.1    how much of what matches the user said
//	title      1      1.1    how much of the question stands in the title
//	phrase     1      1.35   how close together the words stand, or a whole phrase
//	decision   1      1.5    what matches is a decision
//	outcome    0.7    1.1    the session gave up / reached what it was about
//	lifecycle  0.5    1.1    the note is rejected, superseded, stale / accepted
//	promoted   1      1.25   a person filed it
//	reuse      1      1.5    it was recalled before
//	fresh      1      1.05   it is recent
type Signals struct {
	User      float64 // share of the matching turns that the user said, 0 to 1
	Title     float64 // share of the weight of the terms that stand in the title, 0 to 1
	Phrase    float64 // closeness of the words in the best turn, 0 to 1
	Decision  bool    // the best turn states a decision
	Outcome   Outcome
	Lifecycle Lifecycle
	Promoted  bool      // an explicit note
	Reuse     int       // how often it was recalled
	Updated   time.Time // last activity; without Now it says nothing
	Now       time.Time
}

// Outcome is how a session ended, where that is known.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = 0
	Solved  Outcome = 1
	GaveUp  Outcome = -1
)

// Lifecycle is the state of a note or of what was decided.
type Lifecycle int

// The states.
const (
	Plain      Lifecycle = 0
	Accepted   Lifecycle = 1
	Rejected   Lifecycle = 2
	Superseded Lifecycle = 3
	Stale      Lifecycle = 4
)

// The bounds of the signals.
const (
	userMost     = 1.1
	titleMost    = 1.1
	phraseMost   = 1.35
	decisionMost = 1.5
	solved       = 1.1
	gaveUp       = 0.7
	accepted     = 1.1
	rejected     = 0.5
	superseded   = 0.5
	stale        = 0.7
	promotedMost = 1.25
	reuseMost    = 1.5
	reuseStep    = 0.1 // for each doubling
	freshMost    = 1.05
	freshHalf    = 30 * 24 * time.Hour // after which half of it is gone
)

// Apply scales a score by the signals.
func (g Signals) Apply(s *Score) {
	s.Scale("user", share(g.User, userMost))
	s.Scale("title", share(g.Title, titleMost))
	s.Scale("phrase", share(g.Phrase, phraseMost))
	if g.Decision {
		s.Scale("decision", decisionMost)
	}
	s.Scale("outcome", g.Outcome.factor())
	s.Scale("lifecycle", g.Lifecycle.factor())
	if g.Promoted {
		s.Scale("promoted", promotedMost)
	}
	s.Scale("reuse", reuse(g.Reuse))
	s.Scale("fresh", fresh(g.Updated, g.Now))
}

// share grows from 1 to most with a share from 0 to 1.
func share(part, most float64) float64 {
	if !(part > 0) { // also what is no number
		return 1
	}
	return 1 + (most-1)*min(part, 1)
}

func (o Outcome) factor() float64 {
	switch o {
	case Solved:
		return solved
	case GaveUp:
		return gaveUp
	}
	return 1
}

func (l Lifecycle) factor() float64 {
	switch l {
	case Accepted:
		return accepted
	case Rejected:
		return rejected
	case Superseded:
		return superseded
	case Stale:
		return stale
	}
	return 1
}

func reuse(n int) float64 {
	return min(1+reuseStep*math.Log2(1+float64(max(n, 0))), reuseMost)
}

// fresh is a hint, not a divisor: nothing is held against age. A time ahead of
// the clock counts as now.
func fresh(updated, now time.Time) float64 {
	if updated.IsZero() || now.IsZero() {
		return 1
	}
	age := max(now.Sub(updated), 0)
	return 1 + (freshMost-1)*math.Exp2(-float64(age)/float64(freshHalf))
}
