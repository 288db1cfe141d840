package sources_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/sources"
)

func FuzzClaude(f *testing.F) { fuzzSource(f, "claude", ".claude/projects/-x/s.jsonl") }

func FuzzCodex(f *testing.F) {
	fuzzSource(f, "codex", ".codex/sessions/rollout-2026-05-06T10-00-00-019e0000-0001-7000-8000-000000000001.jsonl")
}

func FuzzCodexHistory(f *testing.F) { fuzzSource(f, "codex", ".codex/history.jsonl") }

func FuzzNotes(f *testing.F) { fuzzSource(f, "notes", ".local/share/deja/notes.jsonl") }

// fuzzSource checks, for any bytes in a file, that reading them twice gives the
// same, that a mark at any place gives the rest, and that nothing breaks.
func fuzzSource(f *testing.F, name, rel string) {
	s := source(f, name)
	seeds, err := filepath.Glob(filepath.Join("..", "testdata", s.Harness, "*", "home", "*", "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, dir := range seeds {
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".jsonl") {
				return err
			}
			b, err := os.ReadFile(name)
			f.Add(b, uint(len(b)/2))
			return err
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		home := t.TempDir()
		file := filepath.Join(home, filepath.FromSlash(rel))
		write(t, file, string(data))
		d := discover(t, s, env(home))
		h := open(t, s, d.Store)
		whole, part := newRecorder(), newRecorder()
		decode(t, h, sources.Job{File: d.Files[0], Memory: whole, Settled: true}, whole.sink(t))
		write(t, file, string(data[:cut%uint(len(data)+1)]))
		mark := decode(t, h, sources.Job{File: d.Files[0], Memory: part}, part.sink(t)).Mark
		write(t, file, string(data))
		decode(t, h, sources.Job{File: d.Files[0], Mark: mark, Memory: part, Settled: true}, part.sink(t))
		if diff := cmp.Diff(whole.events, part.events); diff != "" {
			t.Errorf("from a mark at %d (-whole +parts):\n%s", cut%uint(len(data)+1), diff)
		}
	})
}
