package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index/redact"
)

// maxFilter bounds what the filter holds at once: rules see a text whole.
const maxFilter = 256 << 20

func (a *app) redactCommand() *cobra.Command {
	var jsonl bool
	cmd := &cobra.Command{
		Use:   "redact",
		Short: "Scrub secrets from standard input",
		Long: `Scrub secrets from standard input, exactly as the log does before anything is
written. With --jsonl each line is {"id","text"} and comes back as such.`,
		Example: "  deja redact < build.log",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			scrub := redact.New(redact.Options{})
			if jsonl {
				return redactLines(a.stdin, a.stdout, scrub)
			}
			text, err := io.ReadAll(io.LimitReader(a.stdin, maxFilter+1))
			if err != nil {
				return err
			}
			if len(text) > maxFilter {
				return fmt.Errorf("standard input: longer than %d MiB", maxFilter>>20)
			}
			_, err = io.WriteString(a.stdout, scrub.Scrub(string(text)).String())
			return err
		},
	}
	cmd.Flags().BoolVar(&jsonl, "jsonl", false, `read and write {"id","text"} lines`)
	return cmd
}

func redactLines(in io.Reader, out io.Writer, scrub *redact.Scrubber) (err error) {
	w := bufio.NewWriter(out)
	defer func() { err = errors.Join(err, w.Flush()) }()
	dec := json.NewDecoder(in)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for n := 1; ; n++ {
		var line struct {
			ID   json.RawMessage `json:"id"`
			Text string          `json:"text"`
		}
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("object %d: %w", n, err)
		}
		line.Text = scrub.Scrub(line.Text).String()
		if line.ID == nil {
			line.ID = json.RawMessage("null")
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
}
