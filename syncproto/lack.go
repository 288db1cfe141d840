package syncproto

import (
	"slices"

	"github.com/deja-node/deja/index/record"
)

// maxOrigin is how many streams of one origin a node takes. An origin starts
// another stream when it cannot be sure of its own head, which is rare.
const maxOrigin = 8

// lack is what a node would take of one stream on offer.
type lack struct {
	fresh   Span   // above the head; none when From is 0
	probe   bool   // fresh is the last batch again, to learn what contradicts it
	reclaim bool   // the stream is this node's own, and lost in part
	fill    []Span // holes that the offerer may be able to fill
	refuse  *Refusal
}

// lacking compares what is on offer with what is known. It is where "the
// receiver says what it lacks" is decided, for a peer and for a mailbox alike.
func lacking(self record.NodeID, o offer, k Known, tag string) lack {
	own := o.stream.Node == self
	switch {
	case own && !k.Recover:
		return lack{}
	case !own && k.Refuse != nil:
		r := *k.Refuse
		r.Stream = o.stream
		return lack{refuse: &r}
	case !own && k.Head.Seq == 0 && k.Streams >= maxOrigin:
		return lack{refuse: &Refusal{Code: CodeLimit, Stream: o.stream, Msg: "its origin has too many streams"}}
	}
	l := lack{reclaim: own}
	switch {
	case o.head > k.Head.Seq:
		l.fresh = Span{k.Head.Seq + 1, o.head}
	case !own && o.head == k.Head.Seq && o.hash16 != hash16(k.Head.Hash):
		l.fresh, l.probe = Span{o.head, o.head}, true
	}
	for _, h := range k.Holes {
		if h.Tag != tag && h.From <= h.To && h.From <= o.head {
			l.fill = append(l.fill, without(Span{h.From, min(h.To, o.head)}, o.holes)...)
		}
	}
	l.fill = l.fill[:min(len(l.fill), maxSpans)]
	return l
}

// behind is how many entries of the stream are lacking.
func (l lack) behind() uint64 {
	if l.probe || l.fresh.From == 0 {
		return 0
	}
	return uint64(l.fresh.To - l.fresh.From + 1)
}

// without returns the parts of a span that lie in none of the holes.
func without(s Span, holes []Span) []Span {
	holes = slices.SortedFunc(slices.Values(holes), func(a, b Span) int {
		switch {
		case a.From < b.From:
			return -1
		case a.From > b.From:
			return 1
		}
		return 0
	})
	var parts []Span
	for _, h := range holes {
		if h.To < s.From {
			continue
		}
		if h.From > s.To {
			break
		}
		if h.From > s.From {
			parts = append(parts, Span{s.From, h.From - 1})
		}
		s.From = h.To + 1
	}
	if s.From <= s.To {
		parts = append(parts, s)
	}
	return parts
}
