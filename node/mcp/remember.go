package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type rememberArgs struct {
	Text    string   `json:"text" jsonschema:"the fact or decision, in one or two sentences that stand on their own"`
	Project string   `json:"project,omitempty" jsonschema:"the project it belongs to"`
	Tags    []string `json:"tags,omitempty" jsonschema:"up to 8 words to find it by"`
}

func (t tools) addRemember(srv *sdk.Server) {
	closed, harmless := false, false
	sdk.AddTool(srv, &sdk.Tool{
		Name:        "remember",
		Title:       "File a lasting note",
		Description: "File a note that every agent on this developer's machines can recall. Secrets are removed before it is written.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: &closed, DestructiveHint: &harmless},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, args rememberArgs) (*sdk.CallToolResult, any, error) {
		return t.remember(ctx, args), nil, nil
	})
}

func (t tools) remember(ctx context.Context, args rememberArgs) *sdk.CallToolResult {
	m, err := t.opt.Memory()
	if err != nil {
		return failed(err)
	}
	done, err := m.Remember(ctx, args.Text, args.Project, args.Tags)
	if err != nil {
		return failed(err)
	}
	said := "noted"
	if done.Project != "" {
		said += " under project " + oneLine(done.Project, 80)
	}
	if done.Redacted > 0 {
		said += fmt.Sprintf("; %d secret(s) were removed from the text first", done.Redacted)
	}
	if !done.Indexed {
		said += "; it can be searched after the next index run"
	}
	return text(said)
}
