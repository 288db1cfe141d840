package batch

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// compressor and expander are zstd with one thread and little memory, made
// when they are first used. Neither may be used from two goroutines at once.
type compressor struct{ enc *zstd.Encoder }

type expander struct {
	dec *zstd.Decoder
}

// The levels were measured on transcripts (BenchmarkSeal): the fastest costs
// a quarter less time and makes logs five percent longer than the default.
const level = zstd.SpeedFastest

func (c *compressor) compress(dst, lines []byte) ([]byte, error) {
	if c.enc == nil {
		enc, err := zstd.NewWriter(nil,
			zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false),
			zstd.WithWindowSize(MaxWindow), zstd.WithEncoderLevel(level))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		c.enc = enc
	}
	return c.enc.EncodeAll(lines, dst), nil
}

// expand decompresses one frame of at most limit bytes into dst's array if it
// is large enough.
func (x *expander) expand(dst, frame []byte, limit int) ([]byte, error) {
	if err := checkFrame(frame); err != nil {
		return nil, err
	}
	if x.dec == nil {
		dec, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxWindow(MaxWindow), zstd.WithDecoderMaxMemory(MaxLines+MaxEntries*uint64(maxStub)))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		x.dec = dec
	}
	if cap(dst) < limit {
		dst = make([]byte, 0, limit)
	}
	out, err := x.dec.DecodeAll(frame, dst[:0:limit])
	if err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrMalformed, err)
	}
	return out, nil
}

// checkFrame holds a body to one zstd frame without a dictionary whose window
// is within the limit: no signature covers bytes before, between or after.
func checkFrame(frame []byte) error {
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return fmt.Errorf("%w: body: %w", ErrMalformed, err)
	}
	if h.Skippable || h.DictionaryID != 0 || h.WindowSize > MaxWindow {
		return fmt.Errorf("%w: body is no plain zstd frame", ErrMalformed)
	}
	at, last := h.HeaderSize, false
	for !last {
		if at+3 > len(frame) {
			return fmt.Errorf("%w: body is cut", ErrMalformed)
		}
		block := int(frame[at]) | int(frame[at+1])<<8 | int(frame[at+2])<<16
		last = block&1 != 0
		size := block >> 3
		if block>>1&3 == 1 { // one byte, repeated
			size = 1
		}
		at += 3 + size
	}
	if h.HasCheckSum {
		at += 4
	}
	if at != len(frame) {
		return fmt.Errorf("%w: body is not one zstd frame", ErrMalformed)
	}
	return nil
}
