package journal_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
)

var update = flag.Bool("update", false, "write the golden files of this version anew")

const stores = "../../testdata/store"

// TestOldStores opens a store of every format that was ever released, finds
// what was put in, and goes on with it.
func TestOldStores(t *testing.T) {
	if *update {
		writeSample(t, filepath.Join(stores, fmt.Sprint(journal.Format)))
	}
	versions, err := os.ReadDir(stores)
	must(t, err)
	if !slices.ContainsFunc(versions, func(e fs.DirEntry) bool { return e.Name() == fmt.Sprint(journal.Format) }) {
		t.Errorf("there is no sample of format %d", journal.Format)
	}
	for _, v := range versions {
		t.Run(v.Name(), func(t *testing.T) {
			mem := vfs.NewMem()
			load(t, mem, filepath.Join(stores, v.Name(), "log"), logDir)
			golden, err := os.ReadFile(filepath.Join(stores, v.Name(), "log.txt"))
			must(t, err)
			m := sampleMachine(mem)
			if diff := cmp.Diff(string(golden), dump(t, m)); diff != "" {
				t.Fatal(diff)
			}
			damage, err := m.journal(t).Verify(t.Context(), true)
			if err != nil || len(damage) > 0 {
				t.Fatal(err, damage)
			}
			w := m.writer(t)
			e := record.Entry{Kind: record.KindMsg, Text: redact.Trusted("and on it goes")}
			_, err = w.Add(&e)
			must(t, err)
			must(t, w.Seal(t.Context()))
			must(t, w.Close())
			if got := read(t, m.journal(t))[m.opt.Own]; !strings.Contains(got[len(got)-1], "and on it goes") {
				t.Fatal("the store does not go on")
			}
		})
	}
}

func load(t testing.TB, fsys vfs.FS, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := path.Join(to, filepath.ToSlash(rel))
		if d.IsDir() {
			return fsys.MkdirAll(target)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return vfs.WriteFile(fsys, target, data)
	}))
}

// dump prints a journal as text.
func dump(t testing.TB, m *machine) string {
	t.Helper()
	var b strings.Builder
	j := m.journal(t)
	front, err := j.Frontier()
	must(t, err)
	for _, s := range front.Streams() {
		fmt.Fprintf(&b, "%s %d %s\n", s, front[s].Seq, front[s].Hash)
		holes, err := j.Holes(s)
		must(t, err)
		for _, h := range holes {
			fmt.Fprintf(&b, "hole %d to %d\n", h.From, h.To)
		}
		for c, err := range j.Read(t.Context(), s, 1) {
			must(t, err)
			for i := range c.Entries {
				fmt.Fprintf(&b, "%d %s\n", c.First+record.Seq(i), text(&c.Entries[i]))
			}
		}
	}
	return b.String()
}

// sampleMachine is the node of the samples.
func sampleMachine(fsys vfs.FS) *machine {
	return newMachine(rand.New(rand.NewPCG(1, 1)), fsys)
}

// writeSample makes a store with everything that one can hold: sealed batches,
// a tail, a foreign log with stubs and a hole, and every kind of entry.
func writeSample(t testing.TB, dir string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(2, 2))
	origin, raws := foreignLog(t, rng, 12)
	m := sampleMachine(vfs.NewMem())
	w := m.writer(t)
	must(t, w.PutCard(m.card(t)))
	must(t, w.PutCard(origin.card(t)))
	for _, raw := range raws {
		_, err := w.Accept(t.Context(), raw)
		must(t, err)
	}
	must(t, w.Commit(t.Context()))
	must(t, w.PutCard(m.card(t)))
	exit := 3
	entries := []record.Entry{
		{Kind: record.KindMsg, Harness: "claude", Session: "s1", Project: redact.Trusted("api"), Role: record.RoleUser, Text: redact.Trusted("why does the build fail?"), Time: noon, Origin: "mini", Mid: "m-1"},
		{Kind: record.KindMsg, Harness: "claude", Session: "s1", Project: redact.Trusted("api"), Role: record.RoleCommand, Text: redact.Trusted("$ make\n\x00\x1b[0m"), Time: noon, Origin: "mini", Exit: &exit, N: 1},
		{Kind: record.KindSession, Harness: "claude", Session: "s1", Time: noon, Origin: "mini", Meta: &record.SessionMeta{Title: redact.Trusted("Build"), Cwd: redact.Trusted("~/api"), Branch: redact.Trusted("main"), Kind: "fork", Parent: "s0", Started: noon, Gone: true}},
		{Kind: record.KindNote, Harness: "deja", Session: "n1", Role: record.RoleUser, Text: redact.Trusted("use make all"), Time: noon, Origin: "mini", Note: &record.NoteMeta{State: "accepted", Tags: []string{"build"}, Of: "claude:s1", Title: redact.Trusted("Build"), Evident: noon}},
		{Kind: record.KindSupersede, Harness: "claude", Session: "s1", Time: noon, Origin: "mini", Drop: &record.Drop{Why: "rewind", Ranges: []record.Range{{Stream: m.opt.Own, From: 1, To: 2}}}},
		{Kind: record.KindTomb, Time: noon, Origin: "mini", Drop: &record.Drop{ID: "t1", Why: "user", Reach: "fleet", Erase: 7, Session: &record.SessionKey{Harness: "claude", Native: "s1"}, Before: noon, CIDs: []record.CID{{1, 2, 3}}}},
		{Kind: record.KindUntomb, Time: noon, Origin: "mini", Drop: &record.Drop{Cancels: []string{"t1"}}},
		{Raw: []byte(`{"kind":"claim","scope":"api","ttl":60}`)},
	}
	_, _, err := w.Append(t.Context(), entries)
	must(t, err)
	must(t, w.Seal(t.Context()))
	must(t, w.PutCard(m.card(t)))
	_, _, err = w.Append(t.Context(), entries[:2])
	must(t, err)
	foreign := opened(t, raws[0]).Stream
	_, err = w.Stub(t.Context(), []record.Range{{Stream: foreign, From: 2, To: 3}}, record.Withheld)
	must(t, err)
	_, _, err = w.Append(t.Context(), entries[:1])
	must(t, err)
	must(t, w.Close())
	spoilBatch(t, m, foreign, opened(t, raws[1]).First)
	w = m.writer(t)
	_, err = w.Repair(t.Context())
	must(t, err)
	must(t, w.Close())

	must(t, os.RemoveAll(dir))
	for _, name := range append(files(t, m.fs), path.Join(logDir, "FORMAT")) {
		data, err := vfs.ReadFile(m.fs, name, 1<<20)
		must(t, err)
		to := filepath.Join(dir, "log", strings.TrimPrefix(name, logDir))
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must(t, os.WriteFile(to, data, 0o644))
	}
	must(t, os.WriteFile(filepath.Join(dir, "log.txt"), []byte(dump(t, m)), 0o644))
}

// spoilBatch flips a byte of a stored batch.
func spoilBatch(t testing.TB, m *machine, s record.StreamID, seq record.Seq) {
	t.Helper()
	b, err := m.journal(t).Batch(s, seq)
	must(t, err)
	for _, name := range files(t, m.fs) {
		data, err := vfs.ReadFile(m.fs, name, 1<<30)
		must(t, err)
		if at := bytes.Index(data, b.Raw); at >= 0 {
			data[at+len(b.Raw)/2] ^= 1
			must(t, vfs.WriteFile(m.fs, name, data))
			return
		}
	}
	t.Fatalf("batch %d of %s is in no file", seq, s)
}

func TestNewerStore(t *testing.T) {
	mem := vfs.NewMem()
	m := sampleMachine(mem)
	must(t, mem.MkdirAll(logDir))
	must(t, vfs.WriteFile(mem, path.Join(logDir, "FORMAT"), []byte(`{"format":99,"needs":"deja 7.5","more":true}`)))
	_, err := journal.Open(mem, logDir, m.opt)
	if !errors.Is(err, journal.ErrNewer) || !strings.Contains(err.Error(), "deja 7.5") {
		t.Fatal(err)
	}
	must(t, vfs.WriteFile(mem, path.Join(logDir, "FORMAT"), []byte("ruined")))
	if _, err := journal.Open(mem, logDir, m.opt); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestEmpty(t *testing.T) {
	m := sampleMachine(vfs.NewMem())
	j := m.journal(t)
	if f, err := j.Frontier(); err != nil || len(f) > 0 {
		t.Fatal(f, err)
	}
	if _, err := j.Entry(record.Pos{Stream: m.opt.Own, Seq: 1}); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := j.Batch(m.opt.Own, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal(err)
	}
	for range j.Read(t.Context(), m.opt.Own, 1) {
		t.Fatal("something is read")
	}
	w := m.writer(t)
	must(t, w.Commit(t.Context()))
	must(t, w.Seal(t.Context()))
	must(t, w.Close())
	if f, err := j.Frontier(); err != nil || len(f) > 0 {
		t.Fatal(f, err)
	}
}

// tally is a view that keeps every line.
type tally struct {
	lines  image
	resets int
}

func (v *tally) Name() string { return "tally" }
func (v *tally) Version() int { return 1 }
func (v *tally) Reset() error { v.lines = image{}; v.resets++; return nil }

func (v *tally) Known() record.Frontier {
	f := record.Frontier{}
	for s, lines := range v.lines {
		f[s] = record.Head{Seq: record.Seq(len(lines))}
	}
	return f
}

func (v *tally) Apply(_ context.Context, s record.StreamID, from record.Seq, entries []record.Entry) error {
	if want := record.Seq(len(v.lines[s]) + 1); from != want {
		return fmt.Errorf("applied from %d, want %d", from, want)
	}
	for i := range entries {
		v.lines[s] = append(v.lines[s], text(&entries[i]))
	}
	return nil
}

// TestFold holds that a view kept current and one made anew are the same.
func TestFold(t *testing.T) {
	rng := dice(t)
	m, _ := twoLogs(t, rng)
	w := m.writer(t)
	kept := &tally{lines: image{}}
	for n := range 60 {
		e := randomEntry(rng, n)
		_, err := w.Add(&e)
		must(t, err)
		if rng.IntN(4) == 0 {
			must(t, w.Commit(t.Context()))
		}
		if rng.IntN(4) == 0 {
			must(t, m.journal(t).Fold(t.Context(), kept))
		}
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
	fresh := &tally{lines: image{}}
	must(t, m.journal(t).Fold(t.Context(), fresh))
	must(t, m.journal(t).Fold(t.Context(), kept))
	if diff := cmp.Diff(fresh.lines, kept.lines); diff != "" || kept.resets > 0 {
		t.Fatal(kept.resets, diff)
	}
	kept.lines[m.opt.Own] = append(kept.lines[m.opt.Own], "from a log that is gone")
	must(t, m.journal(t).Fold(t.Context(), kept))
	if diff := cmp.Diff(fresh.lines, kept.lines); diff != "" || kept.resets != 1 {
		t.Fatal(kept.resets, diff)
	}
}

// TestHole holds that a damaged batch is reported, that everything around it
// can be read once it is set aside, and that only the batch that the chain
// asks for fills the place.
func TestHole(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 40)
	m := with(t, rng, origin, raws)
	want := read(t, m.journal(t))[origin.opt.Own]
	k := 1 + rng.IntN(len(raws)-2)
	lost := opened(t, raws[k])
	spoilBatch(t, m, origin.opt.Own, lost.First)
	if _, err := m.journal(t).Batch(origin.opt.Own, lost.First); !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), ".seg at byte") {
		t.Fatalf("reading the damage: %v", err)
	}
	damage, err := m.journal(t).Verify(t.Context(), false)
	if err != nil || len(damage) != 1 || damage[0].From != lost.First || damage[0].To != lost.Last() {
		t.Fatalf("entries %d to %d are damaged: %v, %v", lost.First, lost.Last(), err, damage)
	}
	w := m.writer(t)
	_, err = w.Repair(t.Context())
	must(t, err)
	if kept := list(t, m.fs, spoolDir); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
	got := read(t, m.journal(t))[origin.opt.Own]
	for i, line := range got {
		seq := record.Seq(i + 1)
		if inside := lost.First <= seq && seq <= lost.Last(); inside != strings.Contains(line, record.Damaged) || !inside && line != want[i] {
			t.Fatalf("entry %d: %.100s", seq, line)
		}
	}
	if e, err := m.journal(t).Entry(record.Pos{Stream: origin.opt.Own, Seq: lost.First}); err != nil || e.Stub == nil || e.Stub.Reason != record.Damaged {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := m.journal(t).Batch(origin.opt.Own, lost.First); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal(err)
	}
	// Another batch that the origin signed for the same place is not the one that was there.
	if err := w.Replace(t.Context(), otherHistory(t, rng, origin, raws[:k], lost.N)); !errors.Is(err, journal.ErrMismatch) {
		t.Errorf("a batch of another history: %v", err)
	}
	must(t, w.Replace(t.Context(), raws[k]))
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
	if diff := cmp.Diff(want, read(t, m.journal(t))[origin.opt.Own]); diff != "" {
		t.Fatal(diff)
	}
	if holes, err := m.journal(t).Holes(origin.opt.Own); err != nil || len(holes) > 0 {
		t.Fatal(holes, err)
	}
}

// otherHistory makes a batch that the origin signed for the place of another,
// in a history that is the same up to there.
func otherHistory(t testing.TB, rng *rand.Rand, origin *machine, before [][]byte, n int) []byte {
	t.Helper()
	other := origin.over(vfs.NewMem())
	w := other.writer(t)
	for _, raw := range before {
		_, err := w.Accept(t.Context(), raw)
		must(t, err)
	}
	var last record.Seq
	for range n {
		e := record.Entry{Kind: record.KindMsg, Text: redact.Trusted(randomText(rng, 50))}
		var err error
		last, err = w.Add(&e)
		must(t, err)
	}
	must(t, w.Seal(t.Context()))
	must(t, w.Close())
	b, err := other.journal(t).Batch(origin.opt.Own, last)
	must(t, err)
	return b.Raw
}

// TestSpliced holds that a batch of another history, signed and sound, is seen
// by whoever reads over the place where it was put.
func TestSpliced(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 40)
	m := with(t, rng, origin, raws)
	k := 1 + rng.IntN(len(raws)-2)
	old := opened(t, raws[k])
	alien := otherHistory(t, rng, origin, raws[:k], old.N)
	if b := opened(t, alien); b.First != old.First || b.N != old.N {
		t.Fatalf("entries %d to %d for %d to %d", b.First, b.Last(), old.First, old.Last())
	}
	for _, name := range files(t, m.fs) {
		data, err := vfs.ReadFile(m.fs, name, 1<<30)
		must(t, err)
		must(t, vfs.WriteFile(m.fs, name, bytes.Replace(data, old.Raw, alien, 1)))
	}
	var got error
	for _, err := range m.journal(t).Read(t.Context(), origin.opt.Own, 1) {
		got = err
	}
	if !errors.Is(got, journal.ErrCorrupt) {
		t.Errorf("reading: %v", got)
	}
	damage, err := m.journal(t).Verify(t.Context(), false)
	if err != nil || len(damage) == 0 {
		t.Errorf("verifying: %v, %v", damage, err)
	}
}

// TestFillInOrder holds that the batches of a larger hole come in from its ends.
func TestFillInOrder(t *testing.T) {
	rng := dice(t)
	origin, raws := foreignLog(t, rng, 40)
	m := with(t, rng, origin, raws)
	want := read(t, m.journal(t))
	for k := 1; k <= 3; k++ {
		spoilBatch(t, m, origin.opt.Own, opened(t, raws[k]).First)
		w := m.writer(t)
		_, err := w.Repair(t.Context())
		must(t, err)
		must(t, w.Close())
	}
	w := m.writer(t)
	if err := w.Replace(t.Context(), raws[2]); !errors.Is(err, journal.ErrMismatch) {
		t.Errorf("in the middle: %v", err)
	}
	alien := otherHistory(t, rng, origin, raws[:3], opened(t, raws[3]).N)
	if err := w.Replace(t.Context(), alien); !errors.Is(err, journal.ErrMismatch) {
		t.Errorf("of another history: %v", err)
	}
	for _, k := range []int{1, 3, 2} {
		acc, err := w.Accept(t.Context(), raws[k])
		must(t, err)
		if !acc.Filled {
			t.Errorf("batch %d fills nothing", k)
		}
	}
	must(t, w.Commit(t.Context()))
	must(t, w.Close())
	if diff := cmp.Diff(want, read(t, m.journal(t))); diff != "" {
		t.Fatal(diff)
	}
}
