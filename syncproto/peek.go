package syncproto

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/deja-node/deja/index/record"
)

// peeked is what the header of a batch says, before anything is verified.
type peeked struct {
	stream      record.StreamID
	first, last record.Seq
	hash        record.Hash
}

func peek(raw []byte) (peeked, error) {
	var p peeked
	if len(raw) < 8 || string(raw[:4]) != "DJB2" {
		return p, fmt.Errorf("%w: not a batch", ErrFrame)
	}
	n := int64(binary.BigEndian.Uint32(raw[4:8]))
	if n > 16<<10 || n+8 > int64(len(raw)) {
		return p, fmt.Errorf("%w: header", ErrFrame)
	}
	hd := raw[8 : 8+n]
	var h struct {
		S     record.StreamID `json:"s"`
		First record.Seq      `json:"first"`
		N     int             `json:"n"`
	}
	if err := json.Unmarshal(hd, &h); err != nil {
		return p, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return peeked{h.S, h.First, h.First + record.Seq(h.N) - 1, sha256.Sum256(hd)}, nil
}

// split cuts the first batch off data that holds batches back to back.
func split(data []byte) (raw, rest []byte, err error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("%w: cut batch", ErrFrame)
	}
	at := 8 + int64(binary.BigEndian.Uint32(data[4:8])) + 64
	if at+4 > int64(len(data)) {
		return nil, nil, fmt.Errorf("%w: cut batch", ErrFrame)
	}
	end := at + 4 + int64(binary.BigEndian.Uint32(data[at:])) + 4
	if end > int64(len(data)) {
		return nil, nil, fmt.Errorf("%w: cut batch", ErrFrame)
	}
	return data[:end], data[end:], nil
}
