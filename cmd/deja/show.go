package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/digest"
)

func (a *app) showCommand() *cobra.Command {
	var (
		offset, limit int
		asJSON        bool
	)
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print one session",
		Long: `Print one session. ID is a short id as lists print it, harness:native-id, a
native id, or any unique beginning of one.`,
		Example: "  deja show claude:6f2c1c1e --limit 20",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if offset < 0 || limit < 0 {
				return usagef("--offset and --limit take numbers from 0")
			}
			n, err := a.open()
			if err != nil {
				return err
			}
			w, err := n.Show(cmd.Context(), args[0], offset, limit)
			if e, ok := errors.AsType[*index.AmbiguousError](err); ok {
				return a.ambiguous(e)
			}
			if errors.Is(err, index.ErrNoSession) {
				a.note("deja: no session is called %s", oneLine(args[0]))
				return errNothing
			}
			if err != nil {
				return err
			}
			if asJSON {
				return a.showJSON(w)
			}
			return a.showText(w)
		},
	}
	cmd.Flags().IntVar(&offset, "offset", 0, "turns to pass over")
	cmd.Flags().IntVar(&limit, "limit", 0, "turns to print, 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// ambiguous lists what a selector may mean.
func (a *app) ambiguous(e *index.AmbiguousError) error {
	for _, s := range e.Candidates {
		fmt.Fprintf(a.stderr, "  %s\n", fit(oneLine(a.sessionLine(s, nil)), a.width))
	}
	return usageError{e}
}

func (a *app) showJSON(w index.Window) error {
	type window struct {
		Offset int `json:"offset"`
		Limit  int `json:"limit"`
		Total  int `json:"total"`
	}
	messages := w.Messages
	if messages == nil {
		messages = []index.Message{}
	}
	return a.printJSON(struct {
		Schema   string          `json:"schema"`
		Session  index.Session   `json:"session"`
		Window   window          `json:"window"`
		Messages []index.Message `json:"messages"`
	}{"deja.show/1", w.Session, window{w.Offset, w.Limit, w.Total}, messages})
}

func (a *app) showText(w index.Window) error {
	s := w.Session
	if err := a.line("# %s", a.sessionLine(s, nil)); err != nil {
		return err
	}
	for _, m := range w.Messages {
		head := fmt.Sprintf("\n%s %s", stamp(m.Time), m.Role)
		if m.Exit != nil {
			head += fmt.Sprintf(" (exit %d)", *m.Exit)
		}
		text := strings.TrimRight(digest.Clean(m.Text), "\n")
		if _, err := io.WriteString(a.stdout, head+"\n"+text+"\n"); err != nil {
			return err
		}
	}
	if rest := w.Total - w.Offset - len(w.Messages); rest > 0 {
		a.note("%s more; --offset %d continues", count(rest, "turn"), w.Offset+len(w.Messages))
	}
	return nil
}
