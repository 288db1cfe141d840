package postings

import (
	"cmp"
	"context"
	"slices"

	"github.com/deja-node/deja/index/rank"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// Reader answers from one snapshot. It is safe for concurrent use.
type Reader struct {
	files   []*file
	ids     []record.SessionID // sorted; the global ordinals
	ordinal [][]uint32         // per file: ordinals within the file to global ones
}

// NewReader opens the view in a snapshot.
func NewReader(snap *shelf.Snapshot) (*Reader, error) {
	st := snap.State(Name)
	if err := st.Newer(Name, version); err != nil {
		return nil, err
	}
	r := &Reader{}
	if st.Version != version {
		return r, nil
	}
	files, err := snap.Files(Name)
	if err != nil {
		return nil, err
	}
	for _, sf := range files {
		f, err := openFile(sf)
		if err != nil {
			return nil, err
		}
		r.files = append(r.files, f)
	}
	r.ids, r.ordinal, err = unite(r.files)
	return r, err
}

// Request is what a search looks for.
type Request struct {
	Terms []string // stems, each once
	// Roles are looked at; none means speech.
	Roles []record.Role
	// Keep filters sessions before they are scored; nil keeps all.
	Keep func(record.SessionID) bool
	// Dead hides entries; nil hides none.
	Dead  func(record.Pos) bool
	Limit int // candidates to return
}

// Candidate is one session that holds some of the words.
type Candidate struct {
	Session record.SessionID
	Score   rank.Score
	Matched int       // words of the query that stand in it
	Turns   int       // turns that hold any
	User    int       // of those, the user's
	Best    []TurnHit // the best turns, best first
}

// TurnHit is a turn that holds words of the query.
type TurnHit struct {
	Pos   record.Pos
	Score float64
}

// Found is the outcome of a search.
type Found struct {
	Candidates []Candidate
	Total      int // sessions that hold any of the words
	DF         []int
	Sessions   int // all that there are
}

const bestTurns = 8

// Search ranks the sessions that hold any of the words.
func (r *Reader) Search(ctx context.Context, q Request) (Found, error) {
	s := &search{r: r, q: q, roles: roleSet(q.Roles)}
	if err := s.collect(ctx); err != nil {
		return Found{}, err
	}
	return s.rank(ctx)
}

// roleSet says which roles are looked at.
func roleSet(roles []record.Role) (set [256]bool) {
	if len(roles) == 0 {
		for n := range set {
			set[n] = isSpeech(uint8(n))
		}
		return set
	}
	for _, r := range roles {
		if n, ok := roleNumbers[r]; ok && n != roleNone {
			set[n] = true
		}
		if r == record.RoleUser {
			set[roleNote] = true
		}
	}
	return set
}

// search is the state of one Search.
type search struct {
	r     *Reader
	q     Request
	roles [256]bool
	hits  []hit // every (turn, word), in the order of files and docs within a word
	df    []int // sessions that hold a word
	sizes []float64
	kept  map[uint32]bool // what Keep said of a session
}

// hit is one word in one turn.
type hit struct {
	session uint32 // global ordinal
	file    uint16
	term    uint16
	doc     uint32
	tf      uint32
	size    uint32
	user    bool
}

// collect gathers the turns that hold each word.
func (s *search) collect(ctx context.Context) error {
	s.df = make([]int, len(s.q.Terms))
	s.kept = map[uint32]bool{}
	lists := s.listsOf()
	for t, term := range s.q.Terms {
		if err := ctx.Err(); err != nil {
			return err
		}
		seen := map[uint32]bool{}
		for n, f := range s.r.files {
			found, ok, err := f.lookup([]byte(term))
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			for k := range found {
				if !lists[k] {
					continue
				}
				if err := s.take(f, n, t, found[k], seen); err != nil {
					return err
				}
			}
		}
		s.df[t] = len(seen)
	}
	return nil
}

// listsOf says which of the two lists hold roles that are looked at.
func (s *search) listsOf() (lists [2]bool) {
	for n, on := range s.roles {
		if on && isWork(uint8(n)) {
			lists[1] = true
		} else if on {
			lists[0] = true
		}
	}
	return lists
}

func (s *search) take(f *file, n, t int, list span, seen map[uint32]bool) error {
	p, err := f.pairs(list)
	if err != nil {
		return err
	}
	for p.next() {
		d, err := f.doc(p.doc)
		if err != nil {
			return err
		}
		if d.session == noSession || !s.roles[d.role] {
			continue
		}
		g := s.r.ordinal[n][d.session]
		seen[g] = true
		if !s.keep(g) || s.q.Dead != nil && s.q.Dead(f.pos(p.doc)) {
			continue
		}
		s.hits = append(s.hits, hit{
			session: g, file: uint16(n), term: uint16(t), doc: p.doc, tf: p.tf, size: d.size,
			user: d.role == roleUser || d.role == roleNote,
		})
	}
	return p.err
}

func (s *search) keep(g uint32) bool {
	if s.q.Keep == nil {
		return true
	}
	on, known := s.kept[g]
	if !known {
		on = s.q.Keep(s.r.ids[g])
		s.kept[g] = on
	}
	return on
}

// rank scores the sessions: all by the whole session first, the best of them
// by their turns and windows too.
func (s *search) rank(ctx context.Context) (Found, error) {
	sizes, average, turn, err := s.r.measure(s.roles)
	if err != nil {
		return Found{}, err
	}
	out := Found{DF: s.df, Sessions: len(s.r.ids)}
	slices.SortFunc(s.hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.file, b.file), cmp.Compare(a.doc, b.doc), cmp.Compare(a.term, b.term))
	})
	idf := make([]float64, len(s.df))
	for t, df := range s.df {
		idf[t] = rank.IDF(df, len(s.r.ids))
	}
	type scored struct {
		hits  []hit
		score float64
	}
	var all []scored
	for from := 0; from < len(s.hits); {
		to := from
		for to < len(s.hits) && s.hits[to].session == s.hits[from].session {
			to++
		}
		run := s.hits[from:to]
		all = append(all, scored{run, sessionScore(run, idf, float64(sizes[run[0].session]), average)})
		from = to
	}
	out.Total = len(all)
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(s.r.ids[a.hits[0].session], s.r.ids[b.hits[0].session]))
	})
	// A session whose words are spread thin can rise by one good turn, but
	// not from arbitrarily far: the turns of four times the limit are read.
	for _, c := range all[:min(len(all), max(4*s.q.Limit, 100))] {
		cand, err := s.candidate(c.hits, c.score, idf, turn)
		if err != nil {
			return Found{}, err
		}
		out.Candidates = append(out.Candidates, cand)
	}
	slices.SortStableFunc(out.Candidates, func(a, b Candidate) int { return cmp.Compare(b.Score.Total(), a.Score.Total()) })
	out.Candidates = out.Candidates[:min(len(out.Candidates), s.q.Limit)]
	return out, ctx.Err()
}

// sessionScore is BM25 with the session as the text.
func sessionScore(hits []hit, idf []float64, size, average float64) float64 {
	tf := make([]float64, len(idf))
	for _, h := range hits {
		tf[h.term] += float64(h.tf)
	}
	t := 0.0
	for i, n := range tf {
		t += rank.BM25(idf[i], n, size, average, rank.BSession)
	}
	return t
}

// measure sums the sizes of the sessions over the roles that are looked at,
// and gives the average of a session and of a turn.
func (r *Reader) measure(roles [256]bool) (sizes []uint32, session, turn float64, err error) {
	sizes = make([]uint32, len(r.ids))
	var total, turns float64
	for n, f := range r.files {
		raw, err := f.table.All()
		if err != nil {
			return nil, 0, 0, err
		}
		for ; len(raw) >= docSize; raw = raw[docSize:] {
			d := parseDoc(raw)
			if d.session == noSession || !roles[d.role] {
				continue
			}
			if int(d.session) >= len(r.ordinal[n]) {
				return nil, 0, 0, corrupt(f.f, "doc of no session")
			}
			sizes[r.ordinal[n][d.session]] += d.size
			total += float64(d.size)
			turns++
		}
	}
	return sizes, total / max(float64(len(r.ids)), 1), total / max(turns, 1), nil
}

// candidate scores a session by its best turn and its best window of adjacent
// turns, besides the whole.
func (s *search) candidate(hits []hit, whole float64, idf []float64, average float64) (Candidate, error) {
	c := Candidate{Session: s.r.ids[hits[0].session]}
	c.Score.Add("session", whole)
	turns := s.turnsOf(hits, idf, average)
	c.Turns = len(turns)
	words := map[uint16]bool{}
	for _, h := range hits {
		words[h.term] = true
	}
	c.Matched = len(words)
	best := slices.Clone(turns)
	slices.SortStableFunc(best, func(a, b turnScore) int { return cmp.Compare(b.score, a.score) })
	for _, t := range best[:min(len(best), bestTurns)] {
		c.Best = append(c.Best, TurnHit{Pos: s.r.files[t.file].pos(t.doc), Score: t.score})
	}
	for _, t := range turns {
		if t.user {
			c.User++
		}
	}
	c.Score.Add("turn", rank.TurnWeight*best[0].score)
	window, err := s.window(turns, idf, average)
	if err != nil {
		return c, err
	}
	c.Score.Add("window", window)
	return c, nil
}

// turnScore is one turn with its words.
type turnScore struct {
	file  uint16
	doc   uint32
	size  uint32
	user  bool
	hits  []hit
	score float64
	place int // among the session's turns of the roles that are looked at
}

func (s *search) turnsOf(hits []hit, idf []float64, average float64) []turnScore {
	var turns []turnScore
	for from := 0; from < len(hits); {
		to := from
		t := turnScore{file: hits[from].file, doc: hits[from].doc, size: hits[from].size, user: hits[from].user}
		for to < len(hits) && hits[to].file == t.file && hits[to].doc == t.doc {
			t.score += rank.BM25(idf[hits[to].term], float64(hits[to].tf), float64(t.size), average, rank.BTurn)
			to++
		}
		t.hits = hits[from:to]
		turns = append(turns, t)
		from = to
	}
	return turns
}

// window is BM25 over the best run of adjacent turns.
func (s *search) window(turns []turnScore, idf []float64, average float64) (float64, error) {
	if err := s.places(turns); err != nil {
		return 0, err
	}
	best := 0.0
	tf := make([]float64, len(idf))
	for from := range turns {
		clear(tf)
		size := 0.0
		for to := from; to < len(turns) && turns[to].place-turns[from].place < rank.Window; to++ {
			size += float64(turns[to].size)
			for _, h := range turns[to].hits {
				tf[h.term] += float64(h.tf)
			}
		}
		score := 0.0
		for i, n := range tf {
			score += rank.BM25(idf[i], n, size, rank.Window*average, rank.BTurn)
		}
		best = max(best, score)
	}
	return best, nil
}

// places numbers the turns among all turns of their session that are looked
// at, so that windows are of adjacent turns and not of adjacent hits.
func (s *search) places(turns []turnScore) error {
	place := 0
	for i := range turns {
		if i > 0 {
			a, b := &turns[i-1], &turns[i]
			step := 1
			if a.file == b.file {
				n, err := s.between(int(a.file), a.doc, b.doc)
				if err != nil {
					return err
				}
				step += n
			}
			place += step
		}
		turns[i].place = place
	}
	return nil
}

// between counts turns of the same session that lie between two docs, up to
// what tells a window apart.
func (s *search) between(n int, from, to uint32) (int, error) {
	f := s.r.files[n]
	first, err := f.doc(from)
	if err != nil {
		return 0, err
	}
	count := 0
	for d := from + 1; d < to && count < rank.Window; d++ {
		x, err := f.doc(d)
		if err != nil {
			return 0, err
		}
		if x.session == first.session && s.roles[x.role] {
			count++
		}
	}
	return count, nil
}
