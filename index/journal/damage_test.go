package journal_test

import (
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// copyOf clones a disk as it is.
func copyOf(t testing.TB, from vfs.FS) *vfs.Mem {
	t.Helper()
	to := vfs.NewMem()
	var walk func(dir string)
	walk = func(dir string) {
		must(t, to.MkdirAll(dir))
		entries, err := from.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				walk(name)
				continue
			}
			data, err := vfs.ReadFile(from, name, 1<<30)
			must(t, err)
			must(t, vfs.WriteFile(to, name, data))
		}
	}
	walk("/")
	return to
}

// files returns the files of the logs, without those that only name processes.
func files(t testing.TB, fsys vfs.FS) (all []string) {
	t.Helper()
	for _, dir := range list(t, fsys, logDir) {
		if !strings.Contains(dir, ".") {
			continue
		}
		for _, name := range list(t, fsys, path.Join(logDir, dir)) {
			all = append(all, path.Join(logDir, dir, name))
		}
	}
	return all
}

// spoil changes one file somewhere, in one of the ways of a bad disk.
func spoil(t testing.TB, rng *rand.Rand, fsys vfs.FS, name string) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name, 1<<30)
	must(t, err)
	if len(data) == 0 {
		return
	}
	at := rng.IntN(len(data))
	switch rng.IntN(4) {
	case 0:
		clear(data[at:min(at+rng.IntN(5000), len(data))])
	case 1:
		data = data[:at]
	default:
		data[at] ^= 1 << rng.IntN(8)
	}
	must(t, vfs.WriteFile(fsys, name, data))
}

// twoLogs makes a machine with an own log, sealed and not, and a foreign one.
func twoLogs(t testing.TB, rng *rand.Rand) (*machine, [][]byte) {
	t.Helper()
	origin, raws := foreignLog(t, rng, 50)
	m := with(t, rng, origin, raws)
	w := m.writer(t)
	must(t, w.PutCard(m.card(t)))
	for n := range 60 {
		e := randomEntry(rng, n)
		_, err := w.Add(&e)
		must(t, err)
		if n%9 == 8 {
			must(t, w.Seal(t.Context()))
		}
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
	for b, err := range m.journal(t).Batches(t.Context(), m.opt.Own, 1) {
		must(t, err)
		raws = append(raws, slices.Clone(b.Raw))
	}
	return m, raws
}

// TestSpoiltFiles damages files and holds that no reader is ever given an entry
// that was not written; that a repair makes everything else readable, and that
// the batches of a peer make it whole again.
func TestSpoiltFiles(t *testing.T) {
	rng := dice(t)
	whole, raws := twoLogs(t, rng)
	want := read(t, whole.journal(t))
	names := files(t, whole.fs)
	for range 100 * *rounds {
		m := whole.over(copyOf(t, whole.fs))
		var spoilt []string
		for range 1 + rng.IntN(2) {
			name := names[rng.IntN(len(names))]
			spoil(t, rng, m.fs, name)
			spoilt = append(spoilt, path.Base(name))
		}
		lenient(t, spoilt, m.journal(t), want)
		singles(t, rng, spoilt, m.journal(t), want)

		w, err := m.journal(t).Write(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", spoilt, err)
		}
		if _, err := w.Repair(t.Context()); err != nil && !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("%s: repair: %v", spoilt, err)
		}
		must(t, w.Close())
		for s, lines := range read(t, m.journal(t)) {
			for i, line := range lines {
				if line != want[s][i] && !strings.Contains(line, record.Damaged) {
					t.Fatalf("%s: after the repair entry %d of %s is %.100s", spoilt, i+1, s, line)
				}
			}
		}
		refill(t, spoilt, m, whole, raws)
		got := read(t, m.journal(t))
		for s, lines := range got {
			if n := len(lines); n < sealedLen(t, whole, s) || !slices.Equal(lines, want[s][:n]) {
				t.Fatalf("%s: with the batches of a peer %s is not whole: %s", spoilt, s, cmp.Diff(want[s][:n], lines))
			}
		}
		damage, err := m.journal(t).Verify(t.Context(), true)
		if err != nil || len(damage) > 0 {
			t.Fatalf("%s: %v, %v", spoilt, err, damage)
		}
	}
}

func sealedLen(t testing.TB, m *machine, s record.StreamID) int {
	t.Helper()
	f, err := m.journal(t).Sealed()
	must(t, err)
	return int(f[s].Seq)
}

// lenient reads as far as that goes. Whatever comes must have been written.
func lenient(t testing.TB, spoilt []string, j *journal.Journal, want image) {
	t.Helper()
	for s, lines := range want {
		for c, err := range j.Read(t.Context(), s, 1) {
			if err != nil {
				if !errors.Is(err, journal.ErrCorrupt) {
					t.Fatalf("%s: %v", spoilt, err)
				}
				break
			}
			for i := range c.Entries {
				if at := int(c.First) - 1 + i; text(&c.Entries[i]) != lines[at] {
					t.Fatalf("%s: entry %d of %s was never written: %.100s", spoilt, at+1, s, text(&c.Entries[i]))
				}
			}
		}
	}
}

// singles reads single entries.
func singles(t testing.TB, rng *rand.Rand, spoilt []string, j *journal.Journal, want image) {
	t.Helper()
	for s, lines := range want {
		for range 10 {
			i := rng.IntN(len(lines))
			e, err := j.Entry(record.Pos{Stream: s, Seq: record.Seq(i + 1)})
			if err != nil && !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrNotFound) {
				t.Fatalf("%s: %v", spoilt, err)
			}
			if err == nil && text(&e) != lines[i] {
				t.Fatalf("%s: entry %d of %s alone was never written: %.100s", spoilt, i+1, s, text(&e))
			}
		}
	}
}

// refill offers every batch to a repaired journal.
func refill(t testing.TB, spoilt []string, m, whole *machine, raws [][]byte) {
	t.Helper()
	w := m.writer(t)
	defer w.Close()
	for _, s := range []record.StreamID{opened(t, raws[0]).Stream, whole.opt.Own} {
		if raw, _, err := whole.journal(t).Card(s.Node); err == nil {
			must(t, w.PutCard(raw))
		}
	}
	// Going round again lets batches in the middle of a hole find a neighbour.
	for range len(raws) {
		filled := false
		for _, raw := range raws {
			acc, err := w.Accept(t.Context(), raw)
			switch {
			case errors.Is(err, journal.ErrMismatch): // no neighbour yet, or the own tail is in the way
			case err != nil:
				t.Fatalf("%s: refilling: %v", spoilt, err)
			case acc.Filled:
				filled = true
			}
		}
		must(t, w.Commit(t.Context()))
		if !filled {
			return
		}
	}
}

// TestStub holds that stubbing removes exactly what it names, for good, and
// leaves every signature as it is.
func TestStub(t *testing.T) {
	rng := dice(t)
	for range 4 * *rounds {
		m, _ := twoLogs(t, rng)
		want := read(t, m.journal(t))
		reader := m.journal(t)
		checkEntries(t, rng, reader, want)
		sealed, err := reader.Sealed()
		must(t, err)
		w := m.writer(t)
		var ranges []record.Range
		dead := map[record.Pos]bool{}
		for s, lines := range want {
			for range rng.IntN(4) {
				from := record.Seq(rng.IntN(len(lines)) + 1)
				to := min(from+record.Seq(rng.IntN(20)), record.Seq(len(lines)))
				ranges = append(ranges, record.Range{Stream: s, From: from, To: to})
				for q := from; q <= to; q++ {
					dead[record.Pos{Stream: s, Seq: q}] = true
				}
			}
		}
		n, err := w.Stub(t.Context(), slices.Clone(ranges), record.Forgotten)
		must(t, err)
		if n != len(dead) {
			t.Fatalf("%d entries changed, want %d", n, len(dead))
		}
		if n, err = w.Stub(t.Context(), ranges, record.Forgotten); err != nil || n != 0 {
			t.Fatalf("stubbing twice changed %d entries: %v", n, err)
		}
		must(t, w.Close())
		for p := range dead {
			leaf, err := batch.Leaf([]byte(want[p.Stream][p.Seq-1]))
			must(t, err)
			want[p.Stream][p.Seq-1] = string(batch.AppendStub(nil, record.Stub{Reason: record.Forgotten, Leaf: leaf}))
		}
		reader.Refresh()
		for _, j := range []*journal.Journal{reader, m.journal(t)} {
			if diff := cmp.Diff(want, read(t, j)); diff != "" {
				t.Fatal(diff)
			}
			checkEntries(t, rng, j, want)
		}
		again, err := m.journal(t).Sealed()
		must(t, err)
		for s, h := range sealed {
			if again[s].Seq < h.Seq || s != m.opt.Own && again[s] != h {
				t.Fatalf("stream %s: head %v became %v", s, h, again[s])
			}
		}
		damage, err := m.journal(t).Verify(t.Context(), true)
		if err != nil || len(damage) > 0 {
			t.Fatal(err, damage)
		}
	}
}

// TestStubFaults fails every operation of a stubbing and holds that each entry
// is then what it was or its stub.
func TestStubFaults(t *testing.T) {
	rng := dice(t)
	whole, raws := twoLogs(t, rng)
	want := read(t, whole.journal(t))
	var ranges []record.Range
	for s, lines := range want {
		ranges = append(ranges, record.Range{Stream: s, From: 5, To: record.Seq(len(lines) / 2)})
	}
	for n := 0; ; n++ {
		mem := copyOf(t, whole.fs)
		fault := vfs.NewFault(mem, vfs.Plan{N: n, Writes: true, Torn: true})
		m := whole.over(fault)
		w, err := m.journal(t).Write(t.Context())
		if err == nil {
			_, err = w.Stub(t.Context(), slices.Clone(ranges), record.Forgotten)
			if err == nil { // what is stubbed stays so when the whole batch is offered again
				_, err = w.Accept(t.Context(), raws[0])
			}
			err = errors.Join(err, w.Close())
		}
		if !fault.Fired() {
			must(t, err)
			return
		}
		if !errors.Is(err, vfs.ErrInjected) {
			t.Fatalf("%s: %v", fault.Op(), err)
		}
		for _, disk := range []*vfs.Mem{mem.AfterCrash(rng), mem.AfterCrash(rng)} {
			m := whole.over(disk)
			got := read(t, m.journal(t))
			for s, lines := range want {
				if len(got[s]) != len(lines) {
					t.Fatalf("%s: %d entries of %d", fault.Op(), len(got[s]), len(lines))
				}
				for i, line := range lines {
					leaf, err := batch.Leaf([]byte(line))
					must(t, err)
					stub := string(batch.AppendStub(nil, record.Stub{Reason: record.Forgotten, Leaf: leaf}))
					if got[s][i] != line && got[s][i] != stub {
						t.Fatalf("%s: entry %d became %.100s", fault.Op(), i+1, got[s][i])
					}
				}
			}
			w := m.writer(t)
			_, err := w.Stub(t.Context(), slices.Clone(ranges), record.Forgotten)
			must(t, err)
			must(t, w.Close())
		}
	}
}

// TestReplace holds that withheld entries come in with other copies of their
// batch, that nothing stored is lost by it and nothing forgotten comes back,
// and that no other batch can take its place.
func TestReplace(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 40)
	want := read(t, origin.journal(t))
	var c batch.Codec
	// without makes a copy of a batch without every entry at one of the remainders.
	without := func(raw []byte, remainders ...record.Seq) []byte {
		out, _, err := c.Stub(nil, opened(t, raw), func(seq record.Seq, _ []byte) string {
			if slices.Contains(remainders, seq%4) {
				return record.Withheld
			}
			return ""
		})
		must(t, err)
		return out
	}
	var some [][]byte
	for _, raw := range raws {
		some = append(some, without(raw, 0, 1, 2))
	}
	m := with(t, rng, origin, some)
	w := m.writer(t)
	_, err := w.Stub(t.Context(), []record.Range{{Stream: origin.opt.Own, From: 4, To: 4}}, record.Forgotten)
	must(t, err)
	for _, raw := range raws {
		must(t, w.Replace(t.Context(), without(raw, 0, 2, 3)))
		must(t, w.Replace(t.Context(), without(raw, 1, 3)))
	}
	must(t, w.Commit(t.Context()))
	want[origin.opt.Own][3] = stubOf(want[origin.opt.Own][3])
	if diff := cmp.Diff(want, read(t, m.journal(t))); diff != "" {
		t.Fatal(diff)
	}
	twin := newMachine(rng, vfs.NewMem()).over(vfs.NewMem())
	twin.opt.Own, twin.opt.Key = origin.opt.Own, origin.opt.Key
	tw := twin.writer(t)
	e := record.Entry{Kind: record.KindMsg}
	_, err = tw.Add(&e)
	must(t, err)
	must(t, tw.Seal(t.Context()))
	must(t, tw.Close())
	b, err := twin.journal(t).Batch(origin.opt.Own, 1)
	must(t, err)
	if err := w.Replace(t.Context(), b.Raw); !errors.Is(err, journal.ErrFork) {
		t.Errorf("another history: %v", err)
	}
	must(t, w.Close())
	if diff := cmp.Diff(want, read(t, m.journal(t))); diff != "" {
		t.Fatal(diff)
	}
}
