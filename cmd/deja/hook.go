package main

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/hooks"
	"github.com/deja-node/deja/hooks/host"
)

// hookDeadline bounds a hook from its start, reading the event included.
const hookDeadline = 100 * time.Millisecond

// hookEvents maps the words of the command line to what answers them.
var hookEvents = map[string]struct {
	name   string // of the event in the reply
	answer func(context.Context, hooks.Memory, host.Event, time.Time) (string, error)
}{
	"session-start": {"SessionStart", hooks.SessionStart},
	"prompt":        {"UserPromptSubmit", hooks.Prompt},
}

func (a *app) hookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook EVENT",
		Short: "Answer an agent's hook: session-start or prompt",
		Long: `Answer an agent's hook. The event is read from standard input and the reply
written to standard output, in Claude Code's form. A hook ends within 100 ms,
exits 0 and prints a valid reply or none, whatever state the memory is in.`,
		Example:   "  deja hook session-start",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"session-start", "prompt"},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), hookDeadline)
			defer cancel()
			a.answerHook(ctx, args[0])
			return nil
		},
	}
}

// answerHook writes the reply, or nothing when there is none in time. What
// goes wrong is no business of the agent's: `deja doctor` shows it.
func (a *app) answerHook(ctx context.Context, word string) {
	reply := make(chan []byte, 1)
	go func() {
		var out bytes.Buffer
		if err := a.hookReply(ctx, word, &out); err != nil {
			out.Reset()
		}
		reply <- out.Bytes()
	}()
	select {
	case b := <-reply:
		if ctx.Err() == nil {
			a.stdout.Write(b) //nolint:errcheck // nobody is left to tell
		}
	case <-ctx.Done():
	}
}

func (a *app) hookReply(ctx context.Context, word string, out io.Writer) error {
	event, err := host.ReadClaude(a.stdin)
	if err != nil {
		return err
	}
	n, err := a.open()
	if err != nil {
		return err
	}
	h := hookEvents[word]
	text, err := h.answer(ctx, n.HookMemory(), event, a.now())
	if err != nil {
		return err
	}
	return host.Reply(out, h.name, text)
}
