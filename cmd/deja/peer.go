package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/peers"
)

func (a *app) peerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "peer",
		Short:   "The machines this node exchanges with",
		Example: "  deja peer add mini",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.peerAddCommand(), a.peerListCommand(), a.peerRemoveCommand(), a.peerRenameCommand())
	return cmd
}

func (a *app) peerAddCommand() *cobra.Command {
	var (
		opt node.AddOptions
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "add HOST",
		Short: "Pair another machine",
		Long: `Pair another machine. HOST is an ssh destination, deja://host:port of a node
that listens, sftp://host/path or a directory (mailboxes). It shows who answers
and asks once; --fingerprint answers for scripts.`,
		Example: "  deja peer add mini\n  deja peer add deja://192.0.2.7:7777 --fingerprint SHA256:...",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			opt.Host = args[0]
			opt.Decide = func(c node.Contact) (bool, error) { return a.meet(c, yes, opt.Fingerprint) }
			row, err := n.AddPeer(cmd.Context(), opt)
			if err != nil {
				return notAdded(opt, err)
			}
			if err := a.line("added %s%s to group %s", row.Host, named(row), row.Group); err != nil {
				return err
			}
			if opt.Via == peers.ViaDial {
				a.note("next: deja node run --listen ADDRESS, for it to call")
			} else {
				a.note("next: deja sync %s", row.Host)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&yes, "yes", "y", false, "answer yes; only for a host on this machine")
	f.StringVar(&opt.Fingerprint, "fingerprint", "", "accept exactly this host key: SHA256:...")
	f.StringVar(&opt.Group, "group", "mine", "group of the policy that the node joins")
	f.StringVar(&opt.Key, "key", "", "an identity file; with --via dial the other node's public key")
	f.StringVar(&opt.Via, "via", "", "dial: the peer calls this node")
	f.BoolVar(&opt.Rekey, "rekey", false, "accept that the host's key has changed")
	return cmd
}

// notAdded says what helps when a peer could not be added.
func notAdded(opt node.AddOptions, err error) error {
	address, listener := strings.CutPrefix(opt.Host, "deja://")
	if _, unreachable := errors.AsType[*net.OpError](err); !listener || !unreachable {
		return err
	}
	return withHint(fmt.Errorf("%s: %w", opt.Host, err), "deja node run --listen %s   (on that machine)", address)
}

// unknownPeer adds where the known ones are listed.
func unknownPeer(err error) error {
	if errors.Is(err, peers.ErrUnknownPeer) {
		return withHint(err, "deja peer list")
	}
	return err
}

func named(row node.PeerInfo) string {
	if row.Name == "" || row.Name == row.Host {
		return ""
	}
	return " (" + row.Name + ")"
}

// meet shows who answered and asks whether to trust it.
func (a *app) meet(c node.Contact, yes bool, fingerprint string) (bool, error) {
	fmt.Fprintf(a.stderr, "host         %s (%s)\n", oneLine(c.Host), oneLine(c.Address))
	if c.Fingerprint != "" {
		fmt.Fprintf(a.stderr, "host key     %s\n", c.Fingerprint)
	}
	if c.OldFingerprint != "" {
		fmt.Fprintf(a.stderr, "before       %s\n", c.OldFingerprint)
	}
	if !c.Node.IsZero() {
		fmt.Fprintf(a.stderr, "node         %s %s\n", oneLine(c.Name), c.Node)
	}
	switch {
	case fingerprint != "":
		if fingerprint != c.Fingerprint {
			return false, fmt.Errorf("peer %s: its host key is %s, not %s", c.Host, c.Fingerprint, fingerprint)
		}
		return true, nil
	case yes && c.Loopback:
		return true, nil
	case yes:
		return false, usagef("--yes answers for a host on this machine only: use --fingerprint %s", c.Fingerprint)
	}
	return a.ask(c)
}

// ask takes "yes" or the fingerprint for a yes, as ssh does.
func (a *app) ask(c node.Contact) (bool, error) {
	fmt.Fprint(a.stderr, "Trust it, and exchange history with it (yes/no/fingerprint)? ")
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	answer = strings.TrimSpace(answer)
	if answer == "" && err != nil && c.Fingerprint == "" {
		return false, withHint(errors.New("nobody answers whether to use this folder"), "deja peer add %s --yes", c.Host)
	}
	if answer == "" && err != nil {
		return false, withHint(errors.New("nobody answers: name the key that is expected"), "deja peer add %s --fingerprint %s", c.Host, c.Fingerprint)
	}
	return strings.EqualFold(answer, "yes") || answer == c.Fingerprint && answer != "", nil
}

func (a *app) peerListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the peers and how far each is",
		Example: "  deja peer list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listPeers(cmd, asJSON, "deja.peer-list/1")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) listPeers(cmd *cobra.Command, asJSON bool, schema string) error {
	n, err := a.open()
	if err != nil {
		return err
	}
	rows, err := n.Peers(cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(struct {
			Schema string          `json:"schema"`
			Peers  []node.PeerInfo `json:"peers"`
		}{schema, rows})
	}
	if len(rows) == 0 {
		a.note("no peer yet; pair one with: deja peer add HOST")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tNAME\tGROUP\tSTATE\tLAST SENT\tLAST RECEIVED\tBEHIND\tTHEY LACK\tSESSIONS FROM IT\tLAST ERROR")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", oneLine(r.Host), oneLine(or(r.Name, "-")), r.Group, r.State,
			agoOr(r.LastPush, a), agoOr(r.LastPull, a), known(r.Behind), known(r.TheyLack), r.SessionsFrom, oneLine(or(r.LastError, "-")))
	}
	return w.Flush()
}

func (a *app) peerRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove HOST",
		Short:   "Drop a peer's row; history from it stays",
		Example: "  deja peer remove mini",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.removePeer(cmd, args[0]) },
	}
}

func (a *app) removePeer(cmd *cobra.Command, name string) error {
	n, err := a.open()
	if err != nil {
		return err
	}
	row, err := n.RemovePeer(cmd.Context(), name)
	if err != nil {
		return unknownPeer(err)
	}
	return a.line("removed %s; history from it stays", row.Host)
}

func (a *app) peerRenameCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rename HOST NAME",
		Short:   "Give a peer a name of your own",
		Example: "  deja peer rename 192.0.2.7 mini",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			row, err := n.RenamePeer(cmd.Context(), args[0], args[1])
			if err != nil {
				return unknownPeer(err)
			}
			return a.line("%s is called %s", row.Host, args[1])
		},
	}
}
