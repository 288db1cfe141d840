package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var (
		opt    doctor.Options
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "doctor [PEER]",
		Short: "Say how the stores, the index and the peers are",
		Long: `Say how the stores, the log, the index and the peers are, and what helps where
something is wrong. It exits 4 when something needs attention. --deep verifies
every byte of the log and of the views.`,
		Example: "  deja doctor --deep",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				opt.Peer = args[0]
			}
			rep, err := doctor.Examine(cmd.Context(), n, opt)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(rep)
			} else {
				err = a.doctorText(rep)
			}
			if err == nil && rep.State != doctor.OK {
				return errPartly
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opt.Deep, "deep", false, "verify every byte of the log and of the views")
	cmd.Flags().BoolVar(&opt.Offline, "offline", false, "connect nowhere (deja never does here; for scripts)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) doctorText(rep doctor.Report) error {
	for _, f := range rep.Findings {
		if err := a.line("%-9s %-16s %s", f.State, f.Subject, f.Fact); err != nil {
			return err
		}
		if f.Remedy != "" {
			if err := a.line("          %-16s -> %s", "", f.Remedy); err != nil {
				return err
			}
		}
	}
	for _, p := range rep.Peers {
		behind := "unknown"
		if p.Behind != nil {
			behind = fmt.Sprint(*p.Behind)
		}
		if err := a.line("peer      %-16s %s: %s, sent %s, received %s, %s behind, %s from it", p.Host, p.State, or(p.Name, "-"),
			agoOr(p.LastPush, a), agoOr(p.LastPull, a), behind, count(p.SessionsFrom, "session")); err != nil {
			return err
		}
	}
	return a.line("overall   %s", rep.State)
}
