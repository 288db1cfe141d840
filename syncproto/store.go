package syncproto

import (
	"context"
	"crypto/ed25519"
	"time"

	"github.com/deja-node/deja/index/record"
)

// Store is what an exchange needs of the node. A Store serves one exchange: its
// methods are called one at a time, and it may keep buffers between them.
//
// A method refuses one stream, and lets the exchange go on, by returning a
// [*Refusal]. Any other error ends the exchange.
type Store interface {
	// Admit decides about a peer whose key is proved, before it is told
	// anything about any stream. A refusal ends the exchange: a node for
	// which there is no policy neither gets nor gives. Admit closes the open
	// tail of the own stream, so that all of it is on offer.
	Admit(ctx context.Context, peer Peer) (Terms, error)

	// Known says what this node has of a stream that the peer offers, and
	// whether it would take more.
	Known(ctx context.Context, s record.StreamID) (Known, error)

	// Marks says where in a span the entries are that travel first.
	Marks(ctx context.Context, s record.StreamID, span Span) (Marks, error)

	// Batch returns the batch that holds position seq, with stubs for what
	// the policy withholds and what is forgotten. With a time in since,
	// batches sealed before it may be stubs throughout; the peer asks for
	// them later. The bytes stay valid until the next call of Batch.
	Batch(ctx context.Context, s record.StreamID, seq record.Seq, since time.Time) (Batch, error)

	// Card returns the signed card of a node, nil when there is none.
	Card(ctx context.Context, node record.NodeID) ([]byte, error)

	// PutCard takes a card. It comes before the first batch of its node.
	PutCard(ctx context.Context, raw []byte) error

	// Accept verifies a batch and takes what is new in it. It is durable only
	// after Commit. The tag is kept with the holes that stubs of the batch
	// leave, and comes back in [Known].
	//
	// Accept refuses with [CodeFork] and both signed headers when the batch
	// contradicts what is stored, with [CodeBatch] when it does not verify,
	// with [CodeQuota] and [CodePolicy] as those say.
	Accept(ctx context.Context, raw []byte, tag string) (Receipt, error)

	// Commit makes everything accepted durable.
	Commit(ctx context.Context) error

	// Forked hears that the peer holds another history of a stream: a
	// refusal with [CodeFork] whose headers prove it, or do not.
	Forked(ctx context.Context, r *Refusal) error
}

// Peer is the other side of an exchange, as far as it is known.
type Peer struct {
	Node  record.NodeID     // proved; zero for a mailbox
	Pub   ed25519.PublicKey // the key behind Node
	Name  string            // what it calls itself, made harmless
	App   string            // the program it runs, made harmless
	Clock time.Time         // its time when it said hello, zero when unknown
	Box   string            // name of the mailbox, for one
}

// Terms is what a peer is offered.
type Terms struct {
	Policy string  // names what this peer may receive; changes when the policy does
	Offers []Offer // what it may read, and its own streams, once each
}

// Offer is one stream that a peer may read.
type Offer struct {
	Stream record.StreamID
	Head   record.Head // of sealed batches
	Card   uint64      // number of the newest card of the stream's node, 0 when there is none
	Holes  []Span      // what this node itself has only stubs of, and that are not forgotten
	At     time.Time   // when the last batch was sealed
	Stubs  uint64      // entries that this peer gets as stubs; grows with each that is forgotten
	Revise bool        // this node may put stubs into the stream's files in a mailbox
}

// Known is what a node has of a stream that it is offered.
type Known struct {
	Head    record.Head
	Card    uint64
	Holes   []Hole
	Refuse  *Refusal // why the node takes none of the stream, nil when it does
	Recover bool     // a stream of this very node, whose lost tail it wants back
	Streams int      // streams of the same origin that this node holds, this one left out
}

// Hole is a span of which a node has stubs alone.
type Hole struct {
	Span
	Tag string // what was said when the stubs came; see [Store.Accept]
}

// Marks are the last positions in a span of what travels first; 0 where there is none.
type Marks struct {
	Tomb record.Seq // tomb or untomb
	Note record.Seq
}

// Batch is one batch as a peer may see it.
type Batch struct {
	Raw         []byte
	First, Last record.Seq
	Stubs       int // entries that are stubs in Raw
}

// Receipt counts what became of the entries of one batch.
type Receipt struct {
	Records   int // new here
	Had       int // were here
	Forgotten int // dead by a tomb, and kept as stubs
	Withheld  int // came as stubs
	Filled    int // of Records: took the place of a stub
}
