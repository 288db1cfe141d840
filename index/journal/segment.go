package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// segment is a segment file that is read batch by batch.
type segment struct {
	f    vfs.File
	name string
	size int64
	buf  []byte
}

// errCut says that a batch goes on where its file ends.
var errCut = errors.New("the file ends inside a batch")

func openSegment(fsys vfs.FS, name string) (*segment, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &segment{f: f, name: name, size: info.Size()}, nil
}

func (g *segment) close() error { return g.f.Close() }

// usualHead is how much is read first: nearly every header fits.
const usualHead = 512

// bytes reads n bytes at off into the buffer, in addition to the have bytes
// that it holds of that place already.
func (g *segment) bytes(off int64, have, n int) ([]byte, error) {
	if off+int64(n) > g.size {
		return nil, errCut
	}
	if cap(g.buf) < n {
		g.buf = append(make([]byte, 0, max(n, 64<<10)), g.buf[:have]...)
	}
	g.buf = g.buf[:n]
	if _, err := g.f.ReadAt(g.buf[have:], off+int64(have)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return g.buf, nil
}

// head reads the batch at off up to its body. It returns io.EOF at the end of
// the file. Like what the other methods return, the bytes are valid until the
// next call.
func (g *segment) head(off int64) ([]byte, error) {
	if off >= g.size {
		return nil, io.EOF
	}
	have := int(min(usualHead, g.size-off))
	p, err := g.bytes(off, 0, have)
	if err != nil {
		return nil, err
	}
	n, err := batch.HeadLen(p)
	if err != nil || n <= have {
		return p, err
	}
	return g.bytes(off, have, n)
}

// peek reads the header of the batch at off, and says where the next begins.
func (g *segment) peek(off int64) (h batch.Header, next int64, err error) {
	p, err := g.head(off)
	if err != nil {
		return h, 0, err
	}
	n, err := batch.Len(p)
	if err != nil {
		return h, 0, err
	}
	if next = off + int64(n); next > g.size {
		return h, 0, errCut
	}
	h, _, err = batch.PeekHeader(p)
	return h, next, err
}

// read opens the batch at off.
func (g *segment) read(off int64) (*batch.Batch, error) {
	p, err := g.head(off)
	if err != nil {
		return nil, err
	}
	n, err := batch.Len(p)
	if err != nil {
		return nil, err
	}
	raw, err := g.bytes(off, min(len(p), n), n)
	if err != nil {
		return nil, err
	}
	return batch.Open(raw)
}

// found is a part of a segment: a sound batch, or bytes that are none.
type found struct {
	off, end int64
	batch    *batch.Batch // nil for damage
	err      error        // what is wrong with damage
}

// survey yields all parts of a segment. After damage it goes on at the next
// place where a sound batch begins.
func (g *segment) survey(ctx context.Context) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		for off := int64(0); off < g.size; {
			if ctx.Err() != nil {
				yield(found{}, context.Cause(ctx))
				return
			}
			b, err := g.read(off)
			part := found{off: off, batch: b}
			switch {
			case err == nil:
				part.end = off + int64(len(b.Raw))
			case isDamage(err):
				part.batch, part.err = nil, err
				if part.end, err = g.resync(ctx, off+1); err != nil {
					yield(found{}, err)
					return
				}
			default:
				yield(found{}, err)
				return
			}
			if !yield(part, nil) {
				return
			}
			off = part.end
		}
	}
}

// isDamage tells wrong bytes from a disk that does not answer.
func isDamage(err error) bool {
	return errors.Is(err, batch.ErrMalformed) || errors.Is(err, batch.ErrVersion) ||
		errors.Is(err, batch.ErrSignature) || errors.Is(err, errCut)
}

// resync returns the first place from off on where a sound batch begins, or
// the end of the file.
func (g *segment) resync(ctx context.Context, off int64) (int64, error) {
	magic := []byte("DJB2")
	window := make([]byte, 256<<10)
	for off < g.size {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := g.f.ReadAt(window, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for at := 0; ; at++ {
			i := bytes.Index(window[at:n], magic)
			if i < 0 {
				break
			}
			at += i
			if _, err := g.read(off + int64(at)); err == nil {
				return off + int64(at), nil
			} else if !isDamage(err) {
				return 0, err
			}
		}
		if n <= len(magic) {
			break
		}
		off += int64(n - len(magic) + 1)
	}
	return g.size, nil
}

// findHead finds out how far a stream goes when HEAD is lost: to the last
// sound batch.
func (j *Journal) findHead(st *state) (record.Head, error) {
	var head record.Head
	for i := len(st.segs) - 1; i >= 0 && head.Seq == 0; i-- {
		g, err := openSegment(j.fs, st.segPath(i))
		if err != nil {
			return head, err
		}
		for part, err := range g.survey(context.Background()) {
			if err != nil {
				return head, errors.Join(err, g.close())
			}
			if b := part.batch; b != nil && b.Stream == st.stream && b.Last() > head.Seq {
				head = record.Head{Seq: b.Last(), Hash: b.Hash}
			}
		}
		if err := g.close(); err != nil {
			return head, err
		}
	}
	return head, nil
}

// checkPlace holds a batch to the place where it stands.
func (st *state) checkPlace(b *batch.Batch, next record.Seq, prev record.Hash) error {
	switch {
	case b.Stream != st.stream:
		return fmt.Errorf("a batch of stream %s", b.Stream)
	case b.Last() < next:
		return fmt.Errorf("entries %d to %d come after %d", b.First, b.Last(), next-1)
	case b.First == next && prev != record.Hash{} && b.Prev != prev:
		return fmt.Errorf("the batch at %d does not follow the one before it", b.First)
	}
	return nil
}
