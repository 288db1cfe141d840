package postings

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/deja-node/deja/index/rank"
	"github.com/deja-node/deja/index/record"
)

// Search ranks the sessions that hold any of the terms. All of them are scored
// in full, so that the ranking is that of the recipe and depends on nothing
// but the entries.
func (r *Reader) Search(ctx context.Context, q Request) (Found, error) {
	s := newSearch(r, q)
	for i := range r.parts {
		for k := range kinds {
			if !s.wanted[k] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return Found{}, context.Cause(ctx)
			}
			if err := s.collect(i, k); err != nil {
				return Found{}, err
			}
		}
	}
	return s.rank(), nil
}

// search is the state of one Search. Its slices are indexed by session, turn or
// term; a turn is one that holds a term.
type search struct {
	r      *Reader
	q      Request
	roles  [roles]bool
	wanted [kinds]bool

	turns    []turn // in the order of the files, kinds and docs
	words    []wordHit
	keep     []int8     // of each session: 0 not asked, 1 yes, -1 no
	holders  [][]uint64 // for each term, the set of sessions that hold it
	inTurns  []int
	sessions int
	inKinds  total
}

// turn is one turn that holds terms: words[first:] up to those of the next.
type turn struct {
	doc
	n     uint32 // within the file
	file  uint16
	kind  uint8
	first uint32
	last  uint32
}

type wordHit struct {
	term uint32
	tf   uint32
}

func newSearch(r *Reader, q Request) *search {
	s := &search{r: r, q: q, keep: make([]int8, len(r.sessions)), inTurns: make([]int, len(q.Terms))}
	for n := range s.roles {
		role := roleNames[n]
		switch {
		case n == roleNone:
		case len(q.Roles) == 0:
			s.roles[n] = kindOf(uint8(n)) == speech
		default:
			s.roles[n] = role != "" && slices.Contains(q.Roles, role)
		}
		if s.roles[n] {
			s.wanted[kindOf(uint8(n))] = true
		}
	}
	for range q.Terms {
		s.holders = append(s.holders, make([]uint64, (len(r.sessions)+63)/64))
	}
	for k, on := range s.wanted {
		if on {
			s.inKinds.turns += r.total[k].turns
			s.inKinds.tokens += r.total[k].tokens
		}
	}
	for n := range r.sessions {
		if s.size(uint32(n)) > 0 {
			s.inKinds.sessions++
		}
	}
	return s
}

// size is how many tokens of the wanted kinds a session has.
func (s *search) size(session uint32) uint64 {
	n := uint64(0)
	for k, on := range s.wanted {
		if on {
			n += s.r.tokens[k][session]
		}
	}
	return n
}

// cursor is the list of one term.
type cursor struct {
	postings
	term uint32
}

// collect gathers the turns of one kind in one file: it walks the lists of all
// terms together, doc by doc.
func (s *search) collect(file, kind int) error {
	p := &s.r.parts[file]
	var cursors []*cursor
	for n, term := range s.q.Terms {
		lists, err := p.lookup([]byte(term))
		if err != nil {
			return err
		}
		list, err := p.postings(lists[kind])
		if err != nil {
			return err
		}
		c := &cursor{list, uint32(n)}
		if c.advance() {
			cursors = append(cursors, c)
		} else if c.err != nil {
			return c.err
		}
	}
	alive := s.alive(p)
	for len(cursors) > 0 {
		n := cursors[0].doc
		for _, c := range cursors[1:] {
			n = min(n, c.doc)
		}
		t := turn{n: n, file: uint16(file), kind: uint8(kind), first: uint32(len(s.words))}
		rest := cursors[:0]
		for _, c := range cursors {
			if c.doc == n {
				s.words = append(s.words, wordHit{c.term, c.tf})
				if !c.advance() {
					if c.err != nil {
						return c.err
					}
					continue
				}
			}
			rest = append(rest, c)
		}
		cursors = rest
		if err := s.take(p, t, alive); err != nil {
			return err
		}
	}
	return nil
}

// take keeps a turn if it is one that may be found.
func (s *search) take(p *part, t turn, alive func(uint32) bool) error {
	var err error
	if t.doc, err = p.doc(t.n); err != nil {
		return err
	}
	if t.thread == noThread || kindOf(t.role) != int(t.kind) {
		return corrupt(p.f, "list of another kind")
	}
	t.last = uint32(len(s.words))
	kept := false
	if s.roles[t.role] {
		session := s.r.of[t.thread]
		for _, w := range s.words[t.first:] {
			s.inTurns[w.term]++
			s.holders[w.term][session/64] |= 1 << (session % 64)
		}
		kept = s.keeps(session) && (alive == nil || alive(t.n))
	}
	if kept {
		s.turns = append(s.turns, t)
	} else {
		s.words = s.words[:t.first]
	}
	return nil
}

func (s *search) keeps(session uint32) bool {
	if s.keep[session] == 0 {
		s.keep[session] = 1
		if s.q.Keep != nil && !s.q.Keep(s.r.sessions[session]) {
			s.keep[session] = -1
		}
	}
	return s.keep[session] > 0
}

// alive returns which docs of a file still count, nil for all. It is asked for
// ascending docs.
func (s *search) alive(p *part) func(doc uint32) bool {
	if s.q.Dead == nil {
		return nil
	}
	dead := make([]func(record.Seq) bool, len(p.file.streams))
	some := false
	for i, stream := range p.file.streams {
		dead[i] = s.q.Dead(stream)
		some = some || dead[i] != nil
	}
	if !some {
		return nil
	}
	at := 0
	return func(n uint32) bool {
		for at+1 < len(p.starts) && p.starts[at+1] <= n {
			at++
		}
		r := p.file.ranges[at]
		f := dead[r.stream]
		return f == nil || !f(r.first+record.Seq(n-p.starts[at]))
	}
}

// byThread returns the turns in the order of their threads, and within one by
// kind and place.
func (s *search) byThread() []turn {
	starts := make([]uint32, kinds*len(s.r.threads)+1)
	for i := range s.turns {
		starts[s.turns[i].run()+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	sorted := make([]turn, len(s.turns))
	for _, t := range s.turns {
		sorted[starts[t.run()]] = t
		starts[t.run()]++
	}
	return sorted
}

// run numbers the turns of one kind in one thread: those that can stand side by side.
func (t *turn) run() uint32 { return kinds*t.thread + uint32(t.kind) }

// rank scores the sessions and returns the best.
func (s *search) rank() Found {
	found := Found{Sessions: s.inKinds.sessions, Turns: int(s.inKinds.turns), InTurns: s.inTurns}
	for _, h := range s.holders {
		n := 0
		for _, w := range h {
			n += bits.OnesCount64(w)
		}
		found.InSessions = append(found.InSessions, n)
	}
	sc := newScorer(s, found)
	found.TurnSize = sc.turns.Average
	var all []scored
	turns := s.byThread()
	for from := 0; from < len(turns); {
		session := s.r.of[turns[from].thread]
		to := from + 1
		for to < len(turns) && s.r.of[turns[to].thread] == session {
			to++
		}
		all = append(all, sc.score(session, turns[from:to]))
		from = to
	}
	found.Total = len(all)
	s.date(all)
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.session, b.session))
	})
	for _, c := range all[:min(len(all), max(s.q.Limit, 0))] {
		found.Candidates = append(found.Candidates, sc.candidate(c))
	}
	return found
}

// date adds a share of the best score to sessions of the dates that the
// question names.
func (s *search) date(all []scored) {
	if s.q.Fits == nil {
		return
	}
	top := 0.0
	for i := range all {
		top = max(top, all[i].total())
	}
	for i := range all {
		all[i].date = rank.DateWeight * top * min(max(s.q.Fits(s.r.sessions[all[i].session]), 0), 1)
	}
}
