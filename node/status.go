package node

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/deja-node/deja/index"
)

// VerifyLog looks for damage in the log; deep verifies every byte.
func (n *Node) VerifyLog(ctx context.Context, deep bool) ([]string, error) {
	return index.VerifyLog(ctx, n.indexOptions(), deep)
}

// IndexStatus is how much the memory holds, and on how many bytes.
type IndexStatus struct {
	index.Overview
	LogBytes   int64
	IndexBytes int64
	Behind     bool
}

// IndexStatus examines the views; deep verifies every byte of them. It mends
// nothing.
func (n *Node) IndexStatus(_ context.Context, deep bool) (s IndexStatus, err error) {
	m, err := index.Open(n.indexOptions(), n.nameOf)
	if err != nil {
		return s, err
	}
	defer m.Close() //nolint:errcheck // it was only read
	if deep {
		if err := m.Verify(); err != nil {
			return s, err
		}
	}
	if s.Overview, err = m.Overview(); err != nil {
		return s, err
	}
	if s.Behind, err = m.Behind(); err != nil {
		return s, err
	}
	s.LogBytes, s.IndexBytes = treeSize(n.cfg.LogDir()), treeSize(n.cfg.IndexDir)
	return s, nil
}

// treeSize adds up the files under a directory. What vanishes meanwhile
// counts for nothing.
func treeSize(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { //nolint:errcheck // a size for people
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // as said
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// PolicyProblem is why the policy fails closed, nil when it does not.
func (n *Node) PolicyProblem() error { return n.policy.Problem() }

const loopEvery = 5 * time.Second

// Loop reads what changes, and exchanges with all peers on a timer with
// jitter, until ctx ends. A failure is told and tried again later.
func (n *Node) Loop(ctx context.Context, every time.Duration, tell func(format string, args ...any)) error {
	tick := time.NewTicker(loopEvery)
	defer tick.Stop()
	next := time.NewTimer(n.jitter(every))
	defer next.Stop()
	for {
		if _, err := n.Refresh(ctx, RefreshOptions{Inline: true}); err != nil && ctx.Err() == nil {
			tell("indexing: %v", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-next.C:
			if n.HasPeers() {
				outcomes, err := n.Sync(ctx, SyncOptions{})
				if err != nil && ctx.Err() == nil {
					tell("sync: %v", err)
				}
				for _, o := range outcomes {
					if o.Err != nil && ctx.Err() == nil {
						tell("sync with %s: %v", o.Host, o.Err)
					}
				}
			}
			next.Reset(n.jitter(every))
		}
	}
}

// jitter spreads the timers of a fleet over half the interval.
func (n *Node) jitter(every time.Duration) time.Duration {
	return every/2 + time.Duration(n.random()*float64(every))
}
