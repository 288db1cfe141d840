package sources_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/sources"
)

// A transcript read in any pieces yields what it yields whole, whatever its
// lines are and in whatever order they come.
func TestPiecesMakeTheWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	for name, rel := range map[string]string{
		"claude": ".claude/projects/-x/s.jsonl",
		"codex":  ".codex/sessions/rollout-2026-05-06T10-00-00-019e0000-0001-7000-8000-000000000001.jsonl",
		"deja":   ".local/share/deja/notes.jsonl",
	} {
		t.Run(name, func(t *testing.T) {
			s, lines := source(t, name), linesOfCases(t, name)
			home := t.TempDir()
			file := filepath.Join(home, filepath.FromSlash(rel))
			write(t, file, "")
			d := discover(t, s, env(home))
			h := open(t, s, d.Store)
			for range 400 {
				data := shuffled(rng, lines)
				rewriteFile(t, file, data)
				whole := newRecorder()
				decode(t, h, sources.Job{File: d.Files[0], Memory: whole, Settled: true}, whole.sink(t))
				checkPieces(t, h, d.Files[0], file, data, pieces(rng, len(data)), whole)
			}
		})
	}
}

func checkPieces(t *testing.T, h *sources.Handle, f sources.File, file string, data []byte, cuts []int, whole *recorder) {
	t.Helper()
	parts := newRecorder()
	var mark sources.Mark
	for i, cut := range cuts {
		rewriteFile(t, file, data[:cut])
		mark = decode(t, h, sources.Job{File: f, Mark: mark, Memory: parts, Settled: i == len(cuts)-1}, parts.sink(t)).Mark
	}
	if diff := cmp.Diff(whole.events, parts.events); diff != "" {
		t.Fatalf("in pieces %v of\n%s\n(-whole +pieces):\n%s", cuts, data, diff)
	}
	if diff := cmp.Diff(whole.sessions, parts.sessions); diff != "" {
		t.Fatalf("in pieces %v of\n%s\nsessions (-whole +pieces):\n%s", cuts, data, diff)
	}
}

// linesOfCases collects the lines of all cases of a harness, in order within a file.
func linesOfCases(t *testing.T, harness string) [][]byte {
	t.Helper()
	var lines [][]byte
	root := filepath.Join("..", "testdata", harness)
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".jsonl") || d.Name() == "want.jsonl" {
			return err
		}
		b, err := os.ReadFile(name)
		for line := range bytes.Lines(b) {
			lines = append(lines, bytes.TrimRight(line, "\n"))
		}
		return err
	})
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	return lines
}

// shuffled makes a file of runs of lines, some of them out of order.
func shuffled(rng *rand.Rand, lines [][]byte) []byte {
	var b bytes.Buffer
	for range 1 + rng.IntN(6) {
		at, n := rng.IntN(len(lines)), 1+rng.IntN(8)
		for _, line := range lines[at:min(at+n, len(lines))] {
			if rng.IntN(8) == 0 {
				line = lines[rng.IntN(len(lines))]
			}
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// pieces cuts a file in up to six places, and at its end.
func pieces(rng *rand.Rand, n int) []int {
	cuts := []int{n}
	for range rng.IntN(6) {
		cuts = append(cuts, rng.IntN(n+1))
	}
	slices.Sort(cuts)
	return cuts
}
