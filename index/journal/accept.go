package journal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// Accepted says what became of a batch.
type Accepted struct {
	Batch *batch.Batch // a view of the bytes that were passed
	// Entries are those of a batch that was appended, as reading it back gives
	// them. They are valid until the next call.
	Entries []record.Entry
	Dup     bool // the journal had it
	Filled  bool // it fills a hole that damage had left
}

// Accept verifies a batch of any stream and appends it if it is the next. One
// that is stored already changes nothing. A batch that comes too early is a
// [*GapError], one that contradicts what is stored a [*ForkError], whose proof
// is kept. One that does not verify goes to the spool.
//
// What was accepted is durable after Commit, one for any number of batches.
func (w *Writer) Accept(ctx context.Context, raw []byte) (Accepted, error) {
	if err := w.alive(ctx); err != nil {
		return Accepted{}, err
	}
	b, err := batch.Open(raw)
	if err != nil {
		return Accepted{}, w.refuse(raw, err)
	}
	acc := Accepted{Batch: b}
	pub, err := w.keyOf(b.Stream.Node)
	if err != nil {
		return acc, err
	}
	a, err := w.log(b.Stream)
	if err != nil {
		return acc, err
	}
	if b.First <= a.head.Seq {
		return w.known(ctx, acc, a, pub)
	}
	if b.First > a.head.Seq+1 {
		return acc, &GapError{Stream: b.Stream, Want: a.head.Seq + 1, Got: b.First}
	}
	if w.own != nil && a == w.own.appender && w.own.lines.Len() > 0 {
		return acc, fmt.Errorf("own stream %s has entries after %d: %w", b.Stream, a.head.Seq, ErrMismatch)
	}
	if w.entries, err = w.codec.VerifyEntries(w.entries[:0], b, pub); err != nil {
		return acc, w.refuse(raw, fmt.Errorf("batch %d of %s: %w", b.First, b.Stream, err))
	}
	if b.Prev != a.head.Hash {
		return acc, w.fork(a, a.head.Seq, b)
	}
	acc.Entries = w.entries
	return acc, w.kill(a.append(b))
}

// known settles a batch whose first position is stored.
func (w *Writer) known(ctx context.Context, acc Accepted, a *appender, pub ed25519.PublicKey) (Accepted, error) {
	b := acc.Batch
	stored, err := w.stored(a, b.First)
	switch {
	case err == nil && stored.Hash == b.Hash:
		acc.Dup = true
		return acc, nil
	case errors.Is(err, ErrNotFound):
		acc.Filled = true
		return acc, w.Replace(ctx, b.Raw)
	case err != nil:
		return acc, err
	}
	if _, _, err := batch.VerifySigned(b.Signed(), pub); err != nil {
		return acc, w.refuse(b.Raw, err)
	}
	return acc, w.fork(a, b.First, b)
}

// stored returns the batch that holds a position, committed or not.
func (w *Writer) stored(a *appender, seq record.Seq) (*batch.Batch, error) {
	return w.j.batchAt(a.current(), seq)
}

// fork keeps the proof that a batch contradicts what is stored at a position.
func (w *Writer) fork(a *appender, at record.Seq, b *batch.Batch) error {
	f := &ForkError{Stream: b.Stream, Seq: b.First, Theirs: b.Signed()}
	ours, err := w.stored(a, at)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil {
		f.Ours = ours.Signed()
	}
	name := path.Join(a.st.dir, forkName)
	if _, err := w.j.fs.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(f, err) // the first proof is enough
	}
	data, err := json.Marshal(f)
	if err == nil {
		err = vfs.WriteFile(w.j.fs, name, append(data, '\n'))
	}
	return errors.Join(f, err)
}

// Fork returns the proof of a fork of a stream, nil if none was met.
func (j *Journal) Fork(s record.StreamID) (*ForkError, error) {
	name := path.Join(j.dir, s.String(), forkName)
	data, err := vfs.ReadFile(j.fs, name, maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no fork is the usual state
	}
	if err != nil {
		return nil, err
	}
	f := new(ForkError)
	if err := json.Unmarshal(data, f); err != nil {
		return nil, corrupt(name, 0, err)
	}
	return f, nil
}

// refuse keeps a batch that does not verify, and says why it does not.
func (w *Writer) refuse(raw []byte, why error) error {
	_, err := w.j.quarantine(raw)
	return errors.Join(why, err)
}

// heldCard is a card that came before the first batch of its node.
type heldCard struct {
	raw  []byte
	card batch.Card
}

// PutCard takes the card of a node, unless a newer one is known. It comes
// before the first batch of the node, because it holds the key; the card of a
// node without a stream is forgotten with the writer.
func (w *Writer) PutCard(raw []byte) error {
	if w.dead != nil {
		return w.dead
	}
	c, err := batch.ParseCard(raw)
	if err != nil {
		return err
	}
	held, ok := w.cards[c.Node]
	if !ok || held.card.Number < c.Number {
		held = heldCard{bytes.Clone(raw), c}
	}
	streams, err := w.j.Streams()
	if err != nil {
		return err
	}
	for _, s := range streams {
		if s.Node != c.Node {
			continue
		}
		_, old, err := w.j.streamCard(s)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
			return err
		}
		if err == nil && old.Number >= held.card.Number {
			continue
		}
		if err := vfs.WriteFile(w.j.fs, path.Join(w.j.dir, s.String(), cardName), held.raw); err != nil {
			return err
		}
	}
	w.cards[c.Node] = held
	return nil
}

// keyOf returns the key of a node.
func (w *Writer) keyOf(node record.NodeID) (ed25519.PublicKey, error) {
	if held, ok := w.cards[node]; ok {
		return held.card.Pub, nil
	}
	if w.own != nil && node == w.own.st.stream.Node {
		return ed25519.PublicKey(w.own.key[ed25519.SeedSize:]), nil
	}
	raw, card, err := w.j.Card(node)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("node %s: %w", node.Short(), ErrNoCard)
	}
	if err != nil {
		return nil, err
	}
	w.cards[node] = heldCard{raw, card}
	return card.Pub, nil
}
