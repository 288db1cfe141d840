package syncproto

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/deja-node/deja/index/record"
)

// take reads what the other nodes have put into the mailbox, and what this
// node itself has put there and lost.
func (m *mirror) take(ctx context.Context) error {
	nodes := slices.SortedFunc(maps.Keys(m.marks), func(a, b record.NodeID) int { return slices.Compare(a[:], b[:]) })
	for _, node := range nodes {
		mark := m.marks[node]
		if m.state.Heads[node] == mark {
			continue
		}
		if err := m.describe(ctx, false); err != nil {
			return err
		}
		whole, err := m.takeNode(ctx, node, mark.Size)
		if r, ok := errors.AsType[*Refusal](err); ok {
			m.note(r)
			continue
		}
		if errors.Is(err, ErrFrame) {
			m.note(&Refusal{Code: CodeFrame, Msg: fmt.Sprintf("heads of node %s: %s", node.Short(), harmless(err.Error(), maxWords))})
			continue
		}
		if err != nil {
			return err
		}
		if whole {
			m.state.Heads[node] = mark
		}
	}
	return nil
}

// takeNode reads one node's heads and then what is lacking of its streams. It
// reports whether nothing of it is left for another time.
func (m *mirror) takeNode(ctx context.Context, node record.NodeID, size int64) (whole bool, err error) {
	if size > maxHeads {
		return false, fmt.Errorf("%w: %d bytes", ErrFrame, size)
	}
	data, err := m.box.Get(ctx, headsName(node), size)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // replaced just now; the next run sees the new one
	}
	if err != nil {
		return false, err
	}
	h, err := decodeHeads(node, data)
	if err != nil {
		return false, err
	}
	whole, m.touched[node] = true, true
	carded := node == m.self || len(h.card) == 0
	for _, o := range h.offers {
		m.report.Acked[o.stream] = o.head
		if node == m.self {
			m.recall(o, h.policy)
		}
		k, err := m.store.Known(ctx, o.stream)
		if err != nil {
			return false, err
		}
		if !carded && k.Card < o.card && m.takes() {
			carded = true
			if err := m.store.PutCard(ctx, h.card); err != nil {
				return false, err
			}
		}
		ok, err := m.takeStream(ctx, o, k, node.String()+":"+h.policy)
		if err != nil {
			return false, err
		}
		whole = whole && ok
	}
	return whole && m.takes(), m.commit(ctx)
}

// recall learns from the own heads file what this node once wrote, when it
// does not remember.
func (m *mirror) recall(o offer, policy string) {
	if _, ok := m.state.Posted[o.stream]; !ok {
		m.state.Posted[o.stream] = Post{Head: o.head, Policy: policy}
	}
}

func (m *mirror) takes() bool { return m.cfg.Mode == Both || m.cfg.Mode == Pull }

func (m *mirror) takeStream(ctx context.Context, o offer, k Known, tag string) (bool, error) {
	k.Streams += m.fresh[o.stream.Node]
	l := lacking(m.self, o, k, tag)
	m.report.Behind += l.behind()
	if l.refuse != nil {
		m.note(l.refuse)
		return false, nil // read again each time: what is refused may change
	}
	if !m.takes() {
		return false, nil
	}
	if k.Head.Seq == 0 {
		m.fresh[o.stream.Node]++
	}
	spans := l.fill
	if l.fresh.From != 0 {
		spans = append([]Span{l.fresh}, spans...)
	}
	whole := true
	for _, span := range spans {
		ok, err := m.takeSpan(ctx, o.stream, span, tag)
		if err != nil {
			return false, err
		}
		whole = whole && ok
	}
	return whole, nil
}

// takeSpan reads the files that hold a span.
func (m *mirror) takeSpan(ctx context.Context, s record.StreamID, span Span, tag string) (bool, error) {
	relisted := false
	for next := span.From; next <= span.To; {
		files, err := m.listFiles(ctx, s)
		if err != nil {
			return false, err
		}
		f, ok := find(files, next)
		if !ok {
			return false, nil // the heads came before the file; another time
		}
		if f.size > int64(maxFile) {
			m.note(&Refusal{Code: CodeLimit, Stream: s, Msg: fmt.Sprintf("a file of %d bytes", f.size)})
			return false, nil
		}
		data, err := m.box.Get(ctx, f.name(), f.size)
		if errors.Is(err, fs.ErrNotExist) && !relisted {
			relisted = true // packed anew just now
			delete(m.files, s)
			continue
		}
		if err != nil {
			return false, err
		}
		after, err := m.takeFile(ctx, f, data, Span{next, span.To}, tag)
		if r, ok := errors.AsType[*Refusal](err); ok && !r.Stream.IsZero() {
			m.note(r)
			return false, nil
		}
		if err != nil {
			return false, err
		}
		next = after
	}
	return true, nil
}

// takeFile takes the batches of a file that touch a span, and returns the
// position after them.
func (m *mirror) takeFile(ctx context.Context, f packed, data []byte, span Span, tag string) (record.Seq, error) {
	broken := func(what string) error {
		return &Refusal{Code: CodeBatch, Stream: f.stream, Msg: what + " in the mailbox file " + f.base()}
	}
	next, at := span.From, f.first
	for len(data) > 0 && next <= span.To {
		raw, rest, err := split(data)
		if err != nil {
			return 0, broken("a cut batch")
		}
		b, err := peek(raw)
		if r, ok := errors.AsType[*Refusal](err); ok {
			return 0, r
		}
		if err != nil || b.stream != f.stream || b.first != at {
			return 0, broken("a batch out of place")
		}
		data, at = rest, b.last+1
		if b.last < next {
			continue
		}
		r, err := m.store.Accept(ctx, raw, tag)
		if err != nil {
			m.count.Refused++
			return 0, err
		}
		m.report.Received.Batches++
		m.report.Received.Bytes += int64(len(raw))
		m.count.add(r)
		next = b.last + 1
		if m.dirty += len(raw); m.dirty >= commitStep {
			if err := m.commit(ctx); err != nil {
				return 0, err
			}
		}
	}
	if next == span.From {
		return 0, broken("less than its name says")
	}
	return next, nil
}
