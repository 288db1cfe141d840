package postings_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// corpus is about what agents write: words of a Zipf distribution, and
// identifiers that occur once.
func corpus(entries int) (out []record.Entry, size int64) {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 4, 100_000)
	for i := range entries {
		role := []record.Role{record.RoleUser, record.RoleAssistant, record.RoleToolOutput, record.RoleToolOutput}[i%4]
		var b []byte
		for range 20 + rng.IntN(180) {
			switch n := zipf.Uint64(); {
			case rng.IntN(40) == 0:
				b = fmt.Appendf(b, "%08x ", rng.Uint32())
			case n%7 == 0:
				b = fmt.Appendf(b, "get%cord%d(", 'A'+n%26, n%1000)
			default:
				b = fmt.Appendf(b, "w%sth ", string(rune('a'+n%26))+fmt.Sprintf("%c%c", 'a'+n/26%26, 'a'+n/676%26))
			}
		}
		out = append(out, record.Entry{
			Kind: record.KindMsg, Harness: "claude", Session: fmt.Sprint("s", i/170), Role: role, Text: redact.Trusted(string(b)),
		})
		size += int64(len(b))
	}
	return out, size
}

func BenchmarkApply(b *testing.B) {
	entries, size := corpus(20_000)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		x := newIndex(b)
		for i := 0; i < len(entries); i += 500 {
			x.apply(own, record.Seq(i+1), entries[i:i+500])
		}
		b.ReportMetric(float64(x.view.Size())/1e6, "MB-memory")
	}
}

func BenchmarkFlush(b *testing.B) {
	entries, size := corpus(20_000)
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		x := newIndex(b)
		x.apply(own, 1, entries)
		b.StartTimer()
		x.publish()
		b.ReportMetric(float64(x.size())/1e6, "MB-file")
	}
}

func BenchmarkMerge(b *testing.B) {
	entries, size := corpus(24_000)
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		x := newIndex(b)
		for i := 0; i < len(entries); i += 3000 {
			if i+3000 == len(entries) {
				b.StartTimer() // the last flush merges all
			}
			x.apply(own, record.Seq(i+1), entries[i:i+3000])
			x.publish()
		}
		if n := len(x.files()); n != 1 {
			b.Fatalf("%d files", n)
		}
	}
}

// BenchmarkSearch opens the view for every search, as a fresh process does.
func BenchmarkSearch(b *testing.B) {
	entries, _ := corpus(60_000)
	sh, err := shelf.Open(vfs.OS{}, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	v, err := postings.Open(sh, shelf.State{})
	if err != nil {
		b.Fatal(err)
	}
	if err := v.Apply(b.Context(), own, 1, entries); err != nil {
		b.Fatal(err)
	}
	st, err := v.Flush(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := sh.Publish(map[string]shelf.State{postings.Name: st}); err != nil {
		b.Fatal(err)
	}
	common := "waaath wbaath wcaath wdaath weaath wfaath wgaath whaath wiaath wjaath"
	for _, c := range []struct{ name, text string }{{"one", "wabcth"}, {"three", "waaath wabcth wzzbth"}, {"sentence", common}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				snap, err := sh.Snapshot(postings.Name)
				if err != nil {
					b.Fatal(err)
				}
				r, err := postings.NewReader(snap)
				if err != nil {
					b.Fatal(err)
				}
				found, err := r.Search(b.Context(), postings.Request{Terms: query.Parse(c.text).Terms, Limit: 30})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(found.Total), "sessions")
				if err := snap.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("dump", func(b *testing.B) {
		snap, err := sh.Snapshot(postings.Name)
		if err != nil {
			b.Fatal(err)
		}
		defer snap.Close()
		for b.Loop() {
			r, err := postings.NewReader(snap)
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Dump(b.Context(), io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
}
