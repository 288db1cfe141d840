package journal_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
)

// history makes turns as harnesses leave them.
func turns(rng *rand.Rand, n int) []record.Entry {
	words := strings.Fields("the build fails because func return err nil test server request config value index entry batch log open close read write error context")
	all := make([]record.Entry, n)
	for i := range all {
		var text strings.Builder
		for range 20 + rng.IntN(200) {
			text.WriteString(words[rng.IntN(len(words))])
			text.WriteByte(" \n"[rng.IntN(9)/8])
		}
		all[i] = record.Entry{
			Kind: record.KindMsg, Harness: "claude", Session: fmt.Sprintf("%08d-session", i/50), Role: record.RoleAssistant,
			Project: redact.Trusted("api"), Time: noon, Origin: "mini", Mid: fmt.Sprintf("%016x", rng.Uint64()), Text: redact.Trusted(text.String()),
		}
	}
	return all
}

// onDisk makes a node whose journal lies in a temporary folder.
func onDisk(b *testing.B) (open func() *journal.Journal, own record.StreamID) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	m := newMachine(rng, vfs.OS{})
	m.opt.SegmentSize, m.opt.Spool = 0, ""
	dir := filepath.ToSlash(filepath.Join(b.TempDir(), "log"))
	return func() *journal.Journal {
		j, err := journal.Open(vfs.OS{}, dir, m.opt)
		must(b, err)
		return j
	}, m.opt.Own
}

// fill appends entries until the log holds some megabytes of lines.
func fill(b *testing.B, open func() *journal.Journal, megabytes int) (entries, size int) {
	b.Helper()
	all := turns(rand.New(rand.NewPCG(3, 4)), 1000)
	w, err := open().Write(b.Context())
	must(b, err)
	for size < megabytes<<20 {
		e := all[entries%len(all)]
		binary.BigEndian.PutUint64(e.Salt[:], uint64(entries)*0x9e3779b97f4a7c15)
		_, err := w.Add(&e)
		must(b, err)
		entries++
		size += e.Line
	}
	must(b, w.Commit(b.Context()))
	must(b, w.Close())
	return entries, size
}

func BenchmarkBulk(b *testing.B) {
	for b.Loop() {
		open, _ := onDisk(b)
		_, size := fill(b, open, 16)
		b.SetBytes(int64(size))
	}
}

// BenchmarkAppend is one turn, durable.
func BenchmarkAppend(b *testing.B) {
	open, _ := onDisk(b)
	w, err := open().Write(b.Context())
	must(b, err)
	all := turns(rand.New(rand.NewPCG(3, 4)), 100)
	n := 0
	for b.Loop() {
		e := all[n%len(all)]
		n++
		_, _, err := w.Append(b.Context(), []record.Entry{e})
		must(b, err)
	}
	must(b, w.Close())
}

// BenchmarkOpen is what a fresh process pays before it has read anything.
func BenchmarkOpen(b *testing.B) {
	for _, megabytes := range []int{1, 64} {
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) {
			open, own := onDisk(b)
			fill(b, open, megabytes)
			for b.Loop() {
				f, err := open().Frontier()
				must(b, err)
				if f[own].Seq == 0 {
					b.Fatal("nothing is there")
				}
			}
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	open, _ := onDisk(b)
	fill(b, open, 16)
	for b.Loop() {
		w, err := open().Write(b.Context())
		must(b, err)
		must(b, w.Close())
	}
}

// BenchmarkEntry reads single entries, in a fresh process or a long one.
func BenchmarkEntry(b *testing.B) {
	open, own := onDisk(b)
	n, _ := fill(b, open, 64)
	rng := rand.New(rand.NewPCG(5, 6))
	one := func(b *testing.B, j *journal.Journal) {
		_, err := j.Entry(record.Pos{Stream: own, Seq: record.Seq(rng.IntN(n) + 1)})
		must(b, err)
	}
	b.Run("fresh", func(b *testing.B) {
		for b.Loop() {
			one(b, open())
		}
	})
	b.Run("tenth", func(b *testing.B) {
		for b.Loop() {
			j := open()
			for range 10 {
				one(b, j)
			}
		}
	})
	b.Run("long", func(b *testing.B) {
		j := open()
		for b.Loop() {
			one(b, j)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	open, own := onDisk(b)
	_, size := fill(b, open, 32)
	b.SetBytes(int64(size))
	for b.Loop() {
		for _, err := range open().Read(b.Context(), own, 1) {
			must(b, err)
		}
	}
}
