package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/syncproto/batch"
)

// Batch returns the committed batch that holds a position, or [ErrNotFound].
func (j *Journal) Batch(s record.StreamID, seq record.Seq) (*batch.Batch, error) {
	st, err := j.reaching(s, seq)
	if err != nil {
		return nil, err
	}
	b, err := j.batchAt(st, seq)
	if errors.Is(err, ErrCorrupt) {
		// The segment may have been rewritten since the state was read.
		j.forget(s)
		if st, err = j.load(s); err == nil {
			b, err = j.batchAt(st, seq)
		}
	}
	return b, err
}

func (j *Journal) batchAt(st *state, seq record.Seq) (*batch.Batch, error) {
	if seq < 1 || seq > st.head.Seq {
		return nil, fmt.Errorf("entry %d of %s: %w", seq, st.stream, ErrNotFound)
	}
	for p, err := range j.walk(context.Background(), st, seq) {
		if err == nil && p.batch == nil {
			err = fmt.Errorf("entry %d of %s was damaged: %w", seq, st.stream, ErrNotFound)
		}
		return p.batch, err
	}
	return nil, fmt.Errorf("entry %d of %s: %w", seq, st.stream, ErrNotFound)
}

// forget drops what is cached of a stream.
func (j *Journal) forget(s record.StreamID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.logs, s)
	for id := range j.indexes {
		if id.stream == s {
			delete(j.indexes, id)
		}
	}
	j.blocks.drop(func(b *block) bool { return b.stream == s })
}

// Entry returns one entry, or [ErrNotFound]. Like Read, it gives a stub for
// one that was damaged and set aside.
func (j *Journal) Entry(p record.Pos) (record.Entry, error) {
	var e record.Entry
	b, err := j.block(p)
	if err != nil {
		return e, err
	}
	if b == nil {
		return damaged(p), nil
	}
	c := j.codec()
	defer j.codecs.Put(c)
	if err := c.Entry(b.lines[p.Seq-b.first], &e); err != nil {
		return e, fmt.Errorf("entry %d of %s: %w: %w", p.Seq, p.Stream, ErrCorrupt, err)
	}
	e.Source, e.Seq = p.Stream, p.Seq
	return e, nil
}

// block returns the block that holds a position, nil for a damaged one.
func (j *Journal) block(p record.Pos) (*block, error) {
	j.mu.Lock()
	b := j.blocks.get(p)
	j.mu.Unlock()
	if b != nil {
		return b, nil
	}
	st := j.cached(p.Stream)
	if st == nil || st.head.Seq < p.Seq {
		var t *tail
		var err error
		if st, t, err = j.loadTail(p.Stream); err != nil {
			return nil, err
		}
		if p.Seq > st.head.Seq {
			return j.keep(p, &block{stream: p.Stream, first: st.head.Seq + 1, lines: t.all(), size: t.bytes()})
		}
	}
	raw, err := j.Batch(p.Stream, p.Seq)
	if errors.Is(err, ErrNotFound) && st.hole(p.Seq) != 0 {
		return nil, nil //nolint:nilnil // a damaged position is a state like others
	}
	if err != nil {
		return nil, err
	}
	c := j.codec()
	defer j.codecs.Put(c)
	body, err := c.Body(nil, raw)
	if err == nil {
		b = &block{stream: p.Stream, first: raw.First, size: len(body)}
		b.lines, err = batch.SplitLines(nil, &raw.Header, body)
	}
	if err != nil {
		return nil, fmt.Errorf("entry %d of %s: %w: %w", p.Seq, p.Stream, ErrCorrupt, err)
	}
	return j.keep(p, b)
}

// keep caches a block that was read for a position.
func (j *Journal) keep(p record.Pos, b *block) (*block, error) {
	if !b.holds(p) {
		return nil, fmt.Errorf("entry %d of %s: %w", p.Seq, p.Stream, ErrNotFound)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.blocks.put(b)
	return b, nil
}

// maxParts bounds what Whole joins.
const maxParts = 4096

// Whole returns the record that an entry belongs to: the entry itself, or for
// one of several parts the first of them with the text of all. The text ends
// where a part is missing.
func (j *Journal) Whole(p record.Pos) (record.Entry, error) {
	e, err := j.Entry(p)
	if err != nil || e.Parts == 0 || record.Seq(e.Part) > p.Seq || e.Parts > maxParts {
		return e, err
	}
	first := p.Seq - record.Seq(e.Part) + 1
	var whole record.Entry
	var texts []redact.Text
	for i := range e.Parts {
		part, err := j.Entry(record.Pos{Stream: p.Stream, Seq: first + record.Seq(i)})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return e, err
		}
		if err != nil || part.Part != i+1 || !sameRecord(&part, &e) {
			break
		}
		if i == 0 {
			whole = part
		}
		texts = append(texts, part.Text)
	}
	if len(texts) < e.Part {
		return e, nil // its first parts are gone, so it stands for itself
	}
	whole.Text, whole.Part, whole.Parts = batch.JoinText(texts), 0, 0
	return whole, nil
}

func sameRecord(a, b *record.Entry) bool {
	return a.Parts == b.Parts && a.Harness == b.Harness && a.Session == b.Session && a.Role == b.Role && a.Time.Equal(b.Time)
}
