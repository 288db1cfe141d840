package journal

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// tailAge is how old an open tail becomes before it is sealed.
const tailAge = 24 * time.Hour

// ownLog is the stream that this node appends to. Lines collect in the builder
// until they make a batch; on a commit those that do not go to the tail.
type ownLog struct {
	*appender
	key   ed25519.PrivateKey
	now   func() time.Time
	salts *bufio.Reader

	lines   batch.Builder
	written int // how many of the lines the tail file holds
	raw     []byte

	tail    vfs.File // open for appending, nil until it is needed
	tailLen int64    // bytes of the tail file that count
	began   time.Time
	stale   []string // tail files whose lines are sealed
}

func (o *ownLog) tailPath() string {
	return path.Join(o.st.dir, seqName(o.head.Seq+1, tailSuffix))
}

// openTail reads the tail that belongs to HEAD, and puts aside the torn end of
// it and tails that belong to no HEAD.
func (w *Writer) openTail() error {
	o := w.own
	firsts, err := listSeqs(w.j.fs, o.st.dir, tailSuffix)
	if err != nil {
		return err
	}
	for _, first := range firsts {
		name := path.Join(o.st.dir, seqName(first, tailSuffix))
		switch {
		case first <= o.head.Seq: // sealed
		case first == o.head.Seq+1:
			if err := w.takeTail(name); err != nil {
				return err
			}
			continue
		default:
			data, err := vfs.ReadFile(w.j.fs, name, maxTail)
			if err != nil {
				return err
			}
			if err := w.putAside(name, data); err != nil {
				return err
			}
		}
		if err := removeIfThere(w.j.fs, name); err != nil {
			return err
		}
	}
	return nil
}

// takeTail goes on with the lines of a tail.
func (w *Writer) takeTail(name string) error {
	o := w.own
	t, err := readTail(w.j.fs, o.st.dir, o.head.Seq+1)
	if err != nil || t == nil {
		return err
	}
	for _, line := range t.lines {
		if err := o.lines.AddLine(line); err != nil {
			return corrupt(name, 0, err)
		}
	}
	o.written, o.tailLen, o.began = t.len(), t.good, t.began
	if len(t.rest) == 0 {
		return nil
	}
	if err := w.putAside(name, t.rest); err != nil {
		return err
	}
	if t.good == 0 {
		return removeIfThere(w.j.fs, name)
	}
	f, err := w.j.fs.Append(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(t.good), f.Close())
}

// putAside keeps a copy of bytes that cannot stay.
func (w *Writer) putAside(file string, data []byte) error {
	saved, err := w.j.quarantine(data)
	w.recovered = append(w.recovered, Recovered{File: file, Bytes: int64(len(data)), Saved: saved})
	return err
}

// Add appends an entry to the own stream. It makes the entry what reading it
// back gives: in normal form, with a salt, and with its position. An entry
// that is too long or cannot be a line is refused and changes nothing.
func (w *Writer) Add(e *record.Entry) (record.Seq, error) {
	if w.dead != nil {
		return 0, w.dead
	}
	o := w.own
	if o == nil {
		return 0, errNoOwn
	}
	if err := o.prepare(e, w.codec); err != nil {
		return 0, err
	}
	if err := o.lines.Add(e); err != nil {
		return 0, err
	}
	e.Source, e.Seq = o.st.stream, o.head.Seq+record.Seq(o.lines.Len())
	for n := o.lines.Ready(); n > 0; n = o.lines.Ready() {
		if err := w.kill(o.seal(n)); err != nil {
			return 0, err
		}
	}
	return e.Seq, nil
}

// prepare brings an entry into the form in which it is stored.
func (o *ownLog) prepare(e *record.Entry, c *batch.Codec) error {
	if e.Kind == record.KindStub {
		return fmt.Errorf("%w: a stub cannot be appended", batch.ErrMalformed)
	}
	if e.Text.Len() > record.MaxText {
		return fmt.Errorf("%w: text of %d bytes, to be split", batch.ErrTooLong, e.Text.Len())
	}
	if e.Raw != nil {
		var read record.Entry
		if err := c.Entry(e.Raw, &read); err != nil {
			return err
		}
		if read.Raw == nil {
			return fmt.Errorf("%w: a raw line of kind %q", batch.ErrMalformed, read.Kind)
		}
		*e = read
		return nil
	}
	batch.Normalize(e)
	if e.Salt == [8]byte{} {
		if _, err := io.ReadFull(o.salts, e.Salt[:]); err != nil {
			return fmt.Errorf("salt: %w", err)
		}
	}
	return nil
}

// seal makes a batch of the first n lines.
func (o *ownLog) seal(n int) error {
	h := batch.Header{Stream: o.st.stream, First: o.head.Seq + 1, Prev: o.head.Hash, At: o.now()}
	raw, b, err := o.lines.Seal(o.raw[:0], o.key, n, h)
	if err != nil {
		return err
	}
	o.raw = raw
	if o.written > 0 || o.tail != nil {
		if err := o.leaveTail(); err != nil {
			return err
		}
	}
	return o.append(b)
}

// leaveTail ends the tail file: its lines are being sealed. It goes when HEAD
// covers the batch.
func (o *ownLog) leaveTail() error {
	o.stale = append(o.stale, o.tailPath())
	o.written, o.tailLen = 0, 0
	if o.tail == nil {
		return nil
	}
	f := o.tail
	o.tail = nil
	return f.Close()
}

// sealOld seals a tail that has become too old.
func (o *ownLog) sealOld() error {
	if o.written == 0 || o.now().Sub(o.began) < tailAge {
		return nil
	}
	return o.sealAll()
}

func (o *ownLog) sealAll() error {
	for o.lines.Len() > 0 {
		n := o.lines.Ready()
		if n == 0 {
			n = o.lines.Len()
		}
		if err := o.seal(n); err != nil {
			return err
		}
	}
	return nil
}

// writeTail makes the lines that no batch holds durable. The name of a new
// tail becomes durable with HEAD if that is about to be written.
func (o *ownLog) writeTail() error {
	if o.lines.Len() == o.written {
		return nil
	}
	created := o.written == 0
	if o.tail == nil {
		if err := o.beginTail(created); err != nil {
			return err
		}
	}
	var out []byte
	if created {
		o.began = o.now()
		out = appendTailHead(out, o.began)
		o.tailLen = int64(len(out))
	}
	out = appendFrame(out, o.head.Seq+1, o.tailLen, o.lines.Lines(o.written))
	if _, err := o.tail.Write(out); err != nil {
		return err
	}
	if err := o.tail.Sync(); err != nil {
		return err
	}
	if created {
		o.tailLen = 0
	}
	o.tailLen += int64(len(out))
	o.written = o.lines.Len()
	if created && !o.changed() {
		return o.j.fs.SyncDir(o.st.dir)
	}
	return nil
}

func (o *ownLog) beginTail(created bool) error {
	if err := o.found(); err != nil {
		return err
	}
	open := o.j.fs.Append
	if created {
		open = o.j.fs.Create
	}
	f, err := open(o.tailPath())
	o.tail = f
	return err
}

// removeTails removes tails whose lines are sealed.
func (o *ownLog) removeTails() error {
	for _, name := range o.stale {
		if err := removeIfThere(o.j.fs, name); err != nil {
			return err
		}
	}
	o.stale = nil
	return nil
}

// Append appends entries to the own stream and commits. It returns the
// positions of the first and the last.
func (w *Writer) Append(ctx context.Context, entries []record.Entry) (first, last record.Seq, err error) {
	for i := range entries {
		seq, err := w.Add(&entries[i])
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			first = seq
		}
		last = seq
	}
	return first, last, w.Commit(ctx)
}

// Seal makes a signed batch of the open tail, so that peers can have it, and
// commits.
func (w *Writer) Seal(ctx context.Context) error {
	if err := w.alive(ctx); err != nil {
		return err
	}
	if w.own == nil {
		return errNoOwn
	}
	if err := w.kill(w.own.sealAll()); err != nil {
		return err
	}
	return w.Commit(ctx)
}
