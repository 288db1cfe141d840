// Package hooks answers an agent's events from memory: one file per event,
// payload and memory in, text out.
//
// A hook stands in the agent's way, so it reads and never indexes, keeps to a
// byte budget, and says nothing rather than something doubtful. What it says
// is framed as untrusted history with machine and age.
package hooks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deja-node/deja/index/digest"
)

// Memory is what the hooks need of a node.
type Memory interface {
	// Recent returns the newest sessions of the project that dir belongs to,
	// without the session named except.
	Recent(ctx context.Context, dir, except string, limit int) ([]Recall, error)
	// Related returns the sessions that answer a prompt, best first, those of
	// dir's project before others of the same rank.
	Related(ctx context.Context, dir, except, prompt string, limit int) ([]Recall, error)
}

// Recall is one session as a hook presents it. Texts are scrubbed but may hold
// anything; they are cleaned here.
type Recall struct {
	ID      string // short id, which `deja show` takes
	Harness string
	Project string
	Title   string
	Machine string // empty for this machine
	Updated time.Time
	Lines   []string // the lines that matter, best first
	// Matched and Asked count the informative words of the prompt that the
	// session holds, and all of them.
	Matched, Asked int
}

// Budgets of the replies in bytes, frame included.
const (
	StartBudget  = 2 << 10
	PromptBudget = 3 << 9
)

// render frames as many recalls as the budget holds. It returns nothing when
// not even one fits.
func render(heading string, recalls []Recall, budget int, now time.Time) string {
	frame := digest.Frame("")
	room := budget - len(frame) - len(heading) - 1
	var body strings.Builder
	for i, r := range recalls {
		block := r.block(now, room-body.Len())
		if block == "" {
			if i == 0 {
				return ""
			}
			break
		}
		body.WriteString(block)
	}
	if body.Len() == 0 {
		return ""
	}
	return digest.Frame(heading + "\n" + body.String())
}

// block is the header line of a recall and as many of its lines as fit.
func (r Recall) block(now time.Time, room int) string {
	where := "this machine"
	if r.Machine != "" {
		where = r.Machine
	}
	head := fmt.Sprintf("- [%s] %s · %s · %s · %s · deja show %s\n",
		line(r.Harness, 40), line(r.Project, 60), line(r.Title, 120), line(where, 60), age(now, r.Updated), r.ID)
	if len(head) > room {
		return ""
	}
	var b strings.Builder
	b.WriteString(head)
	for _, text := range r.Lines {
		l := "  > " + line(text, 300) + "\n"
		if b.Len()+len(l) > room {
			break
		}
		b.WriteString(l)
	}
	return b.String()
}

// line makes recorded text fit for one line of a frame.
func line(s string, limit int) string {
	return digest.Cut(strings.Join(strings.Fields(digest.Clean(s)), " "), limit)
}

func age(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "age unknown"
	case d < 0:
		return "clock ahead"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d/time.Hour))
	}
	return fmt.Sprintf("%d days ago", int(d/(24*time.Hour)))
}
