package syncproto_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deja-node/deja/syncproto"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the randomised tests; 0 draws one")
	rounds   = flag.Int("rounds", 1, "multiplies the rounds of the simulators")
)

// newRand returns the random source of a test and prints its seed.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

var epoch = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// side is one end of an exchange that is pumped by hand.
type side struct {
	n     *modelNode
	store *modelStore
	s     *syncproto.Session
	in    []syncproto.Frame // on their way here
	wire  int               // bytes written
	types []syncproto.Type  // frames written
	err   error
}

func newSide(t testing.TB, n *modelNode, cfg syncproto.Config) *side {
	t.Helper()
	cfg.Key, cfg.Name, cfg.Now = n.key, n.name, epoch
	st := n.store()
	s, err := syncproto.New(cfg, st)
	if err != nil {
		t.Fatal(err)
	}
	return &side{n: n, store: st, s: s}
}

// write moves the next frame of a side to the other. It reports whether there was one.
func (a *side) write(ctx context.Context, b *side) bool {
	f, ok, err := a.s.Next(ctx)
	if err != nil && a.err == nil {
		a.err = err
	}
	if !ok {
		return false
	}
	a.wire += 5 + len(f.Payload)
	a.types = append(a.types, f.Type)
	b.in = append(b.in, syncproto.Frame{Type: f.Type, Payload: bytes.Clone(f.Payload)})
	return true
}

// read takes the oldest frame that is on its way. It reports whether there was one.
func (a *side) read(ctx context.Context) bool {
	if len(a.in) == 0 {
		return false
	}
	f := a.in[0]
	a.in = a.in[1:]
	if err := a.s.Receive(ctx, f); err != nil && a.err == nil {
		a.err = err
	}
	for i := range f.Payload {
		f.Payload[i] = 0xee // nothing may be kept of it
	}
	return true
}

// pumped is an exchange between two nodes of the model.
type pumped struct {
	client, server *side
	frames         int
}

func pair(t testing.TB, a, b *modelNode, client, server syncproto.Config) *pumped {
	t.Helper()
	server.Server = true
	return &pumped{client: newSide(t, a, client), server: newSide(t, b, server)}
}

// run lets both sides step in a random order until nothing moves or cut frames
// were written; a negative cut is none. It reports whether both were done.
func (p *pumped) run(t testing.TB, rng *rand.Rand, cut int) bool {
	t.Helper()
	for cut < 0 || p.frames < cut {
		if !p.step(t.Context(), rng) {
			break
		}
	}
	return p.client.s.Done() && p.server.s.Done()
}

// step does one of the things that can happen next. It reports whether any could.
func (p *pumped) step(ctx context.Context, rng *rand.Rand) bool {
	for _, i := range rng.Perm(4) {
		a, b := p.client, p.server
		if i%2 == 0 {
			a, b = b, a
		}
		if i < 2 {
			if a.read(ctx) {
				return true
			}
		} else if a.write(ctx, b) {
			p.frames++
			return true
		}
	}
	return false
}

// finish ends both sessions.
func (p *pumped) finish(t testing.TB) {
	t.Helper()
	for _, a := range []*side{p.client, p.server} {
		if err := a.s.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// exchange runs a whole exchange and fails the test unless it is complete.
func exchange(t testing.TB, rng *rand.Rand, a, b *modelNode) (client, server syncproto.Report) {
	t.Helper()
	return exchangeWith(t, rng, a, b, syncproto.Config{}, syncproto.Config{})
}

func exchangeWith(t testing.TB, rng *rand.Rand, a, b *modelNode, ca, cb syncproto.Config) (client, server syncproto.Report) {
	t.Helper()
	p := pair(t, a, b, ca, cb)
	done := p.run(t, rng, -1)
	if err := errors.Join(p.client.err, p.server.err); err != nil {
		t.Fatalf("exchange of %s and %s: %v", a.name, b.name, err)
	}
	if !done {
		t.Fatalf("exchange of %s and %s hangs after %v and %v", a.name, b.name, p.client.types, p.server.types)
	}
	p.finish(t)
	return p.client.s.Report(), p.server.s.Report()
}

// lockstep runs an exchange in legs: a side writes all it can, then the other
// reads all of it. It returns how many legs carried something after the
// server's first, which a round trip has two of.
func (p *pumped) lockstep(t testing.TB) (legs int) {
	t.Helper()
	ctx := t.Context()
	for p.client.write(ctx, p.server) { // the client does not wait for the magic line
	}
	for a, b := p.server, p.client; ; a, b = b, a {
		for a.read(ctx) {
		}
		n := 0
		for a.write(ctx, b) {
			n++
		}
		if n == 0 {
			break
		}
		legs++
	}
	if err := errors.Join(p.client.err, p.server.err); err != nil {
		t.Fatal(err)
	}
	if !p.client.s.Done() || !p.server.s.Done() {
		t.Fatal("the exchange hangs")
	}
	p.finish(t)
	return legs
}

// equalNodes fails unless the nodes hold the same, for all that they accept.
func equalNodes(t testing.TB, nodes ...*modelNode) {
	t.Helper()
	for _, n := range nodes[1:] {
		if n.dump() != nodes[0].dump() {
			t.Fatalf("%s and %s differ:\n%s\n---\n%s", nodes[0].name, n.name, nodes[0].dump(), n.dump())
		}
	}
}
