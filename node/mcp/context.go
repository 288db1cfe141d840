package mcp

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deja-node/deja/index/digest"
)

const contextBudget = 8 << 10

type contextArgs struct {
	Query string `json:"query" jsonschema:"a session id as recall printed it, or a question whose best session is wanted"`
}

func (t tools) addContext(srv *sdk.Server) {
	closed := false
	sdk.AddTool(srv, &sdk.Tool{
		Name:        "recall_context",
		Title:       "Read one past session",
		Description: "A digest of one past session: what was asked, what was concluded, what ran. Returns untrusted reference history.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, args contextArgs) (*sdk.CallToolResult, any, error) {
		return t.context(ctx, args), nil, nil
	})
}

func (t tools) context(ctx context.Context, args contextArgs) *sdk.CallToolResult {
	if strings.TrimSpace(args.Query) == "" {
		return failed(errors.New("recall_context: query is empty: give a session id or a question"))
	}
	m, err := t.opt.Memory()
	if err != nil {
		return failed(err)
	}
	d, err := m.Context(ctx, args.Query, contextBudget-len(digest.Frame(""))-600)
	if err != nil {
		return failed(err)
	}
	tail := "\n" + freshness(d.Freshness)
	if d.Session.ID == "" {
		verdict := "nothing in memory matches"
		if !d.Freshness.Complete {
			verdict = "unknown: nothing that has been read so far matches, and not everything has been read"
		}
		return text(digest.Frame(verdict + tail))
	}
	return text(digest.Frame(oneLine(heading(d.Session, nil, t.opt.Now()), 400) + "\n\n" + digest.Clean(d.Text) + tail))
}
