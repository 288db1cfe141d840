package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto/batch"
)

// Chunk is a run of entries of one stream, the first at First.
type Chunk struct {
	Stream  record.StreamID
	First   record.Seq
	Entries []record.Entry
}

// Read yields the entries of a stream from a position on, up to the end of
// what was on disk when it began, the open tail included. Where a span was
// damaged and set aside it yields stubs whose reason is [record.Damaged], so
// that positions stay dense. A chunk is valid until the next; the strings in
// it may be kept.
func (j *Journal) Read(ctx context.Context, s record.StreamID, from record.Seq) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		r := &reading{j: j, codec: j.codec(), next: max(from, 1)}
		defer j.codecs.Put(r.codec)
		st, t, err := j.loadTail(s)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		if r.sealed(ctx, st, yield) {
			r.tail(s, t, yield)
		}
	}
}

// reading is the state of one Read.
type reading struct {
	j       *Journal
	codec   *batch.Codec
	next    record.Seq
	entries []record.Entry
}

// sealed yields the committed entries from next on, and reports whether the
// reading goes on.
func (r *reading) sealed(ctx context.Context, st *state, yield func(Chunk, error) bool) bool {
	for p, err := range r.j.walk(ctx, st, r.next) {
		if err != nil {
			yield(Chunk{}, err)
			return false
		}
		if p.batch == nil {
			if !r.hole(st.stream, p.hole, yield) {
				return false
			}
			continue
		}
		r.entries, err = r.codec.Entries(r.entries[:0], p.batch)
		if err != nil {
			yield(Chunk{}, corrupt(p.name, p.off, err))
			return false
		}
		c := Chunk{Stream: st.stream, First: r.next, Entries: r.entries[r.next-p.batch.First:]}
		r.next = p.batch.Last() + 1
		if !yield(c, nil) {
			return false
		}
	}
	return true
}

// hole yields stubs for a span.
func (r *reading) hole(s record.StreamID, hole record.Range, yield func(Chunk, error) bool) bool {
	for r.next <= hole.To {
		n := min(hole.To-r.next+1, batch.MaxEntries)
		r.entries = r.entries[:0]
		for i := range n {
			r.entries = append(r.entries, damaged(record.Pos{Stream: s, Seq: r.next + i}))
		}
		c := Chunk{Stream: s, First: r.next, Entries: r.entries}
		r.next += n
		if !yield(c, nil) {
			return false
		}
	}
	return true
}

// damaged is what a reader gets in the place of a lost entry.
func damaged(p record.Pos) record.Entry {
	return record.Entry{Kind: record.KindStub, Stub: &record.Stub{Reason: record.Damaged}, Source: p.Stream, Seq: p.Seq}
}

// tail yields what the tail adds.
func (r *reading) tail(s record.StreamID, t *tail, yield func(Chunk, error) bool) {
	if t == nil || r.next < t.first || r.next-t.first >= record.Seq(t.len()) {
		return
	}
	var p batch.Parser
	r.entries = r.entries[:0]
	for i, line := range t.lines[r.next-t.first:] {
		var e record.Entry
		if err := p.Entry(line, &e); err != nil {
			yield(Chunk{}, fmt.Errorf("tail of %s, entry %d: %w: %w", s, r.next+record.Seq(i), ErrCorrupt, err))
			return
		}
		e.Source, e.Seq = s, r.next+record.Seq(i)
		r.entries = append(r.entries, e)
	}
	yield(Chunk{Stream: s, First: r.next, Entries: r.entries}, nil)
}

// Batches yields the committed batches of a stream from the one on that holds
// a position: what may be served. Spans that were set aside are left out. A
// batch is valid until the next.
func (j *Journal) Batches(ctx context.Context, s record.StreamID, from record.Seq) iter.Seq2[*batch.Batch, error] {
	return func(yield func(*batch.Batch, error) bool) {
		st, err := j.load(s)
		if err != nil {
			yield(nil, err)
			return
		}
		for p, err := range j.walk(ctx, st, max(from, 1)) {
			if err == nil && p.batch == nil {
				continue
			}
			if !yield(p.batch, err) {
				return
			}
		}
	}
}

// piece is a batch, or a span that was set aside.
type piece struct {
	batch *batch.Batch
	hole  record.Range
	name  string // of the segment file
	off   int64
}

// walk yields what a state covers from next on, in order and without a gap.
func (j *Journal) walk(ctx context.Context, st *state, next record.Seq) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		if next > st.head.Seq {
			return
		}
		at, g, err := j.locate(st, next)
		if err != nil {
			yield(piece{}, err)
			return
		}
		w := &walk{st: st, next: next, yield: yield}
		for g != nil {
			ok := w.segment(ctx, g, at.off)
			err := g.close()
			if !ok {
				return // the walk has said why, or nobody listens
			}
			g, at = nil, place{seg: at.seg + 1}
			if err == nil && at.seg < len(st.segs) && w.next <= st.head.Seq {
				g, err = openSegment(j.fs, st.segPath(at.seg))
			}
			if err != nil {
				yield(piece{}, err)
				return
			}
		}
		if w.next <= st.head.Seq {
			w.gap(st.head.Seq+1, st.dir, 0)
		}
	}
}

// walk is the state of one walk over batches.
type walk struct {
	st    *state
	next  record.Seq
	prev  record.Hash
	yield func(piece, error) bool
}

// segment walks one file, and reports whether the walk goes on.
func (w *walk) segment(ctx context.Context, g *segment, off int64) bool {
	for w.next <= w.st.head.Seq {
		if ctx.Err() != nil {
			w.yield(piece{}, context.Cause(ctx))
			return false
		}
		b, err := g.read(off)
		if errors.Is(err, io.EOF) {
			return true
		}
		if err == nil {
			err = w.st.checkPlace(b, w.next, w.prev)
			if err != nil {
				err = corrupt(g.name, off, err)
			}
		} else if isDamage(err) {
			err = corrupt(g.name, off, err)
		}
		if err != nil {
			w.yield(piece{}, err)
			return false
		}
		if b.First > w.next && !w.gap(b.First, g.name, off) {
			return false
		}
		if !w.yield(piece{batch: b, name: g.name, off: off}, nil) {
			return false
		}
		w.next, w.prev = b.Last()+1, b.Hash
		off += int64(len(b.Raw))
	}
	return true
}

// gap yields the missing span before to, if it is known to be missing.
func (w *walk) gap(to record.Seq, name string, off int64) bool {
	for w.next < to {
		end := min(w.st.hole(w.next), to-1)
		if end == 0 {
			w.yield(piece{}, corrupt(name, off, fmt.Errorf("entries %d to %d are missing", w.next, to-1)))
			return false
		}
		hole := record.Range{Stream: w.st.stream, From: w.next, To: end}
		w.next, w.prev = end+1, record.Hash{}
		if !w.yield(piece{hole: hole}, nil) {
			return false
		}
	}
	return true
}
