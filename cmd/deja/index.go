package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/sources"
)

func (a *app) indexCommand() *cobra.Command {
	var (
		rebuild, reread, asJSON bool
		only                    []string
	)
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Read what changed in the agents' histories",
		Long: `Read what changed in the agents' histories into the log, and make it
searchable. --rebuild makes the views anew from the log, which needs no
transcript; --reread decodes every transcript from its start again.`,
		Example: "  deja index --source codex",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := node.CheckSources(only); err != nil {
				return usageError{err}
			}
			n, err := a.open()
			if err != nil {
				return err
			}
			if rebuild {
				if err := n.Rebuild(cmd.Context()); err != nil {
					return a.busy(err)
				}
				a.note("views rebuilt from the log")
			}
			rep, err := a.refresh(cmd, n, node.RefreshOptions{Only: only, Reread: reread, Depth: sources.Whole})
			if err != nil {
				return err
			}
			return a.indexReport(rep, asJSON)
		},
	}
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "rebuild the views from the log first")
	cmd.Flags().BoolVar(&reread, "reread", false, "decode every transcript from its start")
	cmd.Flags().StringSliceVar(&only, "source", nil, "read only these agents' histories")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// refresh reads what changed and shows how far it is.
func (a *app) refresh(cmd *cobra.Command, n *node.Node, opt node.RefreshOptions) (node.Report, error) {
	p := a.newProgress()
	opt.Progress = p.show
	rep, err := n.Refresh(cmd.Context(), opt)
	p.done()
	return rep, a.busy(err)
}

// busy explains that another process writes.
func (a *app) busy(err error) error {
	if errors.Is(err, index.ErrBusy) {
		return withHint(err, "deja index")
	}
	return err
}

// indexReport prints what a run did, and exits as the contract says when some
// of it failed.
func (a *app) indexReport(rep node.Report, asJSON bool) error {
	failed := 0
	for _, s := range rep.Sources {
		failed += len(s.Failed)
		for _, f := range s.Failed {
			fmt.Fprintf(a.stderr, "deja: %s: %s: %s\n", s.Harness, oneLine(f.Path), oneLine(f.Reason))
		}
		switch s.State {
		case node.StateUnplugged, node.StateDenied, node.StateFailed:
			fmt.Fprintf(a.stderr, "deja: %s: %s: %s (%s); its history is kept\n", s.Harness, s.Root, s.State, or(s.Reason, "no reason given"))
		}
		if s.Broken > 0 {
			a.note("%s: %s skipped", s.Harness, count(s.Broken, "malformed line"))
		}
	}
	if asJSON {
		if err := a.indexJSON(rep, failed); err != nil {
			return err
		}
	} else if err := a.line("%s", indexSummary(rep)); err != nil {
		return err
	}
	if rep.Failed() {
		return errPartly
	}
	return nil
}

func indexSummary(rep node.Report) string {
	read := 0
	for _, s := range rep.Sources {
		read += s.Read
	}
	if read == 0 {
		return "nothing has changed"
	}
	out := fmt.Sprintf("read %s: %s added", count(read, "file"), count(rep.Total.Added, "record"))
	if rep.Total.Known > 0 {
		out += fmt.Sprintf(", %d known already", rep.Total.Known)
	}
	if rep.Total.Superseded > 0 {
		out += fmt.Sprintf(", %d superseded", rep.Total.Superseded)
	}
	if rep.Total.Excluded > 0 {
		out += fmt.Sprintf(", %d excluded", rep.Total.Excluded)
	}
	return out
}

func (a *app) indexJSON(rep node.Report, failed int) error {
	type source struct {
		Harness  string `json:"harness"`
		Root     string `json:"root"`
		State    string `json:"state"`
		Reason   string `json:"reason,omitempty"`
		Files    int    `json:"files"`
		Read     int    `json:"read"`
		Added    int    `json:"added"`
		Skipped  int    `json:"skipped_lines"`
		Failed   int    `json:"failed"`
		Redacted int    `json:"redacted"`
	}
	rows := []source{}
	for _, s := range rep.Sources {
		rows = append(rows, source{
			s.Harness, s.Root, string(s.State), s.Reason, s.Files, s.Read, s.Added, s.Broken, len(s.Failed), s.Redacted,
		})
	}
	return a.printJSON(struct {
		Schema     string   `json:"schema"`
		Turns      int      `json:"turns"`
		Added      int      `json:"added"`
		Known      int      `json:"known"`
		Excluded   int      `json:"excluded"`
		Superseded int      `json:"superseded"`
		Failed     int      `json:"failed"`
		Sources    []source `json:"sources"`
	}{
		"deja.index/1", rep.Total.Turns, rep.Total.Added, rep.Total.Known, rep.Total.Excluded,
		rep.Total.Superseded, failed, rows,
	})
}

// progress shows how far a run is: a bar on a terminal, elsewhere a line when
// it begins and one every few seconds.
type progress struct {
	app  *app
	bar  *progressbar.ProgressBar
	last time.Time
}

const progressEvery = 2 * time.Second

func (a *app) newProgress() *progress { return &progress{app: a} }

func (p *progress) show(s node.Progress) {
	a := p.app
	if a.quiet || s.OfFiles == 0 {
		return
	}
	if a.progress {
		if p.bar == nil {
			p.bar = progressbar.NewOptions64(max(s.OfBytes, 1),
				progressbar.OptionSetWriter(a.stderr), progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(24))
		}
		p.bar.Describe(fmt.Sprintf("%d/%d files, %d turns", s.Files, s.OfFiles, s.Turns))
		_ = p.bar.Set64(min(s.Bytes, s.OfBytes)) //nolint:errcheck // a bar that cannot be drawn loses nothing
		return
	}
	now := a.now()
	if s.Files > 0 && now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	a.note("indexing: %d of %s, %s of %s, %s", s.Files, count(s.OfFiles, "file"), size(s.Bytes), size(s.OfBytes), count(s.Turns, "turn"))
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish() //nolint:errcheck // as above
	}
}
