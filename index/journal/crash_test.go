package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// history is what was asked of a journal, and what it answered.
type history struct {
	added []string // every entry that Add took, in order
	acked int      // how many of them a Commit has acknowledged
	taken int      // foreign batches that a Commit has acknowledged
}

// foreignLog makes the batches of another node.
func foreignLog(t testing.TB, rng *rand.Rand, n int) (m *machine, raws [][]byte) {
	t.Helper()
	m = newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	for i := range n {
		e := randomEntry(rng, i)
		_, err := w.Add(&e)
		must(t, err)
		if i%5 == 4 {
			must(t, w.Seal(t.Context()))
		}
	}
	must(t, w.Seal(t.Context()))
	must(t, w.Close())
	for b, err := range m.journal(t).Batches(t.Context(), m.opt.Own, 1) {
		must(t, err)
		raws = append(raws, slices.Clone(b.Raw))
	}
	return m, raws
}

// work does everything a node does to its journal, until something fails.
func work(ctx context.Context, m *machine, card []byte, raws [][]byte, seed uint64, h *history) (err error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	j, err := journal.Open(m.fs, logDir, m.opt)
	if err != nil {
		return err
	}
	for round := range 2 {
		w, err := j.Write(ctx)
		if err != nil {
			return err
		}
		err = run(ctx, w, round, rng, card, raws, h)
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
		h.added = h.added[:h.acked] // what was never committed is dropped
	}
	return nil
}

func run(ctx context.Context, w *journal.Writer, round int, rng *rand.Rand, card []byte, raws [][]byte, h *history) error {
	commit := func(do func(context.Context) error) error {
		if err := do(ctx); err != nil {
			return err
		}
		h.acked, h.taken = len(h.added), min((round+1)*len(raws)/2, len(raws))
		return nil
	}
	if err := w.PutCard(card); err != nil {
		return err
	}
	for _, raw := range raws[:min((round+1)*len(raws)/2, len(raws))] {
		if _, err := w.Accept(ctx, raw); err != nil {
			return err
		}
	}
	for i := range 14 {
		e := randomEntry(rng, 100*round+i)
		if _, err := w.Add(&e); err != nil {
			return err
		}
		h.added = append(h.added, text(&e))
		switch {
		case i == 3 || i == 4 || i == 12:
			if err := commit(w.Commit); err != nil {
				return err
			}
		case i == 8:
			if err := commit(w.Seal); err != nil {
				return err
			}
		}
	}
	return nil
}

// check holds a journal to its history: everything acknowledged is there, in
// order and once, and nothing that was never added.
func (h *history) check(t *testing.T, when string, m *machine, foreign record.StreamID, want []string) {
	t.Helper()
	img := read(t, m.journal(t))
	own := img[m.opt.Own]
	if len(own) < h.acked {
		t.Fatalf("%s: %d entries of %d acknowledged", when, len(own), h.acked)
	}
	if len(own) > len(h.added) || !slices.Equal(own, h.added[:len(own)]) {
		t.Fatalf("%s: the log is no prefix of what was added", when)
	}
	if got := img[foreign]; len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		t.Fatalf("%s: the foreign log is no prefix of its origin's", when)
	}
}

// TestEveryFault fails every operation on the disk once, in several ways. After
// each the journal is opened again, with and without a loss of power, holds what
// was acknowledged, and can be written.
func TestEveryFault(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 30)
	card, want := origin.card(t), read(t, origin.journal(t))[origin.opt.Own]
	ends := []record.Seq{0}
	for _, raw := range raws {
		b, err := batch.Open(raw)
		must(t, err)
		ends = append(ends, b.Last())
	}
	seed, key := rng.Uint64(), rng.Uint64()
	for i, plan := range []vfs.Plan{{Writes: true, Dead: true}, {Writes: true, Torn: true}, {}} {
		for n := 0; ; n++ {
			mem := vfs.NewMem()
			plan.N = n
			fault := vfs.NewFault(mem, plan)
			m := newMachine(rand.New(rand.NewPCG(key, 1)), fault)
			m.opt.SegmentSize = int64(4<<10) << (4 * i)
			var h history
			err := work(t.Context(), m, card, raws, seed, &h)
			if !fault.Fired() {
				must(t, err)
				t.Logf("%+v: %d operations", plan, n)
				break
			}
			when := fmt.Sprintf("%+v: %s", plan, fault.Op())
			if err == nil {
				t.Fatalf("%s: the error was swallowed", when)
			}
			if !errors.Is(err, vfs.ErrInjected) {
				t.Fatalf("%s: %v", when, err)
			}
			for k, disk := range []*vfs.Mem{mem, mem.AfterCrash(rng)} {
				if k > 0 { // the locks of a dead process are free
					checkAfter(t, when, m.over(disk), &h, origin.opt.Own, want, ends)
				} else {
					h.check(t, when, m.over(disk), origin.opt.Own, want)
				}
			}
		}
	}
}

// checkAfter opens a journal after a crash, checks it, goes on with it, and
// checks it again.
func checkAfter(t *testing.T, when string, m *machine, h *history, foreign record.StreamID, want []string, ends []record.Seq) {
	t.Helper()
	h.check(t, when, m, foreign, want)
	w, err := m.journal(t).Write(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	head, err := w.Head(foreign)
	must(t, err)
	if head.Seq < ends[h.taken] {
		t.Fatalf("%s: the foreign stream goes to %d, acknowledged was %d", when, head.Seq, ends[h.taken])
	}
	before := read(t, m.journal(t))[m.opt.Own]
	e := record.Entry{Raw: []byte(`{"kind":"after"}`)}
	if _, err := w.Add(&e); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Seal(t.Context()))
	must(t, w.Close())
	after := read(t, m.journal(t))[m.opt.Own]
	if !slices.Equal(after, append(before, text(&e))) {
		t.Fatalf("%s: going on changed the log", when)
	}
	damage, err := m.journal(t).Verify(t.Context(), true)
	if err != nil || len(damage) > 0 {
		t.Fatalf("%s: %v, %v", when, err, damage)
	}
	for _, name := range list(t, m.fs, path.Join(logDir, m.opt.Own.String())) {
		if vfs.IsTemp(name) || strings.HasSuffix(name, ".tail") {
			t.Fatalf("%s: %s was left behind", when, name)
		}
	}
}

// TestPowerLoss cuts the power at random moments of a long life.
func TestPowerLoss(t *testing.T) {
	rng := dice(t)
	for range 15 * *rounds {
		mem := vfs.NewMem()
		m := newMachine(rng, mem)
		m.opt.SegmentSize = int64(4<<10) << rng.IntN(6)
		var h history
		for range 12 {
			w := m.writer(t)
			for range rng.IntN(25) {
				e := randomEntry(rng, len(h.added))
				_, err := w.Add(&e)
				must(t, err)
				h.added = append(h.added, text(&e))
				switch rng.IntN(7) {
				case 0:
					must(t, w.Commit(t.Context()))
					h.acked = len(h.added)
				case 1:
					must(t, w.Seal(t.Context()))
					h.acked = len(h.added)
				}
			}
			mem = mem.AfterCrash(rng)
			m = m.over(mem)
			h.check(t, "after the crash", m, record.StreamID{}, nil)
			// What was not acknowledged may be there or not; from here on it is as it is.
			h.added = read(t, m.journal(t))[m.opt.Own]
			h.acked = len(h.added)
		}
	}
}

// TestCostOfAppend holds that a durable turn costs one write and one sync.
func TestCostOfAppend(t *testing.T) {
	rng := dice(t)
	count := vfs.NewFault(vfs.NewMem(), vfs.Plan{N: 1 << 30, Writes: true})
	m := newMachine(rng, count)
	w := m.writer(t)
	add := func() int {
		before := count.Ops()
		_, _, err := w.Append(t.Context(), []record.Entry{{Kind: record.KindMsg, Text: redact.Trusted("a turn")}})
		must(t, err)
		return count.Ops() - before
	}
	add() // makes the tail
	for range 20 {
		if n := add(); n != 2 {
			t.Fatalf("a turn costs %d operations", n)
		}
	}
	before := count.Ops()
	must(t, w.Commit(t.Context()))
	if n := count.Ops() - before; n != 0 {
		t.Fatalf("a commit of nothing costs %d operations", n)
	}
	must(t, w.Close())
}
