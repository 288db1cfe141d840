package sources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources"
)

var update = flag.Bool("update", false, "rewrite the want.jsonl files; the diff is what to review")

// golden is one case of testdata/<harness>/<case>.
type golden struct {
	About   string                 `json:"about"`
	Env     map[string]string      `json:"env"` // HOME stands for the home of the case
	Files   []string               `json:"files"`
	Skipped map[sources.Reason]int `json:"skipped"`

	dir    string
	source sources.Source
}

func goldens(t *testing.T) []golden {
	t.Helper()
	var cases []golden
	for _, s := range sources.All() {
		dirs, err := filepath.Glob(filepath.Join("..", "testdata", s.Harness, "*", "case.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(dirs) == 0 {
			t.Errorf("source %s has no case", s.Harness)
		}
		for _, name := range dirs {
			c := golden{dir: filepath.Dir(name), source: s}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			dec := json.NewDecoder(bytes.NewReader(b))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// planted is the secret that stands in for PLANTED. It is assembled so that no
// scanner finds it in the sources.
var planted = "ghp_" + strings.Repeat("aB3dE6", 6)

// home copies the case's home to a place of its own.
func (c golden) home(t *testing.T) sources.Env {
	t.Helper()
	home := t.TempDir()
	root := filepath.Join(c.dir, "home")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		to := filepath.Join(home, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, bytes.ReplaceAll(b, []byte("PLANTED"), []byte(planted)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources.Env{Home: home, GOOS: "linux", Getenv: func(name string) string {
		v := c.Env[name]
		if rest, ok := strings.CutPrefix(v, "HOME/"); ok {
			v = filepath.Join(home, rest)
		}
		return v
	}}
}

// TestConformance runs every source over its cases.
func TestConformance(t *testing.T) {
	for _, c := range goldens(t) {
		t.Run(c.source.Harness+"/"+filepath.Base(c.dir), func(t *testing.T) {
			env := c.home(t)
			h, files := openCase(t, c, env)
			got := newRecorder()
			skipped := map[sources.Reason]int{}
			for _, f := range files {
				before := got.clone()
				res := decode(t, h, sources.Job{File: f, Memory: got, Settled: true}, got.sink(t))
				for _, s := range res.Skipped {
					skipped[s.Reason] += s.Lines
				}
				checkLaws(t, h, f, before)
			}
			if !maps.Equal(skipped, c.Skipped) {
				t.Errorf("skipped %v, want %v", skipped, c.Skipped)
			}
			compare(t, filepath.Join(c.dir, "want.jsonl"), got.render(c.source.Harness, sources.NewProjects(env)))
		})
	}
}

func openCase(t *testing.T, c golden, env sources.Env) (*sources.Handle, []sources.File) {
	t.Helper()
	found := c.source.Discover(t.Context(), env)
	if len(found) != 1 || found[0].Outcome != sources.Ready || !found[0].Complete || len(found[0].Problems) > 0 {
		t.Fatalf("discovery: %+v", found)
	}
	var rels []string
	for _, f := range found[0].Files {
		rels = append(rels, f.Rel)
	}
	slices.Sort(rels)
	if diff := cmp.Diff(c.Files, rels); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	h, err := c.source.Open(found[0].Store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := h.Arrange(t.Context(), found[0].Files)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(found[0].Files) {
		t.Fatalf("arranged %d of %d files", len(files), len(found[0].Files))
	}
	return h, files
}

func decode(t *testing.T, h *sources.Handle, job sources.Job, to sources.Sink) sources.Result {
	t.Helper()
	if job.Scrub == nil {
		job.Scrub = strings.Clone
	}
	res, err := h.Decode(t.Context(), job, to)
	if err != nil {
		t.Fatalf("%s: %v", job.File.Rel, err)
	}
	if res.Mark == nil {
		t.Fatalf("%s: no mark", job.File.Rel)
	}
	return res
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, planted, "PLANTED")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// checkLaws checks what holds for every file: two runs agree, reading from any
// mark gives the rest, a cut last line gives a prefix, and a cancelled reading
// stops and can be taken up.
func checkLaws(t *testing.T, h *sources.Handle, f sources.File, before *recorder) {
	t.Helper()
	read := func(job sources.Job, to *recorder) sources.Result {
		t.Helper()
		job.Memory = to
		return decode(t, h, job, to.sink(t))
	}
	want := before.clone()
	read(sources.Job{File: f, Settled: true}, want)
	again := before.clone()
	read(sources.Job{File: f, Settled: true}, again)
	if diff := cmp.Diff(want.events, again.events); diff != "" {
		t.Errorf("%s: two runs differ:\n%s", f.Rel, diff)
	}
	checkCancel(t, h, f, before, want)
	if strings.HasSuffix(f.Rel, ".zst") {
		return // never appended to
	}
	name := filepath.Join(h.Store().Root, filepath.FromSlash(f.Rel))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer rewriteFile(t, name, whole)
	for _, cut := range cuts(whole) {
		rewriteFile(t, name, whole[:cut])
		part := before.clone()
		mark := read(sources.Job{File: f}, part).Mark
		if !isPrefix(part.events, want.events) {
			t.Fatalf("%s cut at %d: not a prefix:\n%s", f.Rel, cut, cmp.Diff(want.events, part.events))
		}
		rewriteFile(t, name, whole)
		read(sources.Job{File: f, Mark: mark, Settled: true}, part)
		if !slices.Equal(want.events, part.events) {
			t.Fatalf("%s from a mark at %d (-want +got):\n%s", f.Rel, cut, cmp.Diff(want.events, part.events))
		}
		if !maps.Equal(want.sessions, part.sessions) {
			t.Fatalf("%s from a mark at %d: sessions (-want +got):\n%s", f.Rel, cut, cmp.Diff(want.sessions, part.sessions))
		}
	}
}

func isPrefix(part, whole []string) bool {
	return len(part) <= len(whole) && slices.Equal(part, whole[:len(part)])
}

// cuts lists the line ends of a file, some places inside lines, and places
// inside its last line: every one of a short line.
func cuts(data []byte) []int {
	at := []int{0}
	last := 0
	for i, c := range data {
		if c == '\n' {
			at = append(at, i+1, (last+i)/2, i)
			if i+1 < len(data) {
				last = i + 1
			}
		}
	}
	for i := last; i < len(data); i += max(1, (len(data)-last)/100) {
		at = append(at, i)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// checkCancel cancels a reading at every turn: it stops there, and its mark
// takes it up.
func checkCancel(t *testing.T, h *sources.Handle, f sources.File, before, want *recorder) {
	t.Helper()
	stop := errors.New("stopped by the test")
	for n := range min(len(want.events)-len(before.events), 6) {
		ctx, cancel := context.WithCancelCause(t.Context())
		part := before.clone()
		sink := part.sink(t)
		inner := sink.Turn
		calls := 0
		sink.Turn = func(turn record.Turn) error {
			if calls++; calls > n {
				cancel(stop)
			}
			return inner(turn)
		}
		res, err := h.Decode(ctx, sources.Job{File: f, Memory: part, Scrub: strings.Clone}, sink)
		cancel(nil)
		if calls <= n {
			continue // notes yield no turns
		}
		if !errors.Is(err, stop) {
			t.Fatalf("%s cancelled at turn %d: %v", f.Rel, n, err)
		}
		decode(t, h, sources.Job{File: f, Mark: res.Mark, Memory: part, Settled: true}, part.sink(t))
		if diff := cmp.Diff(want.events, part.events); diff != "" {
			t.Fatalf("%s taken up after turn %d (-want +got):\n%s", f.Rel, n, diff)
		}
	}
}

// rewriteFile changes a file in place. Emptying it first would have some file
// systems write it to the disk at every close.
func rewriteFile(t *testing.T, name string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(data, 0)
	if err := errors.Join(err, f.Truncate(int64(len(data))), f.Close()); err != nil {
		t.Fatal(err)
	}
}
