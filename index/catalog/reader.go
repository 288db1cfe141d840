package catalog

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// Reader answers from one snapshot. One made by [NewReader] is safe for
// concurrent use.
type Reader struct {
	files   []*file
	mem     *memtable // nil on a snapshot
	dropped dropIndex
	touched map[record.SessionID]bool // sessions that lost turns: their sums are counted anew
}

// NewReader opens the view in a snapshot.
func NewReader(snap *shelf.Snapshot) (*Reader, error) {
	st := snap.State(Name)
	if err := st.Newer(Name, version); err != nil {
		return nil, err
	}
	r := &Reader{dropped: dropIndex{}, touched: map[record.SessionID]bool{}}
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
	return r, r.loadDrops()
}

// HasCID reports where a node's own log holds an entry of this content.
func (r *Reader) HasCID(node record.NodeID, c record.CID) (at record.Pos, ok bool, err error) {
	return r.findKey(c.Short(), func(f *file) *shelf.Section { return &f.cids }, func(m *memtable) map[uint64]uint32 { return m.cids }, node)
}

// Message returns the session in which a node's log holds a message of a
// harness, by the harness's own id.
func (r *Reader) Message(node record.NodeID, harness, mid string) (session string, ok bool, err error) {
	h := midHash(harness, mid)
	at, ok, err := r.findKey(h, func(f *file) *shelf.Section { return &f.mids }, func(m *memtable) map[uint64]uint32 { return m.mids }, node)
	if err != nil || !ok {
		return "", false, err
	}
	s, ok, err := r.sessionAt(at)
	if err != nil || !ok || s.key.Harness != harness {
		return "", false, err
	}
	return s.key.Native, true, nil
}

// findKey looks a short hash up, newest last, in the logs of one node.
func (r *Reader) findKey(hash uint64, table func(*file) *shelf.Section, live func(*memtable) map[uint64]uint32, node record.NodeID) (at record.Pos, ok bool, err error) {
	if r.mem != nil {
		if n, found := live(r.mem)[hash]; found {
			if p := r.mem.pos(n); p.Stream.Node == node {
				return p, true, nil
			}
		}
	}
	for _, f := range slices.Backward(r.files) {
		err = f.lookup(table(f), hash, func(n uint32) bool {
			if p := f.pos(n); p.Stream.Node == node {
				at, ok = p, true
			}
			return !ok
		})
		if err != nil || ok {
			return at, ok, err
		}
	}
	return at, false, nil
}

// pos is the place of a doc of the memtable in the log.
func (m *memtable) pos(n uint32) record.Pos {
	for _, r := range m.ranges {
		if n < r.count {
			return record.Pos{Stream: r.stream, Seq: r.first + record.Seq(n)}
		}
		n -= r.count
	}
	return record.Pos{}
}

func (m *memtable) docAt(p record.Pos) (uint32, bool) {
	start := uint32(0)
	for _, r := range m.ranges {
		if r.stream == p.Stream && p.Seq >= r.first && p.Seq < r.next() {
			return start + uint32(p.Seq-r.first), true
		}
		start += r.count
	}
	return 0, false
}

// sessionAt is the session of an entry, from the part that holds it.
func (r *Reader) sessionAt(p record.Pos) (*session, bool, error) {
	if r.mem != nil {
		if n, ok := r.mem.docAt(p); ok {
			if d := r.mem.docs[n]; d.session != noSession {
				return r.mem.order[d.session], true, nil
			}
			return nil, false, nil
		}
	}
	for _, f := range r.files {
		n, ok := f.docAt(p)
		if !ok {
			continue
		}
		d, err := f.doc(n)
		if err != nil || d.session == noSession {
			return nil, false, err
		}
		row, err := f.row(int(d.session))
		if err != nil {
			return nil, false, err
		}
		s, err := f.load(row)
		return s, err == nil, err
	}
	return nil, false, nil
}

// Superseded reports whether an entry was taken back.
func (r *Reader) Superseded(p record.Pos) bool { return r.dropped.covers(p) }

// HasDrops reports whether anything was taken back at all.
func (r *Reader) HasDrops() bool { return len(r.dropped) > 0 }

// sum adds up what all parts say of a session, what was taken back left out.
func (r *Reader) sum(id record.SessionID) (*session, bool, error) {
	out := &session{id: id, first: noTime, last: noTime}
	found := false
	add := func(s *session) error {
		found = true
		out.node, out.key = s.node, s.key
		if out.opening.project == "" && out.opening.seq == 0 {
			out.opening.project = s.opening.project
		}
		// The docs of different parts are numbered apart; only their sums are used.
		o := *s
		o.docs = nil
		out.docCount += s.docCount
		return out.add(&o, 0)
	}
	for _, f := range r.files {
		row, ok, err := f.find(id)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			continue
		}
		s, err := f.load(row)
		if err != nil {
			return nil, false, err
		}
		if err := add(s); err != nil {
			return nil, false, err
		}
	}
	if r.mem != nil {
		if s := r.mem.sessions[id]; s != nil {
			if err := add(s); err != nil {
				return nil, false, err
			}
		}
	}
	if !found {
		return nil, false, nil
	}
	if r.touched[id] {
		if err := r.recount(out); err != nil {
			return nil, false, err
		}
	}
	return out, true, nil
}

// recount counts a session anew, doc by doc, without what was taken back.
func (r *Reader) recount(s *session) error {
	turns, err := r.Turns(s.id)
	if err != nil {
		return err
	}
	s.turns, s.first, s.last = 0, noTime, noTime
	for _, t := range turns {
		if !t.Part {
			s.see(nanos(t.Time))
		}
	}
	return nil
}

// Session returns a session. One of which every turn was taken back is still
// returned, with no turns.
func (r *Reader) Session(id record.SessionID) (Session, bool, error) {
	s, ok, err := r.sum(id)
	if err != nil || !ok {
		return Session{}, false, err
	}
	return s.public(), true, nil
}

// Turn is one turn of a session.
type Turn struct {
	Pos  record.Pos
	Role record.Role
	Time time.Time
	Note bool
	Part bool // a later part of the turn before it
}

// Turns returns the turns of a session, oldest first: in the order of each
// stream's log, streams joined by time.
func (r *Reader) Turns(id record.SessionID) ([]Turn, error) {
	var out []Turn
	take := func(s *session, docOf func(uint32) (doc, error), posOf func(uint32) record.Pos) error {
		var bad error
		err := s.eachDoc(func(n uint32) bool {
			d, err := docOf(n)
			if err != nil {
				bad = err
				return false
			}
			p := posOf(n)
			if !r.dropped.covers(p) {
				out = append(out, Turn{Pos: p, Role: roles[d.role], Time: fromNanos(d.time), Note: d.kind == kindNote, Part: d.kind == kindPart})
			}
			return true
		})
		return cmp.Or(bad, err)
	}
	for _, f := range r.files {
		row, ok, err := f.find(id)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		s, err := f.load(row)
		if err != nil {
			return nil, err
		}
		if err := take(s, f.doc, f.pos); err != nil {
			return nil, err
		}
	}
	if r.mem != nil {
		if s := r.mem.sessions[id]; s != nil {
			if err := take(s, func(n uint32) (doc, error) { return r.mem.docs[n], nil }, r.mem.pos); err != nil {
				return nil, err
			}
		}
	}
	joinStreams(out)
	return out, nil
}

// joinStreams brings the turns of several streams into one order: each
// stream's own, joined by time. Turns of one stream are left alone.
func joinStreams(turns []Turn) {
	if len(turns) == 0 || !slices.ContainsFunc(turns, func(t Turn) bool { return t.Pos.Stream != turns[0].Pos.Stream }) {
		return
	}
	// A turn is placed by the latest time its own stream has reached, so that
	// a clock that went back does not reorder a log.
	reached := map[record.StreamID]int64{}
	at := make(map[record.Pos]int64, len(turns))
	slices.SortFunc(turns, func(a, b Turn) int {
		return cmp.Or(a.Pos.Stream.Compare(b.Pos.Stream), cmp.Compare(a.Pos.Seq, b.Pos.Seq))
	})
	for _, t := range turns {
		s := t.Pos.Stream
		if _, ok := reached[s]; !ok {
			reached[s] = noTime
		}
		reached[s] = max(reached[s], nanos(t.Time))
		at[t.Pos] = reached[s]
	}
	slices.SortStableFunc(turns, func(a, b Turn) int { return cmp.Compare(at[a.Pos], at[b.Pos]) })
}

// Filter picks sessions. A nil field picks all.
type Filter struct {
	Since time.Time
	Keep  func(Session) bool
}

// Sessions returns the newest sessions that a filter picks, and how many there
// are. Only those that can be among the newest are read whole, unless the
// filter needs to look at each.
func (r *Reader) Sessions(f Filter, limit int) ([]Session, int, error) {
	spans, err := r.spans()
	if err != nil {
		return nil, 0, err
	}
	var out []Session
	total := 0
	queue := newest(spans)
	heap.Init(&queue)
	for queue.Len() > 0 {
		sp := heap.Pop(&queue).(span) //nolint:errcheck // the queue holds nothing else
		if sp.turns == 0 || !f.Since.IsZero() && (sp.last == noTime || fromNanos(sp.last).Before(f.Since)) {
			continue
		}
		if f.Keep == nil && len(out) >= limit {
			total++
			continue
		}
		s, ok, err := r.Session(sp.id)
		if err != nil {
			return nil, 0, err
		}
		if !ok || s.Turns == 0 || f.Keep != nil && !f.Keep(s) {
			continue
		}
		total++
		if len(out) < limit {
			out = append(out, s)
		}
	}
	return out, total, nil
}

// span is when a session was active, and how much it holds.
type span struct {
	id    record.SessionID
	last  int64
	turns uint32
}

func (r *Reader) spans() ([]span, error) {
	at := map[record.SessionID]int{}
	var all []span
	add := func(id record.SessionID, last int64, turns uint32) {
		i, ok := at[id]
		if !ok {
			i = len(all)
			at[id] = i
			all = append(all, span{id: id, last: noTime})
		}
		all[i].last = max(all[i].last, last)
		all[i].turns += turns
	}
	for _, f := range r.files {
		for i := range f.sessions() {
			row, err := f.row(i)
			if err != nil {
				return nil, err
			}
			add(row.id, row.last, row.turns)
		}
	}
	if r.mem != nil {
		for _, s := range r.mem.order {
			add(s.id, s.last, s.turns)
		}
	}
	return all, nil
}

// newest is a heap of spans, the latest first.
type newest []span

func (q newest) Len() int { return len(q) }
func (q newest) Less(i, j int) bool {
	return q[i].last > q[j].last || q[i].last == q[j].last && q[i].id < q[j].id
}
func (q newest) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *newest) Push(x any)   { *q = append(*q, x.(span)) } //nolint:errcheck // nothing else is pushed
func (q *newest) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// minPrefix is the shortest beginning of an id that a selector may be.
const minPrefix = 4

// Find returns the sessions that a selector may mean: a short id, an id,
// "harness:native", a native id, or a beginning of one of at least four
// characters. A whole id wins over a beginning.
func (r *Reader) Find(selector string) ([]Session, error) {
	spans, err := r.spans()
	if err != nil {
		return nil, err
	}
	var whole, begun []Session
	for _, sp := range spans {
		s, ok, err := r.Session(sp.id)
		if err != nil {
			return nil, err
		}
		if !ok || s.Turns == 0 {
			continue
		}
		id := s.ID.String()
		switch {
		case selector == id, selector == s.ID.Short(), selector == s.Key.String(), selector == s.Key.Native:
			whole = append(whole, s)
		case len(selector) >= minPrefix && (strings.HasPrefix(id, selector) || strings.HasPrefix(s.Key.String(), selector) ||
			strings.HasPrefix(s.Key.Native, selector)):
			begun = append(begun, s)
		}
	}
	if len(whole) > 0 {
		begun = whole
	}
	slices.SortFunc(begun, func(a, b Session) int { return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.ID, b.ID)) })
	return begun, nil
}

// dropIndex holds what was taken back, by stream.
type dropIndex map[record.StreamID][]drop

func (x dropIndex) add(d drop) { x[d.stream] = append(x[d.stream], d) }

func (x dropIndex) covers(p record.Pos) bool {
	if len(x) == 0 {
		return false
	}
	for _, d := range x[p.Stream] {
		if p.Seq >= d.from && p.Seq <= d.to {
			return true
		}
	}
	return false
}

// loadDrops gathers what the files and the memory say was taken back.
func (r *Reader) loadDrops() error {
	r.dropped, r.touched = dropIndex{}, map[record.SessionID]bool{}
	var cids []record.CID
	for _, f := range r.files {
		d, c, err := f.taken()
		if err != nil {
			return err
		}
		for _, one := range d {
			if err := r.drop(one); err != nil {
				return err
			}
		}
		cids = append(cids, c...)
	}
	if r.mem != nil {
		for _, d := range r.mem.drops {
			if err := r.drop(d); err != nil {
				return err
			}
		}
		cids = append(cids, r.mem.cidDrops...)
	}
	for _, c := range cids {
		if err := r.dropCID(c); err != nil {
			return err
		}
	}
	return nil
}

// drop takes back a run of entries, and notes the sessions that lose turns.
func (r *Reader) drop(d drop) error {
	r.dropped.add(d)
	for _, f := range r.files {
		for i, rng := range f.ranges {
			if rng.stream != d.stream {
				continue
			}
			lo, hi := max(d.from, rng.first), min(d.to, rng.next()-1)
			for seq := lo; seq <= hi; seq++ {
				x, err := f.doc(f.starts[i] + uint32(seq-rng.first))
				if err != nil {
					return err
				}
				if x.session == noSession {
					continue
				}
				row, err := f.row(int(x.session))
				if err != nil {
					return err
				}
				r.touched[row.id] = true
			}
		}
	}
	if r.mem == nil {
		return nil
	}
	start := uint32(0)
	for _, rng := range r.mem.ranges {
		if rng.stream == d.stream {
			for seq := max(d.from, rng.first); seq <= min(d.to, rng.next()-1); seq++ {
				if x := r.mem.docs[start+uint32(seq-rng.first)]; x.session != noSession {
					r.touched[r.mem.order[x.session].id] = true
				}
			}
		}
		start += rng.count
	}
	return nil
}

// dropCID takes back every entry of a content, in whatever log it stands.
func (r *Reader) dropCID(c record.CID) error {
	var at []record.Pos
	for _, f := range r.files {
		err := f.lookup(&f.cids, c.Short(), func(n uint32) bool {
			at = append(at, f.pos(n))
			return true
		})
		if err != nil {
			return err
		}
	}
	if r.mem != nil {
		if n, ok := r.mem.cids[c.Short()]; ok {
			at = append(at, r.mem.pos(n))
		}
	}
	for _, p := range at {
		if err := r.drop(drop{p.Stream, p.Seq, p.Seq}); err != nil {
			return err
		}
	}
	return nil
}
