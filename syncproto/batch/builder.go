package batch

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/deja-node/deja/index/record"
)

// Builder collects the lines of one batch after the other. The zero value is
// ready; it is not for concurrent use.
type Builder struct {
	body  []byte
	ends  []int // of each line, past its newline
	codec Codec
}

// Len returns how many lines are collected.
func (b *Builder) Len() int { return len(b.ends) }

// Size returns the bytes of the collected lines with their ends.
func (b *Builder) Size() int { return len(b.body) }

// Lines returns the collected lines from the i-th on, each with its end. The
// bytes are valid until the next call of another method.
func (b *Builder) Lines(i int) []byte { return b.body[b.start(i):] }

func (b *Builder) start(i int) int {
	if i == 0 {
		return 0
	}
	return b.ends[i-1]
}

// Add collects the line of an entry and sets the length of the line in it.
func (b *Builder) Add(e *record.Entry) error {
	from := len(b.body)
	b.body = AppendEntry(b.body, e)
	e.Line = len(b.body) - from
	return b.close(from)
}

// AddLine collects a line that has no end yet.
func (b *Builder) AddLine(line []byte) error {
	from := len(b.body)
	b.body = append(b.body, line...)
	return b.close(from)
}

// close ends the line that begins at from, or takes it back.
func (b *Builder) close(from int) error {
	if err := b.checkLine(b.body[from:]); err != nil {
		b.body = b.body[:from]
		return err
	}
	b.body = append(b.body, '\n')
	b.ends = append(b.ends, len(b.body))
	return nil
}

// checkLine refuses a line that no batch could hold, even alone.
func (b *Builder) checkLine(line []byte) error {
	if bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("%w: line with a line end in it", ErrMalformed)
	}
	if len(line) > record.MaxLine {
		return fmt.Errorf("%w: line of %d bytes", ErrTooLong, len(line))
	}
	if len(line) < mayOverflow {
		return nil
	}
	frame, err := b.codec.compress(b.codec.frame[:0], line)
	if err != nil {
		return err
	}
	b.codec.frame = frame
	if len(frame) > MaxBody-1<<10 {
		return fmt.Errorf("%w: line of %d bytes, %d compressed", ErrTooLong, len(line), len(frame))
	}
	return nil
}

// mayOverflow is the length from which a line could be larger than a body,
// even compressed.
const mayOverflow = MaxBody - 64<<10

// Ready returns how many of the collected lines make a full batch, and 0 while
// there is room. The last line that was added may be one too many.
func (b *Builder) Ready() int {
	n := len(b.ends)
	switch {
	case n > 1 && (len(b.body) > CloseAt || n > MaxEntries):
		return n - 1
	case len(b.body) >= CloseAt || n == MaxEntries:
		return n
	}
	return 0
}

// Seal makes a signed batch of the first n lines, appends it to dst and goes
// on collecting after them. The header's stream, first position, previous hash
// and time are given.
func (b *Builder) Seal(dst []byte, key ed25519.PrivateKey, n int, h Header) ([]byte, *Batch, error) {
	if n < 1 || n > min(len(b.ends), MaxEntries) {
		return dst, nil, fmt.Errorf("%w: sealing %d of %d lines", ErrMalformed, n, len(b.ends))
	}
	end := b.ends[n-1]
	lines := make([][]byte, 0, n)
	for i := range n {
		lines = append(lines, b.body[b.start(i):b.ends[i]-1])
	}
	h.N, h.Ulen, h.Min, h.At = n, end, Version, h.At.UTC().Truncate(time.Second)
	var err error
	if h.Root, err = b.codec.rootOf(lines); err != nil {
		return dst, nil, err
	}
	if err := h.check(); err != nil {
		return dst, nil, err
	}
	frame, err := b.codec.compress(b.codec.frame[:0], b.body[:end])
	if err != nil {
		return dst, nil, err
	}
	b.codec.frame = frame
	if len(frame) > MaxBody {
		return dst, nil, fmt.Errorf("%w: %d bytes compressed", ErrTooLong, len(frame))
	}
	from := len(dst)
	head := h.append(nil)
	dst = appendFrame(dst, head, ed25519.Sign(key, append([]byte(signDomain), head...)), frame)
	b.drop(n)
	sealed, err := Open(dst[from:])
	return dst, sealed, err
}

// Reset forgets every collected line.
func (b *Builder) Reset() { b.body, b.ends = b.body[:0], b.ends[:0] }

// drop removes the first n lines.
func (b *Builder) drop(n int) {
	end := b.ends[n-1]
	b.body = b.body[:copy(b.body, b.body[end:])]
	b.ends = b.ends[:copy(b.ends, b.ends[n:])]
	for i := range b.ends {
		b.ends[i] -= end
	}
}
