package syncproto_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

func withholding(text string) *rule {
	r := openRule()
	r.withhold = func(e entry) bool { return strings.Contains(e.Text, text) }
	return r
}

// What a policy withholds leaves a hole that the head passes over, and that is
// asked for again only when there is somebody who might fill it.
func TestHoles(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	a.rules = func(peer record.NodeID) *rule {
		if peer == b.id {
			return withholding("private")
		}
		return openRule()
	}
	a.write(msg("a1", "public"), msg("a2", "private"), msg("a3", "public"))
	a.write(msg("a4", "private"))
	a.write(msg("a5", "public"))
	_, rb := exchange(t, rng, a, b)
	if rb.Received.Records != 3 || rb.Received.Withheld != 2 || b.frontier()[a.own] != 5 {
		t.Fatalf("b got %+v, head %d", rb.Received, b.frontier()[a.own])
	}
	_, rb = exchange(t, rng, a, b)
	if rb.Received.Batches != 0 {
		t.Errorf("the same policy was asked again: %+v", rb.Received)
	}
	exchange(t, rng, b, c) // relays the stubs
	if len(c.live()) != 3 {
		t.Fatalf("c has %d records", len(c.live()))
	}
	_, rc := exchange(t, rng, b, c)
	if rc.Received.Batches != 0 {
		t.Errorf("c asked b for holes that b has itself: %+v", rc.Received)
	}
	_, rc = exchange(t, rng, a, c)
	if rc.Received.Filled != 2 || len(c.live()) != 5 {
		t.Errorf("c filled %+v, has %d", rc.Received, len(c.live()))
	}
	a.rules, a.policy = func(record.NodeID) *rule { return openRule() }, "p2"
	_, rb = exchange(t, rng, a, b)
	if rb.Received.Filled != 2 || rb.Received.Had != 2 {
		t.Errorf("after the policy changed b got %+v", rb.Received)
	}
	equalNodes(t, a, b, c)
}

// Nobody is asked for what it says it has not.
func TestHolesOfTheOther(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	a.rules = func(record.NodeID) *rule { return withholding("private") }
	a.write(msg("a1", "private"), msg("a2", "public"))
	exchange(t, rng, a, b)
	exchange(t, rng, a, c)
	rb, rc := exchange(t, rng, b, c)
	if rb.Received.Batches+rc.Received.Batches != 0 {
		t.Errorf("holes were filled with holes: %+v, %+v", rb.Received, rc.Received)
	}
}

// A tomb that comes after the stub keeps the hole from being filled.
func TestHolesOfTheDead(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	a.rules = func(record.NodeID) *rule { return withholding("private") }
	a.write(msg("a1", "private"))
	exchange(t, rng, a, b)
	c.write(tomb("t", "a1"))
	exchange(t, rng, b, c)
	a.rules, a.policy = func(record.NodeID) *rule { return openRule() }, "p2"
	_, rb := exchange(t, rng, a, b)
	if rb.Received.Filled != 0 || b.live()["a1"].ID != "" {
		t.Errorf("the hole came back to life: %+v", rb.Received)
	}
	equalNodes(t, a, b)
}

// With --recent the newest comes first, and the rest in the same exchange.
func TestRecent(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	for i := range 20 {
		a.write(msg(fmt.Sprint("a", i), strings.Repeat("x", 100)))
	}
	p := pair(t, b, a, syncproto.Config{Recent: epoch}, syncproto.Config{})
	first := ""
	for p.step(t.Context(), rng) {
		if live := b.live(); first == "" && len(live) == 1 {
			for id := range live {
				first = id
			}
		}
	}
	p.finish(t)
	if first != "a19" {
		t.Errorf("%q came first", first)
	}
	r := p.client.s.Report()
	if r.Received.Records != 20 || !r.Complete {
		t.Errorf("received %+v", r.Received)
	}
	equalNodes(t, a, b)
}

// With --recent the streams that grew last come first.
func TestRecentStreams(t *testing.T) {
	rng := newRand(t)
	relay, b := newNode(rng, "relay"), newNode(rng, "b")
	newest := ""
	for i := range 5 {
		origin := newNode(rng, "origin")
		id := fmt.Sprint("o", i)
		origin.write(msg(id, "x"))
		exchange(t, rng, origin, relay)
		relay.streams[origin.own].grew = epoch.Add(time.Duration((i*3)%5) * time.Hour)
		if (i*3)%5 == 4 {
			newest = id
		}
	}
	p := pair(t, b, relay, syncproto.Config{Recent: epoch}, syncproto.Config{})
	first := ""
	for p.step(t.Context(), rng) {
		for id := range b.live() {
			if first == "" {
				first = id
			}
		}
	}
	p.finish(t)
	if first != newest {
		t.Errorf("%q came first, want %q", first, newest)
	}
	equalNodes(t, relay, b)
}

// A node that lost its tail gets it back from a peer, if it wants to.
func TestRollback(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	for i := range 6 {
		a.write(msg(fmt.Sprint("a", i), "x"))
	}
	exchange(t, rng, a, b)
	want := a.dump()
	a.streams[a.own].batches = a.streams[a.own].batches[:2]
	exchange(t, rng, a, b)
	if a.frontier()[a.own] != 2 {
		t.Fatal("a took its own stream back without asking")
	}
	a.restore = true
	ra, _ := exchange(t, rng, a, b)
	if a.dump() != want || ra.Received.Records != 4 {
		t.Errorf("a got %+v back", ra.Received)
	}
	delete(a.streams, a.own)
	exchange(t, rng, b, a)
	if a.dump() != want {
		t.Error("a did not get its whole stream back")
	}
}

// Two nodes with one key and one stream: the peer keeps the first history,
// tells the other about both, and goes on with everything else.
func TestFork(t *testing.T) {
	rng := newRand(t)
	for _, tt := range []struct {
		name          string
		first, second int // batches written by the original and by the clone
	}{
		{name: "as long", first: 2, second: 2},
		{name: "longer", first: 2, second: 4},
		{name: "shorter", first: 3, second: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
			a.write(msg("common", "x"))
			c.write(msg("c1", "x"))
			clone := *a
			clone.streams = map[record.StreamID]*stream{a.own: {batches: []*modelBatch{a.streams[a.own].batches[0]}}}
			clone.codec = batch.Codec{}
			clone.dead, clone.tombs, clone.cancels = map[string]bool{}, map[string][]string{}, map[string]bool{}
			exchange(t, rng, &clone, c)
			for i := range tt.first {
				a.write(msg(fmt.Sprint("a", i), "x"))
			}
			for i := range tt.second {
				clone.write(msg(fmt.Sprint("clone", i), "x"))
			}
			exchange(t, rng, a, b)
			want := b.frontier()[a.own]
			rc, rb := exchange(t, rng, &clone, b)
			if b.frontier()[a.own] != want || b.live()["clone0"].ID != "" {
				t.Errorf("b took the second history, head %d", b.frontier()[a.own])
			}
			if b.live()["c1"].ID == "" {
				t.Error("the other stream did not come")
			}
			if tt.second < tt.first {
				if len(b.forked)+len(clone.forked) != 0 {
					t.Error("a shorter stream was taken for a fork before anything was asked for")
				}
				return
			}
			if len(clone.forked) != 1 || len(clone.forked[0].Headers) != 2 {
				t.Fatalf("the clone was told %v", clone.forked)
			}
			if got := clone.forked[0]; got.Stream != a.own || !got.Remote || got.Code != syncproto.CodeFork {
				t.Errorf("the clone was told %v", got)
			}
			if rb.Received.Refused == 0 || len(rb.Refused) != 1 || len(rc.Refused) != 1 || rc.Sent.Refused == 0 {
				t.Errorf("refusals: b %v, clone %v", rb.Refused, rc.Refused)
			}
		})
	}
}

// A clone that is behind sees, as any node whose tail is missing, that its peer
// is ahead of it in its own stream; what it gets back then contradicts it.
func TestForkSeenByTheClone(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("common", "x"))
	clone := *a
	clone.streams = map[record.StreamID]*stream{a.own: {batches: []*modelBatch{a.streams[a.own].batches[0]}}}
	clone.codec = batch.Codec{}
	clone.dead, clone.tombs, clone.cancels = map[string]bool{}, map[string][]string{}, map[string]bool{}
	a.write(msg("a1", "x"), msg("a2", "x"))
	exchange(t, rng, a, b)
	clone.write(msg("clone1", "x"))
	clone.restore = true
	_, rb := exchange(t, rng, &clone, b)
	if len(b.forked) != 1 || len(rb.Refused) != 1 {
		t.Errorf("the peer was told %v and notes %v", b.forked, rb.Refused)
	}
}

// Quotas and the like refuse one stream and let the others pass.
func TestQuota(t *testing.T) {
	rng := newRand(t)
	a, b, c := newNode(rng, "a"), newNode(rng, "b"), newNode(rng, "c")
	for i := range 40 {
		c.write(msg(fmt.Sprint("c", i), "x"))
	}
	a.write(msg("a1", "x"))
	exchange(t, rng, a, c)
	b.limit = 10
	rb, ra := exchange(t, rng, b, a)
	if b.frontier()[a.own] != 1 || b.frontier()[c.own] != 10 {
		t.Errorf("b has %v", b.frontier())
	}
	if len(rb.Refused) != 1 || rb.Refused[0].Code != syncproto.CodeQuota || len(ra.Refused) != 1 || !ra.Refused[0].Remote {
		t.Errorf("refused %v and %v", rb.Refused, ra.Refused)
	}
	if ra.Refused[0].Permanent() {
		t.Error("a quota is permanent")
	}
}

// A fault of the store ends the exchange; the peer learns that, and no detail.
func TestFault(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("a1", "x"))
	b.fault = fmt.Errorf("write /secret/path: device not configured")
	p := pair(t, a, b, syncproto.Config{}, syncproto.Config{})
	p.run(t, rng, -1)
	if p.server.err == nil || !strings.Contains(p.server.err.Error(), "/secret/path") {
		t.Errorf("b says %v", p.server.err)
	}
	r := wantRefusal(t, p.client.err, syncproto.CodeInternal, true)
	if strings.Contains(r.Error(), "secret") || r.Permanent() {
		t.Errorf("a was told %q, permanent %v", r, r.Permanent())
	}
	b.fault = &syncproto.Refusal{Code: syncproto.CodeInternal, Msg: "no space left: 12 MB are needed in the log, 1 MB is free"}
	p = pair(t, a, b, syncproto.Config{}, syncproto.Config{})
	p.run(t, rng, -1)
	if r := wantRefusal(t, p.client.err, syncproto.CodeInternal, true); !strings.Contains(r.Msg, "12 MB are needed") {
		t.Errorf("a was told %q", r.Msg)
	}
}

// An origin that opens stream after stream is stopped at eight.
func TestTooManyStreams(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	for i := range 20 {
		a.newStream(rng)
		a.write(msg(fmt.Sprint("a", i), "x"))
	}
	for range 3 {
		rb, _ := exchange(t, rng, b, a)
		if len(b.streams) != 8 || len(rb.Refused) != 12 || rb.Refused[0].Code != syncproto.CodeLimit {
			t.Fatalf("b has %d streams and refused %d", len(b.streams), len(rb.Refused))
		}
	}
}

func TestTooManyStreamsToOffer(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	for i := range 501 {
		a.newStream(rng)
		a.streams[a.own] = &stream{batches: []*modelBatch{seal(a.key, a.own, 1, record.Hash{}, [][]byte{fmt.Appendf(nil, `{"kind":"msg","id":"%d"}`, i)})}}
	}
	p := pair(t, a, b, syncproto.Config{}, syncproto.Config{})
	p.run(t, rng, -1)
	r := wantRefusal(t, p.client.err, syncproto.CodeLimit, false)
	if !strings.Contains(r.Msg, "501") || !strings.Contains(r.Msg, "500") {
		t.Errorf("it says %q", r.Msg)
	}
}

// Tombs travel first, then notes, then the rest; and the order within a stream
// stays what it is.
func TestOrder(t *testing.T) {
	rng := newRand(t)
	relay, b := newNode(rng, "relay"), newNode(rng, "b")
	var plain, noted, buried *modelNode
	for _, n := range []**modelNode{&plain, &noted, &buried} {
		*n = newNode(rng, "origin")
	}
	for i := range 4 {
		plain.write(msg(fmt.Sprint("p", i), "x"))
		noted.write(msg(fmt.Sprint("n", i), "x"))
		buried.write(msg(fmt.Sprint("t", i), "x"))
		if i == 1 {
			noted.write(entry{Kind: "note", ID: "note"})
			buried.write(tomb("tomb", "p0"))
		}
	}
	for _, n := range []*modelNode{plain, noted, buried} {
		exchange(t, rng, n, relay)
	}
	p := pair(t, b, relay, syncproto.Config{}, syncproto.Config{})
	var order []string
	seen := map[string]bool{}
	for p.step(t.Context(), rng) {
		for id := range b.live() {
			if !seen[id] {
				seen[id] = true
				order = append(order, id)
			}
		}
	}
	p.finish(t)
	if want := "[t0 t1 tomb n0 n1 note"; !strings.HasPrefix(fmt.Sprint(order), want) {
		t.Errorf("order %v, want it to begin with %s", order, want)
	}
	equalNodes(t, relay, b)
}

// What is acknowledged is durable, and what is large travels in a window.
func TestWindowAndAcks(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	text := noise(rng, 600<<10)
	for i := range 20 {
		a.write(msg(fmt.Sprint("a", i), text))
	}
	p := pair(t, b, a, syncproto.Config{}, syncproto.Config{})
	ctx := t.Context()
	most := 0
	for moved := true; moved; {
		moved = false
		for p.server.write(ctx, p.client) { // as much as it may
			moved = true
		}
		pending := 0
		for _, f := range p.client.in {
			pending += len(f.Payload)
		}
		most = max(most, pending)
		moved = p.client.read(ctx) || moved
		for p.client.write(ctx, p.server) {
			f := p.server.in[len(p.server.in)-1]
			if f.Type != syncproto.TypeAck {
				continue
			}
			var ack struct{ Head record.Seq }
			if err := json.Unmarshal(f.Payload, &ack); err != nil {
				t.Fatal(err)
			}
			if durable := b.frontier()[a.own] - record.Seq(p.client.store.pending[a.own]); ack.Head > durable {
				t.Errorf("%d is acknowledged, %d is durable", ack.Head, durable)
			}
		}
		for p.server.read(ctx) {
			moved = true
		}
	}
	if most > 8<<20+600<<10+1000 || most < 4<<20 {
		t.Errorf("%d bytes were under way, want about 8 MiB", most)
	}
	if b.commits < 5 || b.commits > 20 {
		t.Errorf("%d commits for 12 MB", b.commits)
	}
	p.finish(t)
	equalNodes(t, a, b)
}

// A card that is newer travels even when nothing else does.
func TestCards(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("a1", "x"))
	exchange(t, rng, a, b)
	a.cards[a.id] = 5
	exchange(t, rng, a, b)
	if b.cards[a.id] != 5 {
		t.Errorf("b has card %d of a", b.cards[a.id])
	}
	d := newNode(rng, "d")
	for i := range 3 {
		a.newStream(rng)
		a.write(msg(fmt.Sprint("more", i), "x"))
	}
	p := pair(t, a, d, syncproto.Config{}, syncproto.Config{})
	p.lockstep(t)
	cards := 0
	for _, typ := range p.client.types {
		if typ == syncproto.TypeCard {
			cards++
		}
	}
	if cards != 1 {
		t.Errorf("%d cards for 4 streams of one node", cards)
	}
	exchange(t, rng, a, b)
	p = pair(t, a, b, syncproto.Config{}, syncproto.Config{})
	p.lockstep(t)
	for _, typ := range append(p.client.types, p.server.types...) {
		if typ == syncproto.TypeCard {
			t.Error("a card that is known was sent again")
		}
	}
}
