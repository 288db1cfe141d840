package syncproto

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/deja-node/deja/index/record"
)

// post writes into the mailbox what it lacks of this node's own streams, and
// replaces files that hold what has been forgotten since.
func (m *mirror) post(ctx context.Context) error {
	if m.cfg.Mode != Both && m.cfg.Mode != Push {
		m.countLack()
		return nil
	}
	if _, there := m.marks[m.self]; !there {
		m.state.forget(m.self) // a new mailbox, or one that was emptied
	}
	var own []Offer
	changed := false
	for _, o := range m.terms.Offers {
		wrote, err := m.postStream(ctx, o)
		if err != nil {
			return err
		}
		if o.Stream.Node == m.self {
			own = append(own, o)
			changed = changed || wrote
		}
	}
	if changed {
		if err := m.postHeads(ctx, own); err != nil {
			return err
		}
	}
	return m.sweep(ctx)
}

func (m *mirror) countLack() {
	for _, o := range m.terms.Offers {
		if has := m.state.Posted[o.Stream].Head; o.Stream.Node == m.self && has < o.Head.Seq {
			m.report.TheyLack += uint64(o.Head.Seq - has)
		}
	}
}

// postStream brings the files of one stream up to date. It reports whether it
// wrote any.
func (m *mirror) postStream(ctx context.Context, o Offer) (bool, error) {
	was, own := m.state.Posted[o.Stream], o.Stream.Node == m.self
	now := Post{Head: o.Head.Seq, Stubs: o.Stubs, Policy: m.terms.Policy, Tidy: !own}
	grown := own && o.Head.Seq > was.Head
	moved := own && was.Policy != "" && was.Policy != now.Policy
	// What this node put into a file of another origin is gone when the origin
	// packs the file anew without having heard of the tomb.
	stale := was.Stubs != o.Stubs || !own && o.Stubs > 0 && m.touched[o.Stream.Node]
	if !grown && !moved && (!stale || !own && !o.Revise) {
		return false, nil
	}
	if err := m.describe(ctx, true); err != nil {
		return false, err
	}
	wrote := false
	if moved || stale {
		revised, err := m.revise(ctx, o, moved)
		if err != nil {
			return false, err
		}
		wrote = revised
	}
	if grown {
		m.report.TheyLack += uint64(o.Head.Seq - was.Head)
		if err := m.extend(ctx, o, was.Head+1); err != nil {
			return false, err
		}
		m.report.Sent.Records += uint64(o.Head.Seq - was.Head)
		wrote = true
	}
	if !own {
		now.Head, now.Policy = 0, ""
	}
	m.state.Posted[o.Stream] = now
	return wrote, nil
}

// extend writes the batches from position first on. The files at the end that
// are small beside what comes are written anew with it, so that a stream is few
// files and no byte is written more than a few times.
func (m *mirror) extend(ctx context.Context, o Offer, first record.Seq) error {
	files, err := m.listFiles(ctx, o.Stream)
	if err != nil {
		return err
	}
	coming, err := m.measure(ctx, o, first)
	if err != nil {
		return err
	}
	for first > 1 {
		tail, ok := find(files, first-1)
		if !ok || tail.last != first-1 || tail.size > 2*coming || tail.size+coming > packSize {
			break
		}
		coming += tail.size
		first = tail.first
	}
	p := &packer{m: m, stream: o.Stream}
	for seq := first; seq <= o.Head.Seq; {
		b, err := m.batch(ctx, o.Stream, seq)
		if err != nil {
			return err
		}
		if err := p.add(ctx, b); err != nil {
			return err
		}
		seq = b.Last + 1
	}
	return p.flush(ctx)
}

// measure returns how many bytes the batches from first on have, counting no
// further than one file.
func (m *mirror) measure(ctx context.Context, o Offer, first record.Seq) (int64, error) {
	var n int64
	for seq := first; seq <= o.Head.Seq && n < packSize; {
		b, err := m.batch(ctx, o.Stream, seq)
		if err != nil {
			return 0, err
		}
		n += int64(len(b.Raw))
		seq = b.Last + 1
	}
	return n, nil
}

func (m *mirror) batch(ctx context.Context, s record.StreamID, seq record.Seq) (Batch, error) {
	b, err := m.store.Batch(ctx, s, seq, time.Time{})
	if err != nil {
		return Batch{}, err
	}
	if b.First > seq || b.Last < seq || len(b.Raw) > maxBatch {
		return Batch{}, fmt.Errorf("stream %s: position %d gave a batch from %d to %d of %d bytes", s, seq, b.First, b.Last, len(b.Raw))
	}
	return b, nil
}

// revise replaces the files of a stream whose entries have become stubs since
// they were written. Only when its own policy has changed does a node put back
// what a file withholds: elsewhere fewer stubs mean that this node has not yet
// heard of a tomb.
func (m *mirror) revise(ctx context.Context, o Offer, policyMoved bool) (bool, error) {
	files, err := m.listFiles(ctx, o.Stream)
	if err != nil {
		return false, err
	}
	wrote := false
	for _, f := range slices.Clone(files) {
		if f.last > o.Head.Seq {
			continue
		}
		p := &packer{m: m, stream: o.Stream}
		whole, err := p.load(ctx, f)
		if err != nil {
			return false, err
		}
		if !whole || p.stubs == f.rev || p.stubs < f.rev && !policyMoved {
			continue
		}
		if err := p.flush(ctx); err != nil {
			return false, err
		}
		if err := m.remove(ctx, f); err != nil {
			return false, err
		}
		wrote = true
	}
	return wrote, nil
}

// postHeads says what is there now. It comes after the files that it names.
func (m *mirror) postHeads(ctx context.Context, own []Offer) error {
	card, err := m.store.Card(ctx, m.self)
	if err != nil {
		return err
	}
	msg := headsMsg{
		V: Version, Node: m.self, Pub: m.pub, Card: card,
		Policy: m.terms.Policy, Streams: entries(own), At: formatTime(m.cfg.Now),
	}
	data := encodeHeads(m.cfg.Key, msg, m.marks[m.self].Size)
	if err := m.box.Put(ctx, headsName(m.self), data, true); err != nil {
		return err
	}
	delete(m.state.Heads, m.self)
	if err := m.list(ctx); err != nil {
		return err
	}
	if mark := m.marks[m.self]; mark.Size == int64(len(data)) {
		m.state.Heads[m.self] = mark
	}
	return nil
}

// sweep removes the own files that others have made needless, in this run or
// in one that did not come so far.
func (m *mirror) sweep(ctx context.Context) error {
	for s, p := range m.state.Posted {
		if p.Tidy || s.Node != m.self {
			continue
		}
		files, err := m.listFiles(ctx, s)
		if err != nil {
			return err
		}
		for _, f := range spare(files) {
			if err := m.remove(ctx, f); err != nil {
				return err
			}
		}
		p.Tidy = true
		m.state.Posted[s] = p
	}
	return nil
}

func (m *mirror) remove(ctx context.Context, f packed) error {
	if err := m.box.Remove(ctx, f.name()); err != nil {
		return err
	}
	m.files[f.stream] = slices.DeleteFunc(m.files[f.stream], func(g packed) bool { return g.base() == f.base() })
	return nil
}

// packer gathers batches of a stream into files.
type packer struct {
	m           *mirror
	stream      record.StreamID
	data        []byte
	first, last record.Seq
	hash16      string
	stubs       int
	batches     int
}

func (p *packer) add(ctx context.Context, b Batch) error {
	if len(p.data) > 0 && len(p.data)+len(b.Raw) > packSize {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	return p.append(b)
}

func (p *packer) append(b Batch) error {
	seen, err := peek(b.Raw)
	if err != nil {
		return err
	}
	if len(p.data) == 0 {
		p.first = b.First
	}
	p.data = append(p.data, b.Raw...)
	p.last, p.hash16 = b.Last, hash16(seen.hash)
	p.stubs += b.Stubs
	p.batches++
	return nil
}

// load gathers exactly the batches of a file. It reports false when this node
// divides or knows the stream otherwise.
func (p *packer) load(ctx context.Context, f packed) (bool, error) {
	for seq := f.first; seq <= f.last; {
		b, err := p.m.batch(ctx, p.stream, seq)
		if err != nil {
			return false, err
		}
		if b.First != seq || b.Last > f.last || len(p.data)+len(b.Raw) > maxFile {
			return false, nil
		}
		if err := p.append(b); err != nil {
			return false, err
		}
		seq = b.Last + 1
	}
	return p.hash16 == f.hash16, nil
}

// flush writes what was gathered as one file.
func (p *packer) flush(ctx context.Context) error {
	if len(p.data) == 0 {
		return nil
	}
	f := packed{stream: p.stream, first: p.first, last: p.last, hash16: p.hash16, rev: p.stubs, size: int64(len(p.data))}
	if err := p.m.box.Put(ctx, f.name(), p.data, false); err != nil {
		return err
	}
	if files := p.m.files[p.stream]; !slices.Contains(files, f) {
		p.m.files[p.stream] = append(files, f)
	}
	p.m.report.Sent.Batches += p.batches
	p.m.report.Sent.Bytes += f.size
	p.data, p.stubs, p.batches = p.data[:0], 0, 0
	return nil
}

// newFleet names a mailbox.
func newFleet() string { return rand.Text() }

// countedBox counts what a mirror does to its box.
type countedBox struct {
	box     Box
	calls   int
	in, out int64
}

func (c *countedBox) List(ctx context.Context, dir string) ([]Object, error) {
	c.calls++
	return c.box.List(ctx, dir)
}

func (c *countedBox) Get(ctx context.Context, name string, size int64) ([]byte, error) {
	c.calls++
	data, err := c.box.Get(ctx, name, size)
	c.in += int64(len(data))
	if err == nil && int64(len(data)) != size {
		return nil, fmt.Errorf("%s has %d bytes, not %d", name, len(data), size)
	}
	return data, err
}

func (c *countedBox) Put(ctx context.Context, name string, data []byte, replace bool) error {
	c.calls++
	c.out += int64(len(data))
	return c.box.Put(ctx, name, data, replace)
}

func (c *countedBox) Remove(ctx context.Context, name string) error {
	c.calls++
	return c.box.Remove(ctx, name)
}
