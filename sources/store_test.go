package sources_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/sources"
)

// env is an environment with a home and some variables.
func env(home string, vars ...string) sources.Env {
	return sources.Env{Home: home, GOOS: "linux", Getenv: func(name string) string {
		for i := 0; i < len(vars); i += 2 {
			if vars[i] == name {
				return vars[i+1]
			}
		}
		return ""
	}}
}

func source(t testing.TB, name string) sources.Source {
	t.Helper()
	s, ok := sources.Find(name)
	if !ok {
		t.Fatalf("no source %s", name)
	}
	return s
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// discover returns the only store of a source.
func discover(t testing.TB, s sources.Source, e sources.Env) sources.Discovery {
	t.Helper()
	found := s.Discover(t.Context(), e)
	if len(found) != 1 {
		t.Fatalf("%d stores", len(found))
	}
	return found[0]
}

func open(t testing.TB, s sources.Source, st sources.Store) *sources.Handle {
	t.Helper()
	h, err := s.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func rels(files []sources.File) []string {
	var names []string
	for _, f := range files {
		names = append(names, f.Rel)
	}
	slices.Sort(names)
	return names
}

const line = `{"type":"user","uuid":"u1","sessionId":"s1","cwd":"/srv/x","timestamp":"2026-05-04T08:00:00.000Z","message":{"content":"hello"}}` + "\n"

func TestStoresOfTheEnvironment(t *testing.T) {
	home := t.TempDir()
	in := func(elem ...string) string { return filepath.Join(append([]string{home}, elem...)...) }
	windows := func(vars ...string) sources.Env {
		e := env(home, vars...)
		e.GOOS = "windows"
		return e
	}
	list := in("one") + string(filepath.ListSeparator) + in("two")
	tests := []struct {
		name, source string
		env          sources.Env
		want         []string
	}{
		{"default", "claude", env(home), []string{in(".claude", "projects")}},
		{"windows", "claude", windows(), []string{in(".claude", "projects")}},
		{"configuration moved", "claude", env(home, "CLAUDE_CONFIG_DIR", in("c")), []string{in("c", "projects")}},
		{"tilde", "claude", env(home, "CLAUDE_CONFIG_DIR", "~/c"), []string{in("c", "projects")}},
		{"override", "claude", env(home, "CLAUDE_CONFIG_DIR", in("c"), "DEJA_CLAUDE_ROOT", in("r")), []string{in("r")}},
		{"list", "claude", env(home, "DEJA_CLAUDE_ROOTS", list), []string{in("one"), in("two")}},
		{"both", "codex", env(home, "DEJA_CODEX_ROOT", in("zero"), "DEJA_CODEX_ROOTS", list), []string{in("zero"), in("one"), in("two")}},
		{"default", "codex", env(home), []string{in(".codex")}},
		{"moved", "codex", env(home, "CODEX_HOME", in("c")), []string{in("c")}},
		{"no home", "codex", env(""), nil},
		{"default", "deja", env(home), []string{in(".local", "share", "deja")}},
		{"xdg", "deja", env(home, "XDG_DATA_HOME", in("x")), []string{in("x", "deja")}},
		{"relative xdg", "deja", env(home, "XDG_DATA_HOME", "x"), []string{in(".local", "share", "deja")}},
		{"one directory", "deja", env(home, "DEJA_HOME", in("d"), "XDG_DATA_HOME", in("x")), []string{in("d", "data")}},
		{"named file", "deja", env(home, "DEJA_NOTES_FILE", in("n", "my.jsonl"), "DEJA_HOME", in("d")), []string{in("n")}},
		{"windows", "deja", windows("APPDATA", in("Roaming")), []string{in("Roaming", "deja")}},
		{"windows without APPDATA", "deja", windows(), []string{in("AppData", "Roaming", "deja")}},
		{"no home", "deja", env(""), nil},
	}
	for _, test := range tests {
		var got []string
		for _, st := range source(t, test.source).Stores(test.env) {
			got = append(got, st.Root)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s, %s: %q, want %q", test.source, test.name, got, test.want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	if d := discover(t, s, env(home)); d.Outcome != sources.Missing || d.Complete || d.Reason == "" {
		t.Errorf("no store: %+v", d)
	}
	write(t, filepath.Join(home, "file"), "x")
	if d := discover(t, s, env(home, "DEJA_CLAUDE_ROOT", filepath.Join(home, "file"))); d.Outcome != sources.Failed || d.Complete {
		t.Errorf("a file: %+v", d)
	}
	if err := os.MkdirAll(filepath.Join(home, ".claude", "projects"), 0o700); err != nil {
		t.Fatal(err)
	}
	if d := discover(t, s, env(home)); d.Outcome != sources.Ready || !d.Complete || len(d.Files) > 0 {
		t.Errorf("an empty store: %+v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := s.Discover(ctx, env(home))[0]; d.Outcome != sources.Failed || d.Complete {
		t.Errorf("cancelled: %+v", d)
	}
}

func TestDeniedDirectoriesAreReported(t *testing.T) {
	if os.Geteuid() <= 0 {
		t.Skip("nothing is denied to this user")
	}
	home, s := t.TempDir(), source(t, "claude")
	root := filepath.Join(home, ".claude", "projects")
	write(t, filepath.Join(root, "-a", "s.jsonl"), line)
	write(t, filepath.Join(root, "-b", "s.jsonl"), line)
	shut := func(dir string) {
		t.Helper()
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Error(err)
			}
		})
	}
	shut(filepath.Join(root, "-b"))
	d := discover(t, s, env(home))
	if d.Outcome != sources.Ready || d.Complete || len(d.Files) != 1 || len(d.Problems) != 1 || d.Problems[0].Path != "-b" {
		t.Errorf("one denied directory: %+v", d)
	}
	shut(root)
	if d := discover(t, s, env(home)); d.Outcome != sources.Denied || d.Complete {
		t.Errorf("a denied store: %+v", d)
	}
}

// Links, pipes and sockets that carry the name of a transcript are passed over
// when found, and refused when they take its place later.
func TestOnlyRegularFilesOfTheStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links and pipes")
	}
	home, s := t.TempDir(), source(t, "claude")
	root := filepath.Join(home, ".claude", "projects", "-x")
	outside := filepath.Join(home, "outside.jsonl")
	write(t, outside, line)
	write(t, filepath.Join(root, "real.jsonl"), line)
	write(t, filepath.Join(home, "dir", "inside.jsonl"), line)
	for name, target := range map[string]string{"link.jsonl": outside, "near.jsonl": "real.jsonl", "dir": filepath.Join(home, "dir")} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	makePipe(t, filepath.Join(root, "pipe.jsonl"))
	d := discover(t, s, env(home))
	if got := rels(d.Files); !slices.Equal(got, []string{"-x/real.jsonl"}) {
		t.Errorf("found %q", got)
	}
	if len(d.Problems) != 3 || !d.Complete {
		t.Errorf("problems %v, complete %v", d.Problems, d.Complete)
	}
	h := open(t, s, d.Store)
	for _, name := range []string{"link.jsonl", "pipe.jsonl", "dir/inside.jsonl", "../../../outside.jsonl"} {
		f := sources.File{Key: name, Rel: "-x/" + name}
		if _, err := h.Decode(t.Context(), sources.Job{File: f}, sources.Sink{}); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestArrange(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	root := filepath.Join(home, ".claude", "projects")
	msg := func(uuid, session, at string) string {
		return `{"type":"user","uuid":"` + uuid + `","sessionId":"` + session + `","timestamp":"2026-05-0` + at + `T08:00:00.000Z","message":{"content":"x"}}` + "\n"
	}
	// The copy lies before its original by name, by size and by time of change.
	write(t, filepath.Join(root, "-x", "original.jsonl"), msg("u1", "o", "1")+strings.Repeat(msg("u2", "o", "2"), 9))
	write(t, filepath.Join(root, "-x", "a-copy.jsonl"), msg("u1", "c", "1")+msg("u3", "c", "3"))
	write(t, filepath.Join(root, "-x", "other.jsonl"), msg("u9", "z", "1"))
	write(t, filepath.Join(root, "-y", "same-uuid-elsewhere.jsonl"), msg("u1", "y", "1"))
	write(t, filepath.Join(root, "-x", "broken.jsonl"), "{not json\n")
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	files, err := h.Arrange(t.Context(), d.Files)
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]int{}
	family := map[string]string{}
	for i, f := range files {
		place[f.Rel], family[f.Rel] = i, f.Family
	}
	if len(files) != 5 || place["-x/original.jsonl"] != place["-x/a-copy.jsonl"]-1 {
		t.Errorf("order %v", place)
	}
	if family["-x/original.jsonl"] != family["-x/a-copy.jsonl"] || family["-x/original.jsonl"] == family["-x/other.jsonl"] ||
		family["-x/original.jsonl"] == family["-y/same-uuid-elsewhere.jsonl"] {
		t.Errorf("families %v", family)
	}
}

func TestRegistry(t *testing.T) {
	taken := map[string]string{}
	for _, s := range sources.All() {
		for _, name := range append([]string{s.Harness}, s.Aliases...) {
			if taken[name] != "" || name != strings.ToLower(name) {
				t.Errorf("%q names %s and %s", name, taken[name], s.Harness)
			}
			taken[name] = s.Harness
			if found, ok := sources.Find(strings.ToUpper(name)); !ok || found.Harness != s.Harness {
				t.Errorf("%q finds %q", name, found.Harness)
			}
		}
		if s.Version < 1 || s.Version > 1<<16-1 || s.Name == "" || s.Where == "" || s.What == "" {
			t.Errorf("%s: the row is not complete", s.Harness)
		}
		if !strings.Contains(sources.Table(), "| `"+s.Harness+"` |") {
			t.Errorf("the table has no line for %s", s.Harness)
		}
	}
	if _, ok := sources.Find("nothing"); ok {
		t.Error("found a source named nothing")
	}
}
