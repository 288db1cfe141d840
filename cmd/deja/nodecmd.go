package main

import (
	"encoding/base64"

	"github.com/spf13/cobra"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "This machine's node",
		Example: "  deja node id",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.nodeIDCommand(), a.nodeRunCommand())
	return cmd
}

func (a *app) nodeIDCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "id",
		Short:   "Print the node's id, name, public key and fingerprint",
		Example: "  deja node id --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			id := n.Identity()
			key, fingerprint, err := id.SSHKey()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					Schema      string `json:"schema"`
					ID          string `json:"id"`
					Name        string `json:"name"`
					Pub         string `json:"pub"`
					Fingerprint string `json:"fingerprint"`
					Raw         string `json:"raw"`
				}{"deja.node-id/1", id.Node.String(), id.Name, key, fingerprint, base64.StdEncoding.EncodeToString(id.Public())})
			}
			for _, row := range [][2]string{{"node", id.Node.String()}, {"name", id.Name}, {"key", key}, {"fingerprint", fingerprint}} {
				if err := a.line("%-12s %s", row[0], row[1]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
