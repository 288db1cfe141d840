package main

import (
	"bytes"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
	"github.com/deja-node/deja/sources"
)

var update = flag.Bool("update", false, "rewrite what the README takes from the code; the diff is what to review")

const readme = "../../README.md"

// TestREADMETables holds the README's tables equal to what they describe.
func TestREADMETables(t *testing.T) {
	text := readFile(t, readme)
	got := text
	for name, table := range map[string]string{"sources": sources.Table(), "commands": commandTable()} {
		open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(got, open)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("the README has no %s", strings.TrimSpace(open))
		}
		got = before + open + table + end + after
	}
	settle(t, text, got)
}

// commandTable lists every command with what its help says first.
func commandTable() string {
	var b strings.Builder
	b.WriteString("| command | does |\n|---|---|\n")
	var list func(prefix string, cmds []*cobra.Command)
	list = func(prefix string, cmds []*cobra.Command) {
		for _, c := range cmds {
			if subs := c.Commands(); len(subs) == 0 || len(c.Use) > len(c.Name()) {
				fmt.Fprintf(&b, "| `%s%s` | %s |\n", prefix, strings.ReplaceAll(c.Use, "|", `\|`), c.Short)
			}
			list(prefix+c.Name()+" ", c.Commands())
		}
	}
	list("deja ", (&app{}).commands())
	return b.String()
}

// TestREADMEConsole runs every command line of the README's console blocks in
// order, in a home with the sample histories, and compares what they print
// save for what differs from run to run.
func TestREADMEConsole(t *testing.T) {
	text := readFile(t, readme)
	c := newConsole(t)
	got := regexp.MustCompile("(?s)```console\n.*?```").ReplaceAllStringFunc(text, func(block string) string {
		body := strings.TrimSuffix(strings.TrimPrefix(block, "```console\n"), "```")
		return "```console\n" + c.block(body) + "```"
	})
	if c.ran < 10 {
		t.Errorf("the README shows %d commands only", c.ran)
	}
	if varying(got) != varying(text) {
		settle(t, text, got)
	}
}

// TestREADMENamesOnlyCommandsThatExist keeps running text from naming commands
// that are not there.
func TestREADMENamesOnlyCommandsThatExist(t *testing.T) {
	root := newRoot(&app{})
	root.InitDefaultCompletionCmd()
	for _, m := range regexp.MustCompile("`deja ([a-z]+)(?: ([a-z]+))?").FindAllStringSubmatch(readFile(t, readme), -1) {
		cmd, _, err := root.Find(strings.Fields(m[1] + " " + m[2]))
		if err != nil || cmd == root || cmd.HasSubCommands() && m[2] != "" && cmd.Name() != m[2] {
			t.Errorf("%q is no command: %v", m[0], err)
		}
	}
}

// console runs command lines in one throw-away home.
type console struct {
	t    *testing.T
	home string
	key  string // what $KEY stands for: the key printed last
	ran  int
}

func newConsole(t *testing.T) *console {
	home := t.TempDir()
	now := time.Now()
	for _, err := range []error{
		writeClaude(home, laptopHistory, now), writeCodex(home, desktopHistory, now),
		os.Mkdir(filepath.Join(home, "box"), 0o700), os.MkdirAll(filepath.Join(home, "src", "harbor", ".git"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(home)
	return &console{t: t, home: home}
}

// block runs the lines of one block and returns it with what they print. A
// line "$ deja ... # exit 4" expects that exit code.
func (c *console) block(body string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		c.ran++
		want := 0
		words, comment, _ := strings.Cut(command, " # exit ")
		if comment != "" {
			if _, err := fmt.Sscan(comment, &want); err != nil {
				c.t.Fatalf("%s: %v", command, err)
			}
		}
		out, code := c.run(c.fields(words))
		if code != want {
			c.t.Errorf("%s: exit code %d, want %d:\n%s", command, code, want, out)
		}
		b.WriteString(line + out)
	}
	return b.String()
}

// run runs one command, with what stands before it in its environment.
func (c *console) run(words []string) (string, int) {
	env := map[string]string{"DEJA_MACHINE": "laptop"}
	for len(words) > 0 && strings.Contains(words[0], "=") {
		name, value, _ := strings.Cut(words[0], "=")
		env[name], words = value, words[1:]
	}
	if len(words) == 0 || words[0] != "deja" {
		c.t.Fatalf("a console block runs deja only: %q", words)
	}
	var out bytes.Buffer
	code := run(environ{
		args: words[1:], exe: "deja", stdin: strings.NewReader(""), stdout: &out, stderr: &out,
		config: config.Env{Getenv: func(name string) string { return env[name] }, Home: c.home, GOOS: "linux"},
		dir:    filepath.Join(c.home, "src", "harbor"), machine: node.Machine{Hostname: "laptop"},
		now: time.Now, random: rand.Reader, pid: os.Getpid(),
	})
	if key := regexp.MustCompile(`ssh-ed25519 \S+`).FindString(out.String()); key != "" {
		c.key = key
	}
	text := strings.ReplaceAll(out.String(), c.home, "/home/you")
	return progressLine.ReplaceAllString(text, ""), code
}

// progressLine is narration whose number depends on the machine's speed.
var progressLine = regexp.MustCompile(`(?m)^indexing: .*\n`)

// fields splits a command line at blanks outside double quotes.
func (c *console) fields(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?:[^\s"]|"[^"]*")+`).FindAllString(line, -1) {
		out = append(out, strings.NewReplacer(`"`, "", "$KEY", c.key).Replace(m))
	}
	return out
}

// varies are the parts of an output that no two runs share.
var varies = []*regexp.Regexp{
	regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\dZ)?`),
	regexp.MustCompile(`\b[a-z2-7]{32}\b`),
	regexp.MustCompile(`(?m)^(# )?[a-z2-7]{8}  \[`),
	regexp.MustCompile(`\(([a-z2-7]{8})\)`),
	regexp.MustCompile(`SHA256:\S+`),
	regexp.MustCompile(`AAAA\S+`),
	regexp.MustCompile(`\d+(\.\d+)? (B|KB|MB|s)\b`),
}

func varying(s string) string {
	for _, re := range varies {
		s = re.ReplaceAllString(s, "~")
	}
	return s
}

// settle compares, or with -update writes, the README.
func settle(t *testing.T, have, want string) {
	t.Helper()
	if have == want {
		return
	}
	if *update {
		if err := os.WriteFile(filepath.Join(packageDir, readme), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	a, b := strings.Split(varying(have), "\n"), strings.Split(varying(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("README.md line %d says\n%s\nbut it is\n%s\n(go test ./cmd/deja -run README -update)", i+1, a[i], b[i])
		}
	}
	t.Fatal("README.md is not what the code says: go test ./cmd/deja -run README -update")
}

// packageDir is where the tests start, before one of them moves away.
var packageDir = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(packageDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
