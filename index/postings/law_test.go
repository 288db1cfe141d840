package postings_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/rank"
	"github.com/deja-node/deja/index/record"
)

// randomRequest asks for anything that a world can answer.
func randomRequest(rng *rand.Rand, w *world) postings.Request {
	q := postings.Request{Terms: query.Parse(words(rng, 1+rng.IntN(6)) + " absent").Terms, Limit: 1 + rng.IntN(30)}
	if rng.IntN(3) == 0 {
		q.Roles = anyOf(rng, allRoles[:10], 1+rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		odd := record.SessionID(rng.Uint64())
		q.Keep = func(id record.SessionID) bool { return (id^odd)%3 != 0 }
	}
	if rng.IntN(3) == 0 {
		n, s := record.Seq(2+rng.IntN(5)), w.streams[rng.IntN(len(w.streams))]
		q.Dead = func(of record.StreamID) func(record.Seq) bool {
			if of == s {
				return nil
			}
			return func(seq record.Seq) bool { return seq%n == 0 }
		}
	}
	if rng.IntN(3) == 0 {
		q.Fits = func(id record.SessionID) float64 { return float64(id%4) / 3 }
	}
	return q
}

// TestIncrementalEqualsRebuild is the law of every view. Answers are equal to
// the last bit.
func TestIncrementalEqualsRebuild(t *testing.T) {
	rng := newRand(t)
	merged := 0
	for range 25 {
		w := newWorld(rng, 1+rng.IntN(250), 1+rng.IntN(12))
		whole, grown := w.build(t), w.grow(t, rng)
		a, b := whole.reader(), grown.reader()
		if x, y := dump(t, a), dump(t, b); x != y {
			t.Fatalf("dumps differ: %s", clip(x, y))
		}
		merged = max(merged, len(grown.files()))
		for range 20 {
			q := randomRequest(rng, w)
			if x, y := search(t, a, q), search(t, b, q); !reflect.DeepEqual(x, y) {
				t.Fatalf("%q: answers differ:\n%+v\n%+v", q.Terms, x, y)
			}
		}
	}
	if merged < 2 {
		t.Error("no index ever had two files")
	}
}

// TestOrderOfStreamsDoesNotMatter holds that nodes which met the same logs in
// another order know the same.
func TestOrderOfStreamsDoesNotMatter(t *testing.T) {
	rng := newRand(t)
	for range 10 {
		w := newWorld(rng, 100, 5)
		a := dump(t, w.build(t).reader())
		slices.Reverse(w.streams)
		if b := dump(t, w.build(t).reader()); a != b {
			t.Fatalf("dumps differ: %s", clip(a, b))
		}
	}
}

// TestSearchIsTheRecipe compares with the definition, computed from the texts
// in the plainest way.
func TestSearchIsTheRecipe(t *testing.T) {
	rng := newRand(t)
	found := 0
	for range 25 {
		w := newWorld(rng, 1+rng.IntN(150), 1+rng.IntN(10))
		r := w.grow(t, rng).reader()
		for range 15 {
			q := randomRequest(rng, w)
			got, want := search(t, r, q), w.search(q)
			found += len(got.Candidates)
			if got.Total != want.Total || got.Sessions != want.Sessions || got.Turns != want.Turns ||
				!slices.Equal(got.InSessions, want.InSessions) || !slices.Equal(got.InTurns, want.InTurns) {
				t.Fatalf("%q %v:\n got %+v\nwant %+v", q.Terms, q.Roles, got, want)
			}
			if len(got.Candidates) != len(want.Candidates) {
				t.Fatalf("%q: %d candidates, want %d", q.Terms, len(got.Candidates), len(want.Candidates))
			}
			for i, c := range got.Candidates {
				checkCandidate(t, c, want.Candidates[i])
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d candidates were compared", found)
	}
}

func checkCandidate(t *testing.T, got, want postings.Candidate) {
	t.Helper()
	if math.Abs(got.Score.Total()-want.Score.Total()) > 1e-9 {
		t.Fatalf("session %s has %v, want session %s with %v", got.Session, got.Score.Explain(), want.Session, want.Score.Explain())
	}
	if got.Session != want.Session {
		return // as good, and the sums of the two differ in their last bits
	}
	if got.Turns != want.Turns || got.User != want.User || got.Matched != want.Matched || len(got.Best) != len(want.Best) {
		t.Fatalf("session %s: got %+v, want %+v", got.Session, got, want)
	}
	for i := range got.Best {
		if math.Abs(got.Best[i].Score-want.Best[i].Score) > 1e-9 {
			t.Fatalf("session %s: turn %d has %v, want %v", got.Session, i, got.Best[i], want.Best[i])
		}
	}
}

// modelTurn is one entry as the model sees it.
type modelTurn struct {
	pos   record.Pos
	id    record.SessionID
	role  record.Role
	note  bool
	work  bool
	place int // among the turns of its kind of the session in its stream
	size  float64
	tf    map[string]float64
}

// turns takes the logs apart.
func (w *world) turns() []modelTurn {
	type run struct {
		s    record.StreamID
		id   record.SessionID
		work bool
	}
	places := map[run]int{}
	var out []modelTurn
	for _, s := range w.streams {
		for i, e := range w.logs[s] {
			note := e.Kind == record.KindNote
			if e.Kind != record.KindMsg && !note || e.Role == record.RoleMeta || e.Text.Len() == 0 {
				continue
			}
			text := e.Text.String()
			if e.Role == record.RoleEdit {
				text, _, _ = strings.Cut(text, "\n")
			}
			if note {
				text += "\n" + e.Note.Title.String() + "\n" + strings.Join(e.Note.Tags, "\n")
			}
			m := modelTurn{
				pos: record.Pos{Stream: s, Seq: record.Seq(i + 1)}, id: sessionOf(s, e), role: e.Role, note: note,
				work: !note && !e.Role.Speech(), tf: map[string]float64{},
			}
			terms := query.Terms(text)
			for _, term := range terms {
				m.tf[term]++
			}
			m.size = float64(postings.Size(len(terms)))
			k := run{s, m.id, m.work}
			m.place = places[k]
			places[k]++
			out = append(out, m)
		}
	}
	return out
}

// wants reports whether a request looks at turns of a kind, and at one.
func wants(q postings.Request, m modelTurn) (kind, one bool) {
	if len(q.Roles) == 0 {
		return !m.work, !m.work
	}
	for _, r := range q.Roles {
		kind = kind || r.Speech() == !m.work
	}
	return kind, slices.Contains(q.Roles, m.role)
}

// model is the state of one search of the model.
type model struct {
	q       postings.Request
	found   postings.Found
	tokens  map[record.SessionID]float64
	session rank.Field
	turn    rank.Field
}

func (w *world) search(q postings.Request) postings.Found {
	m := &model{q: q, tokens: map[record.SessionID]float64{}}
	var hits []modelTurn
	inSessions, inTurns := map[string]map[record.SessionID]bool{}, map[string]int{}
	exact, all := map[record.SessionID]float64{}, w.turns()
	for _, t := range all {
		kind, one := wants(q, t)
		if !kind {
			continue
		}
		n := 0.0
		for _, tf := range t.tf {
			n += tf
		}
		exact[t.id] += n
		m.found.Turns++
		hit := false
		for _, term := range q.Terms {
			if !one || t.tf[term] == 0 {
				continue
			}
			hit = true
			inTurns[term]++
			if inSessions[term] == nil {
				inSessions[term] = map[record.SessionID]bool{}
			}
			inSessions[term][t.id] = true
		}
		if hit && (q.Keep == nil || q.Keep(t.id)) && !dead(q, t.pos) {
			hits = append(hits, t)
		}
	}
	tokens := 0.0
	for id, n := range exact {
		if n > 0 {
			m.found.Sessions++
			m.tokens[id] = n
			tokens += n
		}
	}
	for _, term := range q.Terms {
		m.found.InSessions = append(m.found.InSessions, len(inSessions[term]))
		m.found.InTurns = append(m.found.InTurns, inTurns[term])
	}
	m.session = rank.Field{Average: tokens / math.Max(float64(m.found.Sessions), 1), B: rank.BSession}
	m.turn = rank.Field{Average: tokens / math.Max(float64(m.found.Turns), 1), B: rank.BTurn}
	return m.rank(hits, all)
}

func dead(q postings.Request, p record.Pos) bool {
	if q.Dead == nil {
		return false
	}
	f := q.Dead(p.Stream)
	return f != nil && f(p.Seq)
}

func (m *model) rank(hits, all []modelTurn) postings.Found {
	by := map[record.SessionID][]modelTurn{}
	for _, t := range hits {
		by[t.id] = append(by[t.id], t)
	}
	top := 0.0
	for id, turns := range by {
		c := m.candidate(id, turns, all)
		top = max(top, c.Score.Total())
		m.found.Candidates = append(m.found.Candidates, c)
	}
	for i := range m.found.Candidates {
		if c := &m.found.Candidates[i]; m.q.Fits != nil {
			c.Score.Add(rank.PartDate, rank.DateWeight*top*m.q.Fits(c.Session))
		}
	}
	slices.SortFunc(m.found.Candidates, func(a, b postings.Candidate) int {
		switch x, y := a.Score.Total(), b.Score.Total(); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return int(min(max(int64(a.Session>>1)-int64(b.Session>>1), -1), 1))
	})
	m.found.Total = len(m.found.Candidates)
	m.found.Candidates = m.found.Candidates[:min(len(m.found.Candidates), m.q.Limit)]
	return m.found
}

// score is BM25 of some turns taken as one text of a size.
func (m *model) score(turns []modelTurn, inTurns bool, norm float64) float64 {
	t := 0.0
	for i, term := range m.q.Terms {
		tf := 0.0
		for _, x := range turns {
			tf += x.tf[term]
		}
		idf := rank.IDF(m.found.InSessions[i], m.found.Sessions)
		if inTurns {
			idf = rank.IDF(m.found.InTurns[i], m.found.Turns)
		}
		t += rank.BM25(idf, tf, norm)
	}
	return t
}

func (m *model) candidate(id record.SessionID, turns, all []modelTurn) postings.Candidate {
	c := postings.Candidate{Session: id, Turns: len(turns)}
	best, window := 0.0, 0.0
	for _, t := range turns {
		one := m.score([]modelTurn{t}, true, m.turn.Norm(t.size))
		best = max(best, one)
		c.Best = append(c.Best, postings.TurnHit{Pos: t.pos, Score: one})
		if t.note || t.role == record.RoleUser {
			c.User++
		}
		window = max(window, m.window(t, turns, all))
	}
	for _, term := range m.q.Terms {
		if slices.ContainsFunc(turns, func(t modelTurn) bool { return t.tf[term] > 0 }) {
			c.Matched++
		}
	}
	slices.SortFunc(c.Best, func(a, b postings.TurnHit) int {
		if a.Score > b.Score {
			return -1
		}
		return 1
	})
	c.Best = c.Best[:min(len(c.Best), 8)]
	c.Score.Add(rank.PartSession, m.score(turns, false, m.session.Norm(m.tokens[id])))
	c.Score.Add(rank.PartTurn, rank.TurnWeight*best)
	c.Score.Add(rank.PartWindow, window)
	return c
}

// window scores the window that begins at a turn.
func (m *model) window(first modelTurn, turns, all []modelTurn) float64 {
	same := func(t modelTurn) bool {
		return t.id == first.id && t.pos.Stream == first.pos.Stream && t.work == first.work &&
			t.place >= first.place && t.place < first.place+rank.Window
	}
	var in []modelTurn
	size, span := 0.0, 0
	for _, t := range turns {
		if same(t) {
			in = append(in, t)
			size += t.size
		}
	}
	for _, t := range all {
		if same(t) {
			span++
		}
	}
	size += float64(span-len(in)) * m.turn.Average
	return m.score(in, true, rank.Field{Average: rank.Window * m.turn.Average, B: rank.BTurn}.Norm(size))
}
