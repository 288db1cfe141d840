package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/sources"
)

func (a *app) upCommand() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Set this machine up: index every history found, sync with known peers",
		Long: `Set this machine up: make the node, index every history found, exchange with
every known peer, and say what was found and what to do next. It can be run
again at any time. With --demo it builds two throw-away nodes on sample history
instead and leaves nothing behind.`,
		Example: "  deja up",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if demo {
				return a.demo(cmd.Context())
			}
			return a.up(cmd)
		},
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "show it on two throw-away nodes with sample history")
	return cmd
}

func (a *app) up(cmd *cobra.Command) error {
	n, err := a.open()
	if err != nil {
		return err
	}
	id := n.Identity()
	if err := a.line("node %s (%s)", id.Name, id.Node.Short()); err != nil {
		return err
	}
	if id.Moved {
		a.note("this state came from another machine: a new log was begun, nothing is lost")
	}
	rep, err := a.refresh(cmd, n, node.RefreshOptions{Depth: sources.Whole})
	if err != nil {
		return err
	}
	rows, err := n.Sources(cmd.Context())
	if err != nil {
		return err
	}
	sessions := 0
	for _, r := range rows {
		if r.Sessions > 0 {
			sessions += r.Sessions
			if err := a.line("  %-8s %s, %s", r.Harness, count(r.Sessions, "session"), count(r.Records, "record")); err != nil {
				return err
			}
		}
	}
	indexed := a.indexReport(rep, false)
	synced, err := a.syncKnown(cmd, n)
	if err != nil {
		return err
	}
	a.nextSteps(n, sessions)
	if synced != nil {
		return synced
	}
	return indexed
}

// nextSteps says what a user would do now.
func (a *app) nextSteps(n *node.Node, sessions int) {
	if a.quiet {
		return
	}
	fmt.Fprintln(a.stderr, "next:")
	if sessions > 0 {
		fmt.Fprintln(a.stderr, "  deja search WORDS...            find what was solved before")
	}
	if !n.HasPeers() {
		fmt.Fprintln(a.stderr, "  deja peer add HOST              pair another machine, over ssh")
	}
	fmt.Fprintln(a.stderr, "  claude mcp add --scope user deja -- deja mcp")
	fmt.Fprintln(a.stderr, "                                  let an agent recall it")
}
