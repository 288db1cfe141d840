package mailbox_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/peers/mailbox"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

var epoch = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// keeper is a node that keeps the batches it has, and no more.
type keeper struct {
	key     ed25519.PrivateKey
	id      record.NodeID
	own     record.StreamID
	streams map[record.StreamID][]*batch.Batch
	pubs    map[record.NodeID]ed25519.PublicKey
	codec   batch.Codec
	state   *syncproto.BoxState
}

var _ syncproto.Store = (*keeper)(nil)

func newKeeper(rng *rand.Rand) *keeper {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	key := ed25519.NewKeyFromSeed(seed)
	pub := key.Public().(ed25519.PublicKey)
	k := &keeper{
		key: key, id: record.NodeOf(pub), state: new(syncproto.BoxState),
		streams: map[record.StreamID][]*batch.Batch{}, pubs: map[record.NodeID]ed25519.PublicKey{},
	}
	k.own = record.StreamID{Node: k.id, Nonce: [8]byte{1}}
	k.pubs[k.id] = pub
	return k
}

func (k *keeper) head(s record.StreamID) record.Head {
	all := k.streams[s]
	if len(all) == 0 {
		return record.Head{}
	}
	last := all[len(all)-1]
	return record.Head{Seq: last.Last(), Hash: last.Hash}
}

// write seals a batch of a few entries.
func (k *keeper) write(t testing.TB, rng *rand.Rand) {
	t.Helper()
	var build batch.Builder
	n := 1 + rng.IntN(5)
	for i := range n {
		line := fmt.Appendf(nil, `{"kind":"msg","text":"%d %d %s"}`, i, rng.Uint64(), strings.Repeat("x", rng.IntN(200)))
		if err := build.AddLine(line); err != nil {
			t.Fatal(err)
		}
	}
	h := k.head(k.own)
	_, b, err := build.Seal(nil, k.key, n, batch.Header{Stream: k.own, First: h.Seq + 1, Prev: h.Hash, At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	k.streams[k.own] = append(k.streams[k.own], b)
}

func (k *keeper) Admit(context.Context, syncproto.Peer) (syncproto.Terms, error) {
	t := syncproto.Terms{Policy: "p"}
	for s := range k.streams {
		t.Offers = append(t.Offers, syncproto.Offer{Stream: s, Head: k.head(s), Card: 1, At: epoch})
	}
	return t, nil
}

func (k *keeper) Known(_ context.Context, s record.StreamID) (syncproto.Known, error) {
	known := syncproto.Known{Head: k.head(s)}
	if _, ok := k.pubs[s.Node]; ok {
		known.Card = 1
	}
	return known, nil
}

func (k *keeper) Marks(context.Context, record.StreamID, syncproto.Span) (syncproto.Marks, error) {
	return syncproto.Marks{}, nil
}

func (k *keeper) Batch(_ context.Context, s record.StreamID, seq record.Seq, _ time.Time) (syncproto.Batch, error) {
	for _, b := range k.streams[s] {
		if b.First <= seq && seq <= b.Last() {
			return syncproto.Batch{Raw: b.Raw, First: b.First, Last: b.Last()}, nil
		}
	}
	return syncproto.Batch{}, fmt.Errorf("no position %d", seq)
}

func (k *keeper) Card(context.Context, record.NodeID) ([]byte, error) {
	return batch.SignCard(k.key, batch.Card{Name: "keeper", Number: 1, At: epoch})
}

func (k *keeper) PutCard(_ context.Context, raw []byte) error {
	c, err := batch.ParseCard(raw)
	if err == nil {
		k.pubs[c.Node] = c.Pub
	}
	return err
}

func (k *keeper) Accept(_ context.Context, raw []byte, _ string) (syncproto.Receipt, error) {
	b, err := batch.Open(bytes.Clone(raw))
	if err != nil {
		return syncproto.Receipt{}, err
	}
	if err := k.codec.Verify(b, k.pubs[b.Stream.Node]); err != nil {
		return syncproto.Receipt{}, err
	}
	if h := k.head(b.Stream); b.First != h.Seq+1 || b.Prev != h.Hash {
		return syncproto.Receipt{}, fmt.Errorf("batch at %d does not follow %d", b.First, h.Seq)
	}
	k.streams[b.Stream] = append(k.streams[b.Stream], b)
	return syncproto.Receipt{Records: b.N}, nil
}

func (k *keeper) Commit(context.Context) error                     { return nil }
func (k *keeper) Forked(context.Context, *syncproto.Refusal) error { return nil }

func (k *keeper) mirror(t testing.TB, box *mailbox.Box) error {
	_, err := syncproto.Mirror(t.Context(), box, k, syncproto.MirrorConfig{Key: k.key, Name: "box", Now: epoch}, k.state)
	return err
}

// converge lets some nodes write and mirror in random order over one mailbox,
// fail at random operations, lose what they remember of it, and checks that in
// the end all hold the same.
func converge(t *testing.T, c carrier) {
	rng := newRand(t)
	nodes := []*keeper{newKeeper(rng), newKeeper(rng), newKeeper(rng)}
	boxes := make([]*mailbox.Box, len(nodes))
	for i, k := range nodes {
		boxes[i] = c.open(k.id.Short())
	}
	for range 60 {
		i := rng.IntN(len(nodes))
		k := nodes[i]
		switch rng.IntN(6) {
		case 0, 1:
			k.write(t, rng)
		case 2:
			left := 1 + rng.IntN(30)
			broken := mailbox.Interpose(boxes[i], func(string) error {
				if left--; left <= 0 {
					return errInjected
				}
				return nil
			})
			if err := k.mirror(t, broken); err != nil && !errors.Is(err, errInjected) {
				t.Fatal(err)
			}
		case 3:
			k.state = new(syncproto.BoxState)
		default:
			if err := k.mirror(t, boxes[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		for i, k := range nodes {
			k.write(t, rng)
			k.state.Posted = nil // so that every directory is looked into
			if err := k.mirror(t, boxes[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, k := range nodes {
		if err := k.mirror(t, boxes[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range nodes[1:] {
		for s := range nodes[0].streams {
			if !slices.EqualFunc(k.streams[s], nodes[0].streams[s], func(a, b *batch.Batch) bool { return bytes.Equal(a.Raw, b.Raw) }) {
				t.Errorf("stream %s differs: heads %v and %v", s, k.head(s), nodes[0].head(s))
			}
		}
		if len(k.streams) != len(nodes) {
			t.Errorf("a node has %d streams", len(k.streams))
		}
	}
	if c.path != "" {
		err := filepath.WalkDir(c.path, func(name string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), ".part-") {
				t.Errorf("%s is left", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
