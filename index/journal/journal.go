package journal

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// Options say whose journal it is. A reader needs none of them.
type Options struct {
	Own   record.StreamID    // the stream that this node appends to
	Key   ed25519.PrivateKey // of the own stream's node
	Rand  io.Reader          // makes salts
	Now   func() time.Time   // tells when a batch is sealed
	Spool string             // folder for refused and damaged bytes; empty keeps none
	PID   int                // told to whoever finds the lock held
	Wait  time.Duration      // how long Write waits for the lock

	SegmentSize int64 // bytes at which the next segment is begun; zero takes 64 MiB
}

// Journal is a folder of logs. Its methods may be called at the same time,
// also while this or another process writes.
type Journal struct {
	fs  vfs.FS
	dir string
	opt Options

	codecs sync.Pool // of *batch.Codec

	mu      sync.Mutex // guards the caches, and is not held while reading files
	logs    map[record.StreamID]*state
	indexes map[segmentID]segmentIndex
	blocks  blockCache
}

// Open opens the journal in a folder. One that does not exist yet is empty.
// The cost does not depend on how much the logs hold.
func Open(fsys vfs.FS, dir string, opt Options) (*Journal, error) {
	if opt.SegmentSize == 0 {
		opt.SegmentSize = segmentSize
	}
	j := &Journal{fs: fsys, dir: dir, opt: opt}
	j.codecs.New = func() any { return new(batch.Codec) }
	j.Refresh()
	return j, checkFormat(fsys, dir)
}

// Refresh forgets everything cached. Positions never change their entries, but
// an entry can have become a stub.
func (j *Journal) Refresh() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.logs = map[record.StreamID]*state{}
	j.indexes = map[segmentID]segmentIndex{}
	j.blocks = blockCache{}
}

// forgetState forgets how far a stream goes.
func (j *Journal) forgetState(s record.StreamID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.logs, s)
}

func (j *Journal) codec() *batch.Codec { return j.codecs.Get().(*batch.Codec) } //nolint:errcheck // the pool holds nothing else

// Streams returns the streams of the journal in order.
func (j *Journal) Streams() ([]record.StreamID, error) {
	entries, err := j.fs.ReadDir(j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []record.StreamID
	for _, e := range entries {
		if s, err := record.ParseStream(e.Name()); err == nil && e.IsDir() {
			all = append(all, s)
		}
	}
	return all, nil
}

// Frontier returns how far each stream goes on disk now, the open tail
// included. The head of a tail has no hash.
func (j *Journal) Frontier() (record.Frontier, error) { return j.frontier(j.tip) }

// Sealed returns how far each stream is sealed and durable: what may be
// offered to peers.
func (j *Journal) Sealed() (record.Frontier, error) {
	return j.frontier(func(s record.StreamID) (record.Head, error) {
		st, err := j.load(s)
		if err != nil {
			return record.Head{}, err
		}
		return st.head, nil
	})
}

func (j *Journal) frontier(head func(record.StreamID) (record.Head, error)) (record.Frontier, error) {
	streams, err := j.Streams()
	if err != nil {
		return nil, err
	}
	f := record.Frontier{}
	for _, s := range streams {
		h, err := head(s)
		if err != nil {
			return nil, err
		}
		if h.Seq > 0 {
			f[s] = h
		}
	}
	return f, nil
}

// tip returns the head of a stream with its tail.
func (j *Journal) tip(s record.StreamID) (record.Head, error) {
	st, tail, err := j.loadTail(s)
	if err != nil || tail.len() == 0 {
		return st.head, err
	}
	return record.Head{Seq: st.head.Seq + record.Seq(tail.len())}, nil
}

// Card returns the card of a node, signed and read, or [ErrNotFound].
func (j *Journal) Card(node record.NodeID) ([]byte, batch.Card, error) {
	streams, err := j.Streams()
	if err != nil {
		return nil, batch.Card{}, err
	}
	var raw []byte
	var best batch.Card
	for _, s := range streams {
		if s.Node != node {
			continue
		}
		r, c, err := j.streamCard(s)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, batch.Card{}, err
		}
		if raw == nil || c.Number > best.Number {
			raw, best = r, c
		}
	}
	if raw == nil {
		return nil, batch.Card{}, fmt.Errorf("card of node %s: %w", node.Short(), ErrNotFound)
	}
	return raw, best, nil
}

func (j *Journal) streamCard(s record.StreamID) ([]byte, batch.Card, error) {
	name := path.Join(j.dir, s.String(), cardName)
	raw, err := vfs.ReadFile(j.fs, name, batch.MaxCard)
	if err != nil {
		return nil, batch.Card{}, err
	}
	c, err := batch.ParseCard(raw)
	if err == nil && c.Node != s.Node {
		err = fmt.Errorf("card of node %s", c.Node)
	}
	if err != nil {
		return nil, batch.Card{}, corrupt(name, 0, err)
	}
	return raw, c, nil
}
