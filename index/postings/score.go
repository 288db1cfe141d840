package postings

import "github.com/deja-node/deja/index/rank"

// scorer applies the recipe of package rank to the turns that hold terms. Sums
// go over the terms in the order of the request, so that a score is the same
// to the last bit however the entries are spread over files.
type scorer struct {
	s         *search
	inSession []float64 // what each term weighs among sessions
	inTurn    []float64 // and among turns
	sessions  rank.Field
	turns     rank.Field
	windows   rank.Field
	tf        []float64 // of each term, of the text in hand
}

// scored is a session with the parts of its score.
type scored struct {
	session uint32
	turns   []turn
	whole   float64
	window  float64
	turn    float64
	date    float64
}

func (c *scored) total() float64 { return c.whole + c.window + rank.TurnWeight*c.turn + c.date }

func newScorer(s *search, found Found) *scorer {
	tokens := float64(s.inKinds.tokens)
	turn := tokens / float64(max(s.inKinds.turns, 1))
	sc := &scorer{
		s: s, tf: make([]float64, len(s.q.Terms)),
		sessions: rank.Field{B: rank.BSession, Average: tokens / float64(max(s.inKinds.sessions, 1))},
		turns:    rank.Field{B: rank.BTurn, Average: turn},
		windows:  rank.Field{B: rank.BTurn, Average: rank.Window * turn},
	}
	for i := range s.q.Terms {
		sc.inSession = append(sc.inSession, rank.IDF(found.InSessions[i], found.Sessions))
		sc.inTurn = append(sc.inTurn, found.Weight(i))
	}
	return sc
}

// score scores one session by the turns of it that hold terms.
func (sc *scorer) score(session uint32, turns []turn) scored {
	c := scored{session: session, turns: turns}
	clear(sc.tf)
	for i := range turns {
		sc.add(&turns[i], 1)
		c.turn = max(c.turn, sc.one(&turns[i]))
	}
	c.whole = sc.text(sc.inSession, sc.sessions.Norm(float64(sc.s.size(session))))
	for from := 0; from < len(turns); {
		to := from + 1
		for to < len(turns) && turns[to].run() == turns[from].run() {
			to++
		}
		c.window = max(c.window, sc.window(turns[from:to]))
		from = to
	}
	return c
}

// text is the score of the text whose terms are in tf.
func (sc *scorer) text(weight []float64, norm float64) float64 {
	t := 0.0
	for i, n := range sc.tf {
		if n > 0 {
			t += rank.BM25(weight[i], n, norm)
		}
	}
	return t
}

func (sc *scorer) add(t *turn, sign float64) {
	for _, w := range sc.s.words[t.first:][:t.count] {
		sc.tf[w.term] += sign * float64(w.tf)
	}
}

// one is the score of a turn.
func (sc *scorer) one(t *turn) float64 {
	norm, sum := sc.turns.Norm(float64(t.size)), 0.0
	for _, w := range sc.s.words[t.first:][:t.count] {
		sum += rank.BM25(sc.inTurn[w.term], float64(w.tf), norm)
	}
	return sum
}

// window is the score of the best window that begins at a turn of a run. Turns
// without a term have no entry here, so each counts with the average size.
func (sc *scorer) window(run []turn) float64 {
	clear(sc.tf)
	best, size, end := 0.0, 0.0, 0
	total := sc.s.r.threads[run[0].thread].turns[kindOf(run[0].role)]
	for i := range run {
		for end < len(run) && run[end].place-run[i].place < rank.Window {
			sc.add(&run[end], 1)
			size += float64(run[end].size)
			end++
		}
		span := max(min(rank.Window, int(total)-int(run[i].place)), end-i)
		others := float64(span-(end-i)) * sc.turns.Average
		best = max(best, sc.text(sc.inTurn, sc.windows.Norm(size+others)))
		sc.add(&run[i], -1)
		size -= float64(run[i].size)
	}
	return best
}

// candidate describes a scored session.
func (sc *scorer) candidate(c scored) Candidate {
	s := sc.s
	out := Candidate{Session: s.r.sessions[c.session], Turns: len(c.turns)}
	out.Score.Add(rank.PartSession, c.whole)
	out.Score.Add(rank.PartWindow, c.window)
	out.Score.Add(rank.PartTurn, rank.TurnWeight*c.turn)
	out.Score.Add(rank.PartDate, c.date)
	clear(sc.tf)
	var best [maxBest]ranked
	n := 0
	for i := range c.turns {
		t := &c.turns[i]
		sc.add(t, 1)
		if t.role == roleUser || t.role == roleNote {
			out.User++
		}
		n = insert(best[:], n, ranked{t, sc.one(t)})
	}
	for _, tf := range sc.tf {
		if tf > 0 {
			out.Matched++
		}
	}
	out.Best = make([]TurnHit, n)
	for i, b := range best[:n] {
		pos := s.r.parts[b.turn.file].pos(b.turn.n)
		out.Best[i] = TurnHit{Pos: pos, Role: roleNames[b.turn.role], Score: b.score}
	}
	return out
}

type ranked struct {
	turn  *turn
	score float64
}

// insert keeps the best in order, the first of equals first. n of them are
// there, and the result is how many are then.
func insert(best []ranked, n int, r ranked) int {
	if n == len(best) && best[n-1].score >= r.score {
		return n
	}
	n = min(n+1, len(best))
	i := n - 1
	for ; i > 0 && best[i-1].score < r.score; i-- {
		best[i] = best[i-1]
	}
	best[i] = r
	return n
}
