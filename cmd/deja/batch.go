package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/syncproto/batch"
)

func (a *app) batchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "batch",
		Short:   "Look into the files of the log",
		Example: "  deja batch cat log.seg",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.batchCatCommand())
	return cmd
}

func (a *app) batchCatCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "cat FILE",
		Short:   "Print the batches of a file as plain JSON lines",
		Long:    "Print the batches of a segment or a mailbox file as plain JSON lines: what is stored and sent, nothing else.",
		Example: "  deja batch cat 00000000000000000001.seg",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			w := bufio.NewWriter(a.stdout)
			err = catBatches(w, data)
			if err != nil {
				err = fmt.Errorf("%s: %w", args[0], err)
			}
			return errors.Join(err, w.Flush())
		},
	}
}

// catBatches prints the lines of batches that stand back to back.
func catBatches(w *bufio.Writer, data []byte) error {
	var codec batch.Codec
	for at := 0; len(data) > 0; {
		n, err := batch.Len(data)
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if n > len(data) {
			return fmt.Errorf("at %d: cut within a batch", at)
		}
		b, err := batch.Open(data[:n])
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		lines, err := codec.Lines(b)
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		for _, line := range lines {
			w.Write(line)     //nolint:errcheck // Flush reports it
			w.WriteByte('\n') //nolint:errcheck // Flush reports it
		}
		data, at = data[n:], at+n
	}
	return nil
}
