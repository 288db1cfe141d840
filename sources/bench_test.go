package sources_test

import (
	"errors"
	"os"
	"path/filepath"
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

// BenchmarkDiscover walks a store of 2000 transcripts in 40 projects.
func BenchmarkDiscover(b *testing.B) {
	home := b.TempDir()
	for i := range 2000 {
		name := filepath.Join(home, ".claude", "projects", "-srv-"+string(rune('a'+i%26))+string(rune('a'+i%40/26)), "s"+string(rune('a'+i%26))+string(rune('0'+i/26%10))+string(rune('0'+i/260))+".jsonl")
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("{}\n"), 0o600)); err != nil {
			b.Fatal(err)
		}
	}
	env := sources.Env{Home: home, GOOS: "linux", Getenv: func(string) string { return "" }}
	s, _ := sources.Find("claude")
	for b.Loop() {
		d := s.Discover(b.Context(), env)
		b.ReportMetric(float64(len(d[0].Files)), "files")
	}
}
