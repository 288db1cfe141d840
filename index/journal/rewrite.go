package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// maxPatched bounds the bytes of batches that wait to replace others. Beyond
// it a commit happens by itself.
const maxPatched = 8 << 20

// Replace takes from another copy of a stored batch the entries of which only
// withheld stubs are stored, or takes a batch that was damaged and set aside.
// Nothing that is stored is lost by it, and what was forgotten stays so. The
// header must be the one that is stored, or fit between its neighbours. It
// holds from Commit on.
func (w *Writer) Replace(ctx context.Context, raw []byte) error {
	if err := w.alive(ctx); err != nil {
		return err
	}
	b, err := batch.Open(raw)
	if err != nil {
		return w.refuse(raw, err)
	}
	pub, err := w.keyOf(b.Stream.Node)
	if err != nil {
		return err
	}
	if err := w.codec.Verify(b, pub); err != nil {
		return w.refuse(raw, fmt.Errorf("batch %d of %s: %w", b.First, b.Stream, err))
	}
	a, err := w.log(b.Stream)
	if err != nil {
		return err
	}
	stored, err := w.latest(a, b.First)
	if errors.Is(err, ErrNotFound) {
		if err := w.fits(a, b); err != nil {
			return err
		}
		return w.patch(ctx, a, bytes.Clone(raw))
	}
	if err != nil {
		return err
	}
	if stored.Hash != b.Hash {
		return w.fork(a, b.First, b)
	}
	merged, filled, err := w.codec.Merge(nil, stored, b)
	if err != nil || filled == 0 {
		return err
	}
	return w.patch(ctx, a, merged)
}

// patch queues a batch to replace the stored one.
func (w *Writer) patch(ctx context.Context, a *appender, raw []byte) error {
	b, err := batch.Open(raw)
	if err != nil {
		return err
	}
	if old := a.patches[b.First]; old != nil {
		w.patched -= len(old.Raw)
	}
	w.patched += len(raw)
	a.patches[b.First] = b
	if w.patched < maxPatched {
		return nil
	}
	return w.Commit(ctx)
}

// fits holds a batch for a hole to what the signed chain says of it: at least
// one neighbour is there, and every one that is names it or is named by it.
func (w *Writer) fits(a *appender, b *batch.Batch) error {
	for seq := b.First; seq <= b.Last(); {
		end := a.st.hole(seq)
		if end == 0 {
			return fmt.Errorf("entries %d to %d of %s: %w", b.First, b.Last(), b.Stream, ErrMismatch)
		}
		seq = end + 1
	}
	before, after := b.First == 1, b.Last() == a.head.Seq && b.Hash == a.head.Hash
	if prev, err := w.latest(a, b.First-1); err == nil {
		before = prev.Hash == b.Prev && prev.Last() == b.First-1
		if !before {
			return fmt.Errorf("batch %d of %s: %w", b.First, b.Stream, ErrMismatch)
		}
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if next, err := w.latest(a, b.Last()+1); err == nil {
		after = next.Prev == b.Hash && next.First == b.Last()+1
		if !after {
			return fmt.Errorf("batch %d of %s: %w", b.First, b.Stream, ErrMismatch)
		}
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if !before && !after || b.Last() == a.head.Seq && !after {
		return fmt.Errorf("batch %d of %s stands alone: %w", b.First, b.Stream, ErrMismatch)
	}
	return nil
}

// latest is stored, with batches that wait to be written.
func (w *Writer) latest(a *appender, seq record.Seq) (*batch.Batch, error) {
	for _, b := range a.patches {
		if b.First <= seq && seq <= b.Last() {
			return b, nil
		}
	}
	return w.stored(a, seq)
}

// applyPatches rewrites the segments that batches wait for.
func (w *Writer) applyPatches(ctx context.Context) error {
	for _, s := range slices.SortedFunc(maps.Keys(w.logs), record.StreamID.Compare) {
		if a := w.logs[s]; len(a.patches) > 0 {
			if err := w.rewrite(ctx, a, a.patches, nil); err != nil {
				return err
			}
			clear(a.patches)
		}
	}
	w.patched = 0
	return nil
}

// rewrite writes segments of a stream anew: with patches in the place of
// stored batches and of holes, and without what begins at the places in drop.
func (w *Writer) rewrite(ctx context.Context, a *appender, patches map[record.Seq]*batch.Batch, drop map[place]bool) error {
	if err := a.close(); err != nil {
		return err
	}
	if len(a.st.segs) == 0 {
		return fmt.Errorf("%s: %w: no segment is left", a.st.dir, ErrCorrupt)
	}
	todo := map[int][]record.Seq{}
	for _, first := range slices.Sorted(maps.Keys(patches)) {
		i := max(a.st.segmentOf(first), 0)
		todo[i] = append(todo[i], first)
	}
	for p := range drop {
		todo[p.seg] = slices.Clip(todo[p.seg]) // there, even without patches
	}
	for _, i := range slices.Sorted(maps.Keys(todo)) {
		r := &rewriting{name: a.st.segPath(i), seg: i, head: a.durable.Seq, firsts: todo[i], patches: patches, drop: drop}
		if err := r.run(ctx, a.j.fs); err != nil {
			return err
		}
	}
	a.j.forget(a.st.stream)
	if len(a.st.holes) == 0 && len(drop) == 0 {
		return nil
	}
	return a.updateHoles(ctx)
}

// updateHoles writes down what is missing now.
func (a *appender) updateHoles(ctx context.Context) error {
	holes, err := a.j.gaps(ctx, a.st)
	if err != nil || slices.Equal(holes, a.st.holes) {
		return err
	}
	if err := writeHoles(a.j.fs, a.st.dir, holes); err != nil {
		return err
	}
	st := *a.st
	st.holes = holes
	a.st = &st
	a.j.forget(st.stream)
	return nil
}

// gaps returns the positions up to the head that no batch holds.
func (j *Journal) gaps(ctx context.Context, st *state) ([]record.Range, error) {
	var holes []record.Range
	next := record.Seq(1)
	upTo := func(seq record.Seq) {
		if next < seq {
			holes = append(holes, record.Range{Stream: st.stream, From: next, To: seq - 1})
		}
	}
	for i := range st.segs {
		err := j.headers(ctx, st.segPath(i), func(h *batch.Header) {
			upTo(h.First)
			next = max(next, h.Last()+1)
		})
		if err != nil {
			return nil, err
		}
	}
	upTo(st.head.Seq + 1)
	return holes, nil
}

// headers reads the headers of a sound segment.
func (j *Journal) headers(ctx context.Context, name string, each func(*batch.Header)) error {
	g, err := openSegment(j.fs, name)
	if err != nil {
		return err
	}
	defer g.close() //nolint:errcheck // nothing was written
	for off := int64(0); off < g.size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, next, err := g.peek(off)
		if err != nil && isDamage(err) {
			err = corrupt(name, off, err)
		}
		if err != nil {
			return err
		}
		each(&h)
		off = next
	}
	return nil
}

// rewriting is one segment being written anew.
type rewriting struct {
	name    string
	seg     int
	head    record.Seq   // nothing after it is committed
	firsts  []record.Seq // of the patches that belong here
	patches map[record.Seq]*batch.Batch
	drop    map[place]bool

	out   *bufio.Writer
	off   int64
	marks []mark
}

func (r *rewriting) run(ctx context.Context, fsys vfs.FS) error {
	g, err := openSegment(fsys, r.name)
	if err != nil {
		return err
	}
	defer g.close() //nolint:errcheck // nothing was written
	temp := vfs.TempName(r.name)
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	r.out = bufio.NewWriterSize(f, 1<<20)
	err = r.copy(ctx, g)
	if err == nil {
		err = r.out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, removeIfThere(fsys, temp))
	}
	if err := fsys.Rename(temp, r.name); err != nil {
		return errors.Join(err, removeIfThere(fsys, temp))
	}
	if err := fsys.SyncDir(path.Dir(r.name)); err != nil {
		return err
	}
	return replaceIndex(fsys, r.name, r.marks)
}

// copy writes the new contents, up to the head.
func (r *rewriting) copy(ctx context.Context, g *segment) error {
	last := record.Seq(0)
	for part, err := range g.survey(ctx) {
		if err != nil {
			return err
		}
		if last >= r.head {
			break
		}
		if r.drop[place{r.seg, part.off}] {
			continue
		}
		if part.batch == nil {
			return corrupt(g.name, part.off, part.err)
		}
		if last = part.batch.Last(); last > r.head {
			break
		}
		if err := r.before(part.batch.First); err != nil {
			return err
		}
		raw := part.batch.Raw
		if p := r.patches[part.batch.First]; p != nil {
			raw = p.Raw
			r.firsts = r.firsts[1:]
		}
		if err := r.write(part.batch.First, raw); err != nil {
			return err
		}
	}
	return r.before(1<<63 - 1)
}

// before writes the patches that come before a position.
func (r *rewriting) before(seq record.Seq) error {
	for len(r.firsts) > 0 && r.firsts[0] < seq {
		first := r.firsts[0]
		r.firsts = r.firsts[1:]
		if err := r.write(first, r.patches[first].Raw); err != nil {
			return err
		}
	}
	return nil
}

func (r *rewriting) write(first record.Seq, raw []byte) error {
	r.marks = append(r.marks, mark{first, r.off})
	r.off += int64(len(raw))
	_, err := r.out.Write(raw)
	return err
}
