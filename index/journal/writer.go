package journal

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// Writer is the one writer of a journal. Nothing it was given counts before
// Commit has returned nil. After an error that leaves the files in doubt every
// further call fails; closing it and opening another finds out how things
// stand. A Writer is for one goroutine.
type Writer struct {
	j     *Journal
	lock  io.Closer
	codec *batch.Codec
	logs  map[record.StreamID]*appender
	own   *ownLog // nil for a node without a stream
	cards map[record.NodeID]heldCard

	entries   []record.Entry // of the batch accepted last
	patched   int            // bytes of batches that wait to replace others
	recovered []Recovered
	dead      error
}

// Recovered says what opening a writer found that could not stay: the torn end
// of a write that a crash interrupted, which was never acknowledged, or lines
// that the disk has spoilt.
type Recovered struct {
	File  string
	Bytes int64
	Saved string // copy in the spool, empty if there is none
}

var (
	errClosed = errors.New("the writer is closed")
	errNoOwn  = errors.New("this node has no stream to append to")
)

// Write becomes the writer. While another process is, it waits as the options
// say and then fails with a [*LockedError].
func (j *Journal) Write(ctx context.Context) (*Writer, error) {
	if !j.opt.Own.IsZero() && (j.opt.Now == nil || len(j.opt.Key) != ed25519.PrivateKeySize) {
		return nil, errors.New("journal: writing needs a key and a clock")
	}
	if err := j.fs.MkdirAll(j.dir); err != nil {
		return nil, err
	}
	lock, err := j.acquire(ctx)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		j: j, lock: lock, codec: new(batch.Codec),
		logs: map[record.StreamID]*appender{}, cards: map[record.NodeID]heldCard{},
	}
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Writer) open() error {
	if err := checkFormat(w.j.fs, w.j.dir); err != nil {
		return err
	}
	if err := stampFormat(w.j.fs, w.j.dir); err != nil {
		return err
	}
	if w.j.opt.Own.IsZero() {
		return nil
	}
	a, err := w.log(w.j.opt.Own)
	if err != nil {
		return err
	}
	salts := w.j.opt.Rand
	if salts == nil {
		salts = rand.Reader
	}
	w.own = &ownLog{appender: a, key: w.j.opt.Key, now: w.j.opt.Now, salts: bufio.NewReader(salts)}
	return w.openTail()
}

// acquire takes the lock and leaves word who has it.
func (j *Journal) acquire(ctx context.Context) (io.Closer, error) {
	timeout := time.NewTimer(j.opt.Wait)
	defer timeout.Stop()
	for {
		lock, err := j.fs.Lock(path.Join(j.dir, lockName))
		if err == nil {
			return lock, j.sign(lock)
		}
		if !errors.Is(err, vfs.ErrLocked) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, j.holder()
		case <-time.After(lockPoll):
		}
	}
}

const lockPoll = 10 * time.Millisecond

// sign writes the number of this process beside the lock. On an error the lock
// is given back.
func (j *Journal) sign(lock io.Closer) error {
	f, err := j.fs.Create(path.Join(j.dir, writerName))
	if err == nil {
		_, err = fmt.Fprintln(f, j.opt.PID)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

// holder returns the error that names the holder of the lock, as far as the
// file beside it can be read.
func (j *Journal) holder() error {
	data, err := vfs.ReadFile(j.fs, path.Join(j.dir, writerName), maxSmall)
	if err != nil {
		return &LockedError{}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return &LockedError{}
	}
	return &LockedError{PID: pid}
}

// log returns the appender of a stream.
func (w *Writer) log(s record.StreamID) (*appender, error) {
	if a := w.logs[s]; a != nil {
		return a, nil
	}
	st, err := w.j.load(s)
	if err != nil {
		return nil, err
	}
	a := &appender{j: w.j, cards: w.cards, st: st, head: st.head, durable: st.head, patches: map[record.Seq]*batch.Batch{}}
	w.logs[s] = a
	return a, a.tidy()
}

// Head returns how far a stream goes with what is not committed yet. The open
// tail is left out.
func (w *Writer) Head(s record.StreamID) (record.Head, error) {
	a, err := w.log(s)
	if err != nil {
		return record.Head{}, err
	}
	return a.head, nil
}

// Recovery says what opening the writer had to put aside.
func (w *Writer) Recovery() []Recovered { return w.recovered }

// Commit makes everything added, accepted and replaced so far durable, and
// then visible to readers. A tail that is a day old is sealed with it.
func (w *Writer) Commit(ctx context.Context) error {
	if err := w.alive(ctx); err != nil {
		return err
	}
	return w.kill(w.commit(ctx))
}

// alive says whether the writer can go on.
func (w *Writer) alive(ctx context.Context) error {
	if w.dead != nil {
		return w.dead
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// kill ends the writer if err says that the state of the files is in doubt.
func (w *Writer) kill(err error) error {
	if err != nil && w.dead == nil {
		w.dead = fmt.Errorf("the writer has failed: %w", err)
	}
	return err
}

// commit goes in the order that lets a crash between any two steps lose
// nothing acknowledged: batches, then the lines after them, then HEAD, which
// makes both count, and only then removes the tail that the batches replace.
func (w *Writer) commit(ctx context.Context) error {
	if w.own != nil {
		if err := w.own.sealOld(); err != nil {
			return err
		}
	}
	streams := slices.SortedFunc(maps.Keys(w.logs), record.StreamID.Compare)
	for _, s := range streams {
		if err := w.logs[s].sync(); err != nil {
			return err
		}
	}
	if w.own != nil {
		if err := w.own.writeTail(); err != nil {
			return err
		}
	}
	for _, s := range streams {
		if err := w.logs[s].publish(); err != nil {
			return err
		}
	}
	if w.own != nil {
		if err := w.own.removeTails(); err != nil {
			return err
		}
	}
	return w.applyPatches(ctx)
}

// Close gives the lock back. What was not committed is dropped.
func (w *Writer) Close() error {
	if errors.Is(w.dead, errClosed) {
		return nil
	}
	w.dead = errClosed
	var errs []error
	for _, a := range w.logs {
		errs = append(errs, a.close())
	}
	if w.own != nil && w.own.tail != nil {
		errs = append(errs, w.own.tail.Close())
	}
	return errors.Join(append(errs, w.lock.Close())...)
}
