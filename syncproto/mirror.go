package syncproto

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/deja-node/deja/index/record"
)

// MirrorConfig is what a node brings to a mailbox.
type MirrorConfig struct {
	Key  ed25519.PrivateKey // of this node
	Name string             // of the mailbox, for people and for the policy
	Mode Mode               // Probe is like Plan
	Now  time.Time
}

// BoxState is what a node remembers of a mailbox, so that an unchanged one
// costs a listing. Losing it costs reading the heads once more and nothing else.
type BoxState struct {
	Fleet  string                   `json:"fleet,omitempty"`
	Heads  map[record.NodeID]Mark   `json:"heads,omitempty"`  // heads files whose batches are all here
	Posted map[record.StreamID]Post `json:"posted,omitempty"` // what the mailbox holds from here
}

// Mark tells one version of a heads file from the next.
type Mark struct {
	Size int64 `json:"size"`
	Mod  int64 `json:"mod"` // seconds
}

// Post is how a stream was last written into a mailbox.
type Post struct {
	Head   record.Seq `json:"head,omitempty"`
	Stubs  uint64     `json:"stubs,omitempty"`
	Policy string     `json:"policy,omitempty"`
	Tidy   bool       `json:"tidy,omitempty"` // no file is left that others have made needless
}

// forget drops what is remembered of a node's posts.
func (s *BoxState) forget(n record.NodeID) {
	delete(s.Heads, n)
	maps.DeleteFunc(s.Posted, func(id record.StreamID, _ Post) bool { return id.Node == n })
}

// metaMsg describes a mailbox.
type metaMsg struct {
	V      int    `json:"v"`
	Fleet  string `json:"fleet"`
	Sealed bool   `json:"sealed"`
}

// Mirror exchanges with a mailbox: it takes what the other nodes have put
// there, then puts there what this node has, and remembers in state how far it
// came. Reading comes first, so that what others have forgotten is known
// before anything is written.
func Mirror(ctx context.Context, box Box, store Store, cfg MirrorConfig, state *BoxState) (Report, error) {
	pub, ok := cfg.Key.Public().(ed25519.PublicKey)
	if !ok || len(pub) != ed25519.PublicKeySize {
		return Report{}, errors.New("a mailbox needs the node key")
	}
	m := &mirror{
		box: &countedBox{box: box}, store: store, cfg: cfg, state: state,
		self: record.NodeOf(pub), pub: pub, files: map[record.StreamID][]packed{}, fresh: map[record.NodeID]int{}, touched: map[record.NodeID]bool{},
	}
	m.report.Peer = Peer{Box: cfg.Name}
	m.report.Acked = map[record.StreamID]record.Seq{}
	err := m.run(ctx)
	m.report.Complete = err == nil && len(m.report.Refused) == 0
	m.report.RoundTrips = m.box.calls
	m.report.BytesIn, m.report.BytesOut = m.box.in, m.box.out
	m.report.Received.receipt(m.count)
	return m.report, err
}

type mirror struct {
	box     *countedBox
	store   Store
	cfg     MirrorConfig
	state   *BoxState
	self    record.NodeID
	pub     ed25519.PublicKey
	terms   Terms
	marks   map[record.NodeID]Mark
	files   map[record.StreamID][]packed // listings of this run
	fresh   map[record.NodeID]int        // streams that are new here, by origin
	touched map[record.NodeID]bool       // origins whose heads have changed
	known   bool                         // the description was checked in this run
	dirty   int
	count   byeMsg
	report  Report
}

func (m *mirror) run(ctx context.Context) (err error) {
	if m.state.Heads == nil {
		m.state.Heads = map[record.NodeID]Mark{}
	}
	if m.state.Posted == nil {
		m.state.Posted = map[record.StreamID]Post{}
	}
	if err := m.list(ctx); err != nil {
		return err
	}
	if m.terms, err = m.store.Admit(ctx, m.report.Peer); err != nil {
		return err
	}
	if err := m.take(ctx); err != nil {
		return errors.Join(err, m.commit(context.WithoutCancel(ctx)))
	}
	if m.report.Received.Batches > 0 { // new tombs may have changed what is to be written
		if m.terms, err = m.store.Admit(ctx, m.report.Peer); err != nil {
			return err
		}
	}
	return m.post(ctx)
}

// list reads the listing of the heads.
func (m *mirror) list(ctx context.Context) error {
	objects, err := m.box.List(ctx, headsDir)
	if err != nil {
		return err
	}
	m.marks = map[record.NodeID]Mark{}
	for _, o := range objects {
		if n, ok := parseHeadsName(o.Name); ok {
			m.marks[n] = Mark{o.Size, o.Mod.Unix()}
		}
	}
	return nil
}

// describe checks the description of the mailbox, once in a run and before
// anything else of it is read or written. A mailbox without one gets one when
// it is written to.
func (m *mirror) describe(ctx context.Context, write bool) error {
	if m.known {
		return nil
	}
	meta, err := m.readMeta(ctx)
	if errors.Is(err, fs.ErrNotExist) && write {
		meta, err = m.writeMeta(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case meta.V != Version:
		return refuse(CodeVersion, "this node reads mailboxes of version %d, this one is of version %d", Version, meta.V)
	case meta.Sealed:
		return refuse(CodeVersion, "this mailbox is sealed, which this node cannot read")
	case m.state.Fleet != "" && m.state.Fleet != meta.Fleet:
		return refuse(CodeNodeChanged, "another mailbox lies here than before")
	}
	m.state.Fleet, m.known = meta.Fleet, true
	return nil
}

func (m *mirror) readMeta(ctx context.Context) (metaMsg, error) {
	var meta metaMsg
	objects, err := m.box.List(ctx, "")
	if err != nil {
		return meta, err
	}
	for _, o := range objects {
		if o.Name != metaName {
			continue
		}
		if o.Size > maxEarly {
			return meta, fmt.Errorf("%w: %s of %d bytes", ErrFrame, metaName, o.Size)
		}
		data, err := m.box.Get(ctx, metaName, o.Size)
		if err != nil {
			return meta, err
		}
		if err := decode(data, &meta); err != nil {
			return meta, fmt.Errorf("%s: %w", metaName, err)
		}
		meta.Fleet = harmless(meta.Fleet, maxName)
		return meta, nil
	}
	return meta, fs.ErrNotExist
}

// writeMeta makes the description. Another node may be doing the same, so what
// counts is what is there afterwards.
func (m *mirror) writeMeta(ctx context.Context) (metaMsg, error) {
	data, err := json.Marshal(metaMsg{V: Version, Fleet: newFleet()})
	if err != nil {
		return metaMsg{}, err
	}
	if err := m.box.Put(ctx, metaName, data, false); err != nil {
		return metaMsg{}, err
	}
	return m.readMeta(ctx)
}

// listFiles returns the files of batches of a stream, listed once in a run.
func (m *mirror) listFiles(ctx context.Context, s record.StreamID) ([]packed, error) {
	if files, ok := m.files[s]; ok {
		return files, nil
	}
	objects, err := m.box.List(ctx, batchDir(s))
	if err != nil {
		return nil, err
	}
	files := []packed{}
	for _, o := range objects {
		if f, ok := parsePacked(s, o); ok {
			files = append(files, f)
		}
	}
	m.files[s] = files
	return files, nil
}

func (m *mirror) commit(ctx context.Context) error {
	if m.dirty == 0 {
		return nil
	}
	m.dirty = 0
	return m.store.Commit(ctx)
}

func (m *mirror) note(r *Refusal) {
	if len(m.report.Refused) < maxNoted {
		m.report.Refused = append(m.report.Refused, r)
	}
}
