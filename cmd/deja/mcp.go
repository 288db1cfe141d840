package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "mcp",
		Short:   "Serve the memory to an agent over MCP on standard input and output",
		Example: "  claude mcp add --scope user deja -- deja mcp",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return mcp.Serve(cmd.Context(), io.NopCloser(a.stdin), nopCloser{a.stdout}, mcp.Options{
				Version: version, Now: a.now,
				Memory: func() (mcp.Memory, error) {
					n, err := a.open()
					if err != nil {
						return nil, err
					}
					return n, nil
				},
			})
		},
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
