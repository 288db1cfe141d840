package node

import (
	"context"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/sources"
)

// SourceInfo is one store as `deja sources` shows it.
type SourceInfo struct {
	Harness  string        `json:"harness"`
	Name     string        `json:"name"`
	Root     string        `json:"root"`
	State    SourceState   `json:"state"`
	Reason   string        `json:"reason,omitempty"`
	Files    int           `json:"files"`
	Sessions int           `json:"sessions"`
	Records  int           `json:"records"`
	Redacted int           `json:"redacted"`
	Skipped  int           `json:"skipped_lines"`
	Gone     int           `json:"kept_source_gone"`
	Failed   []FileFailure `json:"failed,omitempty"`
}

// Sources says where histories are read from and what was read, without
// reading any.
func (n *Node) Sources(ctx context.Context) ([]SourceInfo, error) {
	marks, err := loadCursors(n.fs, n.stateDir())
	if err != nil {
		return nil, err
	}
	var counts map[string]index.SourceCount
	err = n.with(ctx, func(m *index.Memory) error {
		o, err := m.Overview()
		counts = o.Sources
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &refresh{node: n, marks: marks}
	var rows []SourceInfo
	for _, src := range sources.All() {
		if !n.reads(src.Harness, nil) {
			continue
		}
		for i, d := range src.Discover(ctx, n.sourceEnv()) {
			rep := r.storeReport(src, d)
			row := SourceInfo{
				Harness: src.Harness, Name: src.Name, Root: rep.Root, State: rep.State, Reason: rep.Reason,
				Files: rep.Files, Failed: rep.Failed,
			}
			// The log knows harnesses, not stores: the first row carries the counts.
			if c := counts[src.Harness]; i == 0 {
				row.Sessions, row.Records, row.Gone = c.Sessions, c.Records, c.Gone
			}
			row.take(marks, d.Store.Root)
			rows = append(rows, row)
		}
	}
	return rows, ctx.Err()
}

// take adds what the cursors remember of the store's files.
func (s *SourceInfo) take(marks *cursors, root string) {
	for key, cur := range marks.all {
		if key.harness != s.Harness || key.root != root {
			continue
		}
		s.Redacted += cur.redacted
		s.Skipped += cur.broken
		if cur.failure != "" {
			s.Failed = append(s.Failed, FileFailure{Path: key.file, Reason: cur.failure})
			s.State = StatePartly
		}
	}
}
