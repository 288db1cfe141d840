package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/deja-node/deja/index/catalog"
	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

// Exchange is this memory as one exchange with a peer sees it. It implements
// [syncproto.Store]: it serves what policy lets the peer have, and takes what
// policy lets it take. The writer's lock is held from the first batch taken to
// the commit after it, and never between.
type Exchange struct {
	opt   Options
	names []string // former names, for the card
	card  uint64   // number of the own card
	log   *journal.Journal
	w     *journal.Writer
	peer  syncproto.Peer
	codec batch.Codec
	parse batch.Parser
	buf   []byte
	holes map[record.StreamID][]syncproto.Hole // of stubs that a policy left
	dirty bool                                 // holes have changed
	cat   *catalog.Reader
	snap  *shelf.Snapshot
	taken bool
}

var _ syncproto.Store = (*Exchange)(nil)

// maxStreams bounds the live streams that are taken of one origin.
const maxStreams = 8

// NewExchange prepares an exchange. names and number go on this node's card.
func NewExchange(opt Options, names []string, number int) (*Exchange, error) {
	log, err := opt.openLog()
	if err != nil {
		return nil, err
	}
	x := &Exchange{opt: opt, names: names, card: uint64(number), log: log}
	if x.holes, err = loadHoles(opt.FS, opt.holesFile()); err != nil {
		return nil, err
	}
	return x, nil
}

// Taken reports whether anything was taken, so that the views are behind.
func (x *Exchange) Taken() bool { return x.taken }

// Close ends the exchange. What was taken and not committed is dropped.
func (x *Exchange) Close() error {
	var err error
	if x.w != nil {
		err = x.w.Close()
		x.w = nil
	}
	if x.snap != nil {
		err = errors.Join(err, x.snap.Close())
		x.snap = nil
	}
	return err
}

// write takes the writer's lock.
func (x *Exchange) write(ctx context.Context) error {
	if x.w != nil {
		return nil
	}
	w, err := x.log.Write(ctx)
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w (%w)", ErrBusy, err)
	}
	x.w = w
	return err
}

// Admit implements syncproto.Store.
func (x *Exchange) Admit(ctx context.Context, p syncproto.Peer) (syncproto.Terms, error) {
	x.peer = p
	if p.Box == "" && !x.opt.Policy.Knows(p.Node) {
		return syncproto.Terms{}, &syncproto.Refusal{Code: syncproto.CodePolicy, Msg: "this node has no rules for you: add it with deja peer add"}
	}
	if err := x.prepare(ctx); err != nil {
		return syncproto.Terms{}, err
	}
	front, err := x.log.Sealed()
	if err != nil {
		return syncproto.Terms{}, err
	}
	t := syncproto.Terms{Policy: x.opt.Policy.Tag(p.Node)}
	for _, s := range front.Streams() {
		if front[s].Seq == 0 || s.Node != p.Node && !x.serves(s.Node) {
			continue
		}
		o, err := x.offer(s, front[s])
		if err != nil {
			return t, err
		}
		t.Offers = append(t.Offers, o)
	}
	return t, nil
}

// serves reports whether the peer is given anything of an origin. A mailbox is
// given this node's own streams: each node writes its own.
func (x *Exchange) serves(origin record.NodeID) bool {
	if x.peer.Box != "" {
		return origin == x.opt.Stream.Node && x.opt.Policy.Problem() == nil
	}
	return x.opt.Policy.ServesStream(x.peer.Node, origin)
}

// prepare seals the open tail and renews the own card where that is needed.
func (x *Exchange) prepare(ctx context.Context) error {
	tip, err := x.log.Frontier()
	if err != nil {
		return err
	}
	sealed, err := x.log.Sealed()
	if err != nil {
		return err
	}
	own := x.opt.Stream
	_, card, err := x.log.Card(own.Node)
	fresh := err == nil && card.Number == x.card && card.Name == x.opt.Origin
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	if tip[own].Seq == sealed[own].Seq && fresh {
		return nil
	}
	if err := x.write(ctx); err != nil {
		return err
	}
	if !fresh {
		raw, err := batch.SignCard(x.opt.Key, batch.Card{
			Node: own.Node, Name: x.opt.Origin, Names: x.names, Number: max(x.card, card.Number+1), At: x.opt.Now().UTC().Truncate(time.Second),
		})
		if err != nil {
			return err
		}
		if err := x.w.PutCard(raw); err != nil {
			return err
		}
	}
	if err := x.w.Seal(ctx); err != nil {
		return err
	}
	return x.Commit(ctx)
}

func (x *Exchange) offer(s record.StreamID, head record.Head) (syncproto.Offer, error) {
	o := syncproto.Offer{Stream: s, Head: head, Revise: true}
	switch _, card, err := x.log.Card(s.Node); {
	case err == nil:
		o.Card = card.Number
	case !errors.Is(err, journal.ErrNotFound):
		return o, err
	}
	switch last, err := x.log.Batch(s, head.Seq); {
	case err == nil:
		o.At = last.At
	case !errors.Is(err, journal.ErrNotFound) && !errors.Is(err, journal.ErrCorrupt):
		return o, err
	}
	holes, err := x.holesOf(s)
	if err != nil {
		return o, err
	}
	for _, h := range holes {
		o.Holes = append(o.Holes, h.Span)
		o.Stubs += uint64(h.To - h.From + 1)
	}
	return o, nil
}

// holesOf are the spans of a stream that could be filled: what a policy
// withheld, and what was damaged here.
func (x *Exchange) holesOf(s record.StreamID) ([]syncproto.Hole, error) {
	holes := slices.Clone(x.holes[s])
	damaged, err := x.log.Holes(s)
	if err != nil {
		return nil, err
	}
	for _, d := range damaged {
		holes = append(holes, syncproto.Hole{Span: syncproto.Span{From: d.From, To: d.To}})
	}
	slices.SortFunc(holes, func(a, b syncproto.Hole) int { return int(int64(a.From) - int64(b.From)) })
	return holes, nil
}

// Known implements syncproto.Store.
func (x *Exchange) Known(_ context.Context, s record.StreamID) (k syncproto.Known, err error) {
	front, err := x.log.Sealed()
	if err != nil {
		return k, err
	}
	k.Head = front[s]
	for other := range front {
		if other.Node == s.Node && other != s {
			k.Streams++
		}
	}
	if _, card, err := x.log.Card(s.Node); err == nil {
		k.Card = card.Number
	}
	if k.Holes, err = x.holesOf(s); err != nil {
		return k, err
	}
	switch {
	case s.Node == x.opt.Stream.Node:
		// The own history comes back when this node lost it; the stream it
		// appends to now is never behind itself.
		k.Recover = s != x.opt.Stream
	case !x.opt.Policy.Accepts(s.Node):
		k.Refuse = &syncproto.Refusal{Code: syncproto.CodePolicy, Stream: s, Msg: "its origin is not accepted here"}
	case k.Head.Seq == 0 && k.Streams >= maxStreams:
		k.Refuse = &syncproto.Refusal{Code: syncproto.CodeQuota, Stream: s, Msg: "its origin has too many streams"}
	}
	return k, nil
}

// Marks implements syncproto.Store.
func (x *Exchange) Marks(_ context.Context, s record.StreamID, span syncproto.Span) (syncproto.Marks, error) {
	if x.cat == nil {
		if err := x.openCatalog(); err != nil {
			// The order in which entries travel is a courtesy; damaged views
			// are mended by the next writer.
			if errors.Is(err, shelf.ErrCorrupt) {
				return syncproto.Marks{}, nil
			}
			return syncproto.Marks{}, err
		}
	}
	tomb, note, err := x.cat.Marks(s, span.From, span.To)
	if errors.Is(err, shelf.ErrCorrupt) {
		return syncproto.Marks{}, nil
	}
	return syncproto.Marks{Tomb: tomb, Note: note}, err
}

func (x *Exchange) openCatalog() error {
	sh, err := shelf.Open(x.opt.FS, filepath.ToSlash(x.opt.IndexDir))
	if err != nil {
		return err
	}
	if x.snap, err = sh.Snapshot(catalog.Name); err != nil {
		return err
	}
	x.cat, err = catalog.NewReader(x.snap)
	return err
}

// Batch implements syncproto.Store.
func (x *Exchange) Batch(_ context.Context, s record.StreamID, seq record.Seq, since time.Time) (syncproto.Batch, error) {
	b, err := x.log.Batch(s, seq)
	if err != nil {
		if errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) {
			return syncproto.Batch{}, &syncproto.Refusal{Code: syncproto.CodeBatch, Stream: s, Msg: "damaged here: deja doctor"}
		}
		return syncproto.Batch{}, err
	}
	out := syncproto.Batch{Raw: b.Raw, First: b.First, Last: b.Last()}
	old := !since.IsZero() && b.At.Before(since)
	withholds := s.Node != x.peer.Node && (x.peer.Box != "" || x.opt.Policy.WithholdsFrom(x.peer.Node))
	if !old && !withholds {
		return out, nil
	}
	raw, changed, err := x.codec.Stub(x.buf[:0], b, func(_ record.Seq, line []byte) string {
		if old || !x.mayServe(line) {
			return record.Withheld
		}
		return ""
	})
	if err != nil {
		return syncproto.Batch{}, fmt.Errorf("stream %s at %d: %w", s, seq, err)
	}
	x.buf = raw
	out.Raw, out.Stubs = raw, changed
	return out, nil
}

// mayServe asks the policy about one line. One that cannot be read is withheld.
func (x *Exchange) mayServe(line []byte) bool {
	if batch.IsStub(line) {
		return true
	}
	var e record.Entry
	if err := x.parse.Entry(line, &e); err != nil {
		return false
	}
	if x.peer.Box != "" {
		return x.opt.Policy.Serves(x.opt.Stream.Node, &e)
	}
	return x.opt.Policy.Serves(x.peer.Node, &e)
}

// Card implements syncproto.Store.
func (x *Exchange) Card(_ context.Context, node record.NodeID) ([]byte, error) {
	raw, _, err := x.log.Card(node)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	return raw, err
}

// PutCard implements syncproto.Store.
func (x *Exchange) PutCard(ctx context.Context, raw []byte) error {
	if err := x.write(ctx); err != nil {
		return err
	}
	if err := x.w.PutCard(raw); err != nil {
		return x.refusal(record.StreamID{}, err)
	}
	return nil
}

// Accept implements syncproto.Store.
func (x *Exchange) Accept(ctx context.Context, raw []byte, tag string) (syncproto.Receipt, error) {
	if err := x.write(ctx); err != nil {
		return syncproto.Receipt{}, err
	}
	acc, err := x.w.Accept(ctx, raw)
	if err != nil {
		var s record.StreamID
		if acc.Batch != nil {
			s = acc.Batch.Stream
		}
		return syncproto.Receipt{}, x.refusal(s, err)
	}
	if acc.Dup {
		return x.fill(ctx, acc, tag)
	}
	x.taken = true
	if acc.Filled {
		if acc.Entries, err = x.codec.Entries(nil, acc.Batch); err != nil {
			return syncproto.Receipt{}, err
		}
	}
	r := x.count(acc, tag)
	if acc.Filled {
		r.Filled = r.Records
	}
	return r, nil
}

// count sorts the lines of a batch, and keeps what was withheld as holes.
func (x *Exchange) count(acc journal.Accepted, tag string) (r syncproto.Receipt) {
	for i := range acc.Entries {
		e := &acc.Entries[i]
		switch {
		case e.Kind != record.KindStub:
			r.Records++
		case e.Stub.Reason == record.Forgotten:
			r.Forgotten++
		default:
			r.Withheld++
			x.addHole(e.Source, e.Seq, tag)
		}
	}
	return r
}

// fill takes another copy of a batch that is here, for what was withheld of it.
func (x *Exchange) fill(ctx context.Context, acc journal.Accepted, tag string) (syncproto.Receipt, error) {
	b := acc.Batch
	missing := 0
	for _, h := range x.holes[b.Stream] {
		if lo, hi := max(h.From, b.First), min(h.To, b.Last()); lo <= hi {
			missing += int(hi - lo + 1)
		}
	}
	if missing == 0 {
		return syncproto.Receipt{Had: b.N}, nil
	}
	if err := x.w.Replace(ctx, b.Raw); err != nil {
		return syncproto.Receipt{}, x.refusal(b.Stream, err)
	}
	x.taken = true
	x.cutHoles(b.Stream, b.First, b.Last())
	entries, err := x.codec.Entries(nil, b)
	if err != nil {
		return syncproto.Receipt{}, err
	}
	acc.Entries = entries
	r := x.count(acc, tag)
	filled := max(missing-r.Withheld, 0)
	return syncproto.Receipt{Records: filled, Filled: filled, Had: max(b.N-filled-r.Withheld, 0), Withheld: r.Withheld}, nil
}

// refusal turns an error about one stream into what the peer is told. Errors
// of this machine stay errors.
func (x *Exchange) refusal(s record.StreamID, err error) error {
	r := &syncproto.Refusal{Stream: s, Msg: err.Error(), Code: syncproto.CodeBatch}
	if fork, ok := errors.AsType[*journal.ForkError](err); ok {
		r.Code = syncproto.CodeFork
		if fork.Ours != nil {
			r.Headers = [][]byte{fork.Ours, fork.Theirs}
		}
		return r
	}
	for _, theirs := range []error{
		batch.ErrMalformed, batch.ErrSignature, batch.ErrVersion, batch.ErrTooLong,
		journal.ErrGap, journal.ErrNoCard, journal.ErrMismatch,
	} {
		if errors.Is(err, theirs) {
			return r
		}
	}
	return err
}

// Commit implements syncproto.Store.
func (x *Exchange) Commit(ctx context.Context) error {
	if x.w == nil {
		return nil
	}
	err := x.w.Commit(ctx)
	if err == nil && x.dirty {
		err = saveHoles(x.opt.FS, x.opt.holesFile(), x.holes)
		x.dirty = err != nil
	}
	err = errors.Join(err, x.w.Close())
	x.w = nil
	return err
}

// Forked implements syncproto.Store. The proof is kept by the journal of
// whoever met it; here it is logged for the doctor.
func (x *Exchange) Forked(ctx context.Context, r *syncproto.Refusal) error {
	x.opt.Log.WarnContext(ctx, "peer holds another history", "stream", r.Stream.String())
	return nil
}

// The holes that policies left are kept in one small file, since they are few
// and only matter to exchanges: losing it costs asking again after a reset.

func (o Options) holesFile() string { return path.Join(filepath.ToSlash(o.LogDir), "WITHHELD") }

const maxHoles = 16 << 20

type holeJSON struct {
	From record.Seq `json:"from"`
	To   record.Seq `json:"to"`
	Tag  string     `json:"tag"`
}

func loadHoles(fsys vfs.FS, name string) (map[record.StreamID][]syncproto.Hole, error) {
	out := map[record.StreamID][]syncproto.Hole{}
	data, err := vfs.ReadFile(fsys, name, maxHoles)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	var kept map[record.StreamID][]holeJSON
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for s, list := range kept {
		for _, h := range list {
			out[s] = append(out[s], syncproto.Hole{Span: syncproto.Span{From: h.From, To: h.To}, Tag: h.Tag})
		}
	}
	return out, nil
}

func saveHoles(fsys vfs.FS, name string, holes map[record.StreamID][]syncproto.Hole) error {
	out := map[record.StreamID][]holeJSON{}
	for s, list := range holes {
		for _, h := range list {
			out[s] = append(out[s], holeJSON{h.From, h.To, h.Tag})
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, name, data)
}

// addHole adds one position. Positions come in ascending order within a batch.
func (x *Exchange) addHole(s record.StreamID, seq record.Seq, tag string) {
	x.dirty = true
	list := x.holes[s]
	if n := len(list); n > 0 && list[n-1].To+1 == seq && list[n-1].Tag == tag {
		list[n-1].To = seq
		return
	}
	x.holes[s] = append(list, syncproto.Hole{Span: syncproto.Span{From: seq, To: seq}, Tag: tag})
}

// cutHoles takes a span out of the holes of a stream.
func (x *Exchange) cutHoles(s record.StreamID, from, to record.Seq) {
	var out []syncproto.Hole
	for _, h := range x.holes[s] {
		if h.To < from || h.From > to {
			out = append(out, h)
			continue
		}
		if h.From < from {
			out = append(out, syncproto.Hole{Span: syncproto.Span{From: h.From, To: from - 1}, Tag: h.Tag})
		}
		if h.To > to {
			out = append(out, syncproto.Hole{Span: syncproto.Span{From: to + 1, To: h.To}, Tag: h.Tag})
		}
	}
	x.holes[s] = out
	x.dirty = true
}
