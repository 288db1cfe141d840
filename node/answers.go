package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/sources"
)

// Freshness says how much of the histories on this machine an answer has seen.
type Freshness struct {
	Complete    bool      `json:"complete"`
	BehindFiles int       `json:"behind_files"` // transcripts with something unread
	Unreadable  []string  `json:"unreadable"`   // stores that could not be read, home-relative
	AsOf        time.Time `json:"as_of"`
}

// String says it for people.
func (f Freshness) String() string {
	if f.Complete {
		return "everything on this machine has been read"
	}
	var parts []string
	if f.BehindFiles > 0 {
		parts = append(parts, fmt.Sprintf("%d transcripts hold something that is not read yet (deja index)", f.BehindFiles))
	}
	if len(f.Unreadable) > 0 {
		parts = append(parts, "unreadable: "+strings.Join(f.Unreadable, ", "))
	}
	if len(parts) == 0 {
		parts = append(parts, "another process is indexing")
	}
	return "not everything has been read: " + strings.Join(parts, "; ")
}

// Filter narrows what is looked at.
type Filter struct {
	Harness string
	Project string
	Since   time.Time
	Roles   []record.Role
	Session string
	From    string // a machine: local, or any name of a peer
}

// SearchQuery is one search.
type SearchQuery struct {
	Text    string
	Filter  Filter
	Limit   int
	Explain bool
	Rebuild bool
}

// inlineBudget is how many bytes a search reads in passing: what a live
// session has grown by, not a history that was never read.
const inlineBudget = 4 << 20

// Memory opens the node's memory for reading. Views that are damaged are
// rebuilt from the log first, unless another process writes.
func (n *Node) Memory(ctx context.Context) (*index.Memory, error) {
	m, err := index.Open(n.indexOptions(), n.nameOf)
	if !errors.Is(err, index.ErrDamaged) {
		return m, err
	}
	if err := n.Rebuild(ctx); err != nil {
		return nil, err
	}
	return index.Open(n.indexOptions(), n.nameOf)
}

// Rebuild makes the views anew from the log. It needs no transcript.
func (n *Node) Rebuild(ctx context.Context) (err error) {
	w, err := index.OpenWriter(ctx, n.indexOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return w.Rebuild(ctx)
}

// with runs a question against the memory. When it meets damage that opening
// did not show, the views are rebuilt and the question is asked once more.
func (n *Node) with(ctx context.Context, ask func(*index.Memory) error) error {
	for again := false; ; again = true {
		m, err := n.Memory(ctx)
		if err != nil {
			return err
		}
		err = errors.Join(ask(m), m.Close())
		if again || !errors.Is(err, index.ErrDamaged) {
			return err
		}
		if err := n.Rebuild(ctx); err != nil {
			return err
		}
	}
}

// answer asks the memory, having read what is cheap to read first, and says
// what was not read. Looking for changes and asking go side by side; only when
// something had changed is the question asked again.
func (n *Node) answer(ctx context.Context, ask func(*index.Memory) error) (Freshness, error) {
	var asked error
	var wg sync.WaitGroup
	wg.Go(func() { asked = n.with(ctx, ask) })
	rep, idle, err := n.idle(ctx)
	wg.Wait()
	if err == nil && idle {
		return n.freshness(rep), asked
	}
	fresh, err := n.readGrowth(ctx)
	if err != nil {
		return fresh, err
	}
	return fresh, n.with(ctx, ask)
}

// readGrowth reads what live sessions have grown by.
func (n *Node) readGrowth(ctx context.Context) (Freshness, error) {
	f := Freshness{Unreadable: []string{}, AsOf: n.host.Now().UTC().Truncate(time.Second)}
	rep, err := n.Refresh(ctx, RefreshOptions{Depth: sources.Glance, Budget: inlineBudget})
	switch {
	case errors.Is(err, index.ErrBusy):
		return f, nil
	case errors.Is(err, shelf.ErrCorrupt):
		if err := n.Rebuild(ctx); err != nil {
			return f, err
		}
		return n.readGrowth(ctx)
	case err != nil && ctx.Err() != nil:
		return f, ctx.Err()
	case err != nil:
		// Answering from what is there beats not answering; it is said.
		f.Unreadable = append(f.Unreadable, err.Error())
		return f, nil
	}
	return n.freshness(rep), nil
}

// freshness is what a look at the stores says of an answer.
func (n *Node) freshness(rep Report) Freshness {
	f := Freshness{Unreadable: []string{}, AsOf: n.host.Now().UTC().Truncate(time.Second)}
	for _, s := range rep.Sources {
		f.BehindFiles += s.Behind + len(s.Failed)
		switch s.State {
		case StateDenied, StateFailed, StateUnplugged:
			f.Unreadable = append(f.Unreadable, s.Root)
		}
	}
	f.Complete = f.BehindFiles == 0 && len(f.Unreadable) == 0
	return f
}

func (n *Node) filter(f Filter) (index.Filter, error) {
	out := index.Filter{Project: f.Project, Since: f.Since, Roles: f.Roles, Session: f.Session}
	if f.Harness != "" {
		src, ok := sources.Find(f.Harness)
		if !ok {
			return out, CheckSources([]string{f.Harness})
		}
		out.Harness = src.Harness
	}
	if f.From == "" {
		return out, nil
	}
	from, err := n.machine(f.From)
	if err != nil {
		return out, err
	}
	out.From = func(id record.NodeID) bool { return id == from }
	return out, nil
}

// Search answers a question, having read what is cheap to read first.
func (n *Node) Search(ctx context.Context, q SearchQuery) (ans index.Answer, fresh Freshness, err error) {
	f, err := n.filter(q.Filter)
	if err != nil {
		return ans, fresh, err
	}
	if q.Rebuild {
		if err := n.Rebuild(ctx); err != nil {
			return ans, fresh, err
		}
	}
	fresh, err = n.answer(ctx, func(m *index.Memory) (err error) {
		ans, err = m.Search(ctx, index.Request{Text: q.Text, Filter: f, Limit: q.Limit, Explain: q.Explain, Surface: policy.Search})
		return err
	})
	return ans, fresh, err
}

// RecallQuery is a search on behalf of an agent.
type RecallQuery struct {
	Text    string
	Harness string
	Project string
	Limit   int
}

// Recall answers an agent's question: what policy lets agents see.
func (n *Node) Recall(ctx context.Context, q RecallQuery) (ans index.Answer, fresh Freshness, err error) {
	f, err := n.filter(Filter{Harness: q.Harness, Project: q.Project})
	if err != nil {
		return ans, fresh, err
	}
	fresh, err = n.answer(ctx, func(m *index.Memory) (err error) {
		ans, err = m.Search(ctx, index.Request{Text: q.Text, Filter: f, Limit: q.Limit, Surface: policy.MCP})
		return err
	})
	return ans, fresh, err
}

// Digest is a session in short.
type Digest struct {
	Session   index.Session // without an id when nothing was found
	Text      string
	Freshness Freshness
}

// Context returns the digest of the session that a selector names, or else of
// the one that answers it best as a question.
func (n *Node) Context(ctx context.Context, selector string, budget int) (d Digest, err error) {
	d.Freshness, err = n.answer(ctx, func(m *index.Memory) (err error) {
		d.Session, d.Text, err = m.Digest(ctx, selector, budget)
		if !errors.Is(err, index.ErrNoSession) {
			return err
		}
		ans, err := m.Search(ctx, index.Request{Text: selector, Limit: 1, Surface: policy.MCP})
		if err != nil || len(ans.Hits) == 0 {
			return err
		}
		d.Session, d.Text, err = m.Digest(ctx, ans.Hits[0].Session.ID, budget)
		return err
	})
	return d, err
}

// Last returns the newest sessions, and how many there are.
func (n *Node) Last(ctx context.Context, f Filter, limit int) (out []index.Session, total int, err error) {
	inner, err := n.filter(f)
	if err != nil {
		return nil, 0, err
	}
	_, err = n.answer(ctx, func(m *index.Memory) (err error) {
		out, total, err = m.Last(inner, limit, policy.Search)
		return err
	})
	return out, total, err
}

// Show returns a part of one session.
func (n *Node) Show(ctx context.Context, selector string, offset, limit int) (w index.Window, err error) {
	err = n.with(ctx, func(m *index.Memory) error {
		w, err = m.Show(ctx, selector, offset, limit)
		return err
	})
	return w, err
}

// ProjectOf is the project that a directory belongs to, empty when it is none.
func (n *Node) ProjectOf(dir string) string {
	if dir == "" {
		return ""
	}
	s := record.Session{Cwd: dir}
	sources.NewProjects(n.sourceEnv()).Fill(&s)
	if s.Project == "~" {
		return ""
	}
	return s.Project
}
