package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
)

func (a *app) nodeRunCommand() *cobra.Command {
	var (
		listen string
		every  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Stay: index what changes, sync on a timer, serve peers",
		Long: `Stay: read what changes every few seconds, exchange with all peers on a timer
with jitter, and with --listen serve peers that dial in. It stops on SIGTERM or
Ctrl-C.`,
		Example: "  deja node run --listen 127.0.0.1:0",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			return a.stay(cmd.Context(), n, listen, every)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "serve peers on this address, such as 127.0.0.1:0")
	cmd.Flags().DurationVar(&every, "sync-every", 30*time.Minute, "time between exchanges; jitter is added")
	return cmd
}

// stay runs the node's loops until ctx ends, which is no error.
func (a *app) stay(ctx context.Context, n *node.Node, listen string, every time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	if listen == "" {
		served <- nil
	} else {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		fmt.Fprintf(a.stdout, "listening on %s\n", ln.Addr())
		go func() {
			served <- n.Listen(ctx, ln)
			cancel()
		}()
	}
	err := n.Loop(ctx, every, func(format string, args ...any) { a.note(format, args...) })
	cancel()
	if err = errors.Join(err, <-served); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
