package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/syncproto"
)

func (a *app) syncCommand() *cobra.Command {
	var (
		opt    node.SyncOptions
		recent string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "sync [PEER...]",
		Short: "Exchange logs with peers, both ways",
		Long: `Exchange logs with all peers, or with those named: by host, name, alias or node
id. Nothing is ever sent twice, and what a peer lacks is found by asking it.`,
		Example: "  deja sync\n  deja sync mini --recent 14d",
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Push && opt.Pull {
				return usagef("--push and --pull exclude each other: without either, both ways")
			}
			if recent != "" {
				t, err := query.ParseSince(recent, a.now())
				if err != nil {
					return usagef("--recent: %w", err)
				}
				opt.Recent = t
			}
			n, err := a.open()
			if err != nil {
				return err
			}
			opt.Names = args
			outcomes, err := n.Sync(cmd.Context(), opt)
			if err != nil {
				return unknownPeer(err)
			}
			return a.syncReport(outcomes, opt.DryRun, asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opt.Push, "push", false, "only send")
	f.BoolVar(&opt.Pull, "pull", false, "only receive")
	f.BoolVar(&opt.DryRun, "dry-run", false, "say what would be exchanged, and exchange nothing")
	f.StringVar(&recent, "recent", "", "newest first, from so long ago on: 14d, 12h or a date")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(a.syncServeCommand(), a.syncStatusCommand(), a.syncExportCommand(), a.syncImportCommand(), a.syncForgetCommand())
	return cmd
}

// syncJSON is one peer's row.
type syncJSON struct {
	Host       string      `json:"host"`
	Node       string      `json:"node"`
	Name       string      `json:"name"`
	State      string      `json:"state"`
	Sent       sentJSON    `json:"sent"`
	Received   receiveJSON `json:"received"`
	RoundTrips int         `json:"round_trips"`
	WireBytes  int64       `json:"wire_bytes"`
	Seconds    float64     `json:"seconds"`
	Error      string      `json:"error,omitempty"`
	Hint       string      `json:"hint,omitempty"`
}

type sentJSON struct {
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes"`
}

type receiveJSON struct {
	Records   uint64 `json:"records"`
	Bytes     int64  `json:"bytes"`
	AlreadyIs uint64 `json:"already_had"`
	Forgotten uint64 `json:"forgotten"`
	Refused   uint64 `json:"refused"`
}

func (a *app) syncReport(outcomes []node.Outcome, dry, asJSON bool) error {
	rows := []syncJSON{}
	failed := 0
	for _, o := range outcomes {
		if o.Err != nil {
			failed++
			fmt.Fprintf(a.stderr, "deja: %s: %s\n", oneLine(o.Host), oneLine(o.Err.Error()))
			if o.Hint != "" {
				fmt.Fprintf(a.stderr, "deja: hint: %s\n", oneLine(o.Hint))
			}
		}
		a.refusals(o)
		rows = append(rows, syncRow(o))
	}
	if asJSON {
		if err := a.printJSON(struct {
			Schema string     `json:"schema"`
			Peers  []syncJSON `json:"peers"`
		}{"deja.sync/1", rows}); err != nil {
			return err
		}
	} else if err := a.syncText(outcomes, dry); err != nil {
		return err
	}
	switch {
	case failed == 0:
		return nil
	case failed == len(outcomes):
		return errors.New("no peer could be reached")
	}
	return errPartly
}

func syncRow(o node.Outcome) syncJSON {
	r := o.Report
	row := syncJSON{
		Host: o.Host, Name: o.Name, State: o.State,
		Sent:       sentJSON{r.Sent.Records, r.Sent.Bytes},
		Received:   receiveJSON{r.Received.Records, r.Received.Bytes, r.Received.Had, r.Received.Forgotten, r.Received.Refused},
		RoundTrips: r.RoundTrips, WireBytes: r.BytesIn + r.BytesOut, Seconds: o.Took.Seconds(), Hint: o.Hint,
	}
	if !o.Node.IsZero() {
		row.Node = o.Node.String()
	}
	if o.Err != nil {
		row.Error = oneLine(o.Err.Error())
	}
	return row
}

func (a *app) syncText(outcomes []node.Outcome, dry bool) error {
	if len(outcomes) == 0 {
		return a.line("no peer yet; pair one with: deja peer add HOST")
	}
	for _, o := range outcomes {
		if o.Err != nil {
			continue
		}
		r := o.Report
		var err error
		switch {
		case o.State == node.StateBusy:
			err = a.line("%s: another sync with it is under way", o.Host)
		case dry:
			err = a.line("%s: would send %s, would receive %s", o.Host, records(r.TheyLack), records(r.Behind))
		case r.Sent.Records+r.Received.Records == 0:
			err = a.line("%s: in step (%s, %s)", o.Host, count(r.RoundTrips, "round trip"), size(r.BytesIn+r.BytesOut))
		default:
			err = a.line("%s: sent %s (it already had %d), received %s, %s on the wire, %.1f s", o.Host,
				records(r.Sent.Records), r.Sent.Had, records(r.Received.Records), size(r.BytesIn+r.BytesOut), o.Took.Seconds())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func records(n uint64) string { return count(int(n), "record") }

func (a *app) syncServeCommand() *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve --stdio",
		Short: "The far side of an exchange, run by sshd",
		Long: `The far side of an exchange, on standard input and output. sshd runs it for a
peer that logs in; a forced command restrict,command="deja sync serve --stdio"
in authorized_keys lets a key do nothing else.`,
		Example: "  deja sync serve --stdio",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !stdio {
				return usagef("serve works on standard input and output only: add --stdio")
			}
			n, err := a.open()
			if err != nil {
				return err
			}
			return n.Serve(cmd.Context(), stdioLink{a.stdin, a.stdout})
		},
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve on standard input and output")
	return cmd
}

// stdioLink is an exchange on the process's own streams. Closing it unblocks
// what reads, where the stream allows that.
type stdioLink struct {
	io.Reader
	io.Writer
}

func (l stdioLink) Close() error {
	var err error
	for _, s := range []any{l.Reader, l.Writer} {
		if c, ok := s.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

func (a *app) syncExportCommand() *cobra.Command {
	var opt node.ExportOptions
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write records into a folder",
		Long: `Write records into a folder: one JSON object a line, which older versions can
import, or signed batches with --batches. Nothing is remembered of it, so two
exports in a row are alike; with --peer only what that peer was not given before
is written.`,
		Example: "  deja sync export /media/usb/deja --batches",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			opt.Dir = args[0]
			done, err := n.Export(cmd.Context(), opt)
			if err != nil {
				return err
			}
			return a.line("exported %d records in %s", done.Records, count(done.Files, "file"))
		},
	}
	cmd.Flags().StringVar(&opt.Peer, "peer", "", "write only what this peer was not given before")
	cmd.Flags().BoolVar(&opt.Full, "full", false, "with --peer: write everything again")
	cmd.Flags().BoolVar(&opt.Batches, "batches", false, "write signed batches instead of lines")
	return cmd
}

func (a *app) syncImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "import DIR",
		Short:   "Take in records from a folder",
		Example: "  deja sync import /media/usb/deja",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			done, err := n.Import(cmd.Context(), args[0])
			if err != nil {
				return a.busy(err)
			}
			for _, p := range done.Problems {
				fmt.Fprintf(a.stderr, "deja: %s\n", oneLine(p))
			}
			if err := a.line("imported %d records from %s (%d were here already)", done.Records, count(done.Files, "file"), done.Had); err != nil {
				return err
			}
			if len(done.Problems) > 0 {
				return errPartly
			}
			return nil
		},
	}
}

func (a *app) syncStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say who has what, who lacks what, and the last exchange each way",
		Example: "  deja sync status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listPeers(cmd, asJSON, "deja.sync-status/1")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) syncForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "forget HOST",
		Short:   "Drop a peer's row; history from it stays",
		Example: "  deja sync forget mini",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removePeer(cmd, args[0])
		},
	}
}

// refusals says what was not taken, so that "in step" hides nothing.
func (a *app) refusals(o node.Outcome) {
	strangers := false
	for _, r := range o.Report.Refused {
		a.note("deja: %s: %s", oneLine(o.Host), oneLine(r.Error()))
		strangers = strangers || !r.Remote && r.Code == syncproto.CodePolicy
	}
	if strangers {
		a.note(`deja: hint: deja peer add NAME --via dial --key "..."   (the key as deja node id prints it there)`)
	}
}

// syncKnown exchanges with every peer in the book, as `deja up` does.
func (a *app) syncKnown(cmd *cobra.Command, n *node.Node) (problem, err error) {
	if !n.HasPeers() {
		return nil, nil
	}
	outcomes, err := n.Sync(cmd.Context(), node.SyncOptions{Patience: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	return a.syncReport(outcomes, false, false), nil
}
