package postings

import (
	"fmt"
	"slices"

	"github.com/deja-node/deja/index/rank"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// Reader answers from one snapshot, which has to stay open. It is safe for
// concurrent use.
type Reader struct {
	*union
	sessions []record.SessionID // sorted
	of       []uint32           // each thread's session, as an index into sessions
	tokens   [kinds][]uint64    // of each session
	total    [kinds]total
}

// total is what all files hold of one kind.
type total struct {
	sessions int
	turns    uint64
	tokens   uint64
}

// NewReader opens the view in a snapshot. A view of an older version, and none
// at all, is an empty one.
func NewReader(snap *shelf.Snapshot) (*Reader, error) {
	st := snap.State(Name)
	if err := st.Newer(Name, version); err != nil {
		return nil, err
	}
	var files []*file
	if st.Version == version {
		shelved, err := snap.Files(Name)
		if err != nil {
			return nil, err
		}
		for _, sf := range shelved {
			f, err := openFile(sf)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	u, err := unite(files)
	if err != nil {
		return nil, err
	}
	if st.Version == version {
		if err := u.covers(st.Known); err != nil {
			return nil, err
		}
	}
	r := &Reader{union: u}
	r.count()
	return r, nil
}

// covers checks that the files hold what the manifest says of them, no more
// and no less.
func (u *union) covers(known record.Frontier) error {
	next := make([]record.Seq, len(u.streams))
	for _, r := range u.ranges {
		if r.first != max(next[r.stream], 1) {
			return fmt.Errorf("postings: entry %d of stream %s is missing: %w", next[r.stream], u.streams[r.stream], shelf.ErrCorrupt)
		}
		next[r.stream] = r.first + record.Seq(r.count)
	}
	for i, s := range u.streams {
		if next[i] != known[s].Seq+1 {
			return fmt.Errorf("postings: stream %s ends before %d instead of %d: %w", s, next[i], known[s].Seq+1, shelf.ErrCorrupt)
		}
	}
	for s, h := range known {
		if _, ok := slices.BinarySearchFunc(u.streams, s, record.StreamID.Compare); !ok && h.Seq > 0 {
			return fmt.Errorf("postings: stream %s is missing: %w", s, shelf.ErrCorrupt)
		}
	}
	return nil
}

// count folds threads into sessions.
func (r *Reader) count() {
	r.of = make([]uint32, len(r.threads))
	for i, t := range r.threads {
		n := len(r.sessions)
		if n == 0 || r.sessions[n-1] != t.session {
			r.sessions = append(r.sessions, t.session)
			for k := range kinds {
				r.tokens[k] = append(r.tokens[k], 0)
			}
			n++
		}
		r.of[i] = uint32(n - 1)
		for k := range kinds {
			r.tokens[k][n-1] += t.tokens[k]
			r.total[k].turns += uint64(t.turns[k])
			r.total[k].tokens += t.tokens[k]
		}
	}
	for k := range kinds {
		for _, n := range r.tokens[k] {
			if n > 0 {
				r.total[k].sessions++
			}
		}
	}
}

// Sessions is how many sessions hold speech.
func (r *Reader) Sessions() int { return r.total[speech].sessions }

// Request is what a search looks for.
type Request struct {
	Terms []string // as query.Parse gives them
	// Roles are looked at; none means speech.
	Roles []record.Role
	// Keep reports whether a session may be found. It is asked once for each
	// that holds a term; nil keeps all.
	Keep func(record.SessionID) bool
	// Dead returns, for a stream, which of its entries do not count any more.
	// Either may be nil. What it returns is asked for each entry that holds a
	// term.
	Dead func(record.StreamID) func(record.Seq) bool
	// Fits says how well a session fits the dates of the question, from 0 to
	// 1; nil when it names none.
	Fits  func(record.SessionID) float64
	Limit int // candidates to return
}

// Found is what a search found, and what the terms weigh.
type Found struct {
	Candidates []Candidate // best first
	Total      int         // sessions that hold any term
	Sessions   int         // sessions that were looked at
	Turns      int         // turns that were looked at
	TurnSize   float64     // average tokens of a turn
	// InSessions and InTurns say how many sessions and turns hold each term,
	// whether they may be found or not.
	InSessions, InTurns []int
}

// Weight is how much the term of index i tells, by how few turns hold it.
func (f Found) Weight(i int) float64 { return rank.IDF(f.InTurns[i], f.Turns) }

// Candidate is one session that holds terms.
type Candidate struct {
	Session record.SessionID
	Score   rank.Score
	Matched int       // terms that the session holds
	Turns   int       // turns that hold any
	User    int       // of those, the user's
	Best    []TurnHit // the best turns, best first
}

// TurnHit is one turn that holds terms.
type TurnHit struct {
	Pos   record.Pos
	Role  record.Role // empty for one that this version does not know
	Score float64
}

// maxBest is how many turns of a candidate are named.
const maxBest = 8
