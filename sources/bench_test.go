package sources_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources"
)

// BenchmarkHome decodes a real or generated home, named by DEJA_BENCH_HOME.
func BenchmarkHome(b *testing.B) {
	home := os.Getenv("DEJA_BENCH_HOME")
	if home == "" {
		b.Skip("DEJA_BENCH_HOME names no home")
	}
	env := sources.Env{Home: home, GOOS: "linux", Getenv: func(string) string { return "" }}
	var size int64
	b.ReportAllocs()
	for b.Loop() {
		size = 0
		var turns, text int
		sink := sources.Sink{Turn: func(t record.Turn) error { turns++; text += len(t.Text); return nil }}
		for _, s := range sources.All() {
			for _, d := range s.Discover(b.Context(), env) {
				size += decodeAll(b, s, d, sink)
			}
		}
		b.ReportMetric(float64(turns), "turns")
		b.ReportMetric(float64(text)/1e6, "MB-text")
	}
	b.SetBytes(size)
}

func decodeAll(b *testing.B, s sources.Source, d sources.Discovery, sink sources.Sink) (size int64) {
	if len(d.Files) == 0 {
		return 0
	}
	h, err := s.Open(d.Store)
	if err != nil {
		b.Fatal(err)
	}
	files, err := h.Arrange(b.Context(), d.Files)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		res, err := h.Decode(b.Context(), sources.Job{File: f, Settled: true}, sink)
		if err != nil {
			b.Fatal(err)
		}
		if len(res.Skipped) > 0 {
			b.Fatal(f.Rel, res.Skipped)
		}
		size += f.Size
	}
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
	return size
}

// BenchmarkDiscover walks stores of transcripts in 40 projects.
func BenchmarkDiscover(b *testing.B) {
	for _, n := range []int{2000, 15000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			home := b.TempDir()
			for i := range n {
				write(b, filepath.Join(home, ".claude", "projects", fmt.Sprintf("-srv-%d", i%40), fmt.Sprintf("%08d-0000-4000-8000-000000000000.jsonl", i)), "{}\n")
			}
			s := source(b, "claude")
			var files int
			for b.Loop() {
				files = len(discover(b, s, env(home)).Files)
			}
			if files != n {
				b.Fatalf("found %d files", files)
			}
		})
	}
}

// BenchmarkDecode decodes one generated transcript of 16 MB.
func BenchmarkDecode(b *testing.B) {
	home, s := b.TempDir(), source(b, "claude")
	text := chat(16 << 20 / len(chat(1)))
	write(b, filepath.Join(home, ".claude", "projects", "-x", "s.jsonl"), text)
	d := discover(b, s, env(home))
	h := open(b, s, d.Store)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Decode(b.Context(), sources.Job{File: d.Files[0]}, sources.Sink{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend reads two messages appended to a transcript of 16 MB.
func BenchmarkAppend(b *testing.B) {
	home, s := b.TempDir(), source(b, "claude")
	text := chat(16 << 20 / len(chat(1)))
	name := filepath.Join(home, ".claude", "projects", "-x", "s.jsonl")
	write(b, name, text)
	d := discover(b, s, env(home))
	h := open(b, s, d.Store)
	res, err := h.Decode(b.Context(), sources.Job{File: d.Files[0]}, sources.Sink{})
	if err != nil {
		b.Fatal(err)
	}
	write(b, name, text+chat(2))
	for b.Loop() {
		f := discover(b, s, env(home)).Files[0]
		if got, err := h.Check(b.Context(), f, res.Mark, sources.Glance); err != nil || got != sources.Grew {
			b.Fatal(got, err)
		}
		if got, err := h.Decode(b.Context(), sources.Job{File: f, Mark: res.Mark}, sources.Sink{}); err != nil || got.Turns != 2 {
			b.Fatal(got.Turns, err)
		}
	}
}
