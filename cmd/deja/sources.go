package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
)

func (a *app) sourcesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "sources",
		Short:   "Say where histories are read from, and what was read",
		Example: "  deja sources --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			rows, err := n.Sources(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					Schema     string            `json:"schema"`
					Unredacted bool              `json:"unredacted,omitempty"`
					Sources    []node.SourceInfo `json:"sources"`
				}{"deja.sources/1", n.Config().NoRedact, rows})
			}
			return a.sourcesText(n, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) sourcesText(n *node.Node, rows []node.SourceInfo) error {
	if n.Config().NoRedact {
		a.note("WARNING: DEJA_NO_REDACT is set: secrets are written as they are, and nothing is synced")
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "HARNESS\tSTATE\tFILES\tSESSIONS\tRECORDS\tREDACTED\tSKIPPED\tGONE, KEPT\tROOT")
	for _, r := range rows {
		state := string(r.State)
		if r.Reason != "" {
			state += " (" + oneLine(r.Reason) + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", r.Harness, state, r.Files, r.Sessions, r.Records, r.Redacted, r.Skipped, r.Gone, oneLine(r.Root))
	}
	return w.Flush()
}
