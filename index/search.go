package index

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/catalog"
	"github.com/deja-node/deja/index/digest"
	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/rank"
	"github.com/deja-node/deja/index/record"
)

// Request is one search.
type Request struct {
	Text    string
	Filter  Filter
	Limit   int
	Explain bool
	Surface policy.Level // what the answer is for
	Except  string       // native id of a session that is left out: the one that asks
	Near    string       // project whose sessions come first among equals
}

const (
	reranked      = 15  // candidates whose best turn is read, for pairs of words
	maxSnippets   = 3   // of each of the first hits; later ones show one
	fullHits      = 5   // hits that show so many
	snippetBudget = 400 // bytes of one
)

// Search ranks the sessions that answer a query. Any word counts, none must be
// there; quoted text must stand in the session word for word.
func (m *Memory) Search(ctx context.Context, r Request) (Answer, error) {
	q := query.Parse(r.Text)
	s := &searching{m: m, r: r, q: q, seen: map[record.SessionID]catalog.Session{}, texts: map[record.Pos]record.Entry{}}
	ans := Answer{Query: r.Text, Tier: TierNone}
	if len(q.Terms) == 0 {
		return ans, nil
	}
	if r.Filter.Session != "" {
		one, err := m.Find(r.Filter.Session)
		if err != nil {
			return ans, err
		}
		s.only = one.key
	}
	found, err := m.post.Search(ctx, postings.Request{
		Terms: q.Terms, Roles: r.Filter.Roles, Keep: s.keep, Dead: s.dead(), Fits: s.fits(), Limit: max(2*r.Limit, reranked),
	})
	if err == nil {
		err = s.err
	}
	if err != nil {
		return ans, damaged(err)
	}
	s.weigh(found)
	hits, err := s.rank(ctx, found)
	if err != nil {
		return ans, damaged(err)
	}
	ans.Total, ans.Withheld = found.Total, s.withheld
	if len(q.Phrases) > 0 {
		ans.Total = len(hits)
	}
	hits, merged := s.collapse(hits)
	ans.Total -= merged
	hits = hits[:min(len(hits), r.Limit)]
	for i := range hits {
		if err := s.finish(&hits[i], i+1); err != nil {
			return ans, err
		}
		ans.Hits = append(ans.Hits, hits[i].Hit)
	}
	ans.Tier = s.tier(ans.Hits)
	return ans, nil
}

// searching is the state of one Search.
type searching struct {
	m        *Memory
	r        Request
	q        query.Query
	only     record.SessionID
	seen     map[record.SessionID]catalog.Session
	texts    map[record.Pos]record.Entry
	weights  map[string]float64
	pairs    *rank.Pairs
	withheld int
	err      error // of a question that cannot return one
}

// keep filters sessions before they are scored.
func (s *searching) keep(id record.SessionID) bool {
	if s.only != 0 && id != s.only {
		return false
	}
	b, ok, err := s.m.cat.Brief(id)
	if err != nil {
		s.err = err
		return false
	}
	if !ok || b.Turns == 0 || s.r.Except != "" && b.Key.Native == s.r.Except {
		return false
	}
	if s.m.level(b.Node, b.Key) < s.r.Surface {
		s.withheld++
		return false
	}
	if s.r.Filter.plain() {
		return true
	}
	c, err := s.session(id)
	if err != nil {
		s.err = err
		return false
	}
	return s.m.admits(c, s.r.Filter, s.r.Surface)
}

// session reads a session once.
func (s *searching) session(id record.SessionID) (catalog.Session, error) {
	if c, ok := s.seen[id]; ok {
		return c, nil
	}
	c, _, err := s.m.cat.Session(id)
	if err == nil {
		s.seen[id] = c
	}
	return c, err
}

// dead hides superseded entries, at no cost when there are none.
func (s *searching) dead() func(record.StreamID) func(record.Seq) bool {
	if !s.m.cat.HasDrops() {
		return nil
	}
	return func(stream record.StreamID) func(record.Seq) bool {
		return func(seq record.Seq) bool { return s.m.cat.Superseded(record.Pos{Stream: stream, Seq: seq}) }
	}
}

// fits says how well a session fits the dates that the question names.
func (s *searching) fits() func(record.SessionID) float64 {
	dates := query.Dates(s.r.Text, s.m.opt.Now())
	if len(dates) == 0 {
		return nil
	}
	return func(id record.SessionID) float64 {
		c, err := s.session(id)
		if err != nil {
			s.err = err
			return 0
		}
		best := 0.0
		for _, d := range dates {
			best = max(best, d.Fit(c.Started, c.Updated))
		}
		return best
	}
}

// weigh gives every word its weight.
func (s *searching) weigh(f postings.Found) {
	s.weights = make(map[string]float64, len(s.q.Terms))
	for i, t := range s.q.Terms {
		s.weights[t] = f.Weight(i)
	}
	s.pairs = rank.NewPairs(s.q.Words, s.weight, f.TurnSize)
}

func (s *searching) weight(term string) float64 { return s.weights[term] }

// hit is a Hit with what its ranking needs.
type hit struct {
	Hit
	session catalog.Session
	score   rank.Score
	best    []postings.TurnHit
	first   record.CID // of its best turn: what copies share
}

// rank turns candidates into hits: the best ones are read, for pairs of
// adjacent words and for phrases, and the bounded signals applied.
func (s *searching) rank(ctx context.Context, f postings.Found) ([]hit, error) {
	var hits []hit
	for i, c := range f.Candidates {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		session, err := s.session(c.Session)
		if err != nil {
			return nil, err
		}
		h := hit{session: session, score: c.Score, best: c.Best}
		h.Matched, h.Asked, h.Matches = c.Matched, len(s.q.Terms), c.Turns
		if i < reranked || len(s.q.Phrases) > 0 {
			keep, err := s.read(&h)
			if err != nil {
				return nil, err
			}
			if !keep {
				continue
			}
		}
		rank.Signals{
			User: float64(c.User) / float64(max(c.Turns, 1)), Title: s.inTitle(h.session.Title),
			Updated: h.session.Updated, Now: s.m.opt.Now(),
		}.Apply(&h.score)
		if s.r.Near != "" && h.session.Project == s.r.Near {
			h.score.Scale("project", nearBound)
		}
		h.Score = h.score.Total()
		hits = append(hits, h)
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), b.session.Updated.Compare(a.session.Updated), cmp.Compare(a.session.ID, b.session.ID))
	})
	return hits, nil
}

// nearBound is the bounded advantage of the project at hand.
const nearBound = 1.2

// read looks at the best turn of a candidate, and for quoted text at the
// others too. It is not kept when that does not stand in any of its turns.
func (s *searching) read(h *hit) (bool, error) {
	quoted := len(s.q.Phrases) > 0
	for i, t := range h.best {
		if i > 0 && !quoted {
			break
		}
		e, err := s.entry(t.Pos)
		if err != nil {
			return false, err
		}
		if i == 0 {
			h.first = e.CID()
			h.score.Add(rank.PartPairs, rank.PairsWeight*s.pairs.Best(e.Text.String()))
		}
		if quoted && s.holdsPhrases(e.Text.String()) {
			return true, nil
		}
	}
	if quoted {
		return s.anyPhrase(h)
	}
	return true, nil
}

func (s *searching) holdsPhrases(text string) bool {
	for _, p := range s.q.Phrases {
		if !p.In(text) {
			return false
		}
	}
	return true
}

// anyPhrase looks for the quoted text in all turns of a session.
func (s *searching) anyPhrase(h *hit) (bool, error) {
	turns, err := s.m.cat.Turns(h.session.ID)
	if err != nil {
		return false, err
	}
	missing := slices.Clone(s.q.Phrases)
	for _, t := range turns {
		if !s.looksAt(t.Role) || t.Part {
			continue
		}
		e, err := s.m.log.Whole(t.Pos)
		if err != nil {
			return false, err
		}
		missing = slices.DeleteFunc(missing, func(p query.Phrase) bool { return p.In(e.Text.String()) })
		if len(missing) == 0 {
			h.best = append([]postings.TurnHit{{Pos: t.Pos}}, h.best...)
			return true, nil
		}
	}
	return false, nil
}

func (s *searching) looksAt(r record.Role) bool {
	if len(s.r.Filter.Roles) == 0 {
		return r.Speech()
	}
	return slices.Contains(s.r.Filter.Roles, r)
}

// entry reads an entry once.
func (s *searching) entry(p record.Pos) (record.Entry, error) {
	if e, ok := s.texts[p]; ok {
		return e, nil
	}
	e, err := s.m.log.Entry(p)
	if err != nil {
		return e, err
	}
	s.texts[p] = e
	return e, nil
}

// inTitle is how much of the weight of the question stands in a title.
func (s *searching) inTitle(title string) float64 {
	met, all := 0.0, 0.0
	in := query.Terms(title)
	for _, t := range s.q.Terms {
		all += s.weights[t]
		if slices.Contains(in, t) {
			met += s.weights[t]
		}
	}
	return met / max(all, 1e-9)
}

// collapse joins copies of one session on several machines into one hit: the
// same id and the same best turn. Others of the same id stay apart.
func (s *searching) collapse(hits []hit) (out []hit, merged int) {
	type copyKey struct {
		key record.SessionKey
		cid record.CID
	}
	at := map[copyKey]int{}
	for _, h := range hits {
		k := copyKey{h.session.Key, h.first}
		i, again := at[k]
		if !again || h.first == (record.CID{}) || out[i].session.Node == h.session.Node {
			at[k] = len(out)
			out = append(out, h)
			continue
		}
		merged++
		first := &out[i]
		if h.session.Node == s.m.opt.Stream.Node {
			h.AlsoOn = append(first.AlsoOn, s.m.origin(first.session.Node))
			*first = h
			continue
		}
		first.AlsoOn = append(first.AlsoOn, s.m.origin(h.session.Node))
	}
	return out, merged
}

// finish fills in what is shown of a hit.
func (s *searching) finish(h *hit, n int) error {
	h.Rank = n
	h.Session = s.m.session(h.session)
	if s.r.Explain {
		h.Why = h.score.Explain()
	}
	ordinals, err := s.ordinals(h)
	if err != nil {
		return err
	}
	h.Snippets = []Snippet{}
	shown := 1
	if n <= fullHits {
		shown = maxSnippets
	}
	for _, t := range h.best[:min(len(h.best), shown)] {
		e, err := s.entry(t.Pos)
		if err != nil {
			return err
		}
		h.Snippets = append(h.Snippets, Snippet{
			Role: e.Role, Time: e.Time, Ordinal: ordinals[t.Pos],
			Text: digest.Snippet(e.Text.String(), s.weight, snippetBudget),
		})
	}
	return nil
}

// ordinals numbers the turns that are shown, as Show numbers them.
func (s *searching) ordinals(h *hit) (map[record.Pos]int, error) {
	turns, err := s.m.cat.Turns(h.session.ID)
	if err != nil {
		return nil, damaged(err)
	}
	out := map[record.Pos]int{}
	n := 0
	for _, t := range turns {
		if t.Part {
			out[t.Pos] = n - 1
			continue
		}
		out[t.Pos] = n
		n++
	}
	return out, nil
}

func (s *searching) tier(hits []Hit) string {
	switch {
	case len(hits) == 0:
		return TierNone
	case len(s.q.Phrases) > 0:
		return TierPhrase
	case hits[0].Matched == hits[0].Asked:
		return TierExact
	}
	return TierNearest
}

// Digest is a session in short: what was asked, what came of it, what ran.
func (m *Memory) Digest(ctx context.Context, selector string, budget int) (Session, string, error) {
	w, err := m.Show(ctx, selector, 0, 0)
	if err != nil {
		return Session{}, "", err
	}
	var b strings.Builder
	add := func(head, text string, limit int) {
		if room := budget - b.Len() - len(head) - 2; room > 80 {
			b.WriteString(head + digest.Cut(strings.TrimSpace(text), min(room, limit)) + "\n")
		}
	}
	asked, said := speech(w.Messages)
	for _, msg := range asked[:min(len(asked), 3)] {
		add("asked: ", msg.Text, budget/6)
	}
	for _, msg := range slices.Backward(said[max(0, len(said)-4):]) {
		add("concluded: ", msg.Text, budget/4)
	}
	for _, msg := range w.Messages {
		if msg.Role == record.RoleCommand {
			exit := ""
			if msg.Exit != nil && *msg.Exit != 0 {
				exit = " (failed)"
			}
			add("ran"+exit+": ", msg.Text, 200)
		}
	}
	return w.Session, b.String(), nil
}

// speech splits what was said into what the user and what the agent said.
func speech(all []Message) (asked, said []Message) {
	for _, m := range all {
		switch m.Role {
		case record.RoleUser:
			asked = append(asked, m)
		case record.RoleAssistant:
			said = append(said, m)
		}
	}
	return asked, said
}

// Conclusion is the last thing the agent said in a session, in one line.
func (m *Memory) Conclusion(s Session, limit int) (string, error) {
	turns, err := m.cat.Turns(s.key)
	if err != nil {
		return "", damaged(err)
	}
	for _, t := range slices.Backward(turns) {
		if t.Role != record.RoleAssistant && !t.Note || t.Part {
			continue
		}
		e, err := m.log.Entry(t.Pos)
		if err != nil {
			return "", err
		}
		return digest.Cut(strings.Join(strings.Fields(digest.Clean(e.Text.String())), " "), limit), nil
	}
	return "", nil
}
