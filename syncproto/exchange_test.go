package syncproto_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
)

func msg(id, text string) entry { return entry{Kind: "msg", ID: id, Text: text} }

func tomb(id string, drop ...string) entry { return entry{Kind: "tomb", ID: id, Drop: drop} }

func TestBothDirections(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("a1", "one"), msg("a2", "two"))
	a.write(msg("a3", "three"))
	b.write(msg("b1", "eins"))
	ra, rb := exchange(t, rng, a, b)
	equalNodes(t, a, b)
	if ra.Sent.Records != 3 || ra.Received.Records != 1 || rb.Sent.Records != 1 || rb.Received.Records != 3 {
		t.Errorf("records: a sent %d and got %d, b sent %d and got %d; want 3, 1, 1, 3",
			ra.Sent.Records, ra.Received.Records, rb.Sent.Records, rb.Received.Records)
	}
	if ra.Behind != 1 || ra.TheyLack != 3 || !ra.Complete || ra.Peer.Node != b.id || ra.Peer.Name != "b" {
		t.Errorf("report of a: %+v", ra)
	}
	if got := ra.Acked[a.own]; got != 3 {
		t.Errorf("b acknowledged %d of a's stream, want 3", got)
	}
	if ra.BytesIn != rb.BytesOut || ra.BytesOut != rb.BytesIn {
		t.Errorf("bytes: a in %d out %d, b in %d out %d", ra.BytesIn, ra.BytesOut, rb.BytesIn, rb.BytesOut)
	}
}

// Nothing new costs two round trips and 2 KB from the server's magic line on.
func TestNothingNew(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "mini"), newNode(rng, "workstation")
	other := newNode(rng, "laptop")
	for i, n := range []*modelNode{a, b, other} {
		for j := range 5 {
			n.write(msg(fmt.Sprint(i, ".", j), "x"))
		}
	}
	exchange(t, rng, a, other)
	exchange(t, rng, a, b)
	exchange(t, rng, b, a)
	nonce := syncproto.Nonce{1, 2, 3}
	p := pair(t, a, b, syncproto.Config{App: "deja 1.0.0"}, syncproto.Config{App: "deja 1.0.0", Nonce: nonce})
	preamble := len(p.server.s.Preamble())
	p.client.s.Greet(nonce, "")
	legs := p.lockstep(t)
	bytes := preamble + p.client.wire + p.server.wire
	ra, rb := p.client.s.Report(), p.server.s.Report()
	t.Logf("nothing new in 3 streams: %d legs, %d bytes, %d and %d round trips reported", legs, bytes, ra.RoundTrips, rb.RoundTrips)
	if legs > 4 || ra.RoundTrips > 2 || rb.RoundTrips > 2 {
		t.Errorf("%d legs, %d and %d round trips; at most 4, 2 and 2", legs, ra.RoundTrips, rb.RoundTrips)
	}
	if bytes > 2000 {
		t.Errorf("%d bytes, at most 2000", bytes)
	}
	if got := ra.BytesIn + ra.BytesOut; got != int64(bytes) {
		t.Errorf("the report counts %d bytes, the wire had %d", got, bytes)
	}
}

func TestTwiceIsOnce(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("a1", "one"))
	exchange(t, rng, a, b)
	before := b.dump()
	ra, _ := exchange(t, rng, b, a)
	if b.dump() != before || ra.Received.Batches+ra.Sent.Batches != 0 {
		t.Errorf("a second exchange moved %+v and %+v", ra.Sent, ra.Received)
	}
}

// Crossing exchanges: while one is under way, another one brings the same.
func TestCrossing(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	for i := range 20 {
		a.write(msg(fmt.Sprint("a", i), "x"))
		b.write(msg(fmt.Sprint("b", i), "x"))
	}
	for cut := 1; ; cut += 3 {
		slow := pair(t, a, b, syncproto.Config{}, syncproto.Config{})
		if slow.run(t, rng, cut) {
			break
		}
		exchange(t, rng, b, a)
		if !slow.run(t, rng, -1) {
			t.Fatalf("cut %d: the slower exchange failed: %v, %v", cut, slow.client.err, slow.server.err)
		}
		slow.finish(t)
		equalNodes(t, a, b)
		a.write(msg(fmt.Sprint("more a", cut), "x"))
		b.write(msg(fmt.Sprint("more b", cut), "x"))
	}
	if len(a.live()) != len(b.live()) {
		exchange(t, rng, a, b)
	}
	equalNodes(t, a, b)
}

func TestRelayKeepsTheOrigin(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	a.write(msg("a1", "one"))
	c.write(msg("c1", "drei"))
	exchange(t, rng, a, b)
	exchange(t, rng, b, c)
	exchange(t, rng, a, b)
	equalNodes(t, a, b, c)
	if c.streams[a.own] == nil || !c.pubs[a.id].Equal(a.key.Public()) {
		t.Fatal("c does not hold a's stream and key")
	}
	before := a.dump()
	exchange(t, rng, a, c) // a, b, c, a: nothing comes back
	if a.dump() != before {
		t.Error("a got its own records back")
	}
}

func TestModes(t *testing.T) {
	rng := newRand(t)
	for _, tt := range []struct {
		mode       syncproto.Mode
		send, take int
	}{
		{syncproto.Both, 2, 1}, {syncproto.Push, 2, 0}, {syncproto.Pull, 0, 1}, {syncproto.Plan, 0, 0},
	} {
		for _, server := range []bool{false, true} {
			a, b := newNode(rng, "a"), newNode(rng, "b")
			a.write(msg("a1", "one"), msg("a2", "two"))
			b.write(msg("b1", "eins"))
			var ra syncproto.Report
			if server {
				_, ra = exchangeWith(t, rng, b, a, syncproto.Config{}, syncproto.Config{Mode: tt.mode})
			} else {
				ra, _ = exchangeWith(t, rng, a, b, syncproto.Config{Mode: tt.mode}, syncproto.Config{})
			}
			if len(a.live()) != 2+tt.take || len(b.live()) != 1+tt.send {
				t.Errorf("mode %d, server %v: a has %d records and b %d", tt.mode, server, len(a.live()), len(b.live()))
			}
			if ra.Behind != 1 || ra.TheyLack != 2 {
				t.Errorf("mode %d: behind %d, they lack %d; want 1 and 2", tt.mode, ra.Behind, ra.TheyLack)
			}
		}
	}
}

// A probe learns who answers, proved, and neither side learns anything else.
func TestProbe(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("a1", "one"))
	b.write(msg("b1", "one"))
	for _, known := range []bool{true, false} {
		if !known {
			b.rules = func(record.NodeID) *rule { return nil }
		}
		p := pair(t, a, b, syncproto.Config{Mode: syncproto.Probe}, syncproto.Config{})
		p.run(t, rng, -1)
		if !p.client.s.Done() || !p.server.s.Done() {
			t.Fatal("the probe hangs")
		}
		if p.client.err != nil {
			t.Errorf("known %v: %v", known, p.client.err)
		}
		if got := p.client.s.Report().Peer; got.Node != b.id || got.Name != "b" || !got.Pub.Equal(b.key.Public()) {
			t.Errorf("known %v: the probe found %+v", known, got)
		}
		if len(a.live()) != 1 || len(b.live()) != 1 {
			t.Error("a probe exchanged records")
		}
	}
}

func TestUnknownPeerGetsNothingAndGivesNothing(t *testing.T) {
	rng := newRand(t)
	for _, clientKnows := range []bool{true, false} {
		a, b := newNode(rng, "a"), newNode(rng, "b")
		a.write(msg("a1", "one"))
		b.write(msg("b1", "one"))
		nobody := func(record.NodeID) *rule { return nil }
		if clientKnows {
			b.rules = nobody
		} else {
			a.rules = nobody
		}
		p := pair(t, a, b, syncproto.Config{}, syncproto.Config{})
		p.run(t, rng, -1)
		ignorant, other := p.server, p.client
		if !clientKnows {
			ignorant, other = other, ignorant
		}
		wantRefusal(t, ignorant.err, syncproto.CodePolicy, false)
		wantRefusal(t, other.err, syncproto.CodePolicy, true)
		if len(a.live()) != 1 || len(b.live()) != 1 {
			t.Error("records were exchanged")
		}
		for _, typ := range ignorant.types {
			if typ == syncproto.TypeHave {
				t.Error("the streams were told to an unknown node")
			}
		}
	}
}

func wantRefusal(t testing.TB, err error, code syncproto.Code, remote bool) *syncproto.Refusal {
	t.Helper()
	r, ok := errors.AsType[*syncproto.Refusal](err)
	if !ok || r.Code != code || r.Remote != remote {
		t.Fatalf("got %v, want %s (remote %v)", err, code, remote)
	}
	return r
}

func TestExpectedNode(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	b.write(msg("b1", "one"))
	p := pair(t, a, b, syncproto.Config{Expect: c.id}, syncproto.Config{})
	p.run(t, rng, -1)
	r := wantRefusal(t, p.client.err, syncproto.CodeNodeChanged, false)
	if !r.Permanent() {
		t.Error("a changed node is not permanent")
	}
	wantRefusal(t, p.server.err, syncproto.CodeNodeChanged, true)
	if len(a.streams) != 0 {
		t.Error("records of the wrong node were taken")
	}
}

// The server that says hello is the one that wrote the magic line.
func TestMagicOfAnother(t *testing.T) {
	rng := newRand(t)
	p := pair(t, newNode(rng, "a"), newNode(rng, "b"), syncproto.Config{}, syncproto.Config{})
	p.client.s.Greet(syncproto.Nonce{1}, "")
	p.run(t, rng, -1)
	wantRefusal(t, p.client.err, syncproto.CodeAuth, false)
}

// Who is refused for what it is still learns, proved, who refuses it.
func TestRefusedInTheHandshake(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	b.rules = func(record.NodeID) *rule { return nil }
	p := pair(t, a, b, syncproto.Config{}, syncproto.Config{})
	ctx := t.Context()
	p.server.write(ctx, p.client) // its HELLO; the rest waits
	for p.client.read(ctx) {
	}
	for p.client.write(ctx, p.server) {
	}
	for p.server.read(ctx) {
	}
	for p.server.write(ctx, p.client) {
	}
	for p.client.read(ctx) {
	}
	wantRefusal(t, p.client.err, syncproto.CodePolicy, true)
	if p.client.s.Report().Peer.Node != b.id {
		t.Error("the client does not know who refused it")
	}
}

func TestThisVeryNode(t *testing.T) {
	rng := newRand(t)
	a := newNode(rng, "a")
	p := pair(t, a, a, syncproto.Config{}, syncproto.Config{})
	p.run(t, rng, -1)
	for _, err := range []error{p.client.err, p.server.err} {
		if r, ok := errors.AsType[*syncproto.Refusal](err); !ok || r.Code != syncproto.CodeAuth {
			t.Errorf("got %v, want %s", err, syncproto.CodeAuth)
		}
	}
}

// The policy decides per stream, on the side that serves and on the one that accepts.
func TestServeAndAccept(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	a.write(msg("a1", "one"))
	c.write(msg("c1", "one"))
	exchange(t, rng, a, c)
	b.rules = func(record.NodeID) *rule {
		return &rule{serve: anything, accept: func(s record.StreamID) bool { return s.Node != c.id }}
	}
	rb, _ := exchange(t, rng, b, a)
	if b.streams[a.own] == nil || b.streams[c.own] != nil {
		t.Errorf("b took what it does not accept: %v", b.frontier())
	}
	if len(rb.Refused) != 1 || rb.Refused[0].Stream != c.own || rb.Behind != 1 {
		t.Errorf("refused %v, behind %d", rb.Refused, rb.Behind)
	}
	d := newNode(rng, "d")
	a.rules = func(record.NodeID) *rule {
		return &rule{accept: anything, serve: func(s record.StreamID) bool { return s.Node == a.id }}
	}
	exchange(t, rng, d, a)
	if d.streams[a.own] == nil || d.streams[c.own] != nil {
		t.Errorf("a served what it must not: %v", d.frontier())
	}
}
