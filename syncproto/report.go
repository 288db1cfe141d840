package syncproto

import "github.com/deja-node/deja/index/record"

// Flow counts one direction of an exchange. Of what was sent, only batches and
// bytes are this side's own counts; the rest is the receipt of the peer.
type Flow struct {
	Batches   int
	Bytes     int64  // of batches
	Records   uint64 // entries that the receiver did not have
	Had       uint64 // entries that it had already
	Forgotten uint64 // entries that a tomb keeps dead
	Withheld  uint64 // entries that came as stubs
	Filled    uint64 // of Records: entries that took the place of a stub
	Refused   uint64 // batches that the receiver did not take
}

func (f *Flow) receipt(m byeMsg) {
	f.Records, f.Had, f.Forgotten = m.Records, m.Had, m.Forgotten
	f.Withheld, f.Filled, f.Refused = m.Withheld, m.Filled, m.Refused
}

// Report says what an exchange did. All of it has happened: nothing is
// inferred from an exchange that was merely planned.
type Report struct {
	Peer     Peer // known once it has proved its key
	Sent     Flow
	Received Flow

	Behind   uint64 // entries on offer that this node lacked at the start and would take
	TheyLack uint64 // entries on offer that the peer lacked at the start

	RoundTrips        int   // times the peer waited for an answer of this side, or this side for the peer
	BytesIn, BytesOut int64 // from the magic line on, frames included

	Acked    map[record.StreamID]record.Seq // what the peer has: what it said, and what it acknowledged
	Refused  []*Refusal                     // streams that either side refused, the first hundred
	Noise    string                         // what the far side printed before the magic line
	Complete bool                           // both sides got all they wanted
}
