package syncproto_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
)

// bulk is a store of a history that is made up while it is read, and that
// takes batches without looking into them.
type bulk struct {
	stream   record.StreamID
	batches  int // on offer
	body     []byte
	raw      []byte
	took     int64
	accepted func()
}

const perBatch = 100 // entries

func (b *bulk) Admit(context.Context, syncproto.Peer) (syncproto.Terms, error) {
	var t syncproto.Terms
	if b.batches > 0 {
		head := record.Head{Seq: record.Seq(b.batches * perBatch), Hash: record.Hash{1}}
		t.Offers = []syncproto.Offer{{Stream: b.stream, Head: head}}
	}
	return t, nil
}

func (b *bulk) Known(context.Context, record.StreamID) (syncproto.Known, error) {
	return syncproto.Known{}, nil
}

func (b *bulk) Marks(context.Context, record.StreamID, syncproto.Span) (syncproto.Marks, error) {
	return syncproto.Marks{}, nil
}

func (b *bulk) Batch(_ context.Context, s record.StreamID, seq record.Seq, _ time.Time) (syncproto.Batch, error) {
	first := (seq-1)/perBatch*perBatch + 1
	prev := record.Hash{}
	if first > 1 {
		prev[0] = 1
	}
	head := fmt.Appendf(nil, `{"v":2,"s":%q,"first":%d,"n":%d,"prev":%q,"root":%q,"ulen":131072,"at":"2026-09-01T10:00:00Z","min":2}`,
		s, first, perBatch, prev, record.Hash{2})
	b.raw = binary.BigEndian.AppendUint32(append(b.raw[:0], "DJB2"...), uint32(len(head)))
	b.raw = append(append(b.raw, head...), make([]byte, 64)...)
	b.raw = binary.BigEndian.AppendUint32(b.raw, uint32(len(b.body)))
	b.raw = append(append(b.raw, b.body...), 0, 0, 0, 0)
	return syncproto.Batch{Raw: b.raw, First: first, Last: first + perBatch - 1}, nil
}

func (b *bulk) Card(context.Context, record.NodeID) ([]byte, error) { return nil, nil }
func (b *bulk) PutCard(context.Context, []byte) error               { return nil }

func (b *bulk) Accept(_ context.Context, raw []byte, _ string) (syncproto.Receipt, error) {
	b.took += int64(len(raw))
	if b.accepted != nil {
		b.accepted()
	}
	return syncproto.Receipt{Records: perBatch}, nil
}

func (b *bulk) Commit(context.Context) error                     { return nil }
func (b *bulk) Forked(context.Context, *syncproto.Refusal) error { return nil }

// move exchanges n batches of 32 KiB, the usual size, each way over a pipe.
func move(t testing.TB, n int, accepted func()) (moved int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	a, b := newNode(rng, "a"), newNode(rng, "b")
	body := make([]byte, 32<<10)
	stores := [2]*bulk{{stream: a.own, batches: n, body: body, accepted: accepted}, {stream: b.own, batches: n, body: body}}
	client, server := syncproto.Pipe()
	run := func(key *modelNode, st *bulk, link syncproto.Link, cfg syncproto.Config) {
		cfg.Key = key.key
		s, err := syncproto.New(cfg, st)
		if err == nil {
			_, err = syncproto.Run(t.Context(), link, s, syncproto.Timing{})
		}
		if err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { run(a, stores[0], client, syncproto.Config{}) })
	wg.Go(func() { run(b, stores[1], server, syncproto.Config{Server: true}) })
	wg.Wait()
	return stores[0].took + stores[1].took
}

// An exchange needs the memory of a few batches, however long the history is.
func TestMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak uint64
	n := 0
	moved := move(t, 4000, func() {
		if n++; n%100 == 0 {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
	})
	used := int64(peak) - int64(before.HeapAlloc)
	t.Logf("%d MB moved, %d KiB of heap for both sides", moved>>20, used>>10)
	if used > 8<<20 {
		t.Errorf("%d bytes of heap for both sides", used)
	}
	if want := int64(2 * 4000 * (32 << 10)); moved < want {
		t.Errorf("%d bytes moved, want %d", moved, want)
	}
}

func BenchmarkExchange(b *testing.B) {
	var total int64
	for b.Loop() {
		total = move(b, 1000, nil)
	}
	b.SetBytes(total)
}

// BenchmarkNothingNew measures an exchange that has nothing to do.
func BenchmarkNothingNew(b *testing.B) {
	for b.Loop() {
		move(b, 0, nil)
	}
}
