package syncproto_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

// memBox is a mailbox in a map. Its clock has whole seconds and, to be nasty,
// stands still.
type memBox struct {
	t     testing.TB
	files map[string][]byte
	lists int
	gets  int
	fail  int // the operation that fails, counted down; 0 for none
}

var errBox = errors.New("the box is gone")

func newBox(t testing.TB) *memBox { return &memBox{t: t, files: map[string][]byte{}} }

func (b *memBox) op() error {
	if b.fail > 0 {
		if b.fail--; b.fail == 0 {
			b.fail = -1
		}
	}
	if b.fail < 0 {
		return errBox
	}
	return nil
}

func (b *memBox) List(_ context.Context, dir string) ([]syncproto.Object, error) {
	if err := b.op(); err != nil {
		return nil, err
	}
	b.lists++
	if !syncproto.ValidBoxDir(dir) {
		b.t.Errorf("List of %q", dir)
	}
	var objects []syncproto.Object
	for name, data := range b.files {
		if d := path.Dir(name); d == dir || d == "." && dir == "" {
			objects = append(objects, syncproto.Object{Name: path.Base(name), Size: int64(len(data)), Mod: epoch})
		}
	}
	return objects, nil
}

func (b *memBox) Get(_ context.Context, name string, size int64) ([]byte, error) {
	if err := b.op(); err != nil {
		return nil, err
	}
	b.gets++
	data, ok := b.files[name]
	if !syncproto.ValidBoxName(name) {
		b.t.Errorf("Get of %q", name)
	}
	if !ok || int64(len(data)) != size {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(data), nil
}

func (b *memBox) Put(_ context.Context, name string, data []byte, replace bool) error {
	if err := b.op(); err != nil {
		return err
	}
	if !syncproto.ValidBoxName(name) {
		b.t.Errorf("Put of %q", name)
	}
	if _, ok := b.files[name]; !ok || replace {
		b.files[name] = bytes.Clone(data)
	}
	return nil
}

func (b *memBox) Remove(_ context.Context, name string) error {
	if err := b.op(); err != nil {
		return err
	}
	delete(b.files, name)
	return nil
}

// state goes through JSON, as it does in the node.
func reload(t testing.TB, st *syncproto.BoxState) *syncproto.BoxState {
	t.Helper()
	data, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	back := new(syncproto.BoxState)
	if err := json.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	return back
}

// user is a node and what it remembers of one mailbox.
type user struct {
	n  *modelNode
	st *syncproto.BoxState
}

func newUser(rng *rand.Rand, name string) *user {
	return &user{newNode(rng, name), new(syncproto.BoxState)}
}

func (u *user) try(t testing.TB, box syncproto.Box, mode syncproto.Mode) (syncproto.Report, error) {
	cfg := syncproto.MirrorConfig{Key: u.n.key, Name: "box", Mode: mode, Now: epoch}
	r, err := syncproto.Mirror(t.Context(), box, u.n.store(), cfg, u.st)
	u.st = reload(t, u.st)
	return r, err
}

func (u *user) mirror(t testing.TB, box syncproto.Box) syncproto.Report {
	t.Helper()
	r, err := u.try(t, box, syncproto.Both)
	if err != nil {
		t.Fatalf("%s: %v", u.n.name, err)
	}
	return r
}

func TestMirror(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	a.n.write(msg("a1", "one"), msg("a2", "two"))
	b.n.write(msg("b1", "eins"))
	a.mirror(t, box)
	rb := b.mirror(t, box)
	ra := a.mirror(t, box)
	equalNodes(t, a.n, b.n)
	if rb.Received.Records != 2 || rb.Sent.Records != 1 || ra.Received.Records != 1 || !ra.Complete {
		t.Errorf("a %+v\nb %+v", ra, rb)
	}
	if b.n.cards[a.n.id] != 1 || b.st.Fleet == "" || b.st.Fleet != a.st.Fleet {
		t.Errorf("card %d, fleets %q and %q", b.n.cards[a.n.id], a.st.Fleet, b.st.Fleet)
	}
}

// An unchanged mailbox costs one listing and no more.
func TestMirrorUnchanged(t *testing.T) {
	rng := newRand(t)
	box := newBox(t)
	users := []*user{newUser(rng, "a"), newUser(rng, "b"), newUser(rng, "c")}
	for range 3 {
		for i, u := range users {
			if i < 2 {
				u.n.write(msg(fmt.Sprint(i, rng.Uint64()), "x"))
			}
			u.mirror(t, box)
		}
	}
	for range 2 {
		for _, u := range users {
			u.mirror(t, box)
		}
	}
	for _, u := range users {
		box.lists, box.gets = 0, 0
		before := maps.Clone(box.files)
		r := u.mirror(t, box)
		if box.lists != 1 || box.gets != 0 || r.RoundTrips != 1 {
			t.Errorf("%s: %d listings, %d reads", u.n.name, box.lists, box.gets)
		}
		if !maps.EqualFunc(before, box.files, bytes.Equal) {
			t.Errorf("%s wrote", u.n.name)
		}
	}
}

// Several nodes write, forget and mirror in random order, lose their state now
// and then, and fail at any operation: they converge.
func TestMirrorFleet(t *testing.T) {
	rng := newRand(t)
	for range 8 * *rounds {
		w := newWorld(t, rng, 2+rng.IntN(3))
		box := newBox(t)
		users := make([]*user, len(w.nodes))
		for i, n := range w.nodes {
			users[i] = &user{n, new(syncproto.BoxState)}
		}
		for range 60 {
			u := users[rng.IntN(len(users))]
			switch rng.IntN(10) {
			case 0, 1, 2:
				w.write(u.n)
			case 3:
				u.st = new(syncproto.BoxState)
			case 4, 5:
				box.fail = 1 + rng.IntN(12)
				if _, err := u.try(t, box, syncproto.Both); err != nil && !errors.Is(err, errBox) {
					t.Fatal(err)
				}
				box.fail = 0
			default:
				u.mirror(t, box)
			}
			w.check()
		}
		for range 3 {
			for _, u := range users {
				u.mirror(t, box)
			}
		}
		w.settle()
		checkBox(t, box, w)
	}
}

// plain returns the lines of all batches in a mailbox, by file.
func plain(t testing.TB, box *memBox) map[string]string {
	t.Helper()
	texts := map[string]string{}
	var codec batch.Codec
	for name, data := range box.files {
		for strings.HasPrefix(name, "b/") && len(data) > 0 {
			n, err := batch.Len(data)
			if err != nil {
				t.Fatal(err)
			}
			b, err := batch.Open(data[:n])
			if err != nil {
				t.Fatal(err)
			}
			body, err := codec.Body(nil, b)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] += string(body)
			data = data[n:]
		}
	}
	return texts
}

// checkBox fails when the mailbox holds a text that was forgotten, or a file
// that nobody needs.
func checkBox(t *testing.T, box *memBox, w *world) {
	t.Helper()
	for name, text := range plain(t, box) {
		for id := range w.dead {
			if strings.Contains(text, fmt.Sprintf(`"id":%q`, id)) {
				t.Errorf("%s still holds %s, which was forgotten", name, id)
			}
		}
	}
	for _, n := range w.nodes {
		covered := map[record.Seq]int{}
		spans := map[string][2]record.Seq{}
		for name := range box.files {
			base, ok := strings.CutPrefix(name, "b/"+n.own.String()+"/")
			if !ok {
				continue
			}
			var first, last record.Seq
			if _, err := fmt.Sscanf(base, "%d-%d-", &first, &last); err != nil {
				t.Fatal(err)
			}
			spans[name] = [2]record.Seq{first, last}
			for s := first; s <= last; s++ {
				covered[s]++
			}
		}
		for s := record.Seq(1); s <= n.frontier()[n.own]; s++ {
			if covered[s] == 0 {
				t.Errorf("position %d of %s lies in no file", s, n.own)
			}
		}
		for name, span := range spans {
			alone := false
			for s := span[0]; s <= span[1]; s++ {
				alone = alone || covered[s] == 1
			}
			if !alone {
				t.Errorf("nobody needs %s", name)
			}
		}
	}
}

// Many small posts become few files, and no byte is written over and over.
func TestMirrorPacks(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	var written int64
	for i := range 200 {
		a.n.write(msg(fmt.Sprint("a", i), noise(rng, 1000)))
		written += a.mirror(t, box).Sent.Bytes
	}
	files := 0
	var size int64
	for name, data := range box.files {
		if strings.HasPrefix(name, "b/") {
			files++
			size += int64(len(data))
		}
	}
	t.Logf("200 posts: %d files of %d bytes, %d bytes written", files, size, written)
	if files > 9 {
		t.Errorf("%d files", files)
	}
	if written > 9*size {
		t.Errorf("%d bytes were written for %d", written, size)
	}
	b.mirror(t, box)
	equalNodes(t, a.n, b.n)
}

// A bulk of batches is cut into files of about 4 MiB.
func TestMirrorBulk(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	for i := range 30 {
		a.n.write(msg(fmt.Sprint("a", i), noise(rng, 300<<10)))
	}
	a.mirror(t, box)
	files := 0
	for name, data := range box.files {
		if strings.HasPrefix(name, "b/") {
			files++
			if len(data) > 4<<20 {
				t.Errorf("%s has %d bytes", name, len(data))
			}
		}
	}
	if files != 3 {
		t.Errorf("%d files", files)
	}
	b.mirror(t, box)
	equalNodes(t, a.n, b.n)
}

// Whoever may, replaces what others have posted by a revision with stubs; the
// origin, when it packs anew, does not bring the text back.
func TestMirrorForgets(t *testing.T) {
	rng := newRand(t)
	box, a, b, c := newBox(t), newUser(rng, "a"), newUser(rng, "b"), newUser(rng, "c")
	holds := func(text string) bool {
		for _, lines := range plain(t, box) {
			if strings.Contains(lines, text) {
				return true
			}
		}
		return false
	}
	a.n.write(msg("a1", "canary"), msg("a2", "fine"))
	a.mirror(t, box)
	if !holds("canary") {
		t.Fatal("the test does not see the text")
	}
	b.mirror(t, box)
	b.n.write(tomb("t1", "a1"))
	b.mirror(t, box)
	if holds("canary") {
		t.Error("b forgot, and the mailbox still holds the text")
	}
	c.mirror(t, box)
	if c.n.live()["a2"].ID == "" || c.n.frontier()[a.n.own] != 2 {
		t.Errorf("c has %v", c.n.live())
	}
	a.n.write(msg("a3", "more"))
	a.mirror(t, box)
	if holds("canary") || a.n.live()["a1"].ID != "" {
		t.Error("the origin brought the text back")
	}
	c.mirror(t, box)
	b.mirror(t, box)
	equalNodes(t, a.n, b.n, c.n)
}

// The origin need not believe in the tomb: whenever it brings the text back, the
// node that forgot takes it out again.
func TestMirrorForgetsAgain(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	a.n.rules = func(record.NodeID) *rule {
		return &rule{serve: anything, accept: func(s record.StreamID) bool { return s.Node == a.n.id }}
	}
	a.n.write(msg("a1", "canary"))
	a.mirror(t, box)
	b.mirror(t, box)
	b.n.write(tomb("t1", "a1"))
	for i := range 3 {
		b.mirror(t, box)
		for name, text := range plain(t, box) {
			if strings.Contains(text, "canary") {
				t.Fatalf("round %d: %s holds the text", i, name)
			}
		}
		a.n.write(msg(fmt.Sprint("more", i), noise(rng, 900)))
		a.mirror(t, box)
	}
}

// A node that knows of fewer tombs leaves the file of one that knows of more.
func TestMirrorKeepsTheStubsOfOthers(t *testing.T) {
	rng := newRand(t)
	box, a, b, c := newBox(t), newUser(rng, "a"), newUser(rng, "b"), newUser(rng, "c")
	a.n.write(msg("a1", "canary"), msg("a2", "other canary"), msg("a3", "fine"))
	a.mirror(t, box)
	b.mirror(t, box)
	c.mirror(t, box)
	b.n.write(tomb("t1", "a1", "a2"))
	b.mirror(t, box)
	c.n.rules = func(record.NodeID) *rule {
		return &rule{serve: anything, accept: func(s record.StreamID) bool { return s.Node != b.n.id }}
	}
	c.n.write(tomb("t2", "a3"))
	c.mirror(t, box)
	for name, text := range plain(t, box) {
		if strings.Contains(text, "canary") {
			t.Errorf("%s holds the text again", name)
		}
	}
}

// What is refused today may be accepted tomorrow, though the mailbox does not change.
func TestMirrorRefusal(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	a.n.write(msg("a1", "x"))
	a.mirror(t, box)
	b.n.rules = func(record.NodeID) *rule {
		return &rule{serve: anything, accept: func(record.StreamID) bool { return false }}
	}
	for range 2 {
		if r := b.mirror(t, box); len(r.Refused) != 1 || r.Complete || len(b.n.live()) != 0 {
			t.Errorf("refused %v, complete %v", r.Refused, r.Complete)
		}
	}
	b.n.rules = func(record.NodeID) *rule { return openRule() }
	b.mirror(t, box)
	equalNodes(t, a.n, b.n)
}

// When the origin's own policy changes, what it withheld is put back and read.
func TestMirrorPolicy(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	a.n.rules = func(record.NodeID) *rule { return withholding("private") }
	a.n.write(msg("a1", "private"), msg("a2", "public"))
	a.mirror(t, box)
	b.mirror(t, box)
	if len(b.n.live()) != 1 || b.n.frontier()[a.n.own] != 2 {
		t.Fatalf("b has %v", b.n.live())
	}
	a.n.rules, a.n.policy = func(record.NodeID) *rule { return openRule() }, "p2"
	a.mirror(t, box)
	b.mirror(t, box)
	equalNodes(t, a.n, b.n)
}

func TestMirrorModes(t *testing.T) {
	rng := newRand(t)
	for _, tt := range []struct {
		mode       syncproto.Mode
		give, take bool
	}{{syncproto.Both, true, true}, {syncproto.Push, true, false}, {syncproto.Pull, false, true}, {syncproto.Plan, false, false}} {
		box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
		a.n.write(msg("a1", "x"))
		a.mirror(t, box)
		b.n.write(msg("b1", "x"), msg("b2", "x"))
		r, err := b.try(t, box, tt.mode)
		if err != nil {
			t.Fatal(err)
		}
		if took := b.n.live()["a1"].ID != ""; took != tt.take {
			t.Errorf("mode %d: took %v", tt.mode, took)
		}
		if r.Behind != 1 || r.TheyLack != 2 {
			t.Errorf("mode %d: behind %d, they lack %d", tt.mode, r.Behind, r.TheyLack)
		}
		a.mirror(t, box)
		if gave := a.n.live()["b2"].ID != ""; gave != tt.give {
			t.Errorf("mode %d: gave %v", tt.mode, gave)
		}
		b.mirror(t, box)
		a.mirror(t, box)
		equalNodes(t, a.n, b.n)
	}
}

// A node that lost its log finds it in the mailbox.
func TestMirrorRollback(t *testing.T) {
	rng := newRand(t)
	box, a := newBox(t), newUser(rng, "a")
	for i := range 5 {
		a.n.write(msg(fmt.Sprint("a", i), "x"))
	}
	a.mirror(t, box)
	want := a.n.dump()
	a.n.streams, a.st, a.n.restore = map[record.StreamID]*stream{}, new(syncproto.BoxState), true
	a.n.fold()
	r := a.mirror(t, box)
	if a.n.dump() != want || r.Received.Records != 5 {
		t.Errorf("it got %+v back", r.Received)
	}
}

// Another mailbox at the same place, an emptied one, a sealed one, a newer one.
func TestMirrorOtherBox(t *testing.T) {
	rng := newRand(t)
	box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
	a.n.write(msg("a1", "x"))
	a.mirror(t, box)
	t.Run("another", func(t *testing.T) {
		other := newBox(t)
		b.n.write(msg("b1", "x"))
		b.mirror(t, other)
		_, err := a.try(t, other, syncproto.Both)
		wantRefusal(t, err, syncproto.CodeNodeChanged, false)
	})
	for _, tt := range []struct{ meta, want string }{
		{`{"v":3,"fleet":"x"}`, "version 2, this one is of version 3"},
		{`{"v":2,"fleet":"x","sealed":true}`, "sealed"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			other := newBox(t)
			other.files["deja-mailbox.json"] = []byte(tt.meta)
			c := newUser(rng, "c")
			c.n.write(msg("c1", "x"))
			_, err := c.try(t, other, syncproto.Both)
			if r := wantRefusal(t, err, syncproto.CodeVersion, false); !strings.Contains(r.Msg, tt.want) {
				t.Errorf("it says %q", r.Msg)
			}
			if len(other.files) != 1 {
				t.Error("something was written")
			}
		})
	}
	t.Run("emptied", func(t *testing.T) {
		clear(box.files)
		a.st.Fleet = ""
		a.mirror(t, box)
		c := newUser(rng, "c")
		c.mirror(t, box)
		if c.n.live()["a1"].ID == "" {
			t.Error("the emptied mailbox was not filled again")
		}
	})
}

// What lies in a mailbox and is not as it should be is told and left alone; the
// rest of it is read.
func TestHostileBox(t *testing.T) {
	rng := newRand(t)
	build := func(t *testing.T) (*memBox, *user, *user) {
		box, a, b := newBox(t), newUser(rng, "a"), newUser(rng, "b")
		a.n.write(msg("a1", "x"))
		a.n.write(msg("a2", strings.Repeat("x", 300)))
		b.n.write(msg("b1", "x"))
		a.mirror(t, box)
		b.mirror(t, box)
		return box, a, b
	}
	headsOf := func(u *user) string { return "heads/" + u.n.id.String() + ".json" }
	fileOf := func(box *memBox, u *user) string {
		for _, name := range slices.Sorted(maps.Keys(box.files)) {
			if strings.HasPrefix(name, "b/"+u.n.own.String()) {
				return name
			}
		}
		t.Fatal("no file")
		return ""
	}
	for _, tt := range []struct {
		name string
		harm func(box *memBox, a, b *user)
		code syncproto.Code
	}{
		{"unsigned heads", func(box *memBox, a, _ *user) {
			box.files[headsOf(a)] = bytes.Replace(box.files[headsOf(a)], []byte(`"v":2`), []byte(`"v": 2`), 1)
		}, syncproto.CodeAuth},
		{"heads of another", func(box *memBox, a, b *user) { box.files[headsOf(a)] = box.files[headsOf(b)] }, syncproto.CodeAuth},
		{"heads with another's stream", func(box *memBox, a, b *user) {
			body := fmt.Sprintf(`{"v":2,"node":%q,"pub":%q,"streams":{%q:[9,"0123456789abcdef",1]}}`,
				a.n.id, base64.StdEncoding.EncodeToString(a.n.pubs[a.n.id]), b.n.own)
			sig := ed25519.Sign(a.n.key, []byte("deja-heads-2\n"+body))
			box.files[headsOf(a)] = fmt.Appendf(nil, `{"heads":%s,"sig":%q}`, body, base64.StdEncoding.EncodeToString(sig))
		}, syncproto.CodeAuth},
		{"heads that are none", func(box *memBox, a, _ *user) { box.files[headsOf(a)] = []byte("x") }, syncproto.CodeFrame},
		{"huge heads", func(box *memBox, a, _ *user) { box.files[headsOf(a)] = make([]byte, 2<<20) }, syncproto.CodeFrame},
		{"a torn file", func(box *memBox, a, _ *user) {
			f := fileOf(box, a)
			box.files[f] = box.files[f][:len(box.files[f])-10]
		}, syncproto.CodeBatch},
		{"a file of something else", func(box *memBox, a, _ *user) { box.files[fileOf(box, a)] = []byte("hello, world") }, syncproto.CodeBatch},
		{"a file of another stream", func(box *memBox, a, b *user) { box.files[fileOf(box, a)] = box.files[fileOf(box, b)] }, syncproto.CodeBatch},
		{"a huge file", func(box *memBox, a, _ *user) { box.files[fileOf(box, a)] = make([]byte, 16<<20) }, syncproto.CodeLimit},
		{"an empty file", func(box *memBox, a, _ *user) { box.files[fileOf(box, a)] = nil }, syncproto.CodeBatch},
		{"a missing file", func(box *memBox, a, _ *user) { delete(box.files, fileOf(box, a)) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			box, a, b := build(t)
			tt.harm(box, a, b)
			c := newUser(rng, "c")
			c.n.write(msg("c1", "x"))
			r := c.mirror(t, box)
			if c.n.live()["b1"].ID == "" || box.files[headsOf(c)] == nil {
				t.Error("the rest was not exchanged")
			}
			if c.n.live()["a2"].ID != "" {
				t.Error("something odd was taken")
			}
			if tt.code == "" != (len(r.Refused) == 0) || tt.code != "" && r.Refused[0].Code != tt.code {
				t.Errorf("refused %v, want %s", r.Refused, tt.code)
			}
		})
	}
	t.Run("foreign files", func(t *testing.T) {
		box, a, _ := build(t)
		own := "b/" + a.n.own.String() + "/"
		for _, name := range []string{
			"README", "heads/x.json", "heads/" + strings.ToUpper(a.n.id.String()) + ".json", "heads/.part-x", own + "1-2-0123456789abcdef.djb",
			own + "00000000000000000001-00000000000000000009-0123456789abcdef.djb.tmp", own + "conflict copy.djb",
			own + "00000000000000000009-00000000000000000001-0123456789abcdef.djb",
			own + "00000000000000000001-00000000000000000002-0123456789abcdef.r0.djb", "b/x/y",
		} {
			box.files[name] = []byte("x")
		}
		c := newUser(rng, "c")
		r := c.mirror(t, box)
		if len(c.n.live()) != 3 || len(r.Refused) != 0 {
			t.Errorf("c has %d records and refused %v", len(c.n.live()), r.Refused)
		}
	})
}

func TestBoxNames(t *testing.T) {
	node, id := strings.Repeat("a", 32), strings.Repeat("a", 32)+".0123456789abcdef"
	good := "b/" + id + "/00000000000000000001-00000000000000000002-0123456789abcdef"
	for name, want := range map[string]bool{
		"deja-mailbox.json": true, "heads/" + node + ".json": true, good + ".djb": true, good + ".r12.djb": true,
		"": false, "heads": false, "heads/..": false, "../deja-mailbox.json": false, "/deja-mailbox.json": false,
		"heads/../heads/" + node + ".json": false, "b/" + id + "/../x": false, good: false, good + ".r01.djb": false,
		good + ".r9999999999.djb": false, strings.ToUpper(good) + ".djb": false, good + ".djb\n": false, "b//" + id: false,
	} {
		if got := syncproto.ValidBoxName(name); got != want {
			t.Errorf("ValidBoxName(%q) = %v", name, got)
		}
	}
	for dir, want := range map[string]bool{"": true, "heads": true, "b/" + id: true, "b": false, "..": false, "b/..": false, "b/" + id + "/x": false} {
		if got := syncproto.ValidBoxDir(dir); got != want {
			t.Errorf("ValidBoxDir(%q) = %v", dir, got)
		}
	}
}

// Every revision of a heads file has another size than the ones before it.
func TestHeadsAreToldApart(t *testing.T) {
	rng := newRand(t)
	box, a := newBox(t), newUser(rng, "a")
	seen := map[int]bool{}
	for i := range 300 {
		a.n.write(msg(fmt.Sprint("a", i), "x"))
		a.mirror(t, box)
		size := len(box.files["heads/"+a.n.id.String()+".json"])
		if seen[size] {
			t.Fatalf("revision %d has a size that was there before", i)
		}
		seen[size] = true
	}
}
