package syncproto_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

// world is a fleet of model nodes and what must be true of it.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	nodes []*modelNode
	said  map[string]bool // every id ever written
	dead  map[string]bool // by a tomb
	low   []map[record.StreamID]record.Seq
	next  int
}

func newWorld(t *testing.T, rng *rand.Rand, n int) *world {
	w := &world{t: t, rng: rng, said: map[string]bool{}, dead: map[string]bool{}}
	for i := range n {
		w.nodes = append(w.nodes, newNode(rng, fmt.Sprint("node", i)))
		w.low = append(w.low, nil)
	}
	return w
}

// write lets a node say something, or forget something that it can read.
func (w *world) write(n *modelNode) {
	var entries []entry
	for range 1 + w.rng.IntN(4) {
		w.next++
		e := msg(fmt.Sprint("id", w.next), strings.Repeat("x", w.rng.IntN(50)))
		if w.rng.IntN(8) == 0 {
			e.Kind = "note"
		}
		if w.rng.IntN(10) == 0 {
			if victim := w.victim(n); victim != "" {
				e = tomb(e.ID, victim)
				w.dead[victim] = true
			}
		}
		w.said[e.ID] = true
		entries = append(entries, e)
	}
	n.write(entries...)
}

func (w *world) victim(n *modelNode) string {
	var ids []string
	for id, e := range n.live() {
		if e.Kind != "tomb" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	return ids[w.rng.IntN(len(ids))]
}

// exchange lets two nodes exchange; half of the exchanges are cut, and some of
// those end with a crash that loses what was not made durable.
func (w *world) exchange(a, b *modelNode) {
	cut := -1
	if w.rng.IntN(2) == 0 {
		cut = w.rng.IntN(30)
	}
	p := pair(w.t, a, b, syncproto.Config{}, syncproto.Config{})
	p.run(w.t, w.rng, cut)
	for _, s := range []*side{p.client, p.server} {
		if s.err != nil {
			w.t.Fatalf("%s: %v", s.n.name, s.err)
		}
		if cut >= 0 && w.rng.IntN(2) == 0 {
			s.store.crash()
		} else if err := s.s.Finish(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// check tests what must hold at any time.
func (w *world) check() {
	w.t.Helper()
	for i, n := range w.nodes {
		f := n.frontier()
		for s, low := range w.low[i] {
			if f[s] < low {
				w.t.Fatalf("%s: the head of %s went from %d to %d", n.name, s, low, f[s])
			}
		}
		w.low[i] = f
		for id := range n.live() {
			if !w.said[id] {
				w.t.Fatalf("%s holds %q, which nobody said once", n.name, id)
			}
			if n.dead[id] {
				w.t.Fatalf("%s shows %q, which it knows to be forgotten", n.name, id)
			}
		}
		if w.rng.IntN(20) == 0 { // signatures are slow
			w.verify(n)
		}
	}
}

// verify checks every stored header and its chain.
func (w *world) verify(n *modelNode) {
	w.t.Helper()
	for id, st := range n.streams {
		var prev record.Head
		for _, b := range st.batches {
			if b.full.Stream != id || b.first() != prev.Seq+1 || b.full.Prev != prev.Hash {
				w.t.Fatalf("%s: stream %s is broken at %d", n.name, id, b.first())
			}
			shown, err := batch.Open(b.encode(&n.codec, b.lines))
			if err != nil {
				w.t.Fatal(err)
			}
			if err := n.codec.Verify(shown, n.pubs[id.Node]); err != nil {
				w.t.Fatalf("%s: stream %s at %d: %v", n.name, id, b.first(), err)
			}
			prev = record.Head{Seq: b.last(), Hash: b.full.Hash}
		}
	}
}

// settle exchanges without cuts along a ring until nothing moves, and checks
// that all nodes hold the same and exactly what lives.
func (w *world) settle() {
	w.t.Helper()
	for range len(w.nodes) + 1 {
		for i, n := range w.nodes {
			exchange(w.t, w.rng, n, w.nodes[(i+1)%len(w.nodes)])
		}
	}
	w.check()
	for _, n := range w.nodes {
		w.verify(n)
	}
	want := maps.Clone(w.said)
	for id := range w.dead {
		delete(want, id)
	}
	for _, n := range w.nodes {
		got := n.live()
		for id := range want {
			if _, ok := got[id]; !ok {
				w.t.Errorf("%s lacks %q", n.name, id)
			}
		}
		for id := range got {
			if !want[id] {
				w.t.Errorf("%s shows %q", n.name, id)
			}
		}
	}
}

// The laws of the exchange over random histories: every living record ends on
// every node once, no dead one is shown where its tomb is known, heads never
// shrink, every stored header verifies.
func TestFleet(t *testing.T) {
	rng := newRand(t)
	for round := range 10 * *rounds {
		w := newWorld(t, rng, 2+rng.IntN(4))
		for range 60 {
			a := w.nodes[rng.IntN(len(w.nodes))]
			b := w.nodes[rng.IntN(len(w.nodes))]
			if rng.IntN(3) == 0 {
				w.write(a)
			} else if a != b {
				w.exchange(a, b)
			}
			w.check()
		}
		w.settle()
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// A chain of nodes that only ever meet their neighbours.
func TestChain(t *testing.T) {
	rng := newRand(t)
	w := newWorld(t, rng, 5)
	for range 150 {
		i := rng.IntN(len(w.nodes))
		if rng.IntN(3) == 0 {
			w.write(w.nodes[i])
		} else if i > 0 {
			w.exchange(w.nodes[i], w.nodes[i-1])
		}
		w.check()
	}
	for range len(w.nodes) {
		for i := range w.nodes[1:] {
			exchange(t, rng, w.nodes[i+1], w.nodes[i])
		}
	}
	w.settle()
}

// A node that was away for long brings nothing back from the dead, in whatever
// order it meets the others.
func TestAwayForAYear(t *testing.T) {
	rng := newRand(t)
	for range 6 * *rounds {
		w := newWorld(t, rng, 4)
		away := w.nodes[3]
		for _, n := range w.nodes {
			w.write(n)
		}
		for _, n := range w.nodes[:3] {
			exchange(t, rng, n, away)
		}
		for range 20 {
			w.write(w.nodes[rng.IntN(3)])
			exchange(t, rng, w.nodes[rng.IntN(2)], w.nodes[2])
		}
		for _, i := range rng.Perm(3) {
			exchange(t, rng, away, w.nodes[i])
			w.check()
		}
		w.settle()
	}
}

// Cut at every frame, in every way the cut can fall: nothing is lost, nothing
// comes twice, and no more than what was not committed is sent again.
func TestCutEverywhere(t *testing.T) {
	rng := newRand(t)
	build := func() (*modelNode, *modelNode) {
		r := rand.New(rand.NewPCG(7, 7))
		a, b, c := newNode(r, "a"), newNode(r, "b"), newNode(r, "c")
		for i := range 6 {
			a.write(msg(fmt.Sprint("a", i), "x"), msg(fmt.Sprint("aa", i), "y"))
			b.write(msg(fmt.Sprint("b", i), "x"))
			c.write(msg(fmt.Sprint("c", i), "x"))
		}
		exchange(t, r, c, a)
		a.write(tomb("t", "c0", "a1"))
		return a, b
	}
	a, b := build()
	exchange(t, rng, a, b)
	want := a.dump()
	if b.dump() != want {
		t.Fatal("the uncut exchange did not converge")
	}
	for crash := range 4 {
		for cut := 0; ; cut++ {
			a, b := build()
			p := pair(t, a, b, syncproto.Config{}, syncproto.Config{})
			done := p.run(t, rng, cut)
			for i, s := range []*side{p.client, p.server} {
				if s.err != nil {
					t.Fatalf("cut %d: %v", cut, s.err)
				}
				if crash>>i&1 == 1 {
					s.store.crash()
				} else if err := s.s.Finish(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !done {
				exchange(t, rng, b, a)
			}
			if a.dump() != want || b.dump() != want {
				t.Fatalf("crash %d, cut at frame %d: the nodes differ from an uncut exchange", crash, cut)
			}
			if done && p.frames < cut {
				t.Logf("crash %d: %d cuts", crash, cut)
				break
			}
		}
	}
}
