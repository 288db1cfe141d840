package postings_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

var increments = flag.Int("increments", 400, "updates of one entry that an index is grown by")

var own = record.StreamID{Node: record.NodeID{7}, Nonce: [8]byte{7}}

func msg(session string, role record.Role, text string) record.Entry {
	return record.Entry{Kind: record.KindMsg, Harness: "claude", Session: session, Role: role, Text: redact.Trusted(text)}
}

// TestManySmallUpdatesStaySmall holds that an index which grew by one entry at
// a time is not much larger than one that was built at once.
func TestManySmallUpdatesStaySmall(t *testing.T) {
	rng := newRand(t)
	base := make([]record.Entry, 12**increments)
	for i := range base {
		base[i] = randomEntry(rng, 50)
	}
	x := newIndex(t)
	x.apply(own, 1, base)
	x.publish()
	all := base
	for range *increments {
		e := randomEntry(rng, 50)
		x.apply(own, record.Seq(len(all)+1), []record.Entry{e})
		x.publish()
		all = append(all, e)
	}
	whole := newIndex(t)
	whole.apply(own, 1, all)
	whole.publish()
	if got, want := x.size(), whole.size(); 10*got > 13*want {
		t.Errorf("%d bytes in %d files instead of %d", got, len(x.files()), want)
	}
	names, err := x.fs.ReadDir("/views")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(x.files())+1 {
		t.Errorf("%d files on disk, of which %d and the manifest count", len(names), len(x.files()))
	}
	if a, b := dump(t, x.reader()), dump(t, whole.reader()); a != b {
		t.Fatalf("dumps differ: %s", clip(a, b))
	}
}

// TestEveryFault fails each operation of a growing index once. The error comes
// back, the view goes on after it, and so does a process that starts then.
func TestEveryFault(t *testing.T) {
	rng := newRand(t)
	entries := make([]record.Entry, 11)
	for i := range entries {
		entries[i] = randomEntry(rng, 4)
	}
	grow := func(fsys vfs.FS, retry bool) error {
		sh, err := shelf.Open(fsys, "/views")
		if err != nil {
			return err
		}
		snap, err := sh.Snapshot()
		if err != nil {
			return err
		}
		v, err := postings.Open(sh, snap.State(postings.Name))
		if err := errors.Join(err, snap.Close()); err != nil {
			return err
		}
		var failed error
		for n := int(v.Known()[own].Seq); n < len(entries); n++ {
			if err := v.Apply(t.Context(), own, record.Seq(n+1), entries[n:n+1]); err != nil {
				return err
			}
			st, err := v.Flush(t.Context())
			if err == nil {
				err = sh.Publish(map[string]shelf.State{postings.Name: st})
			}
			if err != nil && !retry {
				return err
			}
			failed = errors.Join(failed, err)
		}
		return failed
	}
	want := newIndex(t)
	want.apply(own, 1, entries)
	want.publish()
	whole := dump(t, want.reader())
	for n := 0; ; n++ {
		for _, retry := range []bool{false, true} {
			mem := vfs.NewMem()
			fsys := vfs.FailAt(mem, n)
			err := grow(fsys, retry)
			if !fsys.Fired() {
				if err != nil {
					t.Fatal(err)
				}
				if n < 80 {
					t.Errorf("only %d operations could fail", n)
				}
				return
			}
			sweeping := strings.HasPrefix(fsys.Op(), "readdir ") || strings.HasPrefix(fsys.Op(), "remove ")
			if !errors.Is(err, vfs.ErrInjected) && (err != nil || !sweeping) {
				t.Fatalf("fault %d (%s): %v", n, fsys.Op(), err)
			}
			if err := grow(mem, false); err != nil {
				t.Fatalf("after fault %d (%s): %v", n, fsys.Op(), err)
			}
			x := &index{t: t, fs: mem}
			if x.sh, err = shelf.Open(mem, "/views"); err != nil {
				t.Fatal(err)
			}
			if got := dump(t, x.reader()); got != whole {
				t.Fatalf("after fault %d (%s), retry %v: %s", n, fsys.Op(), retry, clip(got, whole))
			}
		}
	}
}

func TestApplyRefusesGaps(t *testing.T) {
	x := newIndex(t)
	e := []record.Entry{msg("s", record.RoleUser, "hello"), msg("s", record.RoleUser, "world")}
	for _, from := range []record.Seq{0, 2} {
		if err := x.view.Apply(t.Context(), own, from, e); err == nil {
			t.Errorf("entries from %d on are taken first", from)
		}
	}
	x.apply(own, 1, e)
	if err := x.view.Apply(t.Context(), own, 2, e); err == nil {
		t.Error("an entry is taken twice")
	}
	x.apply(own, 3, nil)
	if got := x.view.Known()[own].Seq; got != 2 {
		t.Errorf("known up to %d", got)
	}
	x.view.Known()[own] = record.Head{Seq: 9}
	if got := x.view.Known()[own].Seq; got != 2 {
		t.Error("a caller changes what the view knows")
	}
}

func TestReset(t *testing.T) {
	x := newIndex(t)
	x.apply(own, 1, []record.Entry{msg("s", record.RoleUser, "hello")})
	x.publish()
	if err := x.view.Reset(); err != nil {
		t.Fatal(err)
	}
	if len(x.view.Known()) != 0 {
		t.Error("something is known after a reset")
	}
	x.apply(own, 1, []record.Entry{msg("s", record.RoleUser, "world")})
	x.publish()
	r := x.reader()
	if n := search(t, r, postings.Request{Terms: []string{"hello"}, Limit: 9}).Total; n != 0 {
		t.Error("what was known before a reset is found")
	}
	if n := search(t, r, postings.Request{Terms: []string{"world"}, Limit: 9}).Total; n != 1 {
		t.Error("what came after a reset is not found")
	}
}

func TestVersions(t *testing.T) {
	x := newIndex(t)
	x.apply(own, 1, []record.Entry{msg("s", record.RoleUser, "hello")})
	st, err := x.view.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := func(version int) (*postings.View, error) {
		st.Version = version
		return postings.Open(x.sh, st)
	}
	if _, err := open(postings.Version + 1); !errors.Is(err, shelf.ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
	v, err := open(0)
	if err != nil || len(v.Known()) != 0 {
		t.Errorf("an older version is not folded again: %v", err)
	}
	if err := x.sh.Publish(map[string]shelf.State{postings.Name: {Version: postings.Version + 1}}); err != nil {
		t.Fatal(err)
	}
	snap, err := x.sh.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if _, err := postings.NewReader(snap); !errors.Is(err, shelf.ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
}

func TestEmptyView(t *testing.T) {
	r := newIndex(t).reader()
	if found := search(t, r, postings.Request{Terms: []string{"pool"}, Limit: 9}); found.Total != 0 || len(found.InTurns) != 1 {
		t.Errorf("%+v", found)
	}
	if s := dump(t, r); s != "" || r.Sessions() != 0 {
		t.Errorf("%q", s)
	}
	x := newIndex(t)
	x.apply(own, 1, []record.Entry{{Kind: record.KindStub}, {Kind: record.KindSession}})
	x.publish()
	if found := search(t, x.reader(), postings.Request{Terms: []string{"pool"}}); found.Total != 0 {
		t.Errorf("%+v", found)
	}
}

// TestWhatIsFiled says which words of which entries are found, and where.
func TestWhatIsFiled(t *testing.T) {
	note := msg("n", record.RoleUser, "remember the valve")
	note.Kind, note.Note = record.KindNote, &record.NoteMeta{Tags: []string{"plumbing"}, Title: redact.Trusted("heating")}
	x := newIndex(t)
	x.apply(own, 1, []record.Entry{
		msg("s", record.RoleUser, "question"), msg("s", record.RoleAssistant, "answer"), msg("s", record.RoleDeveloper, "instruction"),
		msg("s", record.RoleToolOutput, "output"), msg("s", record.RoleFiles, "src/main.go"), msg("s", record.RoleCommand, "make"),
		msg("s", record.RoleEdit, "src/pool.go\n-removed\n+added"), msg("s", record.RoleSummary, "digest"),
		msg("s", "narrator", "meanwhile"), msg("s", record.RoleMeta, "invisible"), note,
	})
	x.publish()
	r := x.reader()
	for word, roles := range map[string][]record.Role{
		"question": {"", record.RoleUser}, "answer": {"", record.RoleAssistant}, "instruction": {"", record.RoleDeveloper},
		"output": {record.RoleToolOutput}, "main": {record.RoleFiles}, "make": {record.RoleCommand}, "pool": {record.RoleEdit},
		"removed": {}, "added": {}, "digest": {record.RoleSummary}, "meanwhile": {""}, "invisible": {},
		"valve": {"", record.RoleUser}, "plumbing": {"", record.RoleUser}, "heating": {"", record.RoleUser},
	} {
		for _, role := range append(allRoles, "") {
			q := postings.Request{Terms: query.Terms(word), Limit: 5}
			if role != "" {
				q.Roles = []record.Role{role}
			}
			if got, want := search(t, r, q).Total > 0, slices.Contains(roles, role); got != want {
				t.Errorf("%q among %q: found %v, want %v", word, role, got, want)
			}
		}
	}
}

// TestOneCharacterIsEnough asks for one character of a script without spaces.
func TestOneCharacterIsEnough(t *testing.T) {
	x := newIndex(t)
	x.apply(own, 1, []record.Entry{
		msg("a", record.RoleUser, "这里有锁定锁存问题"), msg("b", record.RoleUser, "锁"), msg("c", record.RoleUser, "没有"), msg("d", record.RoleUser, "a lock"),
	})
	x.publish()
	r := x.reader()
	found := search(t, r, postings.Request{Terms: query.Parse("锁").Terms, Limit: 9})
	if found.Total != 2 || found.InTurns[0] != 2 || found.Candidates[0].Matched != 1 {
		t.Errorf("%+v", found)
	}
	if found := search(t, r, postings.Request{Terms: query.Parse("lo").Terms, Limit: 9}); found.Total != 0 {
		t.Errorf("the beginning of a word finds %+v", found)
	}
}

func TestNothingButTheTermsMatters(t *testing.T) {
	x := newIndex(t)
	x.apply(own, 1, []record.Entry{msg("s", record.RoleUser, "pool"), msg("u", record.RoleUser, "other")})
	x.publish()
	r := x.reader()
	for _, q := range []postings.Request{{}, {Terms: []string{""}, Limit: 3}, {Terms: []string{"pool"}, Limit: -1}, {Terms: []string{"poo", "pool\x00", strings.Repeat("x", 1<<16)}, Limit: 3}} {
		if found := search(t, r, q); len(found.Candidates) != 0 {
			t.Errorf("%.80q: %+v", q.Terms, found.Candidates)
		}
	}
	q := postings.Request{Terms: []string{"pool", "pool"}, Limit: 3}
	if found := search(t, r, q); len(found.Candidates) != 1 || found.Candidates[0].Best[0].Pos != (record.Pos{Stream: own, Seq: 1}) {
		t.Errorf("%+v", found.Candidates)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(newRand(t), 50, 3)
	x := w.build(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	r := x.reader()
	if _, err := r.Search(ctx, postings.Request{Terms: []string{"pool"}, Limit: 1}); !errors.Is(err, why) {
		t.Errorf("search: %v", err)
	}
	if err := r.Dump(ctx, io.Discard); !errors.Is(err, why) {
		t.Errorf("dump: %v", err)
	}
	// A flush that is stopped between file and merge goes on later.
	for i := range 20 {
		x.apply(own, record.Seq(i+1), []record.Entry{msg("s", record.RoleUser, fmt.Sprint("entry ", i))})
		if _, err := x.view.Flush(ctx); err != nil && !errors.Is(err, why) {
			t.Errorf("flush: %v", err)
		}
	}
	x.publish()
	if n := search(t, x.reader(), postings.Request{Terms: query.Terms("entry"), Limit: 1}).InTurns[0]; n != 20 {
		t.Errorf("%d of 20 entries are there", n)
	}
}

func TestReadersShareAReader(t *testing.T) {
	rng := newRand(t)
	w := newWorld(rng, 100, 5)
	r := w.grow(t, rng).reader()
	q := postings.Request{Terms: query.Parse("pool deadlock connection").Terms, Limit: 5}
	want := fmt.Sprint(search(t, r, q))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				found, err := r.Search(t.Context(), q)
				if err != nil || fmt.Sprint(found) != want {
					t.Errorf("another answer, %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// TestVerbatimLineFindsItsSession asks for lines as they stand in a transcript.
func TestVerbatimLineFindsItsSession(t *testing.T) {
	rng := newRand(t)
	kinds := []func() string{
		func() string {
			return fmt.Sprintf("panic: runtime error: index out of range [%d] with length %d", rng.IntN(5000), rng.IntN(5000))
		},
		func() string {
			return fmt.Sprintf("  at Object.<anonymous> (/srv/app%d/src/%s.test.js:%d:%d)", rng.IntN(300), vocabulary[rng.IntN(9)], rng.IntN(3000), rng.IntN(90))
		},
		func() string {
			return fmt.Sprintf("ERROR: relation \"table_%d\" doesn't exist (SQLSTATE 42P01) AND NOT NULL", rng.IntN(100000))
		},
		func() string {
			return fmt.Sprintf("export DATABASE_URL='postgres://u@h%d.example:5432/db' # it's %d:%d", rng.IntN(9000), rng.IntN(24), rng.IntN(60))
		},
		func() string {
			return fmt.Sprintf("修复%d号死锁：getUser%dName函数 ошибка %d", rng.IntN(100000), rng.IntN(100000), rng.IntN(100000))
		},
		func() string {
			return fmt.Sprintf("git commit %016x -- [WIP] fix(pool): retry* #%d", rng.Uint64(), rng.IntN(5000))
		},
	}
	var entries []record.Entry
	var lines, home []string
	for i := range 150 {
		session := fmt.Sprint("s", i)
		for range 6 {
			l := kinds[rng.IntN(len(kinds))]()
			lines, home = append(lines, l), append(home, session)
			entries = append(entries, msg(session, record.RoleUser, words(rng, 30)+"\n"+l+"\n"+words(rng, 30)))
		}
	}
	x := newIndex(t)
	x.apply(own, 1, entries)
	x.publish()
	r := x.reader()
	first := 0
	for i, l := range lines {
		found := search(t, r, postings.Request{Terms: query.Parse(l).Terms, Limit: 1})
		if len(found.Candidates) == 1 && found.Candidates[0].Session == sessionOf(own, msg(home[i], "", "")) {
			first++
		}
	}
	if 100*first < 99*len(lines) {
		t.Errorf("%d of %d lines find their session first", first, len(lines))
	}
}

// odd are what questions trip over elsewhere.
var odd = strings.Fields("' \" `` : ; ( ) [ ] { } < > * ? + - -- --- ~ ^ $ % & | && || ! @ # / \\ . .. ... AND OR NOT NEAR NEAR/2 col:val a* " +
	"-x --flag=val it's O'Brien \"unclosed C:\\dir /usr/bin/env x=1; $(rm) %s %!d(MISSING) \\u0000 \x00 \xff é 锁 🙂 pool deadlock")

func checkOddQuery(t *testing.T, r *postings.Reader, text string) {
	t.Helper()
	if _, err := r.Search(t.Context(), postings.Request{Terms: query.Parse(text).Terms, Limit: 5}); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func TestNoQuestionFails(t *testing.T) {
	rng := newRand(t)
	r := newWorld(rng, 60, 5).build(t).reader()
	for range 50_000 {
		var b strings.Builder
		for range rng.IntN(8) {
			b.WriteString(odd[rng.IntN(len(odd))])
			b.WriteString([]string{" ", "", "\n"}[rng.IntN(3)])
		}
		checkOddQuery(t, r, b.String())
	}
}

func FuzzQuestion(f *testing.F) {
	r := newWorld(newRand(f), 60, 5).build(f).reader()
	for _, o := range odd {
		f.Add(o)
	}
	f.Fuzz(func(t *testing.T, text string) { checkOddQuery(t, r, text) })
}
