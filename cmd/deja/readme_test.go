package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
	"github.com/deja-node/deja/sources"
)

var update = flag.Bool("update", false, "write the generated tables of README.md anew")

// TestREADMETables holds the tables of README.md to the code they describe.
func TestREADMETables(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, table := range map[string]string{"sources": sources.Table(), "commands": commandTable()} {
		open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(text, open)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("README.md has no place for the table of %s", name)
		}
		text = before + open + table + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(b) {
		t.Error("README.md is out of date: go test ./cmd/deja -run README -update")
	}
}

// commandTable lists the commands as the help does.
func commandTable() string {
	var b strings.Builder
	b.WriteString("| command | does |\n|---|---|\n")
	for _, c := range newRoot(&app{}).Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		b.WriteString("| `deja " + strings.ReplaceAll(c.Use, "|", "\\|") + "` | " + c.Short + " |\n")
	}
	return b.String()
}

// TestREADMECommands runs every command of the console blocks, in order, in a
// new home with the sample histories.
func TestREADMECommands(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := errors.Join(writeClaude(home, laptopHistory, time.Now()), writeCodex(home, desktopHistory, time.Now())); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(string(b)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ deja ")
		if !ok {
			continue
		}
		ran++
		var stdout, stderr strings.Builder
		code := run(environ{
			args: words(command), stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr,
			config:  config.Env{Home: home, GOOS: runtime.GOOS, Getenv: func(string) string { return "" }},
			machine: node.Machine{Hostname: "laptop"}, now: time.Now, random: rand.Reader,
		})
		if code != exitDone || stdout.Len() == 0 {
			t.Errorf("deja %s: exit code %d\n%s%s", command, code, stdout.String(), stderr.String())
		}
	}
	if ran < 5 {
		t.Errorf("README.md shows %d commands", ran)
	}
}

// words splits a command line; double quotes hold words together.
func words(s string) []string {
	var out []string
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
