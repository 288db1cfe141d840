package sources_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/sources"
)

// TestMain lets the test binary stand in for processes that file notes.
func TestMain(m *testing.M) {
	if file := os.Getenv("NOTES_WRITER_FILE"); file != "" {
		os.Exit(fileNotes(file, os.Getenv("NOTES_WRITER_NAME"), os.Getenv("NOTES_WRITER_COUNT")))
	}
	os.Exit(m.Run())
}

// fileNotes files notes and says each on standard output once it is filed.
func fileNotes(file, name, count string) int {
	n, err := strconv.Atoi(count)
	for i := 0; err == nil && i < n; i++ {
		text := fmt.Sprintf("%s-%d", name, i)
		if err = sources.AppendNote(context.Background(), file, note(text)); err == nil {
			fmt.Println(text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var filed = time.Date(2026, 2, 3, 9, 30, 0, 5, time.UTC)

func note(text string) sources.Note { return sources.Note{Project: "api", Text: text, Filed: filed} }

func writer(t *testing.T, file, name string, count int) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "NOTES_WRITER_FILE="+file, "NOTES_WRITER_NAME="+name, "NOTES_WRITER_COUNT="+strconv.Itoa(count))
	return cmd
}

// notesOf reads a notes file as the source does.
func notesOf(t *testing.T, file string) ([]sources.Note, sources.Result) {
	t.Helper()
	s := source(t, "notes")
	d := discover(t, s, env(filepath.Dir(file), "DEJA_NOTES_FILE", file))
	if len(d.Files) == 0 {
		return nil, sources.Result{}
	}
	to := newRecorder()
	res := decode(t, open(t, s, d.Store), sources.Job{File: d.Files[0], Settled: true}, to.sink(t))
	return to.notes, res
}

func TestNotesRoundTrip(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deja", "notes.jsonl")
	evident := filed.Add(-time.Hour)
	want := []sources.Note{
		{Session: "deja-2026-02-03-api", Project: "api", Text: "two\nlines \"quoted\" <b> \u2028 end", Filed: filed, Time: filed, Tags: []string{"a", "b"}},
		{Session: "deja-note-claude-s1", Project: "api", Text: "promoted", Filed: filed, Time: evident, Promoted: true, State: "rejected", Of: "claude:s1", Title: "T", Evident: evident},
		{Session: "deja-2026-02-03-notes", Project: "notes", Text: "no project", Filed: filed, Time: filed},
	}
	for i, n := range want {
		n.Session, n.Time = "", time.Time{}
		switch i {
		case 0:
			n.Tags = []string{"#A", "a", " b "}
		case 2:
			n.Project = ""
		}
		if err := sources.AppendNote(t.Context(), file, n); err != nil {
			t.Fatal(err)
		}
	}
	got, res := notesOf(t, file)
	if diff := cmp.Diff(want, got); diff != "" || len(res.Skipped) > 0 {
		t.Errorf("skipped %v (-want +got):\n%s", res.Skipped, diff)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %v, %v", info.Mode(), err)
	}
}

func TestNotesThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.jsonl")
	for name, n := range map[string]sources.Note{
		"blank":      {Project: "api", Text: " \n", Filed: filed},
		"no time":    {Project: "api", Text: "x"},
		"no session": {Project: "api", Text: "x", Filed: filed, Promoted: true},
		"too long":   note(strings.Repeat("x", 2<<20)),
	} {
		if err := sources.AppendNote(t.Context(), file, n); err == nil {
			t.Errorf("%s was filed", name)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	if err := sources.AppendNote(t.Context(), file, note(strings.Repeat("x", 2<<20))); !errors.Is(err, sources.ErrNoteTooLong) {
		t.Errorf("got %v", err)
	}
}

func TestNotesRefuseLinks(t *testing.T) {
	dir := t.TempDir()
	target, file := filepath.Join(dir, "target"), filepath.Join(dir, "notes.jsonl")
	write(t, target, "")
	if err := os.Symlink(target, file); err != nil {
		t.Skip(err)
	}
	if err := sources.AppendNote(t.Context(), file, note("x")); err == nil {
		t.Error("appended through a link")
	}
	if _, err := sources.RewriteNotes(t.Context(), file, func(sources.Note) bool { return true }); err == nil {
		t.Error("rewrote through a link")
	}
	if b, err := os.ReadFile(target); err != nil || len(b) > 0 {
		t.Errorf("the target holds %q, %v", b, err)
	}
}

// A line cut short by a crash, or by an editor that ends no line, costs nothing but itself.
func TestNotesAfterATornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.jsonl")
	write(t, file, `{"ts":"2026-02-03T09:30:00Z","project":"api","text":"whole"}`+"\n"+`{"ts":"2026-02-03T09:3`)
	if err := sources.AppendNote(t.Context(), file, note("after")); err != nil {
		t.Fatal(err)
	}
	got, res := notesOf(t, file)
	if len(got) != 2 || got[1].Text != "after" || len(res.Skipped) != 1 || res.Skipped[0].Lines != 1 {
		t.Errorf("%v, %+v", got, res)
	}
}

func TestRewriteNotes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.jsonl")
	lines := []string{
		`{"ts":"2026-02-03T09:30:00Z","project":"api","text":"keep","extra":[1, 2]}` + "\r\n",
		`{broken` + "\n",
		`{"ts":"2026-02-03T09:30:00Z","project":"api","text":"drop"}` + "\n",
		"\n",
		`{"ts":"2026-02-03T09:30:00Z","project":"web","text":"keep too"}`,
	}
	write(t, file, strings.Join(lines, ""))
	n, err := sources.RewriteNotes(t.Context(), file, func(n sources.Note) bool { return n.Text == "drop" })
	if err != nil || n != 1 {
		t.Fatalf("dropped %d, %v", n, err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines[2] = ""
	if want := strings.Join(lines, ""); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if n, err := sources.RewriteNotes(t.Context(), filepath.Join(t.TempDir(), "none", "notes.jsonl"), nil); n != 0 || err != nil {
		t.Errorf("without a file: %d, %v", n, err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".notes-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Processes that file at once lose nothing, and every line parses.
func TestNotesOfManyProcesses(t *testing.T) {
	const processes, each = 8, 500
	file := filepath.Join(t.TempDir(), "notes.jsonl")
	var running []*exec.Cmd
	for i := range processes {
		cmd := writer(t, file, fmt.Sprintf("p%d", i), each)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	got, res := notesOf(t, file)
	seen := map[string]bool{}
	for _, n := range got {
		seen[n.Text] = true
	}
	if len(got) != processes*each || len(seen) != len(got) || len(res.Skipped) > 0 {
		t.Errorf("%d notes, %d distinct, skipped %v", len(got), len(seen), res.Skipped)
	}
}

// A writer that is killed loses no note that it was told is filed, and hinders nobody.
func TestNotesOfAKilledProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.jsonl")
	for round := range 4 {
		cmd := writer(t, file, fmt.Sprintf("k%d", round), 1<<30)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := map[string]bool{}
		lines := bufio.NewScanner(out)
		for len(acknowledged) < 5+7*round && lines.Scan() {
			acknowledged[lines.Text()] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer was not killed")
		}
		if err := sources.AppendNote(t.Context(), file, note("after")); err != nil {
			t.Fatal(err)
		}
		got, _ := notesOf(t, file)
		for _, n := range got {
			delete(acknowledged, n.Text)
		}
		if len(acknowledged) > 0 {
			t.Errorf("round %d: lost %v", round, acknowledged)
		}
	}
}
