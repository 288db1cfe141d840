package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
)

// app is what the commands of one run share.
type app struct {
	environ
	quiet bool
}

// run executes one command line and returns the exit code.
func run(env environ) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a := &app{environ: env}
	root := newRoot(a)
	root.SetArgs(bareQuery(env.args))
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil && !errors.Is(err, errPartly) {
		err = errors.New("interrupted")
	}
	return report(env.stderr, err)
}

// newRoot builds the command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "deja",
		Short: "A memory node for your machines: what one coding agent solved, every agent recalls",
		Long: `deja reads the transcripts that coding agents leave on this machine into a
redacted log, searches it in milliseconds, serves it to agents, and exchanges
logs with your other machines over SSH.`,
		Example:       `  deja up`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.HiddenDefaultCmd = false
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no narration and no progress on stderr")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withHint(usageError{err}, "%s --help", cmd.CommandPath())
	})
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { tuneMemory(cmd) }
	root.AddCommand(a.commands()...)
	for _, c := range root.Commands() {
		checkUsage(c)
	}
	return root
}

// quick are the commands that end within milliseconds: their garbage is left
// to the end of the process.
var quick = map[string]bool{"search": true, "last": true, "show": true, "hook": true, "version": true}

func tuneMemory(cmd *cobra.Command) {
	if quick[cmd.Name()] {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(128 << 20)
	}
}

// unknownCommand refuses words that no command has, and suggests what may have
// been meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usagef("unknown command %q", args[0])
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return withHint(err, "%s %s", cmd.CommandPath(), like[0])
	}
	return withHint(err, "%s --help", cmd.CommandPath())
}

// commands lists the commands in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.upCommand(), a.indexCommand(), a.searchCommand(), a.lastCommand(), a.showCommand(), a.rememberCommand(),
		a.sourcesCommand(), a.doctorCommand(),
		a.peerCommand(), a.syncCommand(), a.nodeCommand(), a.batchCommand(),
		a.mcpCommand(), a.hookCommand(),
		a.redactCommand(), a.benchCommand(), a.versionCommand(),
	}
}

// checkUsage makes the errors of a command's argument check usage errors, so
// that they exit as such.
func checkUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return withHint(usageError{err}, "%s --help", cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkUsage(sub)
	}
}

// bareQuery turns `deja "connection pool"` and `deja -- word` into a search. A
// single word without a space or quotes is never one: a mistyped or future
// command must fail, not search.
func bareQuery(args []string) []string {
	if len(args) > 1 && args[0] == "--" {
		return append([]string{"search", "--"}, args[1:]...)
	}
	if len(args) == 1 && strings.ContainsAny(args[0], " \"") && !strings.HasPrefix(args[0], "-") {
		return append([]string{"search", "--"}, args...)
	}
	return args
}

// open prepares the node of this run.
func (a *app) open() (*node.Node, error) {
	cfg, err := config.Load(a.config)
	if err != nil {
		return nil, err
	}
	return node.Open(cfg, node.Host{
		Machine: a.machine, Now: a.now, Random: a.random, Version: version, PID: a.pid, User: a.user, Prompt: a.prompt,
	})
}

// printJSON writes one indented object to stdout.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
