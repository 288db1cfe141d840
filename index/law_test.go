package index_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// options of a memory on a file system; number tells nodes apart.
func options(fsys vfs.FS, number byte, mine ...record.NodeID) index.Options {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
	id := record.NodeOf(key.Public().(ed25519.PublicKey))
	return index.Options{
		FS: fsys, LogDir: "/log", IndexDir: "/index", SpoolDir: "/spool", Key: key,
		Stream: record.StreamID{Node: id, Nonce: [8]byte{number}}, Origin: fmt.Sprint("node", number),
		Policy: policy.Load(vfs.NewMem(), "/p", "/x", id, func(n record.NodeID) string {
			if slices.Contains(mine, n) {
				return policy.Mine
			}
			return ""
		}),
		Now: func() time.Time { return noon }, Random: mathrand.New(mathrand.NewSource(int64(number))), Log: slog.New(slog.DiscardHandler),
	}
}

type turn struct {
	session, text string
	role          record.Role
	at            int
}

// read takes turns in as one reading of one transcript.
func read(ctx context.Context, w *index.Writer, whole bool, turns []turn) (index.Counts, error) {
	r := w.Begin(index.ReadingOptions{Harness: "claude", Source: "~/t.jsonl", Whole: whole})
	seen := map[string]bool{}
	for _, t := range turns {
		if !seen[t.session] {
			seen[t.session] = true
			r.Session(record.Session{Harness: "claude", Native: t.session, Project: "harbor", Title: "about " + t.session, Cwd: "/w"})
		}
		if err := r.Turn(ctx, record.Turn{Session: t.session, Role: t.role, Text: t.text, Time: noon.Add(time.Duration(t.at-1000) * time.Minute)}); err != nil {
			return index.Counts{}, err
		}
	}
	return r.End(ctx, true)
}

// dump is everything a reader can see: sessions, their turns, and what
// searches find.
func dump(t *testing.T, opt index.Options) string {
	t.Helper()
	m, err := index.Open(opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sessions, total, err := m.Last(index.Filter{}, 1000, policy.Search)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintln(&b, total)
	for _, s := range sessions {
		fmt.Fprintf(&b, "%+v\n", s)
		w, err := m.Show(t.Context(), s.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range w.Messages {
			fmt.Fprintf(&b, "  %d %s %s %.80q %d\n", msg.Ordinal, msg.Role, msg.Time, msg.Text, len(msg.Text))
		}
	}
	for _, q := range []string{"word1", "word3 word7", "pool deadlock", "word2 tool"} {
		ans, err := m.Search(t.Context(), index.Request{Text: q, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, q, ans.Total)
		for _, h := range ans.Hits {
			fmt.Fprintf(&b, "  %s %.9f %d\n", h.Session.ID, h.Score, h.Matches)
		}
	}
	return b.String()
}

func open(t *testing.T, opt index.Options) *index.Writer {
	t.Helper()
	w, err := index.OpenWriter(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func randomTurns(rng *rand.Rand, sessions, n int) []turn {
	var out []turn
	roles := []record.Role{record.RoleUser, record.RoleAssistant, record.RoleToolOutput, record.RoleCommand}
	for i := range n {
		out = append(out, turn{
			session: fmt.Sprint("s", rng.IntN(sessions)), at: i, role: roles[rng.IntN(len(roles))],
			text: fmt.Sprintf("word%d word%d pool %d", rng.IntN(9), rng.IntN(9), i),
		})
	}
	return out
}

// Whatever the order of readings, commits, publishes and reopenings, the views
// are what a rebuild makes of the log.
func TestIncrementalEqualsRebuild(t *testing.T) {
	for range 6 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		opt := options(vfs.NewMem(), 1)
		opt.FlushBytes = 1 << (14 + rng.IntN(10))
		w := open(t, opt)
		all := randomTurns(rng, 5, 120)
		for from := 0; from < len(all); {
			to := min(from+1+rng.IntN(20), len(all))
			must[index.Counts](t)(read(t.Context(), w, false, all[from:to]))
			from = to
			if rng.IntN(3) == 0 {
				must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context())))
			}
			if rng.IntN(6) == 0 {
				must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Close()))
				w = open(t, opt)
			}
		}
		// A rewind: one session loses its last turns and gains another.
		var edited []turn
		for _, x := range all {
			if x.session == "s1" && x.at < 100 {
				edited = append(edited, x)
			}
		}
		edited = append(edited, turn{session: "s1", text: "another end", role: record.RoleUser, at: 500})
		must[index.Counts](t)(read(t.Context(), w, true, edited))
		must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context())))
		before := dump(t, opt)
		must[int](t)(0, errors.Join(w.Rebuild(t.Context()), w.Close()))
		if after := dump(t, opt); after != before {
			t.Fatalf("rebuild differs:\n%s\n--- incremental\n%s", after, before)
		}
	}
}

func TestReadingAgainAddsNothing(t *testing.T) {
	opt := options(vfs.NewMem(), 1)
	turns := randomTurns(rand.New(rand.NewPCG(1, 2)), 3, 40)
	w := open(t, opt)
	first := must[index.Counts](t)(read(t.Context(), w, true, turns))
	again := must[index.Counts](t)(read(t.Context(), w, true, turns))
	must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context()), w.Close()))
	if first.Added != 40 || again.Added != 0 || again.Known != 40 || again.Superseded != 0 {
		t.Errorf("first %+v, again %+v", first, again)
	}
}

// A rewind supersedes what it took away; another text under the same id does not.
func TestRewind(t *testing.T) {
	opt := options(vfs.NewMem(), 1)
	w := open(t, opt)
	say := func(texts ...string) (out []turn) {
		for i, text := range texts {
			out = append(out, turn{session: "s", text: text, role: record.RoleUser, at: i})
		}
		return out
	}
	must[index.Counts](t)(read(t.Context(), w, true, say("alpha start", "beta abandoned")))
	c := must[index.Counts](t)(read(t.Context(), w, true, say("alpha start", "gamma instead")))
	if c.Superseded != 1 || c.Added != 1 {
		t.Errorf("rewind: %+v", c)
	}
	c = must[index.Counts](t)(read(t.Context(), w, true, say("delta of another file")))
	if c.Superseded != 0 || c.Added != 1 {
		t.Errorf("another text under the same id: %+v", c)
	}
	must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context()), w.Close()))
	m := must[*index.Memory](t)(index.Open(opt, nil))
	defer m.Close()
	for word, want := range map[string]int{"alpha": 1, "abandoned": 0, "gamma": 1, "delta": 1} {
		ans := must[index.Answer](t)(m.Search(t.Context(), index.Request{Text: word, Limit: 5}))
		if len(ans.Hits) != want {
			t.Errorf("%s: %d hits, want %d", word, len(ans.Hits), want)
		}
	}
}

// A long turn is split in the log and whole for who reads it.
func TestLongTurn(t *testing.T) {
	opt := options(vfs.NewMem(), 1)
	long := strings.Repeat("0123456 words ", 3<<20/14) + "theend"
	w := open(t, opt)
	must[index.Counts](t)(read(t.Context(), w, true, []turn{{session: "s", text: long, role: record.RoleUser}}))
	must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context()), w.Close()))
	m := must[*index.Memory](t)(index.Open(opt, nil))
	defer m.Close()
	win := must[index.Window](t)(m.Show(t.Context(), "claude:s", 0, 0))
	if len(win.Messages) != 1 || win.Messages[0].Text != long {
		t.Errorf("%d messages", len(win.Messages))
	}
	if ans := must[index.Answer](t)(m.Search(t.Context(), index.Request{Text: "theend", Limit: 5})); len(ans.Hits) != 1 {
		t.Errorf("the end of the text finds %d sessions", len(ans.Hits))
	}
}

// Every file operation fails once, then the power goes: what was committed is
// there once, and the views are what a rebuild makes of the log.
func TestFaultAtEveryOperation(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	first, second := randomTurns(rng, 2, 12), randomTurns(rng, 2, 24)[12:]
	step := 1
	if testing.Short() {
		step = 5
	}
	for n := 0; ; n += step {
		mem := vfs.NewMem()
		w := open(t, options(mem, 1))
		must[index.Counts](t)(read(t.Context(), w, false, first))
		must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context()), w.Close()))

		fault := vfs.FailAt(mem, n)
		opt := options(fault, 1)
		committed := false
		err := func() error {
			w, err := index.OpenWriter(t.Context(), opt)
			if err != nil {
				return err
			}
			if _, err = read(t.Context(), w, false, second); err == nil {
				err = w.Commit(t.Context())
				committed = err == nil
			}
			if err == nil {
				err = w.Publish(t.Context())
			}
			return errors.Join(err, w.Close())
		}()
		if !fault.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		sweep := strings.HasPrefix(fault.Op(), "remove ") || strings.HasPrefix(fault.Op(), "readdir ")
		if err == nil && !sweep {
			t.Errorf("fault %d was swallowed: %s", n, fault.Op())
		}
		opt = options(mem.AfterCrash(rng), 1)
		w = open(t, opt)
		must[int](t)(0, w.Publish(t.Context()))
		before := dump(t, opt)
		must[int](t)(0, errors.Join(w.Rebuild(t.Context()), w.Close()))
		if after := dump(t, opt); after != before {
			t.Fatalf("fault %d (%s): rebuild differs:\n%s\n---\n%s", n, fault.Op(), after, before)
		}
		want := len(first)
		if committed {
			want += len(second)
		}
		m := must[*index.Memory](t)(index.Open(opt, nil))
		o := must[index.Overview](t)(m.Overview())
		m.Close()
		if o.Records < want || o.Records > len(first)+len(second) {
			t.Fatalf("fault %d (%s): %d records, want at least %d", n, fault.Op(), o.Records, want)
		}
	}
}

// Two memories that exchange have the same history; a second exchange has
// nothing to do and costs next to nothing.
func TestExchange(t *testing.T) {
	a, b := options(vfs.NewMem(), 1), options(vfs.NewMem(), 2)
	a = options(a.FS, 1, b.Stream.Node)
	b = options(b.FS, 2, a.Stream.Node)
	rng := rand.New(rand.NewPCG(3, 3))
	for _, opt := range []index.Options{a, b} {
		w := open(t, opt)
		must[index.Counts](t)(read(t.Context(), w, true, randomTurns(rng, 3, 30)))
		must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context()), w.Close()))
	}
	first := exchange(t, a, b)
	if first.Sent.Records != 33 || first.Received.Records != 33 {
		t.Errorf("first exchange: %+v", first)
	}
	again := exchange(t, a, b)
	if again.Sent.Records+again.Received.Records != 0 || again.RoundTrips > 3 || again.BytesIn+again.BytesOut > 4096 {
		t.Errorf("second exchange: %d round trips, %d bytes, %+v", again.RoundTrips, again.BytesIn+again.BytesOut, again)
	}
	for _, opt := range []index.Options{a, b} {
		w := open(t, opt)
		must[int](t)(0, errors.Join(w.Publish(t.Context()), w.Close()))
		m := must[*index.Memory](t)(index.Open(opt, nil))
		o := must[index.Overview](t)(m.Overview())
		if o.Records != 60 || o.Sessions != 6 || o.ByOrigin[a.Stream.Node] != 3 || o.ByOrigin[b.Stream.Node] != 3 {
			t.Errorf("overview %+v", o)
		}
		m.Close()
	}
}

func exchange(t *testing.T, a, b index.Options) syncproto.Report {
	t.Helper()
	here, there := syncproto.Pipe()
	done := make(chan error, 1)
	side := func(opt index.Options, link syncproto.Link, server bool) (syncproto.Report, error) {
		x, err := index.NewExchange(opt, nil, 1)
		if err != nil {
			return syncproto.Report{}, err
		}
		s, err := syncproto.New(syncproto.Config{Key: opt.Key, Name: opt.Origin, App: "test", Server: server, Now: noon}, x)
		if err != nil {
			return syncproto.Report{}, err
		}
		rep, err := syncproto.Run(t.Context(), link, s, syncproto.Timing{})
		return rep, errors.Join(err, x.Close())
	}
	go func() {
		_, err := side(b, there, true)
		done <- err
	}()
	rep, err := side(a, here, false)
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return rep
}

// Unsigned lines are shown as a claim and never surface unasked; importing
// them twice changes nothing.
func TestImport(t *testing.T) {
	opt := options(vfs.NewMem(), 1)
	rec := index.Imported{
		Key: record.SessionKey{Harness: "codex", Native: "abc"}, Project: "harbor", Role: record.RoleUser, Time: noon, Text: "pool deadlock",
	}
	w := open(t, opt)
	if !must[bool](t)(w.Import(t.Context(), "mini", rec)) || must[bool](t)(w.Import(t.Context(), "mini", rec)) {
		t.Error("importing twice is not once")
	}
	must[int](t)(0, errors.Join(w.Commit(t.Context()), w.Publish(t.Context()), w.Close()))
	m := must[*index.Memory](t)(index.Open(opt, nil))
	defer m.Close()
	for surface, want := range map[policy.Level]int{policy.Search: 1, policy.MCP: 1, policy.Auto: 0} {
		ans := must[index.Answer](t)(m.Search(t.Context(), index.Request{Text: "deadlock", Limit: 5, Surface: surface}))
		if len(ans.Hits) != want {
			t.Errorf("surface %d: %d hits, want %d", surface, len(ans.Hits), want)
			continue
		}
		if want == 1 && (ans.Hits[0].Session.Origin.Local || ans.Hits[0].Session.Native != "abc" || !strings.Contains(ans.Hits[0].Session.Origin.Name, "claimed")) {
			t.Errorf("session %+v", ans.Hits[0].Session)
		}
	}
}
