package batch

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/deja-node/deja/index/record"
)

// Codec looks into batches and rewrites them. It reuses its buffers: what a
// method returns is valid until the next call. It is not for concurrent use;
// the zero value is ready.
type Codec struct {
	expander
	compressor
	parser  Parser
	body    []byte
	lines   [][]byte
	entries []record.Entry
	out     []byte
	frame   []byte
	leaves  []byte
	hasher  hasher
}

// Body returns the decompressed body: the lines, each with its end. It is
// written to dst if that has room.
func (c *Codec) Body(dst []byte, b *Batch) ([]byte, error) {
	return c.expand(dst, b.body, b.Ulen+b.N*maxStub)
}

// Lines returns the lines of a batch without their ends, as many as the header
// says and no longer than it says.
func (c *Codec) Lines(b *Batch) ([][]byte, error) {
	body, err := c.Body(c.body, b)
	if err != nil {
		return nil, err
	}
	c.body = body
	c.lines, err = SplitLines(c.lines[:0], &b.Header, body)
	return c.lines, err
}

// SplitLines appends the lines of a body to dst, and checks them against the
// header of their batch.
func SplitLines(dst [][]byte, h *Header, body []byte) ([][]byte, error) {
	dst = slices.Grow(dst, h.N)
	n, size, stubs := 0, 0, 0
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		if end < 0 || n == h.N {
			n = -1
			break
		}
		line := body[:end:end]
		if IsStub(line) {
			stubs++
		} else {
			size += len(line) + 1
		}
		n++
		dst = append(dst, line)
		body = body[end+1:]
	}
	if n != h.N || size > h.Ulen || stubs == 0 && size != h.Ulen {
		return nil, fmt.Errorf("%w: the lines are not what the header counts", ErrMalformed)
	}
	return dst, nil
}

// Verify proves a batch: its header is signed by pub, the key of the stream's
// node; its lines are those that the origin sealed, but for stubs, which
// commit to the line they replace; and every line can be read.
func (c *Codec) Verify(b *Batch, pub ed25519.PublicKey) error {
	var err error
	c.entries, err = c.VerifyEntries(c.entries[:0], b, pub)
	clear(c.entries) // the texts are not to stay in memory
	return err
}

// VerifyEntries is Verify and Entries in one pass over the batch.
func (c *Codec) VerifyEntries(dst []record.Entry, b *Batch, pub ed25519.PublicKey) ([]record.Entry, error) {
	if err := checkSignature(b.Stream, b.head, b.sig, pub); err != nil {
		return dst, err
	}
	lines, err := c.Lines(b)
	if err != nil {
		return dst, err
	}
	root, err := c.rootOf(lines)
	if err != nil {
		return dst, err
	}
	if root != b.Root {
		return dst, fmt.Errorf("%w: lines", ErrSignature)
	}
	return c.parse(dst, b, lines)
}

// rootOf hashes the leaves of lines.
func (c *Codec) rootOf(lines [][]byte) (sum record.Hash, err error) {
	c.leaves = c.leaves[:0]
	for _, line := range lines {
		h, err := c.hasher.leaf(line)
		if err != nil {
			return sum, err
		}
		c.leaves = append(c.leaves, h[:]...)
	}
	return sha256.Sum256(c.leaves), nil
}

// Entries appends the entries of a batch to dst, with their positions. Their
// strings are their own; the array of dst may be used again.
func (c *Codec) Entries(dst []record.Entry, b *Batch) ([]record.Entry, error) {
	lines, err := c.Lines(b)
	if err != nil {
		return dst, err
	}
	return c.parse(dst, b, lines)
}

func (c *Codec) parse(dst []record.Entry, b *Batch, lines [][]byte) ([]record.Entry, error) {
	for i, line := range lines {
		dst = append(dst, record.Entry{})
		e := &dst[len(dst)-1]
		if err := c.parser.Entry(line, e); err != nil {
			return dst, fmt.Errorf("entry %d: %w", b.First+record.Seq(i), err)
		}
		e.Source, e.Seq = b.Stream, b.First+record.Seq(i)
	}
	return dst, nil
}

// Entry reads one line of a verified batch; see [Parser.Entry].
func (c *Codec) Entry(line []byte, e *record.Entry) error { return c.parser.Entry(line, e) }

// Stub appends to dst a copy of a batch in which the lines that pick gives a
// reason for are stubs, and returns how many lines changed. Pick sees stubs
// too: a withheld one can become a forgotten one, and nothing else becomes of
// a stub. The signed header stays as it is.
func (c *Codec) Stub(dst []byte, b *Batch, pick func(seq record.Seq, line []byte) (reason string)) ([]byte, int, error) {
	lines, err := c.Lines(b)
	if err != nil {
		return dst, 0, err
	}
	changed, out := 0, c.out[:0]
	for i, line := range lines {
		stub := record.Stub{Reason: pick(b.First+record.Seq(i), line)}
		if stub.Reason != "" {
			if stub.Leaf, err = c.hasher.leaf(line); err != nil {
				return dst, 0, err
			}
		}
		if stub.Reason != "" && (!IsStub(line) || stub.Reason == record.Forgotten && !bytes.Equal(line, AppendStub(nil, stub))) {
			out = AppendStub(out, stub)
			changed++
		} else {
			out = append(out, line...)
		}
		out = append(out, '\n')
	}
	dst, err = c.reframe(dst, b, out)
	return dst, changed, err
}

// Merge appends to dst a copy of a batch in which entries of another copy take
// the place of withheld stubs, and returns how many. Both copies have been
// verified and have one header. A forgotten stub stays.
func (c *Codec) Merge(dst []byte, b, other *Batch) ([]byte, int, error) {
	if b.Hash != other.Hash {
		return dst, 0, fmt.Errorf("%w: merging batches of different headers", ErrMalformed)
	}
	body, err := c.Body(nil, other)
	if err != nil {
		return dst, 0, err
	}
	theirs, err := SplitLines(nil, &other.Header, body)
	if err != nil {
		return dst, 0, err
	}
	lines, err := c.Lines(b)
	if err != nil {
		return dst, 0, err
	}
	filled, out := 0, c.out[:0]
	for i, line := range lines {
		if stub, err := ParseStub(line); err == nil && stub.Reason == record.Withheld && !IsStub(theirs[i]) {
			line = theirs[i]
			filled++
		}
		out = append(append(out, line...), '\n')
	}
	dst, err = c.reframe(dst, b, out)
	return dst, filled, err
}

// reframe appends the batch with another body.
func (c *Codec) reframe(dst []byte, b *Batch, lines []byte) ([]byte, error) {
	c.out = lines
	frame, err := c.compress(c.frame[:0], lines)
	if err != nil {
		return dst, err
	}
	c.frame = frame
	return appendFrame(dst, b.head, b.sig, frame), nil
}
