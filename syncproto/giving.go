package syncproto

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/deja-node/deja/index/record"
)

// The serving half of a session: it sends what was asked for, as far as the
// peer's credit goes, and reads each batch only when it can be written.

// maxAsks is how many spans a peer may have asked for at a time.
const maxAsks = maxStreams + maxFills

// ask is a span that the peer wants; next is the first position not yet sent.
type ask struct {
	stream record.StreamID
	Span
	next  record.Seq
	since time.Time
	at    time.Time // when the stream last grew
	marks Marks
}

type giving struct {
	offers map[record.StreamID]Offer
	asks   []*ask // in the order in which they are served within a pass
	credit int64
	cards  map[record.NodeID]bool // sent, or known to the peer
}

func (g *giving) init(offers []Offer) {
	g.offers = make(map[record.StreamID]Offer, len(offers))
	g.cards = map[record.NodeID]bool{}
	for _, o := range offers {
		g.offers[o.Stream] = o
	}
}

func (g *giving) drop(s record.StreamID) {
	g.asks = slices.DeleteFunc(g.asks, func(a *ask) bool { return a.stream == s })
}

// offerCards sends the cards that are newer than the peer's, of streams that
// it has. The others go before the first batch of their stream.
func (s *Session) offerCards(ctx context.Context) error {
	for _, o := range s.terms.Offers {
		if theirs, ok := s.have.find(o.Stream); ok {
			if err := s.offerCard(ctx, o, theirs.card); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) offerCard(ctx context.Context, o Offer, theirs uint64) error {
	node := o.Stream.Node
	if o.Card <= theirs || node == s.theirs.node || s.giving.cards[node] {
		return nil
	}
	s.giving.cards[node] = true
	raw, err := s.store.Card(ctx, node)
	if err != nil || raw == nil {
		return err
	}
	s.queue(TypeCard, raw)
	return nil
}

// onWant takes a request, credit, or both.
func (s *Session) onWant(ctx context.Context, p []byte) error {
	var m wantMsg
	if err := decode(p, &m); err != nil {
		return err
	}
	if m.Bytes < 0 {
		return fmt.Errorf("%w: credit of %d bytes", ErrFrame, m.Bytes)
	}
	s.giving.credit = min(s.giving.credit+min(m.Bytes, maxCredit), maxCredit)
	if m.S == "" {
		return nil
	}
	id, err := record.ParseStream(m.S)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if m.From == 0 || m.From > m.To || len(s.giving.asks) >= maxAsks {
		return fmt.Errorf("%w: WANT of stream %s from %d to %d, the %dth", ErrFrame, id, m.From, m.To, len(s.giving.asks)+1)
	}
	return s.addAsk(ctx, id, m)
}

func (s *Session) addAsk(ctx context.Context, id record.StreamID, m wantMsg) error {
	o, offered := s.giving.offers[id]
	own := id.Node == s.theirs.node
	if !offered || m.From > o.Head.Seq || own != m.Recover || s.cfg.Mode == Pull || s.cfg.Mode == Plan {
		return s.pass(&Refusal{Code: CodePolicy, Stream: id, Msg: "this span is not on offer"})
	}
	theirs, _ := s.have.find(id)
	if err := s.offerCard(ctx, o, theirs.card); err != nil {
		return err
	}
	a := &ask{stream: id, Span: Span{m.From, min(m.To, o.Head.Seq)}, next: m.From, at: o.At}
	if at, err := time.Parse(time.RFC3339, m.Since); err == nil {
		a.since = at
	}
	marks, err := s.store.Marks(ctx, id, a.Span)
	if err != nil {
		return s.pass(err)
	}
	a.marks = marks
	s.giving.asks = append(s.giving.asks, a)
	if !a.since.IsZero() {
		slices.SortStableFunc(s.giving.asks, func(a, b *ask) int { return b.at.Compare(a.at) })
	}
	return nil
}

// pick says which request is served next. A log is dense, so what is urgent in
// a stream cannot overtake the rest of it; but streams can be interleaved:
// first all of them as far as their last tomb, then as far as their last note.
func (g *giving) pick() *ask {
	for _, a := range g.asks {
		if a.next <= a.marks.Tomb {
			return a
		}
	}
	for _, a := range g.asks {
		if a.next <= a.marks.Note {
			return a
		}
	}
	if len(g.asks) == 0 {
		return nil
	}
	return g.asks[0]
}

// nextBatch reads the batch that is to be sent next, if the peer's credit
// allows one.
func (s *Session) nextBatch(ctx context.Context) ([]byte, bool, error) {
	a := s.giving.pick()
	if a == nil || s.giving.credit <= 0 {
		return nil, false, nil
	}
	b, err := s.store.Batch(ctx, a.stream, a.next, a.since)
	if err != nil {
		return nil, false, s.pass(err)
	}
	if b.First > a.next || b.Last < a.next || len(b.Raw) > maxBatch {
		return nil, false, fmt.Errorf("stream %s: position %d gave a batch from %d to %d of %d bytes", a.stream, a.next, b.First, b.Last, len(b.Raw))
	}
	s.giving.credit -= int64(len(b.Raw))
	a.next = b.Last + 1
	if a.next > a.To {
		s.giving.asks = slices.DeleteFunc(s.giving.asks, func(x *ask) bool { return x == a })
	}
	return b.Raw, true, nil
}
