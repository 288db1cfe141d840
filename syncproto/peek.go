package syncproto

import (
	"errors"
	"fmt"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto/batch"
)

// peeked is what the header of a batch says. The store is the one to verify
// it: an exchange only needs to know where the batch belongs.
type peeked struct {
	stream      record.StreamID
	first, last record.Seq
	hash        record.Hash
}

// peek reads the header of a batch. It refuses the stream of one that is
// written in a newer format.
func peek(raw []byte) (peeked, error) {
	h, hash, err := batch.PeekHeader(raw)
	if errors.Is(err, batch.ErrVersion) && !h.Stream.IsZero() {
		return peeked{}, &Refusal{Code: CodeVersion, Stream: h.Stream, Msg: "a batch " + err.Error()}
	}
	if err != nil {
		return peeked{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return peeked{stream: h.Stream, first: h.First, last: h.Last(), hash: hash}, nil
}

// split cuts the first batch off data that holds batches back to back.
func split(data []byte) (raw, rest []byte, err error) {
	n, err := batch.Len(data)
	if err == nil && n > len(data) {
		err = batch.ErrMalformed
	}
	if err != nil {
		return nil, nil, err
	}
	return data[:n], data[n:], nil
}
