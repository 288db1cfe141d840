package node

import (
	"context"

	"github.com/deja-node/deja/hooks"
	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/policy"
)

// HookMemory answers hooks. It reads the views as they are: nothing is
// indexed, rebuilt or waited for while an agent waits.
func (n *Node) HookMemory() hooks.Memory { return hookMemory{n} }

type hookMemory struct{ n *Node }

// conclusionBytes bounds the line that says how a session ended.
const conclusionBytes = 280

// Recent implements hooks.Memory.
func (h hookMemory) Recent(_ context.Context, dir, except string, limit int) ([]hooks.Recall, error) {
	project := h.n.ProjectOf(dir)
	if project == "" {
		return nil, nil
	}
	m, err := index.Open(h.n.indexOptions(), h.n.nameOf)
	if err != nil {
		return nil, err
	}
	defer m.Close() //nolint:errcheck // it was only read
	sessions, _, err := m.Last(index.Filter{Project: project}, limit+1, policy.Auto)
	if err != nil {
		return nil, err
	}
	var out []hooks.Recall
	for _, s := range sessions {
		if s.Native == except || s.Project != project || len(out) == limit {
			continue
		}
		r := recall(s)
		line, err := m.Conclusion(s, conclusionBytes)
		if err != nil {
			return nil, err
		}
		if line != "" {
			r.Lines = []string{line}
		}
		out = append(out, r)
	}
	return out, nil
}

// Related implements hooks.Memory.
func (h hookMemory) Related(ctx context.Context, dir, except, prompt string, limit int) ([]hooks.Recall, error) {
	m, err := index.Open(h.n.indexOptions(), h.n.nameOf)
	if err != nil {
		return nil, err
	}
	defer m.Close() //nolint:errcheck // it was only read
	ans, err := m.Search(ctx, index.Request{Text: prompt, Limit: limit, Surface: policy.Auto, Except: except, Near: h.n.ProjectOf(dir)})
	if err != nil {
		return nil, err
	}
	var out []hooks.Recall
	for _, hit := range ans.Hits {
		r := recall(hit.Session)
		r.Matched, r.Asked = hit.Matched, hit.Asked
		for _, s := range hit.Snippets {
			r.Lines = append(r.Lines, string(s.Role)+": "+s.Text)
		}
		out = append(out, r)
	}
	return out, nil
}

func recall(s index.Session) hooks.Recall {
	r := hooks.Recall{ID: s.ID, Harness: s.Harness, Project: s.Project, Title: s.Title, Updated: s.Updated}
	if !s.Origin.Local {
		r.Machine = s.Origin.Name
	}
	return r
}
