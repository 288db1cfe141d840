package journal

import (
	"context"
	"fmt"

	"github.com/deja-node/deja/index/record"
)

// View is a fold over the logs that can be thrown away and computed again.
// Streams are folded independently: a view must not depend on the order in
// which entries of different streams arrive.
type View interface {
	Name() string
	// Version grows when a rebuild would give something else.
	Version() int
	// Known is what Apply has folded.
	Known() record.Frontier
	// Apply folds entries of a stream; entries[i] stands at from+i, and from
	// follows what is known of the stream. Strings of the entries may be kept,
	// the slice and what its elements point to may not.
	Apply(ctx context.Context, s record.StreamID, from record.Seq, entries []record.Entry) error
	// Reset forgets everything.
	Reset() error
}

// Fold brings a view up to date with what is on disk now. A view that knows
// more than the log, because the log lost entries that were never committed or
// was put back, is reset first.
func (j *Journal) Fold(ctx context.Context, v View) error {
	front, err := j.Frontier()
	if err != nil {
		return err
	}
	if !front.Covers(v.Known()) {
		if err := v.Reset(); err != nil {
			return fmt.Errorf("view %s: %w", v.Name(), err)
		}
	}
	for _, s := range front.Streams() {
		known := v.Known()[s].Seq
		if known >= front[s].Seq {
			continue
		}
		for c, err := range j.Read(ctx, s, known+1) {
			if err != nil {
				return err
			}
			if err := v.Apply(ctx, s, c.First, c.Entries); err != nil {
				return fmt.Errorf("view %s: %w", v.Name(), err)
			}
		}
	}
	return nil
}
