package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/deja-node/deja/node"
)

// identity says who the node is.
func identity(_ context.Context, n *node.Node, _ Options, r *Report) {
	id := n.Identity()
	r.add("node", OK, fmt.Sprintf("%s, %s", id.Name, id.Node), "")
	if id.Moved {
		r.add("node", Attention, "this state came from another machine; a new log was begun under the same key", "")
	}
	if n.Config().NoRedact {
		r.add("redaction", Attention, "DEJA_NO_REDACT is set: secrets are written as they are, and nothing is synced", "unset DEJA_NO_REDACT")
	}
}

// stores says what was read from where.
func stores(ctx context.Context, n *node.Node, _ Options, r *Report) {
	rows, err := n.Sources(ctx)
	if err != nil {
		r.add("stores", Broken, err.Error(), "deja index --rebuild")
		return
	}
	r.Stores = rows
	for _, s := range rows {
		fact := fmt.Sprintf("%s: %s, %d files, %d sessions", s.Root, s.State, s.Files, s.Sessions)
		if s.Redacted > 0 {
			fact += fmt.Sprintf(", %d secrets redacted", s.Redacted)
		}
		if s.Gone > 0 {
			fact += fmt.Sprintf(", %d kept though the transcript is gone", s.Gone)
		}
		if s.Skipped > 0 {
			fact += fmt.Sprintf(", %d malformed lines skipped", s.Skipped)
		}
		if s.Reason != "" {
			fact += " (" + s.Reason + ")"
		}
		switch s.State {
		case node.StateMissing:
			continue
		case node.StateOK, node.StateEmpty:
			r.add(s.Harness, OK, fact, "")
		case node.StateUnplugged:
			r.add(s.Harness, Attention, fact+"; its history is kept", "")
		default:
			r.add(s.Harness, Attention, fact, "deja index --source "+s.Harness)
		}
		for _, f := range s.Failed {
			r.add(s.Harness, Attention, f.Path+": "+f.Reason, "")
		}
	}
	retention(n, r)
}

// retention warns when Claude Code deletes transcripts on its own. The log
// keeps what was read before that.
func retention(n *node.Node, r *Report) {
	dir := n.Config().Getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(n.Config().Home, ".claude")
	}
	if _, err := os.Stat(filepath.Join(dir, "projects")); err != nil {
		return
	}
	settings, err := os.ReadFile(filepath.Join(dir, "settings.json"))
	if err == nil && strings.Contains(string(settings), `"cleanupPeriodDays"`) {
		return
	}
	r.add("claude", OK, "Claude Code deletes transcripts after 30 days; what was indexed before is kept", "")
}

// log verifies the log as far as it is asked to.
func log(ctx context.Context, n *node.Node, opt Options, r *Report) {
	damage, err := n.VerifyLog(ctx, opt.Deep)
	if err != nil {
		r.add("log", Broken, err.Error(), "deja doctor --deep")
		return
	}
	for _, d := range damage {
		r.add("log", Broken, d, "deja sync")
	}
	if len(damage) == 0 && opt.Deep {
		r.add("log", OK, "every batch verifies", "")
	}
}

// index says how the views are.
func index(ctx context.Context, n *node.Node, opt Options, r *Report) {
	r.Index = Index{State: OK, Path: n.Config().Tilde(n.Config().IndexDir), LogPath: n.Config().Tilde(n.Config().LogDir())}
	s, err := n.IndexStatus(ctx, opt.Deep)
	if err != nil {
		r.Index.State = Broken
		r.add("index", Broken, err.Error(), "deja index --rebuild")
		return
	}
	r.Index.Sessions, r.Index.Records, r.Index.Kept = s.Sessions, s.Records, s.Gone
	r.Index.LogBytes, r.Index.Bytes, r.Index.Behind = s.LogBytes, s.IndexBytes, s.Behind
	fact := fmt.Sprintf("%d sessions, %d records; log %.1f MB, views %.1f MB", s.Sessions, s.Records, float64(s.LogBytes)/(1<<20), float64(s.IndexBytes)/(1<<20))
	if s.Behind {
		r.add("index", Attention, fact+"; the log holds more than the views", "deja index")
		return
	}
	r.add("index", OK, fact, "")
}

// policy says whether the policy is in force.
func policy(_ context.Context, n *node.Node, _ Options, r *Report) {
	r.Policy = Policy{State: OK, Path: n.Config().Tilde(n.Config().PolicyFile())}
	if err := n.PolicyProblem(); err != nil {
		r.Policy.State, r.Policy.Error = Broken, err.Error()
		r.add("policy", Broken, err.Error()+": nothing is shared and nothing foreign surfaces unasked", "")
	}
}
