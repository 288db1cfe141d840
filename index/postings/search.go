package postings

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/deja-node/deja/index/query"
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

	turns   []turn // in the order of the files, kinds and docs
	words   []wordHit
	keep    []int8     // of each session: 0 not asked, 1 yes, -1 no
	holders [][]uint64 // for each term, the set of sessions that hold it
	inTurns []int
	inKinds total
}

// turn is one turn that holds terms: count words from first on.
type turn struct {
	thread uint32
	place  uint32
	size   uint32
	n      uint32 // its doc within the file
	first  uint32
	file   uint16
	count  uint16
	role   uint8
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

// cursor is a list of one term.
type cursor struct {
	postings
	term uint32
}

// cursors opens the lists of all terms, in the order of the terms.
func (s *search) cursors(p *part, kind int) ([]cursor, error) {
	var out []cursor
	var spans []span
	for i, term := range s.q.Terms {
		var err error
		if spans, err = p.lookup(spans[:0], kind, []byte(term), query.IsSingle(term)); err != nil {
			return nil, err
		}
		for _, at := range spans {
			list, err := p.postings(at)
			if err != nil {
				return nil, err
			}
			out = append(out, cursor{list, uint32(i)})
		}
	}
	return out, nil
}

// collect gathers the turns of one kind in one file: it walks the lists of all
// terms together, doc by doc.
func (s *search) collect(file, kind int) error {
	p := &s.r.parts[file]
	lists, err := s.cursors(p, kind)
	if err != nil {
		return err
	}
	heads := make([]uint32, len(lists)) // the doc that each list is at
	next, bytes := uint32(none), 0
	for i := range lists {
		bytes += len(lists[i].rest)
		heads[i] = lists[i].advance()
		next = min(next, heads[i])
	}
	// A posting takes one to two bytes.
	s.words = slices.Grow(s.words, bytes/2)
	s.turns = slices.Grow(s.turns, bytes/3)
	alive := s.alive(p)
	for n := next; n != none; n = next {
		first := len(s.words)
		next = none
		for i := range heads {
			if heads[i] == n {
				s.word(first, lists[i].term, lists[i].tf)
				heads[i] = lists[i].advance()
			}
			next = min(next, heads[i])
		}
		if err := s.take(file, kind, n, first, alive); err != nil {
			return err
		}
	}
	for i := range lists {
		if err := lists[i].err; err != nil {
			return err
		}
	}
	return nil
}

// word adds a term to the turn whose words are those from first on.
func (s *search) word(first int, term, tf uint32) {
	if n := len(s.words); n > first && s.words[n-1].term == term {
		s.words[n-1].tf += tf
		return
	}
	s.words = append(s.words, wordHit{term, tf})
}

// take keeps the turn whose words are those from first on, if it is one that
// may be found.
func (s *search) take(file, kind int, n uint32, first int, alive func(uint32) bool) error {
	p := &s.r.parts[file]
	d, err := p.doc(n)
	if err != nil {
		return err
	}
	if d.thread == noThread || kindOf(d.role) != kind {
		return corrupt(p.f, "list of another kind")
	}
	kept := false
	if s.roles[d.role] {
		session := s.r.of[d.thread]
		for _, w := range s.words[first:] {
			s.inTurns[w.term]++
			s.holders[w.term][session/64] |= 1 << (session % 64)
		}
		kept = s.keeps(session) && (alive == nil || alive(n))
	}
	if !kept {
		s.words = s.words[:first]
		return nil
	}
	s.turns = append(s.turns, turn{
		thread: d.thread, place: d.place, size: d.size, role: d.role,
		n: n, file: uint16(file), first: uint32(first), count: uint16(len(s.words) - first),
	})
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
func (t *turn) run() uint32 { return kinds*t.thread + uint32(kindOf(t.role)) }

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
