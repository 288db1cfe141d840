package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// TestCopy holds that copying batches gives the same logs and heads, in any
// order that the gaps allow, however often each batch comes.
func TestCopy(t *testing.T) {
	rng := dice(t)
	for range 5 * *rounds {
		origin, raws := foreignLog(t, rng, 60)
		to := newMachine(rng, vfs.NewMem())
		w := to.writer(t)
		if _, err := w.Accept(t.Context(), raws[0]); !errors.Is(err, journal.ErrNoCard) {
			t.Fatalf("without a card: %v", err)
		}
		must(t, w.PutCard(origin.card(t)))
		for next := 0; next < len(raws); {
			i := rng.IntN(min(next+3, len(raws)))
			acc, err := w.Accept(t.Context(), raws[i])
			var gap *journal.GapError
			switch {
			case i > next:
				if !errors.As(err, &gap) || !errors.Is(err, journal.ErrGap) || gap.Want > acc.Batch.First {
					t.Fatalf("batch %d while %d is next: %v", i, next, err)
				}
			case err != nil:
				t.Fatal(err)
			case acc.Dup != (i < next):
				t.Fatalf("batch %d while %d is next: dup %v", i, next, acc.Dup)
			case i == next:
				next++
				want := readBack(t, acc.Batch)
				if diff := cmp.Diff(want, acc.Entries, cmp.AllowUnexported(redact.Text{})); diff != "" {
					t.Fatal(diff)
				}
			}
			if rng.IntN(4) == 0 {
				must(t, w.Commit(t.Context()))
				if rng.IntN(2) == 0 {
					must(t, w.Close())
					w = to.writer(t)
					must(t, w.PutCard(origin.card(t)))
				}
			}
			if rng.IntN(6) == 0 && next > 0 { // a writer that goes away without a commit
				must(t, w.Close())
				w = to.writer(t)
				must(t, w.PutCard(origin.card(t)))
				head, err := w.Head(origin.opt.Own)
				must(t, err)
				next = slices.IndexFunc(raws, func(raw []byte) bool { return opened(t, raw).First == head.Seq+1 })
				if next < 0 {
					next = len(raws)
				}
			}
		}
		must(t, w.Commit(t.Context()))
		must(t, w.Close())
		a, err := origin.journal(t).Frontier()
		must(t, err)
		b, err := to.journal(t).Frontier()
		must(t, err)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(read(t, origin.journal(t)), read(t, to.journal(t))); diff != "" {
			t.Fatal(diff)
		}
		_, card, err := to.journal(t).Card(origin.opt.Own.Node)
		must(t, err)
		if card.Name != "mini" {
			t.Fatalf("card of %q", card.Name)
		}
	}
}

func readBack(t testing.TB, b *batch.Batch) []record.Entry {
	t.Helper()
	entries, err := new(batch.Codec).Entries(nil, b)
	must(t, err)
	return entries
}

func opened(t testing.TB, raw []byte) *batch.Batch {
	t.Helper()
	b, err := batch.Open(raw)
	must(t, err)
	return b
}

// with makes a machine that has the first batches of another.
func with(t testing.TB, rng *rand.Rand, origin *machine, raws [][]byte) *machine {
	t.Helper()
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	must(t, w.PutCard(origin.card(t)))
	for _, raw := range raws {
		_, err := w.Accept(t.Context(), raw)
		must(t, err)
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
	return m
}

// TestFork holds that a second history of a stream is refused and proved, at
// the end and further back.
func TestFork(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 40)
	clone := origin.over(origin.fs.(*vfs.Mem).AfterCrash(rng))
	grow := func(m *machine, word string) []byte {
		w := m.writer(t)
		e := record.Entry{Kind: record.KindMsg, Text: redact.Trusted(word)}
		_, err := w.Add(&e)
		must(t, err)
		must(t, w.Seal(t.Context()))
		must(t, w.Close())
		f, err := m.journal(t).Sealed()
		must(t, err)
		b, err := m.journal(t).Batch(m.opt.Own, f[m.opt.Own].Seq)
		must(t, err)
		return b.Raw
	}
	mine, theirs, later := grow(origin, "one"), grow(clone, "another"), []byte(nil)
	later = grow(clone, "and more")
	for name, contrary := range map[string][]byte{"the same position": theirs, "the next position": later} {
		m := with(t, rng, origin, append(slices.Clone(raws), mine))
		w := m.writer(t)
		_, err := w.Accept(t.Context(), contrary)
		var fork *journal.ForkError
		if !errors.As(err, &fork) || !errors.Is(err, journal.ErrFork) {
			t.Fatalf("%s: %v", name, err)
		}
		kept, err := m.journal(t).Fork(origin.opt.Own)
		must(t, err)
		pub := origin.opt.Key[32:]
		for side, signed := range map[string][]byte{"ours": kept.Ours, "theirs": kept.Theirs} {
			if _, _, err := batch.VerifySigned(signed, []byte(pub)); err != nil {
				t.Errorf("%s: %s: %v", name, side, err)
			}
		}
		if bytes.Equal(kept.Ours, kept.Theirs) || !bytes.Equal(kept.Theirs, opened(t, contrary).Signed()) {
			t.Errorf("%s: the proof is none", name)
		}
		must(t, w.Commit(t.Context()))
		must(t, w.Close())
		if diff := cmp.Diff(read(t, origin.journal(t))[origin.opt.Own], read(t, m.journal(t))[origin.opt.Own]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestRefusedBatches holds that what does not verify changes nothing and goes
// to the spool, which stays within its limits.
func TestRefusedBatches(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 10)
	m := with(t, rng, origin, raws[:1])
	w := m.writer(t)
	before := read(t, m.journal(t))
	other, alien := foreignLog(t, rng, 10)
	must(t, w.PutCard(other.card(t)))
	for i := range 30 {
		bad := slices.Clone(raws[1])
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		m.clock = noon.Add(time.Duration(i) * time.Second)
		_, err := w.Accept(t.Context(), bad)
		if !errors.Is(err, batch.ErrMalformed) && !errors.Is(err, batch.ErrSignature) {
			t.Fatalf("a flipped bit: %v", err)
		}
	}
	if _, err := w.Accept(t.Context(), alien[0][:len(alien[0])-1]); !errors.Is(err, batch.ErrMalformed) {
		t.Fatalf("a cut batch: %v", err)
	}
	if kept := list(t, m.fs, spoolDir); len(kept) != 20 {
		t.Errorf("%d refused batches are kept", len(kept))
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
	if diff := cmp.Diff(before, read(t, m.journal(t))); diff != "" {
		t.Error(diff)
	}
}

// TestLostTailComesBack holds that a node whose log was put back to an older
// state takes its own batches from a peer.
func TestLostTailComesBack(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 40)
	want := read(t, origin.journal(t))
	old := origin.over(vfs.NewMem())
	w := old.writer(t)
	for _, raw := range raws {
		_, err := w.Accept(t.Context(), raw)
		must(t, err)
	}
	must(t, w.Commit(t.Context()))
	if diff := cmp.Diff(want, read(t, old.journal(t))); diff != "" {
		t.Fatal(diff)
	}
	e := record.Entry{Kind: record.KindMsg, Text: redact.Trusted("goes on")}
	seq, err := w.Add(&e)
	must(t, err)
	if seq != record.Seq(len(want[origin.opt.Own])+1) {
		t.Fatalf("goes on at %d", seq)
	}
	if _, err := w.Accept(t.Context(), raws[0]); err != nil {
		t.Fatalf("a known batch: %v", err)
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
}

func TestCards(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 10)
	m := with(t, rng, origin, raws[:1])
	name := func() string {
		_, c, err := m.journal(t).Card(origin.opt.Own.Node)
		must(t, err)
		return fmt.Sprint(c.Name, c.Number)
	}
	w := m.writer(t)
	put := func(label string, number uint64) {
		raw, err := batch.SignCard(origin.opt.Key, batch.Card{Name: label, Number: number, At: noon})
		must(t, err)
		must(t, w.PutCard(raw))
	}
	put("maxi", 3)
	if got := name(); got != "maxi3" {
		t.Errorf("a newer card: %s", got)
	}
	put("mini", 2)
	if got := name(); got != "maxi3" {
		t.Errorf("an older card: %s", got)
	}
	must(t, w.Close())
	w = m.writer(t)
	put("mini", 3)
	if got := name(); got != "maxi3" {
		t.Errorf("another card of the same number: %s", got)
	}
	must(t, w.Close())
	if _, _, err := m.journal(t).Card(record.NodeID{1}); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the card of a stranger: %v", err)
	}
}
