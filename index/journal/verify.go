package journal

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto/batch"
)

// Damage is something that is not as it was written.
type Damage struct {
	Stream   record.StreamID
	File     string
	Off, End int64      // the bytes; equal when bytes are missing
	From, To record.Seq // the positions, zero when it cannot be said
	Err      error

	seg int
}

func (d Damage) String() string {
	return fmt.Sprintf("%s: bytes %d to %d, entries %d to %d: %v", d.File, d.Off, d.End, d.From, d.To, d.Err)
}

// Verify reads every committed batch and returns what is wrong. Checksums, the
// chain of headers and missing positions are always looked at; deep also
// proves signatures and lines, and reads each of them. Holes that were set
// aside are no news, and left out. The error says that the check itself could
// not go on.
func (j *Journal) Verify(ctx context.Context, deep bool) ([]Damage, error) {
	streams, err := j.Streams()
	if err != nil {
		return nil, err
	}
	var all []Damage
	for _, s := range streams {
		v := &verifying{j: j, deep: deep, next: 1}
		if err := v.stream(ctx, s); err != nil {
			return all, err
		}
		all = append(all, v.found...)
	}
	return all, nil
}

// verifying is the check of one stream.
type verifying struct {
	j     *Journal
	deep  bool
	st    *state
	pub   ed25519.PublicKey
	codec *batch.Codec
	next  record.Seq
	prev  record.Hash
	found []Damage
}

func (v *verifying) stream(ctx context.Context, s record.StreamID) error {
	var err error
	if v.st, err = v.j.load(s); err != nil {
		return err
	}
	if v.st.head.Seq == 0 {
		return nil
	}
	v.codec = v.j.codec()
	defer v.j.codecs.Put(v.codec)
	if v.deep {
		if err := v.key(); err != nil {
			return err
		}
	}
	for i := range v.st.segs {
		if v.next > v.st.head.Seq {
			break
		}
		if err := v.segment(ctx, i); err != nil {
			return err
		}
	}
	v.missing(v.st.head.Seq+1, v.st.dir, 0, max(len(v.st.segs)-1, 0))
	return nil
}

// key finds the key that signed the stream.
func (v *verifying) key() error {
	if own := v.j.opt.Own; own == v.st.stream && len(v.j.opt.Key) == ed25519.PrivateKeySize {
		v.pub = ed25519.PublicKey(v.j.opt.Key[ed25519.SeedSize:])
		return nil
	}
	_, card, err := v.j.streamCard(v.st.stream)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoCard
	}
	if errors.Is(err, ErrNoCard) || errors.Is(err, ErrCorrupt) {
		v.found = append(v.found, Damage{Stream: v.st.stream, File: path.Join(v.st.dir, cardName), Err: err})
		return nil
	}
	v.pub = card.Pub
	return err
}

func (v *verifying) segment(ctx context.Context, i int) error {
	g, err := openSegment(v.j.fs, v.st.segPath(i))
	if err != nil {
		return err
	}
	defer g.close() //nolint:errcheck // nothing was written
	var bad []found
	for part, err := range g.survey(ctx) {
		if err != nil {
			return err
		}
		if v.next > v.st.head.Seq {
			break
		}
		if part.err == nil {
			part.err = v.batch(part.batch)
		}
		if part.err != nil {
			bad = append(bad, part)
			continue
		}
		v.report(g.name, i, bad, part.batch.First)
		bad = bad[:0]
		v.missing(part.batch.First, g.name, part.off, i)
		v.next, v.prev = part.batch.Last()+1, part.batch.Hash
	}
	if v.next <= v.st.head.Seq {
		v.report(g.name, i, bad, v.end(i))
	}
	return nil
}

// end returns the position at which the segment after the i-th begins.
func (v *verifying) end(i int) record.Seq {
	if i+1 < len(v.st.segs) {
		return v.st.segs[i+1]
	}
	return v.st.head.Seq + 1
}

// batch checks one batch whose frame is sound.
func (v *verifying) batch(b *batch.Batch) error {
	prev := v.prev
	if b.First != v.next {
		prev = record.Hash{}
	}
	if err := v.st.checkPlace(b, v.next, prev); err != nil {
		return err
	}
	if b.Last() > v.st.head.Seq || b.Last() == v.st.head.Seq && b.Hash != v.st.head.Hash {
		return fmt.Errorf("HEAD at %d names another batch", v.st.head.Seq)
	}
	if !v.deep || v.pub == nil {
		return nil
	}
	return v.codec.Verify(b, v.pub)
}

// report lists damaged bytes that stand before the position to.
func (v *verifying) report(name string, seg int, bad []found, to record.Seq) {
	for _, part := range bad {
		v.found = append(v.found, Damage{
			Stream: v.st.stream, File: name, Off: part.off, End: part.end, seg: seg,
			From: v.next, To: max(to, v.next+1) - 1, Err: fmt.Errorf("%w: %w", ErrCorrupt, part.err),
		})
	}
	if len(bad) > 0 {
		v.next, v.prev = max(v.next, to), record.Hash{}
	}
}

// missing lists positions before to that are neither there nor set aside.
func (v *verifying) missing(to record.Seq, name string, off int64, seg int) {
	for v.next < to {
		if end := min(v.st.hole(v.next), to-1); end > 0 {
			v.next = end + 1
			continue
		}
		v.found = append(v.found, Damage{
			Stream: v.st.stream, File: name, Off: off, End: off, From: v.next, To: to - 1, seg: seg,
			Err: fmt.Errorf("%w: entries are missing", ErrCorrupt),
		})
		v.next = to
	}
}

// Repair sets everything that a deep Verify finds aside: damaged bytes go to
// the spool and out of the segments, and what is missing then is written down
// as holes, so that the rest can be read and Replace can fill them. It commits
// what was added before, and returns what it found.
func (w *Writer) Repair(ctx context.Context) ([]Damage, error) {
	if err := w.Commit(ctx); err != nil {
		return nil, err
	}
	all, err := w.j.Verify(ctx, true)
	if err != nil {
		return all, err
	}
	byStream := map[record.StreamID][]Damage{}
	for _, d := range all {
		if d.To > 0 {
			byStream[d.Stream] = append(byStream[d.Stream], d)
		}
	}
	for s, list := range byStream {
		if err := w.kill(w.setAside(ctx, s, list)); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (w *Writer) setAside(ctx context.Context, s record.StreamID, list []Damage) error {
	a, err := w.log(s)
	if err != nil {
		return err
	}
	drop := map[place]bool{}
	for _, d := range list {
		if d.End == d.Off {
			continue
		}
		drop[place{d.seg, d.Off}] = true
		if err := w.saveDamage(d); err != nil {
			return err
		}
	}
	if len(drop) == 0 {
		return a.updateHoles(ctx)
	}
	return w.rewrite(ctx, a, nil, drop)
}

// saveDamage keeps a copy of damaged bytes.
func (w *Writer) saveDamage(d Damage) error {
	g, err := openSegment(w.j.fs, d.File)
	if err != nil {
		return err
	}
	defer g.close() //nolint:errcheck // nothing was written
	data, err := g.bytes(d.Off, 0, int(d.End-d.Off))
	if err != nil {
		return err
	}
	return w.putAside(d.File, data)
}
