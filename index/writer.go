package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/deja-node/deja/index/catalog"
	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// flushBytes is how much the views hold in memory before they are written.
const flushBytes = 40 << 20

// lockWait is how long a writer waits for another one to finish.
const lockWait = 2 * time.Second

// Writer is the write gate. It holds the writer's lock until Close and is for
// one goroutine.
type Writer struct {
	opt   Options
	log   *journal.Journal
	w     *journal.Writer
	shelf *shelf.Shelf
	cat   *catalog.View
	post  *postings.View
	scrub *redact.Scrubber

	one       [1]record.Entry
	published record.Frontier // what the manifest covers
	broken    error           // an append failed: memory and log may differ
}

// OpenWriter takes the writer's lock and brings the views up to the log. It
// returns [ErrBusy] when another process has the lock.
func OpenWriter(ctx context.Context, opt Options) (*Writer, error) {
	log, err := opt.openLog()
	if err != nil {
		return nil, err
	}
	w := &Writer{opt: opt, log: log, scrub: redact.New(redact.Options{Disabled: opt.NoRedact})}
	if w.w, err = log.Write(ctx); err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			return nil, fmt.Errorf("%w (%w)", ErrBusy, err)
		}
		return nil, err
	}
	if err := w.openViews(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.CatchUp(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (o Options) openLog() (*journal.Journal, error) {
	return journal.Open(o.FS, filepath.ToSlash(o.LogDir), journal.Options{
		Own: o.Stream, Key: o.Key, Rand: o.Random, Now: o.Now, Spool: filepath.ToSlash(o.SpoolDir), PID: o.PID, Wait: lockWait,
	})
}

// openViews opens the views where the shelf left them. A damaged shelf is
// emptied: CatchUp folds the log again.
func (w *Writer) openViews() error {
	sh, err := shelf.Open(w.opt.FS, filepath.ToSlash(w.opt.IndexDir))
	if err != nil {
		return err
	}
	w.shelf = sh
	err = w.loadViews()
	if errors.Is(err, shelf.ErrCorrupt) {
		if err := w.resetShelf(); err != nil {
			return err
		}
		return w.loadViews()
	}
	return err
}

func (w *Writer) resetShelf() error {
	if w.cat != nil {
		if err := w.cat.Close(); err != nil {
			return err
		}
		w.cat, w.post = nil, nil
	}
	return w.shelf.Reset()
}

func (w *Writer) loadViews() error {
	snap, err := w.shelf.Snapshot()
	if err != nil {
		return err
	}
	w.cat, err = catalog.Open(w.shelf, snap.State(catalog.Name))
	if err == nil {
		w.post, err = postings.Open(w.shelf, snap.State(postings.Name))
	}
	w.published = snap.State(catalog.Name).Known
	if !maps.EqualFunc(w.published, snap.State(postings.Name).Known, func(a, b record.Head) bool { return a.Seq == b.Seq }) {
		w.published = nil
	}
	return errors.Join(err, snap.Close())
}

// both folds entries into the views that stand at the same place in the log.
type both struct{ w *Writer }

var _ journal.View = both{}

func (b both) Name() string           { return "views" }
func (b both) Version() int           { return 1 }
func (b both) Known() record.Frontier { return b.w.cat.Known() }
func (b both) Reset() error           { return errors.Join(b.w.cat.Reset(), b.w.post.Reset()) }

func (b both) Apply(ctx context.Context, s record.StreamID, from record.Seq, entries []record.Entry) error {
	if err := b.w.cat.Apply(ctx, s, from, entries); err != nil {
		return err
	}
	if err := b.w.post.Apply(ctx, s, from, entries); err != nil {
		return err
	}
	if b.w.Full() {
		return b.w.flush(ctx)
	}
	return nil
}

// CatchUp folds what the log holds and the views do not: after a sync, after a
// crash, and from nothing in a rebuild. Damaged views are folded anew.
func (w *Writer) CatchUp(ctx context.Context) error {
	err := w.fold(ctx)
	if !errors.Is(err, shelf.ErrCorrupt) {
		return err
	}
	if err := w.resetShelf(); err != nil {
		return err
	}
	if err := w.loadViews(); err != nil {
		return err
	}
	return w.fold(ctx)
}

func (w *Writer) fold(ctx context.Context) error {
	a, b := w.cat.Known(), w.post.Known()
	if maps.EqualFunc(a, b, func(x, y record.Head) bool { return x.Seq == y.Seq }) {
		return w.log.Fold(ctx, both{w})
	}
	return errors.Join(w.log.Fold(ctx, w.cat), w.log.Fold(ctx, w.post))
}

// Rebuild empties the views and folds the whole log.
func (w *Writer) Rebuild(ctx context.Context) error {
	if err := w.resetShelf(); err != nil {
		return err
	}
	if err := w.loadViews(); err != nil {
		return err
	}
	if err := w.fold(ctx); err != nil {
		return err
	}
	return w.Publish(ctx)
}

// append logs an entry and folds it into the views.
func (w *Writer) append(ctx context.Context, e *record.Entry) (record.Seq, error) {
	if w.broken != nil {
		return 0, w.broken
	}
	seq, err := w.w.Add(e)
	if err != nil {
		w.broken = err
		return 0, err
	}
	w.one[0] = *e
	if err := w.cat.Apply(ctx, w.opt.Stream, seq, w.one[:]); err != nil {
		w.broken = err
		return 0, err
	}
	if err := w.post.Apply(ctx, w.opt.Stream, seq, w.one[:]); err != nil {
		w.broken = err
		return 0, err
	}
	return seq, nil
}

// Full reports whether the views hold so much that they should be published.
func (w *Writer) Full() bool {
	limit := w.opt.FlushBytes
	if limit == 0 {
		limit = flushBytes
	}
	return w.cat.Size()+w.post.Size() >= limit
}

// Commit makes everything appended durable.
func (w *Writer) Commit(ctx context.Context) error {
	if w.broken != nil {
		return w.broken
	}
	if err := w.w.Commit(ctx); err != nil {
		w.broken = err
		return err
	}
	return nil
}

// Publish makes everything committed searchable. Nothing is written when the
// manifest says it already.
func (w *Writer) Publish(ctx context.Context) error {
	if w.broken != nil {
		return w.broken
	}
	known := w.cat.Known()
	if w.published != nil && maps.EqualFunc(known, w.published, func(a, b record.Head) bool { return a.Seq == b.Seq }) {
		return nil
	}
	return w.flush(ctx)
}

func (w *Writer) flush(ctx context.Context) error {
	c, err := w.cat.Flush(ctx)
	if err != nil {
		return err
	}
	p, err := w.post.Flush(ctx)
	if err != nil {
		return err
	}
	if err := w.shelf.Publish(map[string]shelf.State{catalog.Name: c, postings.Name: p}); err != nil {
		return err
	}
	w.published = c.Known
	return nil
}

// Close gives the lock back. What was not committed is dropped.
func (w *Writer) Close() error {
	var err error
	if w.cat != nil {
		err = w.cat.Close()
	}
	return errors.Join(err, w.w.Close())
}

// TakeRedactions returns how many secrets were replaced since the last call.
func (w *Writer) TakeRedactions() int {
	total := 0
	for _, n := range w.scrub.Take() {
		total += n
	}
	return total
}

// Scrub is the scrubber of this writer as a function.
func (w *Writer) Scrub(s string) string { return w.scrub.Scrub(s).String() }

// ownEntry finds an entry of this node by its content.
func (w *Writer) ownEntry(c record.CID) (record.Pos, bool, error) {
	return w.cat.HasCID(w.opt.Stream.Node, c)
}

func (w *Writer) superseded(p record.Pos) bool { return w.cat.Superseded(p) }

func (w *Writer) ownID(harness, native string) record.SessionID {
	return record.SessionOf(w.opt.Stream.Node, record.SessionKey{Harness: harness, Native: name(native)})
}

func (w *Writer) ownTurns(harness, native string) ([]catalog.Turn, error) {
	return w.cat.Turns(w.ownID(harness, native))
}

func (w *Writer) ownSession(harness, native string) (catalog.Session, bool, error) {
	return w.cat.Session(w.ownID(harness, native))
}

// Holdings answers what the log already holds of one harness, for a source
// that decides about copies. A question that fails is answered with no, which
// at worst logs a copy; the error comes back from the next append.
type Holdings struct {
	w       *Writer
	harness string
}

// Holds returns the holdings of a harness.
func (w *Writer) Holds(harness string) Holdings { return Holdings{w, harness} }

// Message returns the session that holds a message with the harness's own id.
func (h Holdings) Message(mid string) (string, bool) {
	s, ok, err := h.w.cat.Message(h.w.opt.Stream.Node, h.harness, name(mid))
	return s, h.w.sure(err) && ok
}

// Turn reports whether a session holds such a turn. The text is raw.
func (h Holdings) Turn(session string, role record.Role, t time.Time, text string) bool {
	e := record.Entry{
		Kind: record.KindMsg, Harness: h.harness, Session: name(session), Role: role, Time: t,
		Text: h.w.scrub.Scrub(text),
	}
	_, ok, err := h.w.ownEntry(e.CID())
	return h.w.sure(err) && ok
}

// Session reports whether the log holds turns of a session.
func (h Holdings) Session(native string) bool {
	s, ok, err := h.w.ownSession(h.harness, native)
	return h.w.sure(err) && ok && s.Turns > 0
}

func (w *Writer) sure(err error) bool {
	if err != nil && w.broken == nil {
		w.broken = err
	}
	return err == nil
}
