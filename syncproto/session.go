package syncproto

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/deja-node/deja/index/record"
)

// Mode says what this side wants of an exchange. The other side need not know.
type Mode int

// The modes of an exchange.
const (
	Both  Mode = iota // give and take
	Push              // give only
	Pull              // take only
	Plan              // do neither, and report what would be exchanged
	Probe             // learn who answers, and leave
)

// Config is what one side brings to an exchange.
type Config struct {
	Key    ed25519.PrivateKey // of this node
	Name   string             // what it calls itself
	App    string             // the program and its version, for people
	Server bool               // this side speaks first, with the magic line
	Expect record.NodeID      // the node that must be on the other side; zero for any
	Mode   Mode
	Recent time.Time // take what was sealed since then first; zero for no such wish
	Now    time.Time // told to the peer
	Nonce  Nonce     // drawn at random when zero
}

type phase int

const (
	waitHello phase = iota
	waitAuth
	waitHave
	open
)

// Session is one side of one exchange: a step function. Give it what arrived
// with [Session.Receive] and write what [Session.Next] returns, until
// [Session.Done]. A Session is used by one goroutine at a time.
type Session struct {
	cfg   Config
	store Store
	self  record.NodeID

	phase        phase
	mine, theirs *hello
	greeting     *Nonce // of the magic line, client only
	terms        Terms
	have         *have
	out          []Frame // control frames to be written
	outSize      int
	taking       taking
	giving       giving
	byeSent      bool
	byeGot       bool
	ended        bool // by a refusal, or a peer that left early
	err          error
	heard        bool // since this side last answered
	report       Report
}

// New returns a session that is about to say hello.
func New(cfg Config, store Store) (*Session, error) {
	if len(cfg.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("an exchange needs the node key")
	}
	if cfg.Nonce == (Nonce{}) {
		if _, err := rand.Read(cfg.Nonce[:]); err != nil {
			return nil, err
		}
	}
	pub, ok := cfg.Key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("an exchange needs an ed25519 key")
	}
	s := &Session{cfg: cfg, store: store, self: record.NodeOf(pub)}
	s.mine = &hello{versions: []int{Version}, pub: pub, nonce: cfg.Nonce, name: cfg.Name, app: cfg.App, clock: cfg.Now}
	s.taking.init()
	s.report.Acked = map[record.StreamID]record.Seq{}
	s.queue(TypeHello, s.mine.encode())
	return s, nil
}

// Preamble returns the server's magic line, which is written before any frame.
// It is empty for a client.
func (s *Session) Preamble() []byte {
	if !s.cfg.Server {
		return nil
	}
	s.report.BytesOut += int64(preambleSize)
	return AppendPreamble(nil, s.cfg.Nonce)
}

// Greet tells a client what the server's magic line said, and what the far
// side printed before it.
func (s *Session) Greet(nonce Nonce, noise string) {
	s.greeting = &nonce
	s.report.Noise = noise
	s.report.BytesIn += int64(preambleSize)
}

// Limit is how many bytes of payload the next frame may have. Before the peer
// has proved its key that is little.
func (s *Session) Limit(t Type) int {
	switch {
	case s.phase < waitHave:
		return maxEarly
	case t == TypeBatch:
		return maxBatch
	}
	return maxControl
}

// Receive takes one frame of the peer. The payload may be reused afterwards.
// After an error the exchange is over as soon as Next has nothing more.
func (s *Session) Receive(ctx context.Context, f Frame) error {
	if s.err != nil || s.Done() {
		return s.err
	}
	s.report.BytesIn += int64(headerSize + len(f.Payload))
	s.heard = s.heard || f.Type != TypePing
	err := s.dispatch(ctx, f)
	if err == nil && s.outSize > maxQueue {
		err = refuse(CodeLimit, "the other node asks for more than it reads")
	}
	if err != nil {
		s.fail(err)
	}
	return s.err
}

func (s *Session) dispatch(ctx context.Context, f Frame) error {
	switch {
	case s.cfg.Mode == Probe && s.phase == waitHave:
		return nil // this side has said goodbye already
	case f.Type == TypeErr:
		return s.onErr(ctx, f.Payload)
	case f.Type == TypePing && s.phase == open:
		return nil
	case f.Type == TypeBye:
		return s.onBye(f.Payload)
	case f.Type == TypeHello && s.phase == waitHello:
		return s.onHello(f.Payload)
	case f.Type == TypeAuth && s.phase == waitAuth:
		return s.onAuth(ctx, f.Payload)
	case f.Type == TypeHave && s.phase == waitHave:
		return s.onHave(ctx, f.Payload)
	case f.Type&skippable != 0:
		return nil
	case s.phase == open:
		return s.onOpen(ctx, f)
	}
	return fmt.Errorf("%w: %s out of place", ErrFrame, f.Type)
}

func (s *Session) onOpen(ctx context.Context, f Frame) error {
	switch {
	case f.Type == TypeBatch:
		return s.onBatch(ctx, f.Payload)
	case f.Type == TypeCard:
		return s.onCard(ctx, f.Payload)
	case f.Type == TypeWant && !s.byeGot:
		return s.onWant(ctx, f.Payload)
	case f.Type == TypeAck && !s.byeGot:
		return s.onAck(f.Payload)
	}
	return fmt.Errorf("%w: %s out of place", ErrFrame, f.Type)
}

func (s *Session) onHave(ctx context.Context, p []byte) error {
	h, err := decodeHave(p)
	if err != nil {
		return err
	}
	s.have, s.phase = h, open
	s.taking.tag = s.theirs.node.String() + ":" + h.policy
	if err := s.offerCards(ctx); err != nil {
		return err
	}
	s.countLack()
	return s.plan(ctx)
}

// countLack notes what the peer says it has.
func (s *Session) countLack() {
	for _, o := range s.have.offers {
		s.report.Acked[o.stream] = o.head
	}
	for _, o := range s.terms.Offers {
		if has := s.report.Acked[o.Stream]; has < o.Head.Seq && o.Stream.Node != s.theirs.node {
			s.report.TheyLack += uint64(o.Head.Seq - has)
		}
	}
}

func (s *Session) onAck(p []byte) error {
	var m ackMsg
	if err := decode(p, &m); err != nil {
		return err
	}
	id, err := record.ParseStream(m.S)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if o, ok := s.giving.offers[id]; ok && m.Head <= o.Head.Seq {
		s.report.Acked[id] = max(s.report.Acked[id], m.Head)
	}
	return nil
}

func (s *Session) onErr(ctx context.Context, p []byte) error {
	r, err := decodeErr(p)
	if err != nil {
		return err
	}
	if r.Stream.IsZero() {
		return r
	}
	s.note(r)
	s.giving.drop(r.Stream)
	s.taking.drop(r.Stream)
	if _, offered := s.giving.offers[r.Stream]; offered && r.Code == CodeFork {
		if err := s.store.Forked(ctx, r); err != nil {
			return err
		}
	}
	if s.phase == open {
		return s.settle(ctx)
	}
	return nil
}

func (s *Session) onBye(p []byte) error {
	var m byeMsg
	if err := decode(p, &m); err != nil {
		return err
	}
	if s.byeGot {
		return fmt.Errorf("%w: BYE twice", ErrFrame)
	}
	s.byeGot = true
	s.giving.asks = nil
	s.report.Sent.receipt(m)
	if s.phase != open {
		s.ended, s.out = true, nil
	}
	return nil
}

// fail ends the exchange: nothing more is said but, once, why. A peer that is
// refused in the handshake still learns who refuses it.
func (s *Session) fail(err error) {
	s.err, s.ended = err, true
	r, ok := errors.AsType[*Refusal](err)
	if s.phase == open || ok && r.Remote {
		s.out, s.outSize, s.giving.asks = nil, 0, nil
	}
	switch {
	case ok && r.Remote:
		return
	case ok:
	case errors.Is(err, ErrFrame):
		r = refuse(CodeFrame, "%s", harmless(err.Error(), maxWords))
	default:
		r = refuse(CodeInternal, "the other node has a fault of its own")
	}
	s.queue(TypeErr, encodeErr(r))
}

// pass notes a refusal of one stream and lets the exchange go on. Any other
// error it returns.
func (s *Session) pass(err error) error {
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Stream.IsZero() {
		return err
	}
	s.note(r)
	s.giving.drop(r.Stream)
	s.taking.drop(r.Stream)
	s.queue(TypeErr, encodeErr(r))
	return nil
}

// maxNoted is how many refusals a report lists.
const maxNoted = 100

func (s *Session) note(r *Refusal) {
	if len(s.report.Refused) < maxNoted {
		s.report.Refused = append(s.report.Refused, r)
	}
}

// maxQueue is how much may wait for a peer that sends and does not read.
const maxQueue = 4 << 20

func (s *Session) queue(t Type, p []byte) {
	s.out = append(s.out, Frame{t, p})
	s.outSize += headerSize + len(p)
}

func (s *Session) queueBye() { s.queue(TypeBye, mustJSON(s.taking.count)) }

// Next returns the next frame to be written, or false when there is none until
// something is received. The payload is valid until the next call of Next.
func (s *Session) Next(ctx context.Context) (Frame, bool, error) {
	if len(s.out) > 0 {
		f := s.out[0]
		s.out = s.out[1:]
		s.sent(f)
		return f, true, nil
	}
	if s.ended || s.phase != open {
		return Frame{}, false, s.err
	}
	raw, ok, err := s.nextBatch(ctx)
	if err != nil {
		s.fail(err)
		return s.Next(ctx)
	}
	if !ok {
		if len(s.out) > 0 { // the batch was refused, and that is to be said
			return s.Next(ctx)
		}
		return Frame{}, false, nil
	}
	f := Frame{TypeBatch, raw}
	s.sent(f)
	return f, true, nil
}

func (s *Session) sent(f Frame) {
	size := headerSize + len(f.Payload)
	s.report.BytesOut += int64(size)
	switch f.Type {
	case TypeBatch:
		s.report.Sent.Batches++
		s.report.Sent.Bytes += int64(len(f.Payload))
		return
	case TypeAuth, TypeHave, TypeBye:
		s.turn()
	case TypeWant:
		if s.taking.asking {
			s.taking.asking = false
			s.turn()
		}
	}
	s.outSize -= size
	s.byeSent = s.byeSent || f.Type == TypeBye
}

// turn counts an answer for which the peer has been waiting.
func (s *Session) turn() {
	if s.heard {
		s.report.RoundTrips++
		s.heard = false
	}
}

// Done reports whether nothing more is to be read or written.
func (s *Session) Done() bool {
	if len(s.out) > 0 {
		return false
	}
	return s.ended || s.byeSent && (s.byeGot || s.cfg.Mode == Probe)
}

// Quiet reports whether the peer would wait in vain for a sign of life while
// this side is busy, so that a PING may be written.
func (s *Session) Quiet() bool { return s.phase == open && !s.byeSent && !s.ended }

// Finish ends the session, whatever its state: what was accepted is made
// durable, also when the link was cut.
func (s *Session) Finish(ctx context.Context) error {
	s.ended = true
	s.report.Complete = s.err == nil && s.byeSent && s.byeGot
	if s.taking.dirty == 0 {
		return nil
	}
	return s.commit(ctx)
}

// Err returns what ended the session, nil while nothing did.
func (s *Session) Err() error { return s.err }

// Report says what has happened so far.
func (s *Session) Report() Report { return s.report }
