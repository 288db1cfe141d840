package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index"
)

func (a *app) lastCommand() *cobra.Command {
	var (
		flags  filterFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "last [N]",
		Short:   "List the newest sessions",
		Example: "  deja last 5 --from local",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit := 10
			if len(args) > 0 {
				n, err := strconv.Atoi(args[0])
				if err != nil || n < 1 {
					return usagef("last takes a number of sessions, not %q", args[0])
				}
				limit = n
			}
			filter, err := flags.filter(a)
			if err != nil {
				return err
			}
			n, err := a.open()
			if err != nil {
				return err
			}
			sessions, total, err := n.Last(cmd.Context(), filter, limit)
			if err != nil {
				return err
			}
			if asJSON {
				if sessions == nil {
					sessions = []index.Session{}
				}
				err = a.printJSON(struct {
					Schema   string          `json:"schema"`
					Total    int             `json:"total"`
					Sessions []index.Session `json:"sessions"`
				}{"deja.last/1", total, sessions})
			} else {
				for _, s := range sessions {
					if err := a.line("%s", a.sessionLine(s, nil)); err != nil {
						return err
					}
				}
			}
			if err == nil && len(sessions) == 0 {
				a.note("no session yet")
				return errNothing
			}
			return err
		},
	}
	flags.add(cmd, false)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
