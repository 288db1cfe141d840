package postings_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// world is some logs.
type world struct {
	streams []record.StreamID
	logs    map[record.StreamID][]record.Entry
}

// vocabulary holds forms of one word, so that terms are not tokens.
var vocabulary = strings.Fields(`pool pools pooling deadlock deadlocked wait waits waiting connection connections retry retries
	index indices write wrote written getUserName max_idle_conns sha256 1.26.0 修复死锁 ошибка ошибки the of is and it timeout
	zebra quokka` + strings.Repeat(" common", 20))

func words(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(vocabulary[rng.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}

var allRoles = []record.Role{
	record.RoleUser, record.RoleUser, record.RoleAssistant, record.RoleAssistant, record.RoleDeveloper, record.RoleToolOutput,
	record.RoleFiles, record.RoleCommand, record.RoleEdit, record.RoleSummary, record.RoleMeta, "narrator",
}

// randomEntry is any entry that a log can hold.
func randomEntry(rng *rand.Rand, sessions int) record.Entry {
	e := record.Entry{Kind: record.KindMsg, Harness: "claude", Session: fmt.Sprint("s", rng.IntN(sessions)), Role: allRoles[rng.IntN(len(allRoles))]}
	size := rng.IntN(12)
	if rng.IntN(30) == 0 {
		size = rng.IntN(2000)
	}
	e.Text = redact.Trusted(words(rng, size))
	switch rng.IntN(20) {
	case 0:
		e.Kind, e.Role = record.KindNote, record.RoleUser
		e.Note = &record.NoteMeta{Tags: []string{words(rng, 1)}, Title: redact.Trusted(words(rng, 2))}
	case 1:
		e = record.Entry{Kind: record.KindSession, Harness: "claude", Session: e.Session, Role: record.RoleMeta}
	case 2:
		e = record.Entry{Kind: record.KindStub, Stub: &record.Stub{Reason: record.Withheld}}
	case 3:
		e = record.Entry{Kind: "of the future", Raw: []byte("{}")}
	}
	if e.Role == record.RoleEdit {
		e.Text = redact.Trusted(words(rng, 1) + "\n" + words(rng, size))
	}
	return e
}

// newWorld makes logs of two nodes, one of which has two.
func newWorld(rng *rand.Rand, entries, sessions int) *world {
	w := &world{logs: map[record.StreamID][]record.Entry{}}
	for _, id := range [][2]byte{{1, 1}, {1, 2}, {2, 1}} {
		s := record.StreamID{Node: record.NodeID{id[0]}, Nonce: [8]byte{id[1]}}
		w.streams = append(w.streams, s)
		for range 1 + rng.IntN(entries) {
			w.logs[s] = append(w.logs[s], randomEntry(rng, sessions))
		}
	}
	return w
}

// index is a view under construction.
type index struct {
	t    testing.TB
	fs   *vfs.Mem
	sh   *shelf.Shelf
	view *postings.View
}

func newIndex(t testing.TB) *index {
	x := &index{t: t, fs: vfs.NewMem()}
	sh, err := shelf.Open(x.fs, "/views")
	if err != nil {
		t.Fatal(err)
	}
	x.sh = sh
	x.reopen()
	return x
}

// reopen continues from what was published, as another process does.
func (x *index) reopen() {
	x.t.Helper()
	snap, err := x.sh.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	if x.view, err = postings.Open(x.sh, snap.State(postings.Name)); err != nil {
		x.t.Fatal(err)
	}
	if err := snap.Close(); err != nil {
		x.t.Fatal(err)
	}
}

func (x *index) apply(s record.StreamID, from record.Seq, entries []record.Entry) {
	x.t.Helper()
	if err := x.view.Apply(x.t.Context(), s, from, entries); err != nil {
		x.t.Fatal(err)
	}
}

func (x *index) publish() {
	x.t.Helper()
	st, err := x.view.Flush(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.sh.Publish(map[string]shelf.State{postings.Name: st}); err != nil {
		x.t.Fatal(err)
	}
}

// reader opens what was published last, until the end of the test.
func (x *index) reader() *postings.Reader {
	x.t.Helper()
	snap, err := x.sh.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if err := snap.Close(); err != nil {
			x.t.Error(err)
		}
	})
	r, err := postings.NewReader(snap)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

func (x *index) files() []shelf.FileRef {
	x.t.Helper()
	snap, err := x.sh.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	defer snap.Close()
	return snap.State(postings.Name).Files
}

func (x *index) size() (n int64) {
	for _, f := range x.files() {
		n += f.Size
	}
	return n
}

// build folds whole logs, one after the other, at once.
func (w *world) build(t testing.TB) *index {
	x := newIndex(t)
	for _, s := range w.streams {
		x.apply(s, 1, w.logs[s])
	}
	x.publish()
	return x
}

// grow folds the logs in pieces, in any order of the streams, with flushes,
// and new processes, in between.
func (w *world) grow(t testing.TB, rng *rand.Rand) *index {
	x := newIndex(t)
	done := map[record.StreamID]int{}
	most := 1 + rng.IntN(20)
	for {
		var left []record.StreamID
		for _, s := range w.streams {
			if done[s] < len(w.logs[s]) {
				left = append(left, s)
			}
		}
		if len(left) == 0 {
			break
		}
		s := left[rng.IntN(len(left))]
		n := min(done[s]+1+rng.IntN(most), len(w.logs[s]))
		x.apply(s, record.Seq(done[s]+1), w.logs[s][done[s]:n])
		done[s] = n
		if rng.IntN(3) == 0 {
			x.publish()
		}
		if rng.IntN(20) == 0 {
			x.reopen()
			for _, s := range w.streams {
				done[s] = int(x.view.Known()[s].Seq)
			}
		}
	}
	x.publish()
	return x
}

func dump(t testing.TB, r *postings.Reader) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Dump(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func search(t testing.TB, r *postings.Reader, q postings.Request) postings.Found {
	t.Helper()
	found, err := r.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func sessionOf(s record.StreamID, e record.Entry) record.SessionID {
	return record.SessionOf(s.Node, record.SessionKey{Harness: e.Harness, Native: e.Session})
}

// clip shows where two texts part.
func clip(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d:\n%.300s\n%.300s", i, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

func anyOf[T any](rng *rand.Rand, from []T, n int) []T {
	var out []T
	for _, i := range rng.Perm(len(from))[:min(n, len(from))] {
		out = append(out, from[i])
	}
	return slices.Clip(out)
}
