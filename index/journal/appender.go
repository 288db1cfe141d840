package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// segmentSize is how large a segment grows before the next is begun.
const segmentSize = 64 << 20

// appender appends batches to the segments of one stream.
type appender struct {
	j       *Journal
	cards   map[record.NodeID]heldCard // the writer's
	st      *state                     // as it was loaded; its segments are kept current
	head    record.Head                // with what is not committed
	durable record.Head                // what HEAD says

	file  vfs.File // the last segment, nil until it is needed
	name  string
	size  int64
	marks []mark // batches of it that its index lacks
	fresh bool   // the folder has a new name that is not durable

	patches map[record.Seq]*batch.Batch // batches that wait to replace the stored one or to fill a hole
}

// tidy removes what a crash or a failed write left in the folder.
func (a *appender) tidy() error {
	entries, err := a.j.fs.ReadDir(a.st.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if vfs.IsTemp(e.Name()) {
			if err := removeIfThere(a.j.fs, path.Join(a.st.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// current is the state with what is not committed, for looking things up.
func (a *appender) current() *state {
	st := *a.st
	st.head = a.head
	return &st
}

// append writes a batch that follows the head.
func (a *appender) append(b *batch.Batch) error {
	if a.file == nil {
		if err := a.openLast(); err != nil {
			return err
		}
	}
	if a.file != nil && a.size > 0 && a.size+int64(len(b.Raw)) > a.j.opt.SegmentSize {
		if err := a.roll(); err != nil {
			return err
		}
	}
	if a.file == nil {
		if err := a.begin(b.First); err != nil {
			return err
		}
	}
	if _, err := a.file.Write(b.Raw); err != nil {
		return err
	}
	a.marks = append(a.marks, mark{b.First, a.size})
	a.size += int64(len(b.Raw))
	a.head = record.Head{Seq: b.Last(), Hash: b.Hash}
	return nil
}

// found makes the folder of a new stream, with the card of its node and a HEAD that covers nothing: a
// HEAD that is missing later is one that was lost.
func (a *appender) found() error {
	if !a.st.bare {
		return nil
	}
	if err := a.j.fs.MkdirAll(a.st.dir); err != nil {
		return err
	}
	if held, ok := a.cards[a.st.stream.Node]; ok {
		if err := vfs.WriteFile(a.j.fs, path.Join(a.st.dir, cardName), held.raw); err != nil {
			return err
		}
	}
	if err := writeHead(a.j.fs, a.st.dir, record.Head{}); err != nil {
		return err
	}
	st := *a.st
	st.bare = false
	a.st = &st
	return nil
}

// begin makes a new segment.
func (a *appender) begin(first record.Seq) error {
	if err := a.found(); err != nil {
		return err
	}
	a.name = path.Join(a.st.dir, seqName(first, segSuffix))
	f, err := a.j.fs.Create(a.name)
	if err != nil {
		return err
	}
	if err := removeIfThere(a.j.fs, indexPath(a.name)); err != nil {
		return errors.Join(err, f.Close())
	}
	a.file, a.size, a.fresh = f, 0, true
	st := *a.st
	st.segs = append(slices.Clip(st.segs), first)
	a.st = &st
	return nil
}

// roll closes the last segment, durably.
func (a *appender) roll() error {
	if err := a.file.Sync(); err != nil {
		return err
	}
	if err := a.saveMarks(); err != nil {
		return err
	}
	return a.close()
}

// openLast opens the last segment for appending and cuts off what no HEAD
// covers: nobody was ever told of it. Where HEAD itself was lost, nobody can
// say so, and a copy is kept.
func (a *appender) openLast() error {
	for n := len(a.st.segs); n > 0 && a.st.segs[n-1] > a.head.Seq; n-- {
		name := a.st.segPath(n - 1)
		if err := a.save(name, 0); err != nil {
			return err
		}
		if err := removeIfThere(a.j.fs, name); err != nil {
			return err
		}
		st := *a.st
		st.segs = st.segs[:n-1]
		a.st = &st
	}
	if len(a.st.segs) == 0 {
		return nil
	}
	last := len(a.st.segs) - 1
	a.name = a.st.segPath(last)
	end, err := a.committedEnd(last)
	if err != nil {
		return err
	}
	f, err := a.j.fs.Append(a.name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > end {
		err = a.cut(f, end)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.file, a.size = f, end
	return nil
}

// cut ends the last segment at end.
func (a *appender) cut(f vfs.File, end int64) error {
	if err := a.save(a.name, end); err != nil {
		return err
	}
	x, err := readIndex(a.j.fs, indexPath(a.name))
	if err != nil {
		return err
	}
	x.marks = slices.DeleteFunc(x.marks, func(m mark) bool { return m.off >= end })
	if err := replaceIndex(a.j.fs, a.name, x.marks); err != nil {
		return err
	}
	return f.Truncate(end)
}

// save keeps a copy of the end of a segment if HEAD was lost.
func (a *appender) save(name string, from int64) error {
	if !a.st.lost {
		return nil
	}
	data, err := vfs.ReadFile(a.j.fs, name, 2*segmentSize)
	if err != nil {
		return err
	}
	_, err = a.j.quarantine(data[min(from, int64(len(data))):])
	return err
}

// committedEnd returns where in the last segment the head's batch ends.
func (a *appender) committedEnd(last int) (int64, error) {
	at, g, err := a.j.locate(a.st, a.head.Seq)
	if err != nil {
		return 0, err
	}
	defer g.close() //nolint:errcheck // nothing was written
	if at.seg != last {
		return 0, corrupt(a.name, 0, fmt.Errorf("it begins after HEAD at %d", a.head.Seq))
	}
	b, err := g.read(at.off)
	switch {
	case errors.Is(err, io.EOF):
		return g.size, nil // the end of the log was damaged and set aside
	case err != nil && isDamage(err):
		return 0, corrupt(a.name, at.off, err)
	case err != nil:
		return 0, err
	case b.First > a.head.Seq:
		return at.off, nil
	case b.Last() != a.head.Seq || b.Hash != a.head.Hash:
		return 0, corrupt(a.name, at.off, fmt.Errorf("HEAD at %d names another batch", a.head.Seq))
	}
	return at.off + int64(len(b.Raw)), nil
}

// changed reports whether HEAD has to be written.
func (a *appender) changed() bool { return a.head != a.durable || a.st.lost }

// sync makes the appended batches durable.
func (a *appender) sync() error {
	if !a.changed() {
		return nil
	}
	if a.file == nil {
		if err := a.openLast(); err != nil {
			return err
		}
	}
	if a.file == nil {
		return nil
	}
	if err := a.file.Sync(); err != nil {
		return err
	}
	if a.fresh {
		if err := a.j.fs.SyncDir(a.st.dir); err != nil {
			return err
		}
		a.fresh = false
	}
	return nil
}

// publish lets HEAD cover what sync has made durable.
func (a *appender) publish() error {
	if !a.changed() {
		return nil
	}
	if err := writeHead(a.j.fs, a.st.dir, a.head); err != nil {
		return err
	}
	st := *a.st
	st.head, st.lost = a.head, false
	a.st, a.durable = &st, a.head
	a.j.forgetState(st.stream)
	return a.saveMarks()
}

// saveMarks adds what was appended to the segment's index.
func (a *appender) saveMarks() error {
	if len(a.marks) == 0 {
		return nil
	}
	err := appendIndex(a.j.fs, a.name, a.marks)
	a.marks = a.marks[:0]
	return err
}

// close closes the last segment.
func (a *appender) close() error {
	if a.file == nil {
		return nil
	}
	f := a.file
	a.file, a.marks = nil, nil
	return f.Close()
}
