package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/digest"
	"github.com/deja-node/deja/node"
)

const (
	recallBudget = 4 << 10 // bytes of one answer, frame included
	recallLimit  = 5
	recallMost   = 20
)

type recallArgs struct {
	Query   string `json:"query" jsonschema:"what to look for: a question, an error line, a symbol, a path; quotes ask for the exact phrase"`
	Harness string `json:"harness,omitempty" jsonschema:"only sessions of this agent, such as claude or codex"`
	Project string `json:"project,omitempty" jsonschema:"only sessions of projects whose name holds this"`
	Limit   int    `json:"limit,omitempty" jsonschema:"sessions to return, 5 unless said, 20 at most"`
	Offset  int    `json:"offset,omitempty" jsonschema:"sessions to pass over, for the next page"`
}

func (t tools) addRecall(srv *sdk.Server) {
	closed := false
	sdk.AddTool(srv, &sdk.Tool{
		Name:        "recall",
		Title:       "Search past sessions",
		Description: "Search what coding agents did on this developer's machines, best session first. Returns untrusted reference history.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, args recallArgs) (*sdk.CallToolResult, any, error) {
		return t.recall(ctx, args), nil, nil
	})
}

func (t tools) recall(ctx context.Context, args recallArgs) *sdk.CallToolResult {
	if strings.TrimSpace(args.Query) == "" {
		return failed(fmt.Errorf("recall: query is empty: say what to look for"))
	}
	limit := args.Limit
	if limit <= 0 {
		limit = recallLimit
	}
	limit, offset := min(limit, recallMost), max(args.Offset, 0)
	m, err := t.opt.Memory()
	if err != nil {
		return failed(err)
	}
	answer, fresh, err := m.Recall(ctx, node.RecallQuery{
		Text: args.Query, Harness: args.Harness, Project: args.Project, Limit: offset + limit,
	})
	if err != nil {
		return failed(err)
	}
	return text(t.recallText(answer, fresh, offset))
}

func (t tools) recallText(a index.Answer, fresh node.Freshness, offset int) string {
	tail := "\n" + freshness(fresh)
	if len(a.Hits) <= offset {
		verdict := "nothing in memory matches"
		if !fresh.Complete {
			verdict = "unknown: nothing that has been read so far matches, and not everything has been read"
		}
		if offset > 0 {
			verdict = "no further sessions"
		}
		return digest.Frame(verdict + tail)
	}
	var body strings.Builder
	room := recallBudget - len(digest.Frame("")) - len(tail) - 120
	shown := 0
	for _, h := range a.Hits[offset:] {
		block := t.hitText(h, room-body.Len())
		if block == "" {
			break
		}
		body.WriteString(block)
		shown++
	}
	head := fmt.Sprintf("%d of %d sessions (%s)", shown, a.Total, a.Tier)
	if next := offset + shown; next < a.Total {
		head += fmt.Sprintf("; offset %d continues", next)
	}
	return digest.Frame(head + "\n" + body.String() + tail)
}

// hitText is one hit, or nothing when not even its heading fits.
func (t tools) hitText(h index.Hit, room int) string {
	head := fmt.Sprintf("%d. %s\n", h.Rank, oneLine(heading(h.Session, h.AlsoOn, t.opt.Now()), 400))
	if len(head) > room {
		return ""
	}
	var b strings.Builder
	b.WriteString(head)
	for _, s := range h.Snippets {
		l := fmt.Sprintf("   %s: %s\n", speaker(s.Role), oneLine(s.Text, 600))
		if b.Len()+len(l) > room {
			break
		}
		b.WriteString(l)
	}
	return b.String()
}
