package index

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/catalog"
	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// Memory is the read gate: one consistent state of the views, and the log
// beneath. It waits for no writer and is safe for concurrent use.
type Memory struct {
	opt  Options
	log  *journal.Journal
	snap *shelf.Snapshot
	cat  *catalog.Reader
	post *postings.Reader
	name func(record.NodeID) string
}

// ErrDamaged says that the views are damaged: a writer rebuilds them from the log.
var ErrDamaged = errors.New("the index is damaged")

// Open opens the memory for reading. A memory that does not exist yet is
// empty. name gives the display name of a foreign origin.
func Open(opt Options, name func(record.NodeID) string) (*Memory, error) {
	log, err := opt.openLog()
	if err != nil {
		return nil, err
	}
	m := &Memory{opt: opt, log: log, name: name}
	sh, err := shelf.Open(opt.FS, filepath.ToSlash(opt.IndexDir))
	if err != nil {
		return nil, err
	}
	if m.snap, err = sh.Snapshot(catalog.Name, postings.Name); err != nil {
		return nil, damaged(err)
	}
	if m.cat, err = catalog.NewReader(m.snap); err == nil {
		m.post, err = postings.NewReader(m.snap)
	}
	if err != nil {
		return nil, errors.Join(damaged(err), m.snap.Close())
	}
	return m, nil
}

// damaged marks corruption of the views, which a rebuild mends.
func damaged(err error) error {
	if errors.Is(err, shelf.ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// Close releases the views.
func (m *Memory) Close() error { return m.snap.Close() }

// Generation grows with every publish.
func (m *Memory) Generation() uint64 { return m.snap.Generation() }

// Behind reports whether the log holds entries that the views do not know yet.
func (m *Memory) Behind() (bool, error) {
	front, err := m.log.Frontier()
	if err != nil {
		return false, err
	}
	return !m.snap.State(catalog.Name).Known.Covers(front), nil
}

// session makes the public form of a session.
func (m *Memory) session(s catalog.Session) Session {
	out := Session{
		ID: s.ID.Short(), Native: s.Key.Native, Harness: s.Key.Harness, Project: s.Project, Title: s.Title, Cwd: s.Cwd,
		Branch: s.Branch, Model: s.Model, Kind: s.Kind, Parent: s.Parent, Agent: s.Agent,
		Started: s.Started, Updated: s.Updated, Messages: s.Turns, Gone: s.Gone, key: s.ID,
	}
	out.Origin = m.origin(s.Node)
	if origin, native, ok := claimed(s.Key); ok {
		out.Native, out.Origin = native, Origin{Name: origin + " (claimed)"}
	}
	return out
}

func (m *Memory) origin(n record.NodeID) Origin {
	if n == m.opt.Stream.Node {
		return Origin{Node: n, Name: m.opt.Origin, Local: true}
	}
	name := ""
	if m.name != nil {
		name = m.name(n)
	}
	if name == "" {
		if _, card, err := m.log.Card(n); err == nil {
			name = card.Name
		}
	}
	if name == "" {
		name = n.Short()
	}
	return Origin{Node: n, Name: name}
}

// admits is the one place that decides whether a session is looked at.
func (m *Memory) admits(s catalog.Session, f Filter, surface policy.Level) bool {
	switch {
	case s.Turns == 0,
		m.level(s.Node, s.Key) < surface,
		f.Harness != "" && s.Key.Harness != f.Harness,
		f.Project != "" && !strings.Contains(strings.ToLower(s.Project), strings.ToLower(f.Project)),
		!f.Since.IsZero() && s.Updated.Before(f.Since),
		f.From != nil && !f.From(s.Node):
		return false
	}
	return true
}

// Last returns the newest sessions, and how many there are.
func (m *Memory) Last(f Filter, limit int, surface policy.Level) ([]Session, int, error) {
	pick := catalog.Filter{Since: f.Since}
	if f.Harness != "" || f.Project != "" || f.From != nil || m.hides(surface) {
		pick.Keep = func(s catalog.Session) bool { return m.admits(s, f, surface) }
	}
	found, total, err := m.cat.Sessions(pick, limit)
	if err != nil {
		return nil, 0, damaged(err)
	}
	out := make([]Session, 0, len(found))
	for _, s := range found {
		out = append(out, m.session(s))
	}
	return out, total, nil
}

// hides reports whether policy can keep any session from a surface.
func (m *Memory) hides(surface policy.Level) bool {
	if surface > importedLevel {
		return true
	}
	for s := range m.snap.State(catalog.Name).Known {
		if m.opt.Policy.Inject(s.Node) < surface {
			return true
		}
	}
	return false
}

// AmbiguousError lists what a selector may mean.
type AmbiguousError struct {
	Selector   string
	Candidates []Session
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%.60q may mean %d sessions: give more of the id", e.Selector, len(e.Candidates))
}

// Find returns the session that a selector names. It returns [ErrNoSession],
// or an [*AmbiguousError] when there are several. A session that several
// machines hold under one id is the local one.
func (m *Memory) Find(selector string) (Session, error) {
	found, err := m.cat.Find(selector)
	if err != nil {
		return Session{}, damaged(err)
	}
	found = slices.DeleteFunc(found, func(s catalog.Session) bool { return m.level(s.Node, s.Key) < policy.Search })
	switch len(found) {
	case 0:
		return Session{}, fmt.Errorf("%.60q: %w", selector, ErrNoSession)
	case 1:
		return m.session(found[0]), nil
	}
	out := make([]Session, 0, len(found))
	for _, s := range found {
		out = append(out, m.session(s))
	}
	return Session{}, &AmbiguousError{selector, out}
}

// Window is a part of a session.
type Window struct {
	Session  Session
	Offset   int
	Limit    int
	Total    int
	Messages []Message
}

// Show returns the turns of a session from offset on, at most limit of them or
// all for 0. It costs what it returns.
func (m *Memory) Show(ctx context.Context, selector string, offset, limit int) (Window, error) {
	s, err := m.Find(selector)
	if err != nil {
		return Window{}, err
	}
	turns, err := m.cat.Turns(s.key)
	if err != nil {
		return Window{}, damaged(err)
	}
	turns = slices.DeleteFunc(turns, func(t catalog.Turn) bool { return t.Part })
	w := Window{Session: s, Offset: offset, Limit: limit, Total: len(turns)}
	turns = turns[min(offset, len(turns)):]
	if limit > 0 {
		turns = turns[:min(limit, len(turns))]
	}
	for i, t := range turns {
		if err := ctx.Err(); err != nil {
			return w, err
		}
		msg, err := m.message(t, offset+i)
		if err != nil {
			return w, err
		}
		w.Messages = append(w.Messages, msg)
	}
	return w, nil
}

// message reads one turn from the log. An entry that is damaged there, or was
// withheld, is said to be so in its place.
func (m *Memory) message(t catalog.Turn, ordinal int) (Message, error) {
	e, err := m.log.Whole(t.Pos)
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		return Message{Ordinal: ordinal, Role: t.Role, Time: t.Time, Text: "[this turn is damaged in the log: deja doctor]"}, nil
	case err != nil:
		return Message{}, err
	case e.Kind == record.KindStub:
		return Message{Ordinal: ordinal, Role: t.Role, Time: t.Time, Text: "[" + e.Stub.Reason + "]"}, nil
	}
	return Message{Ordinal: ordinal, Role: e.Role, Time: e.Time, Text: e.Text.String(), Exit: e.Exit}, nil
}

// Overview counts what the memory holds, by harness and origin.
type Overview struct {
	Sessions int
	Records  int
	Gone     int // sessions whose transcript has vanished
	ByOrigin map[record.NodeID]int
	Sources  map[string]SourceCount // own sessions by harness
}

// SourceCount counts the own sessions of one harness.
type SourceCount struct{ Sessions, Records, Gone int }

// Overview counts sessions and records.
func (m *Memory) Overview() (Overview, error) {
	out := Overview{ByOrigin: map[record.NodeID]int{}, Sources: map[string]SourceCount{}}
	_, _, err := m.cat.Sessions(catalog.Filter{Keep: func(s catalog.Session) bool {
		out.Sessions++
		out.Records += s.Turns
		out.ByOrigin[s.Node]++
		if s.Node == m.opt.Stream.Node {
			c := out.Sources[s.Key.Harness]
			c.Sessions++
			c.Records += s.Turns
			if s.Gone {
				c.Gone++
				out.Gone++
			}
			out.Sources[s.Key.Harness] = c
		}
		return false
	}}, 0)
	return out, damaged(err)
}

// Verify compares every byte of the views with its checksum.
func (m *Memory) Verify() error {
	for _, view := range m.snap.Views() {
		files, err := m.snap.Files(view)
		if err != nil {
			continue // a view of another version, which this one does not read
		}
		for _, f := range files {
			if err := f.Verify(); err != nil {
				return damaged(err)
			}
		}
	}
	return nil
}

// VerifyLog looks for damage in the log and describes each; deep verifies
// every byte.
func VerifyLog(ctx context.Context, opt Options, deep bool) ([]string, error) {
	log, err := opt.openLog()
	if err != nil {
		return nil, err
	}
	found, err := log.Verify(ctx, deep)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range found {
		out = append(out, d.String())
	}
	return out, nil
}
