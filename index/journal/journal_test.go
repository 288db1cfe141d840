package journal_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

var (
	seedFlag = flag.Uint64("seed", 0, "replay the random tests of this seed")
	rounds   = flag.Int("rounds", 1, "multiplies the rounds of the random tests")
)

// dice returns the randomness of a test, and says how to have it again.
func dice(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

// entropy reads salts from a seeded source.
type entropy struct{ rng *rand.Rand }

func (e entropy) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e.rng.Uint32())
	}
	return len(p), nil
}

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// machine is a node with a journal.
type machine struct {
	fs    vfs.FS
	opt   journal.Options
	clock time.Time
}

const (
	logDir   = "/data/log"
	spoolDir = "/data/spool"
)

// newMachine makes a node whose segments are small enough to roll.
func newMachine(rng *rand.Rand, fsys vfs.FS) *machine {
	seed := make([]byte, ed25519.SeedSize)
	entropy{rng}.Read(seed)
	key := ed25519.NewKeyFromSeed(seed)
	m := &machine{fs: fsys, clock: noon}
	m.opt = journal.Options{
		Own: record.StreamID{Node: record.NodeOf(key.Public().(ed25519.PublicKey)), Nonce: [8]byte{byte(rng.Uint32())}},
		Key: key, Rand: entropy{rng}, Now: func() time.Time { return m.clock }, Spool: spoolDir, SegmentSize: 64 << 10,
	}
	return m
}

// over is the same node on another disk.
func (m *machine) over(fsys vfs.FS) *machine {
	o := *m
	o.fs = fsys
	o.opt.Now = func() time.Time { return o.clock }
	return &o
}

func (m *machine) journal(t testing.TB) *journal.Journal {
	t.Helper()
	j, err := journal.Open(m.fs, logDir, m.opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (m *machine) writer(t testing.TB) *journal.Writer {
	t.Helper()
	w, err := m.journal(t).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (m *machine) card(t testing.TB) []byte {
	t.Helper()
	raw, err := batch.SignCard(m.opt.Key, batch.Card{Name: "mini", Number: 1, At: noon})
	must(t, err)
	return raw
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// randomEntry makes an entry of any kind; now and then one so large that it
// fills a batch.
func randomEntry(rng *rand.Rand, n int) record.Entry {
	size := rng.IntN(300)
	if rng.IntN(12) == 0 {
		size = rng.IntN(40_000)
	}
	e := record.Entry{
		Kind: record.KindMsg, Harness: "claude", Session: fmt.Sprint("s", rng.IntN(4)), Role: record.RoleUser,
		Time: noon.Add(time.Duration(rng.IntN(1e6)) * time.Millisecond), Origin: "mini",
		Text: redact.Trusted(fmt.Sprintf("%d %s", n, randomText(rng, size))),
	}
	switch rng.IntN(8) {
	case 0:
		e.Kind, e.Meta = record.KindSession, &record.SessionMeta{Title: redact.Trusted(fmt.Sprint("title ", n)), Gone: rng.IntN(2) == 0}
	case 1:
		e.Kind, e.Note = record.KindNote, &record.NoteMeta{State: "accepted", Tags: []string{"a", "b"}}
	case 2:
		e.Kind = record.KindSupersede
		e.Drop = &record.Drop{Why: "rewind", ID: fmt.Sprint(n), Ranges: []record.Range{{Stream: record.StreamID{}, From: 1, To: 3}}}
	case 3:
		e = record.Entry{Raw: fmt.Appendf(nil, `{"kind":"from tomorrow","n":%d}`, n)}
	}
	return e
}

func randomText(rng *rand.Rand, size int) string {
	letters := []rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ  \n\"é")
	var b strings.Builder
	for b.Len() < size {
		b.WriteRune(letters[rng.IntN(len(letters))])
	}
	return b.String()
}

// image is everything a journal holds: the lines of each stream, by position.
type image map[record.StreamID][]string

// read reads a journal through every way of reading there is, and holds them
// to the same contents.
func read(t testing.TB, j *journal.Journal) image {
	t.Helper()
	img := image{}
	front, err := j.Frontier()
	must(t, err)
	for _, s := range front.Streams() {
		for c, err := range j.Read(t.Context(), s, 1) {
			must(t, err)
			for i, e := range c.Entries {
				if want := record.Seq(len(img[s]) + 1); e.Seq != want || e.Source != s || c.First+record.Seq(i) != want {
					t.Fatalf("entry %d of %s comes as %d of %s", want, s, e.Seq, e.Source)
				}
				img[s] = append(img[s], text(&e))
			}
		}
		if got := record.Seq(len(img[s])); got != front[s].Seq {
			t.Fatalf("stream %s: read %d entries, the frontier says %d", s, got, front[s].Seq)
		}
	}
	return img
}

func text(e *record.Entry) string { return string(batch.AppendEntry(nil, e)) }

// checkEntries reads single entries in random order.
func checkEntries(t testing.TB, rng *rand.Rand, j *journal.Journal, img image) {
	t.Helper()
	for s, lines := range img {
		for range 5 {
			i := rng.IntN(len(lines))
			e, err := j.Entry(record.Pos{Stream: s, Seq: record.Seq(i + 1)})
			must(t, err)
			if text(&e) != lines[i] {
				t.Fatalf("entry %d of %s alone: %s", i+1, s, cmp.Diff(lines[i], text(&e)))
			}
			n := 0
			for c, err := range j.Read(t.Context(), s, record.Seq(i+1)) {
				must(t, err)
				for k := range c.Entries {
					if got := text(&c.Entries[k]); got != lines[i+n] {
						t.Fatalf("reading from %d: entry %d: %s", i+1, i+1+n, cmp.Diff(lines[i+n], got))
					}
					n++
				}
			}
			if i+n != len(lines) {
				t.Fatalf("reading from %d ends at %d of %d", i+1, i+n, len(lines))
			}
		}
		if _, err := j.Entry(record.Pos{Stream: s, Seq: record.Seq(len(lines) + 1)}); !errors.Is(err, journal.ErrNotFound) {
			t.Fatalf("an entry past the end: %v", err)
		}
	}
}

// TestReopen holds that a journal that is opened again, at any moment and as
// often as one likes, is the journal that was committed.
func TestReopen(t *testing.T) {
	rng := dice(t)
	for range 4 * *rounds {
		m := newMachine(rng, vfs.NewMem())
		w := m.writer(t)
		reader := m.journal(t) // stays open all the time
		want := image{}
		var pending []string
		for n := range 150 {
			switch rng.IntN(12) {
			case 0, 1:
				must(t, w.Commit(t.Context()))
			case 2:
				must(t, w.Seal(t.Context()))
			case 3:
				must(t, w.Close())
				w = m.writer(t)
				pending = nil // not committed, so never said
				continue
			default:
				e := randomEntry(rng, n)
				seq, err := w.Add(&e)
				must(t, err)
				if at := record.Seq(len(want[m.opt.Own]) + len(pending) + 1); seq != at || e.Seq != at {
					t.Fatalf("added at %d, want %d", seq, at)
				}
				pending = append(pending, text(&e))
				continue
			}
			if len(pending) > 0 {
				want[m.opt.Own] = append(want[m.opt.Own], pending...)
			}
			pending = nil
			for _, j := range []*journal.Journal{reader, m.journal(t)} {
				if diff := cmp.Diff(want, read(t, j)); diff != "" {
					t.Fatal(diff)
				}
				checkEntries(t, rng, j, want)
			}
		}
		must(t, w.Close())
		damage, err := m.journal(t).Verify(t.Context(), true)
		must(t, err)
		if len(damage) > 0 {
			t.Fatal(damage)
		}
	}
}

// TestEntryIsWhatIsRead holds that Add leaves in the entry what every later
// read gives, so that folding either is the same.
func TestEntryIsWhatIsRead(t *testing.T) {
	rng := dice(t)
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	var added []record.Entry
	for n := range 300 {
		e := randomEntry(rng, n)
		if rng.IntN(3) == 0 {
			e.Text = redact.Trusted("not utf-8 \xff\xfe " + e.Text.String())
			e.Session = "s\x80"
			e.Time = time.Date(1066, 10, 14, 0, 0, 0, 0, time.UTC)
			e.Project, e.Mid = redact.Trusted("p\x00\xc0"), "m\xf0"
		}
		_, err := w.Add(&e)
		must(t, err)
		added = append(added, e)
	}
	must(t, w.Commit(t.Context()))
	i := 0
	for c, err := range m.journal(t).Read(t.Context(), m.opt.Own, 1) {
		must(t, err)
		for _, e := range c.Entries {
			if diff := cmp.Diff(added[i], e, cmp.AllowUnexported(redact.Text{})); diff != "" {
				t.Fatalf("entry %d (added -, read +): %s", i+1, diff)
			}
			i++
		}
	}
	if i != len(added) {
		t.Fatalf("read %d of %d", i, len(added))
	}
}

// TestPrefix holds that what a reader sees at any moment is a prefix of what
// it sees later.
func TestPrefix(t *testing.T) {
	rng := dice(t)
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	var before image
	for n := range 200 {
		e := randomEntry(rng, n)
		_, err := w.Add(&e)
		must(t, err)
		switch rng.IntN(10) {
		case 0:
			must(t, w.Seal(t.Context()))
		case 1, 2:
			must(t, w.Commit(t.Context()))
		}
		now := read(t, m.journal(t))
		for s, lines := range before {
			if len(now[s]) < len(lines) || !slices.Equal(now[s][:len(lines)], lines) {
				t.Fatalf("stream %s: what was read before is no prefix of what is read now", s)
			}
		}
		before = now
	}
	must(t, w.Close())
}

func TestOldTailIsSealed(t *testing.T) {
	rng := dice(t)
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	e := record.Entry{Kind: record.KindMsg, Text: redact.Trusted("x")}
	_, _, err := w.Append(t.Context(), []record.Entry{e})
	must(t, err)
	sealed := func() record.Seq {
		f, err := m.journal(t).Sealed()
		must(t, err)
		return f[m.opt.Own].Seq
	}
	m.clock = noon.Add(23 * time.Hour)
	must(t, w.Commit(t.Context()))
	if got := sealed(); got != 0 {
		t.Fatalf("sealed up to %d before its time", got)
	}
	must(t, w.Close())
	m.clock = noon.Add(25 * time.Hour)
	w = m.writer(t)
	must(t, w.Commit(t.Context()))
	if got := sealed(); got != 1 {
		t.Fatalf("a tail of yesterday: sealed up to %d", got)
	}
	must(t, w.Close())
	if names := list(t, m.fs, path.Join(logDir, m.opt.Own.String())); slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".tail") }) {
		t.Fatal("the sealed tail is still there:", names)
	}
}

func list(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestRefusedEntries holds that what cannot be stored is refused and leaves no trace.
func TestRefusedEntries(t *testing.T) {
	rng := dice(t)
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	good := record.Entry{Kind: record.KindMsg, Text: redact.Trusted("kept")}
	_, err := w.Add(&good)
	must(t, err)
	for name, c := range map[string]struct {
		entry record.Entry
		want  error
	}{
		"too much text":  {record.Entry{Kind: record.KindMsg, Text: redact.Trusted(strings.Repeat("x", record.MaxText+1))}, batch.ErrTooLong},
		"a stub":         {record.Entry{Kind: record.KindStub, Stub: &record.Stub{Reason: record.Forgotten}}, batch.ErrMalformed},
		"two raw lines":  {record.Entry{Raw: []byte("{\"kind\":\"a\"}\n{}")}, batch.ErrMalformed},
		"no JSON":        {record.Entry{Raw: []byte(`{"kind":`)}, batch.ErrMalformed},
		"a known kind":   {record.Entry{Raw: []byte(`{"kind":"msg","text":"x"}`)}, batch.ErrMalformed},
		"incompressible": {record.Entry{Raw: append(append([]byte(`{"kind":"blob","b":"`), noise(rng, 7<<20)...), `"}`...)}, batch.ErrTooLong},
	} {
		if _, err := w.Add(&c.entry); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, w.Commit(t.Context()))
	if got := read(t, m.journal(t))[m.opt.Own]; len(got) != 1 || !strings.Contains(got[0], "kept") {
		t.Fatalf("the log holds %.300q", got)
	}
	must(t, w.Close())
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[rng.IntN(64)]
	}
	return b
}

// TestWhole holds that a text of any length comes back as it was.
func TestWhole(t *testing.T) {
	rng := dice(t)
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	long := redact.Trusted(strings.Repeat("long é text, ", 250_000))
	var at []record.Seq
	for i, part := range batch.SplitText(long) {
		e := record.Entry{Kind: record.KindMsg, Harness: "h", Session: "s", Role: record.RoleToolOutput, Text: part, Part: i + 1, Parts: len(batch.SplitText(long))}
		seq, err := w.Add(&e)
		must(t, err)
		at = append(at, seq)
	}
	short := record.Entry{Kind: record.KindMsg, Text: redact.Trusted("short")}
	last, err := w.Add(&short)
	must(t, err)
	must(t, w.Commit(t.Context()))
	j := m.journal(t)
	for _, seq := range at {
		e, err := j.Whole(record.Pos{Stream: m.opt.Own, Seq: seq})
		must(t, err)
		if e.Text != long || e.Seq != at[0] || e.Parts != 0 {
			t.Fatalf("from part %d: %d bytes at %d", seq, e.Text.Len(), e.Seq)
		}
	}
	if e, err := j.Whole(record.Pos{Stream: m.opt.Own, Seq: last}); err != nil || e.Text.String() != "short" {
		t.Fatalf("%q, %v", e.Text.String(), err)
	}
	_, err = w.Stub(t.Context(), []record.Range{{Stream: m.opt.Own, From: at[2], To: at[2]}}, record.Forgotten)
	must(t, err)
	j.Refresh()
	e, err := j.Whole(record.Pos{Stream: m.opt.Own, Seq: at[0]})
	must(t, err)
	if want := long.String()[:2<<20]; !strings.HasPrefix(want, e.Text.String()) || e.Text.Len() < 2<<20-8 {
		t.Fatalf("without the third part: %d bytes", e.Text.Len())
	}
	must(t, w.Close())
}

func TestCancelled(t *testing.T) {
	rng := dice(t)
	m := newMachine(rng, vfs.NewMem())
	w := m.writer(t)
	defer w.Close()
	for n := range 50 {
		e := randomEntry(rng, n)
		_, err := w.Add(&e)
		must(t, err)
	}
	must(t, w.Seal(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Commit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	var got error
	for _, err := range m.journal(t).Read(ctx, m.opt.Own, 1) {
		got = err
	}
	if !errors.Is(got, context.Canceled) {
		t.Errorf("read: %v", got)
	}
	must(t, w.Commit(t.Context()))
}
