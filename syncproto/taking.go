package syncproto

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/deja-node/deja/index/record"
)

// The receiving half of a session: it asks for what the node lacks, keeps a
// window of it outstanding, and acknowledges what is durable.

const (
	window     = 8 << 20 // bytes of batches asked for and not yet received
	creditStep = 1 << 20 // credit is handed out in steps of this size
	commitStep = 2 << 20 // bytes accepted between two commits
	maxFills   = 1024    // holes asked for in one exchange
)

// asked is a span that was asked for; next is the first position still to come.
type asked struct {
	Span
	next  record.Seq
	fresh bool // its batches move the head
}

type taking struct {
	tag     string // what holes are marked with
	asked   map[record.StreamID][]*asked
	dropped map[record.StreamID]bool // refused: what is still under way is ignored
	moved   map[record.StreamID]record.Head
	fills   int   // spans of holes asked for so far
	again   bool  // the second pass of --recent is still to come
	asking  bool  // a WANT for a span is queued
	granted int64 // credit that the peer has left
	dirty   int   // bytes accepted and not committed
	bye     bool
	count   byeMsg
}

func (t *taking) init() {
	t.asked = map[record.StreamID][]*asked{}
	t.dropped = map[record.StreamID]bool{}
	t.moved = map[record.StreamID]record.Head{}
}

func (t *taking) drop(s record.StreamID) {
	if _, ok := t.asked[s]; ok {
		t.dropped[s] = true
		delete(t.asked, s)
	}
}

// takes reports whether this side wants anything from a peer that gives.
func (s *Session) takes() bool {
	return (s.cfg.Mode == Both || s.cfg.Mode == Pull) && !s.have.closed
}

// plan asks for everything that the peer offers and this node lacks.
func (s *Session) plan(ctx context.Context) error {
	s.taking.again = !s.cfg.Recent.IsZero()
	fresh := map[record.NodeID]int{}
	var fills []func()
	for _, o := range s.have.offers {
		k, err := s.store.Known(ctx, o.stream)
		if err != nil {
			return err
		}
		k.Streams += fresh[o.stream.Node]
		l := lacking(s.self, o, k, s.taking.tag)
		s.report.Behind += l.behind()
		switch {
		case l.refuse != nil:
			s.note(l.refuse)
			continue
		case k.Head.Seq == 0 && l.fresh.From != 0:
			fresh[o.stream.Node]++
		}
		if !s.takes() {
			continue
		}
		if l.fresh.From != 0 {
			s.ask(o.stream, l.fresh, wantMsg{Recover: l.reclaim, Since: formatTime(s.cfg.Recent)})
		}
		fills = append(fills, func() { s.askFills(o.stream, l) })
	}
	for _, f := range fills {
		f()
	}
	return s.settle(ctx)
}

// ask queues a WANT. The credit follows when all is asked for, so that the peer
// knows what to send first.
func (s *Session) ask(id record.StreamID, span Span, m wantMsg) {
	t := &s.taking
	m.S, m.From, m.To = id.String(), span.From, span.To
	t.asked[id] = append(t.asked[id], &asked{Span: span, next: span.From, fresh: !m.Fill})
	t.asking = true
	s.queue(TypeWant, mustJSON(m))
}

// askFills asks for holes, the newest first.
func (s *Session) askFills(id record.StreamID, l lack) {
	for _, span := range slices.Backward(l.fill) {
		if s.taking.fills == maxFills {
			return // the rest stays a hole, and is asked for the next time
		}
		s.taking.fills++
		s.ask(id, span, wantMsg{Fill: true, Recover: l.reclaim})
	}
}

// onBatch takes a batch that was asked for.
func (s *Session) onBatch(ctx context.Context, raw []byte) error {
	t := &s.taking
	if t.granted -= int64(len(raw)); t.granted < -int64(maxBatch) {
		return fmt.Errorf("%w: more than was asked for", ErrFrame)
	}
	s.report.Received.Batches++
	s.report.Received.Bytes += int64(len(raw))
	b, err := peek(raw)
	if err != nil {
		if err := s.pass(err); err != nil {
			return err
		}
		return s.settle(ctx)
	}
	if t.dropped[b.stream] {
		t.count.Refused++
		return s.settle(ctx)
	}
	i := slices.IndexFunc(t.asked[b.stream], func(a *asked) bool { return b.first <= a.next && a.next <= b.last })
	if i < 0 {
		return fmt.Errorf("%w: a batch of stream %s from %d to %d that was not asked for", ErrFrame, b.stream, b.first, b.last)
	}
	r, err := s.store.Accept(ctx, raw, s.acceptTag())
	if err != nil {
		t.count.Refused++
		if err := s.pass(err); err != nil {
			return err
		}
		return s.settle(ctx)
	}
	t.count.add(r)
	t.dirty += len(raw)
	a := t.asked[b.stream][i]
	a.next = b.last + 1
	if a.fresh {
		t.moved[b.stream] = record.Head{Seq: b.last, Hash: b.hash}
	}
	if a.next > a.To {
		t.asked[b.stream] = slices.Delete(t.asked[b.stream], i, i+1)
		if len(t.asked[b.stream]) == 0 {
			delete(t.asked, b.stream)
		}
	}
	return s.settle(ctx)
}

// acceptTag marks holes with the peer's policy. Stubs of the first pass of
// --recent stand for nothing that the peer withholds, and are not marked.
func (s *Session) acceptTag() string {
	if s.taking.again {
		return ""
	}
	return s.taking.tag
}

// settle commits when enough has come, hands out credit, and says goodbye when
// nothing is wanted any more.
func (s *Session) settle(ctx context.Context) error {
	t := &s.taking
	idle := len(t.asked) == 0
	if t.dirty >= commitStep || idle && t.dirty > 0 {
		if err := s.commit(ctx); err != nil {
			return err
		}
	}
	if idle && t.again {
		t.again = false
		if err := s.secondPass(ctx); err != nil {
			return err
		}
		idle = len(t.asked) == 0
	}
	switch {
	case !idle && window-t.granted >= creditStep:
		s.queue(TypeWant, mustJSON(wantMsg{Bytes: window - t.granted}))
		t.granted = window
	case idle && !t.bye:
		t.bye = true
		s.report.Received.receipt(t.count)
		s.queueBye()
	}
	return nil
}

// secondPass asks for what the first pass of --recent left out.
func (s *Session) secondPass(ctx context.Context) error {
	if !s.takes() {
		return nil
	}
	for _, o := range s.have.offers {
		if s.taking.dropped[o.stream] || o.stream.Node == s.self {
			continue
		}
		k, err := s.store.Known(ctx, o.stream)
		if err != nil {
			return err
		}
		s.askFills(o.stream, lacking(s.self, o, k, s.taking.tag))
	}
	return nil
}

// commit makes what was accepted durable, and only then acknowledges it.
func (s *Session) commit(ctx context.Context) error {
	t := &s.taking
	t.dirty = 0
	if err := s.store.Commit(ctx); err != nil {
		return err
	}
	for _, id := range slices.SortedFunc(maps.Keys(t.moved), record.StreamID.Compare) {
		h := t.moved[id]
		s.queue(TypeAck, mustJSON(ackMsg{S: id.String(), Head: h.Seq, Hash: hash16(h.Hash)}))
	}
	clear(t.moved)
	return nil
}

// onCard takes the card of a node.
func (s *Session) onCard(ctx context.Context, p []byte) error {
	if err := s.store.PutCard(ctx, p); err != nil {
		return s.pass(err)
	}
	return nil
}
