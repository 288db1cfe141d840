package syncproto_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

// The model: nodes that keep their streams in maps. Its batches are real ones,
// with lines of a few fields.

type entry struct {
	Kind   string   `json:"kind"`
	ID     string   `json:"id"`
	Text   string   `json:"text,omitempty"`
	Drop   []string `json:"drop,omitempty"`
	Cancel []string `json:"cancel,omitempty"`
}

func stubLine(line []byte, why string) []byte {
	leaf, err := batch.Leaf(line)
	if err != nil {
		panic(err)
	}
	return batch.AppendStub(nil, record.Stub{Reason: why, Leaf: leaf})
}

// modelBatch is a batch as a node holds it: the fullest copy it has had, and
// the lines that it shows.
type modelBatch struct {
	full  *batch.Batch
	lines [][]byte
	tags  map[int]string // of stubs that are holes
	memo  []memo
}

func (b *modelBatch) first() record.Seq { return b.full.First }
func (b *modelBatch) last() record.Seq  { return b.full.Last() }

// builders are used again, because what they compress with is large.
var builders = sync.Pool{New: func() any { return new(batch.Builder) }}

func seal(key ed25519.PrivateKey, s record.StreamID, first record.Seq, prev record.Hash, lines [][]byte) *modelBatch {
	build := builders.Get().(*batch.Builder)
	defer builders.Put(build)
	for _, l := range lines {
		if err := build.AddLine(l); err != nil {
			panic(err)
		}
	}
	_, sealed, err := build.Seal(nil, key, len(lines), batch.Header{Stream: s, First: first, Prev: prev, At: epoch})
	if err != nil {
		panic(err)
	}
	return &modelBatch{full: sealed, lines: lines, tags: map[int]string{}}
}

// encode returns the batch with the given lines, of which some may be stubs.
func (b *modelBatch) encode(c *batch.Codec, lines [][]byte) []byte {
	raw, _, err := c.Stub(nil, b.full, func(seq record.Seq, _ []byte) string {
		if s, err := batch.ParseStub(lines[seq-b.first()]); err == nil {
			return s.Reason
		}
		return ""
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// decodeBatch opens and verifies a batch.
func decodeBatch(c *batch.Codec, raw []byte, pub ed25519.PublicKey) (*modelBatch, error) {
	b, err := batch.Open(bytes.Clone(raw))
	if err != nil {
		return nil, err
	}
	if err := c.Verify(b, pub); err != nil {
		return nil, err
	}
	lines, err := c.Lines(b)
	if err != nil {
		return nil, err
	}
	m := &modelBatch{full: b, tags: map[int]string{}}
	for _, l := range lines {
		m.lines = append(m.lines, bytes.Clone(l))
	}
	return m, nil
}

// memo remembers what a line decodes to; lines are replaced and never changed.
type memo struct {
	line *byte
	e    entry
	ok   bool
}

// entry decodes a line; it reports false for a stub.
func (b *modelBatch) entry(i int) (entry, bool) {
	if len(b.memo) != len(b.lines) {
		b.memo = make([]memo, len(b.lines))
	}
	if m := &b.memo[i]; m.line != &b.lines[i][0] {
		m.line = &b.lines[i][0]
		m.e = entry{}
		err := json.Unmarshal(b.lines[i], &m.e)
		m.ok = err == nil && m.e.Kind != ""
	}
	return b.memo[i].e, b.memo[i].ok
}

type stream struct {
	batches []*modelBatch
	grew    time.Time // when the last batch was sealed
}

func (s *stream) head() record.Head {
	if len(s.batches) == 0 {
		return record.Head{}
	}
	b := s.batches[len(s.batches)-1]
	return record.Head{Seq: b.last(), Hash: b.full.Hash}
}

func (s *stream) find(seq record.Seq) *modelBatch {
	for _, b := range s.batches {
		if b.first() <= seq && seq <= b.last() {
			return b
		}
	}
	return nil
}

// rule is what a node's policy says of a peer.
type rule struct {
	serve    func(record.StreamID) bool
	accept   func(record.StreamID) bool
	withhold func(entry) bool
}

func anything(record.StreamID) bool { return true }

func openRule() *rule { return &rule{serve: anything, accept: anything} }

// modelNode is a node of the model.
type modelNode struct {
	name    string
	key     ed25519.PrivateKey
	id      record.NodeID
	own     record.StreamID
	streams map[record.StreamID]*stream
	codec   batch.Codec
	pubs    map[record.NodeID]ed25519.PublicKey
	cards   map[record.NodeID]uint64
	signed  map[record.NodeID][]byte // cards of others
	rules   func(peer record.NodeID) *rule
	policy  string // names the rules
	restore bool   // wants its lost tail back
	dead    map[string]bool
	tombs   map[string][]string
	cancels map[string]bool
	forked  []*syncproto.Refusal
	commits int    // calls of Commit
	busy    func() // what Accept does first
	fault   error  // Accept fails with it
	limit   int    // of entries of one foreign stream, 0 for none
}

func newNode(rng *rand.Rand, name string) *modelNode {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	key := ed25519.NewKeyFromSeed(seed)
	pub := key.Public().(ed25519.PublicKey)
	n := &modelNode{
		name: name, key: key, id: record.NodeOf(pub), policy: "p1",
		streams: map[record.StreamID]*stream{}, dead: map[string]bool{},
		tombs: map[string][]string{}, cancels: map[string]bool{},
		pubs: map[record.NodeID]ed25519.PublicKey{}, cards: map[record.NodeID]uint64{}, signed: map[record.NodeID][]byte{},
		rules: func(record.NodeID) *rule { return openRule() },
	}
	n.pubs[n.id], n.cards[n.id] = pub, 1
	n.newStream(rng)
	return n
}

// noise is text that does not compress well.
func noise(rng *rand.Rand, n int) string {
	b := make([]byte, n*3/4)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

func (n *modelNode) newStream(rng *rand.Rand) {
	n.own = record.StreamID{Node: n.id}
	binary.BigEndian.PutUint64(n.own.Nonce[:], rng.Uint64())
}

// write appends entries to the own stream as one batch.
func (n *modelNode) write(entries ...entry) {
	st := n.streams[n.own]
	if st == nil {
		st = &stream{}
		n.streams[n.own] = st
	}
	lines := make([][]byte, 0, len(entries))
	for _, e := range entries {
		l, _ := json.Marshal(e)
		lines = append(lines, l)
	}
	h := st.head()
	st.batches = append(st.batches, seal(n.key, n.own, h.Seq+1, h.Hash, lines))
	n.fold()
}

// fold works out what is dead, and stubs it.
func (n *modelNode) fold() {
	clear(n.dead)
	clear(n.tombs)
	clear(n.cancels)
	for _, e := range n.live() {
		for _, id := range e.Cancel {
			n.cancels[id] = true
		}
		if e.Kind == "tomb" {
			n.tombs[e.ID] = e.Drop
		}
	}
	for id, drop := range n.tombs {
		if !n.cancels[id] {
			for _, d := range drop {
				n.dead[d] = true
			}
		}
	}
	for _, st := range n.streams {
		for _, b := range st.batches {
			for i, l := range b.lines {
				if e, ok := b.entry(i); ok && n.dead[e.ID] {
					b.lines[i] = stubLine(l, "forgotten")
				}
			}
		}
	}
}

// live returns every entry that the node can read, by id; a second copy under
// one id is reported under a name of its own.
func (n *modelNode) live() map[string]entry {
	all := map[string]entry{}
	for _, s := range slices.SortedFunc(maps.Keys(n.streams), record.StreamID.Compare) {
		for _, b := range n.streams[s].batches {
			for i := range b.lines {
				if e, ok := b.entry(i); ok {
					id := e.ID
					for all[id].ID != "" {
						id += " again"
					}
					all[id] = e
				}
			}
		}
	}
	return all
}

func (n *modelNode) frontier() map[record.StreamID]record.Seq {
	f := map[record.StreamID]record.Seq{}
	for s, st := range n.streams {
		f[s] = st.head().Seq
	}
	return f
}

// dump is everything that the node holds, stubs and all.
func (n *modelNode) dump() string {
	var b strings.Builder
	for _, s := range slices.SortedFunc(maps.Keys(n.streams), record.StreamID.Compare) {
		for _, held := range n.streams[s].batches {
			fmt.Fprintf(&b, "%s %s\n%s\n", s, held.full.Hash, bytes.Join(held.lines, []byte{'\n'}))
		}
	}
	return b.String()
}

// modelStore is what one exchange sees of a node.
type modelStore struct {
	n       *modelNode
	peer    syncproto.Peer
	rule    *rule
	pending map[record.StreamID]int // batches accepted and not committed
}

var _ syncproto.Store = (*modelStore)(nil)

func (n *modelNode) store() *modelStore {
	return &modelStore{n: n, pending: map[record.StreamID]int{}}
}

// crash loses what was accepted and not committed.
func (s *modelStore) crash() {
	for id, k := range s.pending {
		st := s.n.streams[id]
		st.batches = st.batches[:len(st.batches)-k]
		if len(st.batches) == 0 {
			delete(s.n.streams, id)
		}
	}
	clear(s.pending)
	s.n.fold()
}

func (s *modelStore) Admit(_ context.Context, p syncproto.Peer) (syncproto.Terms, error) {
	s.peer = p
	if s.rule = s.n.rules(p.Node); s.rule == nil {
		return syncproto.Terms{}, &syncproto.Refusal{Code: syncproto.CodePolicy, Msg: "this node does not know you"}
	}
	t := syncproto.Terms{Policy: s.n.policy}
	for _, id := range slices.SortedFunc(maps.Keys(s.n.streams), record.StreamID.Compare) {
		st := s.n.streams[id]
		if len(st.batches) == 0 || id.Node != p.Node && !s.rule.serve(id) {
			continue
		}
		o := syncproto.Offer{Stream: id, Head: st.head(), Card: s.n.cards[id.Node], At: st.grew, Revise: true}
		for _, h := range s.holes(st) {
			o.Holes = append(o.Holes, h.Span)
		}
		for _, b := range st.batches {
			_, k := s.view(b)
			o.Stubs += uint64(k)
		}
		t.Offers = append(t.Offers, o)
	}
	return t, nil
}

func (s *modelStore) holes(st *stream) []syncproto.Hole {
	var holes []syncproto.Hole
	for _, b := range st.batches {
		for i := range b.lines {
			if tag, ok := b.tags[i]; ok {
				at := b.first() + record.Seq(i)
				if k := len(holes) - 1; k >= 0 && holes[k].To == at-1 && holes[k].Tag == tag {
					holes[k].To = at
					continue
				}
				holes = append(holes, syncproto.Hole{Span: syncproto.Span{From: at, To: at}, Tag: tag})
			}
		}
	}
	return holes
}

func (s *modelStore) Known(_ context.Context, id record.StreamID) (syncproto.Known, error) {
	k := syncproto.Known{Card: s.n.cards[id.Node], Recover: id.Node == s.n.id && s.n.restore}
	for other := range s.n.streams {
		if other.Node == id.Node && other != id {
			k.Streams++
		}
	}
	if s.rule != nil && !s.rule.accept(id) {
		k.Refuse = &syncproto.Refusal{Code: syncproto.CodePolicy, Msg: "its origin is not accepted"}
	}
	if st := s.n.streams[id]; st != nil {
		k.Head, k.Holes = st.head(), s.holes(st)
	}
	return k, nil
}

func (s *modelStore) Marks(_ context.Context, id record.StreamID, span syncproto.Span) (syncproto.Marks, error) {
	var m syncproto.Marks
	for _, b := range s.n.streams[id].batches {
		for i := range b.lines {
			at := b.first() + record.Seq(i)
			e, ok := b.entry(i)
			switch {
			case !ok || at < span.From || at > span.To:
			case e.Kind == "tomb" || e.Kind == "untomb":
				m.Tomb = at
			case e.Kind == "note":
				m.Note = at
			}
		}
	}
	return m, nil
}

// view returns a batch's lines as the peer may see them, and how many are stubs.
func (s *modelStore) view(b *modelBatch) ([][]byte, int) {
	lines, stubs := slices.Clone(b.lines), 0
	for i, l := range lines {
		e, ok := b.entry(i)
		if ok && s.rule.withhold != nil && s.rule.withhold(e) {
			lines[i], ok = stubLine(l, "withheld"), false
		}
		if !ok {
			stubs++
		}
	}
	return lines, stubs
}

func (s *modelStore) Batch(_ context.Context, id record.StreamID, seq record.Seq, since time.Time) (syncproto.Batch, error) {
	b := s.n.streams[id].find(seq)
	if b == nil {
		return syncproto.Batch{}, fmt.Errorf("no position %d", seq)
	}
	lines, stubs := s.view(b)
	if !since.IsZero() && record.Seq(len(s.n.streams[id].batches)) > 1 && b.last() < s.n.streams[id].head().Seq {
		for i := range lines {
			lines[i] = stubLine(lines[i], "withheld")
		}
		stubs = len(lines)
	}
	return syncproto.Batch{Raw: b.encode(&s.n.codec, lines), First: b.first(), Last: b.last(), Stubs: stubs}, nil
}

func (s *modelStore) Card(_ context.Context, node record.NodeID) ([]byte, error) {
	if node == s.n.id {
		return batch.SignCard(s.n.key, batch.Card{Name: s.n.name, Number: s.n.cards[node], At: epoch})
	}
	return s.n.signed[node], nil
}

func (s *modelStore) PutCard(_ context.Context, raw []byte) error {
	c, err := batch.ParseCard(raw)
	if err != nil {
		return &syncproto.Refusal{Code: syncproto.CodeBatch, Msg: err.Error()}
	}
	if c.Number > s.n.cards[c.Node] {
		s.n.pubs[c.Node], s.n.cards[c.Node], s.n.signed[c.Node] = c.Pub, c.Number, bytes.Clone(raw)
	}
	return nil
}

func (s *modelStore) Accept(_ context.Context, raw []byte, tag string) (syncproto.Receipt, error) {
	if s.n.busy != nil {
		s.n.busy()
	}
	var r syncproto.Receipt
	if s.n.fault != nil {
		return r, s.n.fault
	}
	h, _, err := batch.PeekHeader(raw)
	if err != nil {
		return r, err
	}
	id := h.Stream
	refuse := func(code syncproto.Code, msg string) error {
		return &syncproto.Refusal{Code: code, Stream: id, Msg: msg}
	}
	b, err := decodeBatch(&s.n.codec, raw, s.n.pubs[id.Node])
	if err != nil {
		return r, refuse(syncproto.CodeBatch, err.Error())
	}
	st := s.n.streams[id]
	if st == nil {
		st = &stream{}
	}
	head := st.head()
	if s.n.limit > 0 && int(b.last()) > s.n.limit {
		return r, refuse(syncproto.CodeQuota, "its origin sends too much")
	}
	switch {
	case b.first() > head.Seq+1:
		return r, fmt.Errorf("a gap: %d after %d", b.first(), head.Seq)
	case b.first() == head.Seq+1 && b.full.Prev == head.Hash:
		return s.append(st, b, tag), nil
	}
	mine := st.find(max(1, min(b.first(), head.Seq)))
	if mine == nil || mine.full.Hash != b.full.Hash {
		err := &syncproto.Refusal{Code: syncproto.CodeFork, Stream: id, Msg: "another history"}
		if mine != nil {
			err.Headers = [][]byte{mine.full.Signed(), b.full.Signed()}
		}
		return r, err
	}
	return s.fill(mine, b, tag), nil
}

// append takes a batch at the head.
func (s *modelStore) append(st *stream, b *modelBatch, tag string) syncproto.Receipt {
	var r syncproto.Receipt
	s.n.streams[b.full.Stream] = st
	st.batches = append(st.batches, b)
	s.pending[b.full.Stream]++
	for i, l := range b.lines {
		e, ok := b.entry(i)
		switch {
		case ok && s.n.dead[e.ID]:
			r.Forgotten++
		case ok:
			r.Records++
		case isForgotten(l):
			r.Forgotten++
		default:
			b.tags[i] = tag
			r.Withheld++
		}
	}
	s.n.fold()
	return r
}

func isForgotten(l []byte) bool {
	s, err := batch.ParseStub(l)
	return err == nil && s.Reason == record.Forgotten
}

// fill takes what a batch that is here already holds beyond it.
func (s *modelStore) fill(mine, b *modelBatch, tag string) syncproto.Receipt {
	var r syncproto.Receipt
	if raw, filled, err := s.n.codec.Merge(nil, mine.full, b.full); err != nil {
		panic(err)
	} else if filled > 0 {
		if mine.full, err = batch.Open(raw); err != nil {
			panic(err)
		}
	}
	for i, l := range b.lines {
		_, hole := mine.tags[i]
		e, ok := b.entry(i)
		switch {
		case !hole:
			r.Had++
		case isForgotten(l):
			mine.lines[i] = l
			delete(mine.tags, i)
			r.Forgotten++
		case !ok:
			mine.tags[i] = tag
			r.Withheld++
		case s.n.dead[e.ID]:
			mine.lines[i] = stubLine(l, "forgotten")
			delete(mine.tags, i)
			r.Forgotten++
		default:
			mine.lines[i] = l
			delete(mine.tags, i)
			r.Records++
			r.Filled++
		}
	}
	s.n.fold()
	return r
}

func (s *modelStore) Commit(context.Context) error {
	s.n.commits++
	clear(s.pending)
	return nil
}

func (s *modelStore) Forked(_ context.Context, r *syncproto.Refusal) error {
	s.n.forked = append(s.n.forked, r)
	return nil
}
