package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"deja": func() { os.Exit(run(processEnv())) },
	})
}

// TestScripts runs the specification of every command: each script has a home
// of its own, with sample histories where it asks for them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("USERPROFILE", home)
			env.Setenv("TZ", "UTC")
			env.Setenv("TERM", "dumb")
			for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DEJA_HOME"} {
				env.Setenv(name, "")
			}
			return nil
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"history":   history,
			"nodekey":   nodeKey,
			"batchfile": batchFile,
			"mcp":       askMCP,
			"empty":     empty,
		},
	})
}

// exits runs a command and checks its exit code: exits CODE COMMAND ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if e, ok := err.(interface{ ExitCode() int }); ok {
		code = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if want := args[0]; want != string(rune('0'+code)) {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

// history writes a sample history: history laptop|desktop HOME.
func history(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: history laptop|desktop HOME")
	}
	home := ts.MkAbs(args[1])
	write := writeClaude
	sessions := laptopHistory
	if args[0] == "desktop" {
		write, sessions = writeCodex, desktopHistory
	}
	ts.Check(write(home, sessions, time.Now()))
}

// nodeKey puts the node's public key into a variable: nodekey VARIABLE.
func nodeKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: nodekey VARIABLE")
	}
	ts.Check(ts.Exec("deja", "node", "id", "--json"))
	var id struct{ Pub string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &id))
	ts.Setenv(args[0], id.Pub)
}

// batchFile copies the one batch of a mailbox: batchfile MAILBOX FILE.
func batchFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: batchfile MAILBOX FILE")
	}
	found, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "b", "*", "*.djb"))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d batches, want 1", len(found))
	}
	data, err := os.ReadFile(found[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o600))
}

// empty fails when a directory holds anything: empty DIR.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty DIR")
	}
	left, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, e := range left {
		ts.Fatalf("%s is left", e.Name())
	}
}

// askMCP sends the lines of a file to deja mcp as a host does: it awaits the
// reply to every request before it sends the next, and every line that comes
// must be JSON. The replies become the script's stdout: mcp FILE.
func askMCP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mcp FILE")
	}
	exe, err := exec.LookPath("deja")
	ts.Check(err)
	cmd := exec.Command(exe, "mcp")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "USERPROFILE=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	defer cmd.Process.Kill() //nolint:errcheck // it has ended when all went well
	replies := bufio.NewReader(out)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		_, err := io.WriteString(in, line)
		ts.Check(err)
		if !strings.Contains(line, `"id":`) {
			continue
		}
		reply, err := replies.ReadString('\n')
		ts.Check(err)
		if !json.Valid([]byte(reply)) {
			ts.Fatalf("no JSON: %q", reply)
		}
		_, err = io.WriteString(ts.Stdout(), reply)
		ts.Check(err)
	}
	ts.Check(in.Close())
	rest, err := io.ReadAll(replies)
	ts.Check(err)
	if len(rest) > 0 {
		ts.Fatalf("more than was asked for: %q", rest)
	}
	ts.Check(cmd.Wait())
}
