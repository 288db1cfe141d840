package journal

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/deja-node/deja/index/record"
)

// Stub replaces entries by stubs with a reason, and commits. The bytes of the
// entries are gone from the disk when it returns. Positions that are stubs for
// the same reason already, or that the journal does not have, are passed over.
// It returns how many entries changed.
func (w *Writer) Stub(ctx context.Context, ranges []record.Range, reason string) (int, error) {
	if err := w.alive(ctx); err != nil {
		return 0, err
	}
	byStream := map[record.StreamID][]record.Range{}
	for _, r := range ranges {
		byStream[r.Stream] = append(byStream[r.Stream], r)
	}
	if err := w.Commit(ctx); err != nil {
		return 0, err
	}
	changed := 0
	for _, s := range slices.SortedFunc(maps.Keys(byStream), record.StreamID.Compare) {
		if w.own != nil && s == w.own.st.stream && w.own.lines.Len() > 0 {
			if err := w.Seal(ctx); err != nil {
				return changed, err
			}
		}
		n, err := w.stubStream(ctx, s, byStream[s], reason)
		changed += n
		if err != nil {
			return changed, err
		}
	}
	return changed, w.Commit(ctx)
}

func (w *Writer) stubStream(ctx context.Context, s record.StreamID, ranges []record.Range, reason string) (int, error) {
	a, err := w.log(s)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(ranges, func(x, y record.Range) int { return cmp.Compare(x.From, y.From) })
	pick := func(seq record.Seq, _ []byte) string {
		for _, r := range ranges {
			if r.From <= seq && seq <= r.To {
				return reason
			}
		}
		return ""
	}
	changed, done := 0, record.Seq(0) // positions up to done have been seen to
	for _, r := range ranges {
		for seq := max(r.From, done+1); seq <= min(r.To, a.durable.Seq); seq = done + 1 {
			b, err := w.stored(a, seq)
			if errors.Is(err, ErrNotFound) {
				done = max(seq, a.st.hole(seq))
				continue
			}
			if err != nil {
				return changed, err
			}
			raw, n, err := w.codec.Stub(nil, b, pick)
			if err != nil {
				return changed, err
			}
			if n > 0 {
				if err := w.patch(ctx, a, raw); err != nil {
					return changed, err
				}
			}
			changed += n
			done = b.Last()
		}
	}
	return changed, nil
}
