package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/peers"
)

// PeerInfo is one peer as `deja peer list`, `deja sync status` and the doctor
// show it. They carry the same row, so that they cannot disagree.
type PeerInfo struct {
	Host         string     `json:"host"`
	Node         string     `json:"node"`
	Name         string     `json:"name"`
	Names        []string   `json:"names"`
	Aliases      []string   `json:"aliases"`
	Group        string     `json:"group"`
	Via          string     `json:"via"`
	State        string     `json:"state"` // ok, never, stale, failing or disabled
	LastPush     *time.Time `json:"last_push"`
	LastPull     *time.Time `json:"last_pull"`
	Behind       *uint64    `json:"behind_records"`
	TheyLack     *uint64    `json:"they_lack_records"`
	SessionsFrom int        `json:"sessions_from"`
	ClockSkew    float64    `json:"clock_skew_s"`
	Version      string     `json:"version"`
	LastError    string     `json:"last_error"`
	NextAttempt  *time.Time `json:"next_attempt"`
}

// The states of a peer.
const (
	PeerOK       = "ok"
	PeerNever    = "never"   // no exchange yet
	PeerStale    = "stale"   // the last exchange is long ago
	PeerFailing  = "failing" // the last attempt failed
	PeerDisabled = "disabled"
)

// staleAfter is how long a peer may go without an exchange before it is said.
const staleAfter = 7 * 24 * time.Hour

func (n *Node) bookPath() string { return filepath.ToSlash(n.cfg.PeersFile()) }

func (n *Node) book() (peers.Book, error) { return peers.Load(n.fs, n.bookPath()) }

// knownBook is the book as it was when this process first looked, for
// questions that are asked once a record.
func (n *Node) knownBook() (*peers.Book, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cached == nil {
		b, err := n.book()
		if err != nil {
			return nil, err
		}
		n.cached = &b
	}
	return n.cached, nil
}

// forgetBook makes the next question read the book again.
func (n *Node) forgetBook() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cached = nil
}

// HasPeers reports whether any peer is known. A book that cannot be read
// counts as one: the commands that use it say what is wrong.
func (n *Node) HasPeers() bool {
	b, err := n.book()
	return err != nil || len(b.Peers) > 0
}

// groupOf is the policy group that the book has a node in. Without a readable
// book nobody has any.
func (n *Node) groupOf(id record.NodeID) string {
	b, err := n.knownBook()
	if err != nil {
		return ""
	}
	for _, p := range b.Peers {
		if p.Node == id && p.Enabled {
			if p.Group == "" {
				return policy.Mine
			}
			return p.Group
		}
	}
	return ""
}

// nameOf is what this node calls another, empty when the book does not say.
func (n *Node) nameOf(id record.NodeID) string {
	b, err := n.knownBook()
	if err != nil {
		return ""
	}
	for _, p := range b.Peers {
		if p.Node == id {
			return p.Display()
		}
	}
	return ""
}

// machine is the node that a name on the command line means.
func (n *Node) machine(name string) (record.NodeID, error) {
	if name == "local" || strings.EqualFold(name, n.id.Name) {
		return n.id.Node, nil
	}
	b, err := n.book()
	if err != nil {
		return record.NodeID{}, err
	}
	p, err := b.Find(name)
	if err == nil && !p.Node.IsZero() {
		return p.Node, nil
	}
	if id, perr := record.ParseNode(name); perr == nil {
		return id, nil
	}
	if err == nil {
		return record.NodeID{}, fmt.Errorf("peer %s has not told its node yet: sync with it first", p.Host)
	}
	return record.NodeID{}, err
}

// Peers lists the peers with how far each is.
func (n *Node) Peers(ctx context.Context) ([]PeerInfo, error) {
	b, err := n.book()
	if err != nil {
		return nil, err
	}
	rows := []PeerInfo{}
	if len(b.Peers) == 0 {
		return rows, nil
	}
	var view index.Overview
	err = n.with(ctx, func(m *index.Memory) error {
		view, err = m.Overview()
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, p := range b.Peers {
		s, err := peers.LoadState(n.fs, n.stateDir(), p)
		if err != nil {
			return nil, err
		}
		rows = append(rows, n.peerInfo(p, s, view))
	}
	return rows, nil
}

func (n *Node) peerInfo(p peers.Peer, s peers.State, view index.Overview) PeerInfo {
	row := PeerInfo{
		Host: p.Host, Name: p.Display(), Names: append([]string{}, p.Names...), Aliases: append([]string{}, p.Aliases...),
		Group: p.Group, Via: p.Via, LastPush: moment(s.LastPush), LastPull: moment(s.LastPull), TheyLack: s.TheyLack,
		SessionsFrom: view.ByOrigin[p.Node], ClockSkew: s.ClockSkew.Seconds(), Version: s.Version,
		LastError: s.LastError, NextAttempt: moment(s.NextAttempt),
	}
	if !p.Node.IsZero() {
		row.Node = p.Node.String()
	}
	last := s.LastPush
	if s.LastPull.After(last) {
		last = s.LastPull
	}
	if !last.IsZero() {
		behind := s.BehindRecords
		row.Behind = &behind
	}
	switch {
	case !p.Enabled:
		row.State = PeerDisabled
	case s.LastError != "":
		row.State = PeerFailing
	case last.IsZero():
		row.State = PeerNever
	case n.host.Now().Sub(last) > staleAfter:
		row.State = PeerStale
	default:
		row.State = PeerOK
	}
	return row
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Contact is who answered at an address, before it is trusted.
type Contact struct {
	Host           string
	Address        string
	Fingerprint    string // of the host key; empty for a folder
	OldFingerprint string // what was pinned before, when it changes
	Node           record.NodeID
	Name           string
	Loopback       bool
}

// AddOptions describe a peer to add.
type AddOptions struct {
	Host        string
	Group       string
	Key         string // identity file; with Via "dial" the other node's public key
	Fingerprint string // expected; checked by Decide
	Via         string // "dial" for a peer that calls this node
	Rekey       bool
	// Decide is shown who answered and says whether to trust it.
	Decide func(Contact) (bool, error)
}

// ErrDeclined says that the user did not trust who answered.
var ErrDeclined = errors.New("not added")

// AddPeer makes the first contact with a peer: it learns who answers, asks
// once, and writes a row. Nothing else ever adds a peer.
func (n *Node) AddPeer(ctx context.Context, opt AddOptions) (PeerInfo, error) {
	if opt.Via == peers.ViaDial {
		return n.addCaller(ctx, opt)
	}
	addr, err := peers.ParseHost(opt.Host)
	if err != nil {
		return PeerInfo{}, err
	}
	row := peers.Peer{
		Host: opt.Host, Group: opt.Group, Via: addr.Via, Dir: "both", Enabled: true, Path: addr.Path,
		SSH: peers.SSH{User: addr.User, Port: addr.Port, Identity: opt.Key},
	}
	if addr.Via == peers.ViaDir {
		if row.Path, err = n.folder(addr.Path); err != nil {
			return PeerInfo{}, err
		}
		ok, err := opt.Decide(Contact{Host: opt.Host, Address: row.Path, Loopback: true})
		if err != nil || !ok {
			return PeerInfo{}, declined(ok, err)
		}
		return n.keepRow(ctx, row, opt)
	}
	meet, err := n.meet(ctx, &row, addr, opt)
	if err != nil {
		return PeerInfo{}, err
	}
	row.Node, row.Machine = meet.Node, meet.Name
	return n.keepRow(ctx, row, opt)
}

// declined is why a contact ends here, nil when it does not.
func declined(ok bool, err error) error {
	if err == nil && !ok {
		return ErrDeclined
	}
	return err
}

// folder makes the path of a folder absolute, so that it means the same later.
func (n *Node) folder(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(n.cfg.Home, rest)
	}
	return filepath.Abs(path)
}

// addCaller adds a peer that calls this node's listener; its key proves it.
func (n *Node) addCaller(ctx context.Context, opt AddOptions) (PeerInfo, error) {
	id, pub, err := parseNodeKey(opt.Key)
	if err != nil {
		return PeerInfo{}, err
	}
	return n.keepRow(ctx, peers.Peer{
		Host: opt.Host, Node: id, Pub: pub, Group: opt.Group, Via: peers.ViaListen, Dir: "both", Enabled: true,
	}, opt)
}

// keepRow writes the row, in place of the one of the same host.
func (n *Node) keepRow(ctx context.Context, row peers.Peer, opt AddOptions) (PeerInfo, error) {
	_, err := peers.Update(ctx, n.fs, n.bookPath(), func(b *peers.Book) error {
		old, err := b.Find(row.Host)
		switch {
		case errors.Is(err, peers.ErrUnknownPeer):
			return b.Add(row)
		case err != nil:
			return err
		case !old.Node.IsZero() && !row.Node.IsZero() && old.Node != row.Node && !opt.Rekey:
			return &peers.NodeChangedError{Host: row.Host, Was: old.Node, Now: row.Node}
		}
		row.Nick, row.Names, row.Aliases, row.Host = old.Nick, old.Names, old.Aliases, old.Host
		b.Remove(old.Host)
		return b.Add(row)
	})
	if err != nil {
		return PeerInfo{}, err
	}
	return n.peerInfo(row, peers.State{}, index.Overview{}), nil
}

// RemovePeer drops a row. History that came from the peer stays.
func (n *Node) RemovePeer(ctx context.Context, name string) (PeerInfo, error) {
	var row peers.Peer
	_, err := peers.Update(ctx, n.fs, n.bookPath(), func(b *peers.Book) (err error) {
		if row, err = b.Find(name); err == nil {
			b.Remove(row.Host)
		}
		return err
	})
	return n.peerInfo(row, peers.State{}, index.Overview{}), err
}

// RenamePeer gives a peer a name of the user's own.
func (n *Node) RenamePeer(ctx context.Context, name, nick string) (PeerInfo, error) {
	var row peers.Peer
	_, err := peers.Update(ctx, n.fs, n.bookPath(), func(b *peers.Book) (err error) {
		if row, err = b.Find(name); err != nil {
			return err
		}
		if other, err := b.Find(nick); err == nil && other.Host != row.Host {
			return fmt.Errorf("%q is a name of %s already", nick, other.Host)
		}
		for i := range b.Peers {
			if b.Peers[i].Host == row.Host {
				b.Peers[i].Nick = nick
			}
		}
		return nil
	})
	return n.peerInfo(row, peers.State{}, index.Overview{}), err
}

// learn notes which node answered at a row's host.
func (n *Node) learn(ctx context.Context, row peers.Peer, id record.NodeID, pub []byte, name string) error {
	if row.Node == id && row.Machine == name && row.Pub != "" {
		return nil
	}
	_, err := peers.Update(ctx, n.fs, n.bookPath(), func(b *peers.Book) error {
		return b.Learn(row.Host, id, base64.StdEncoding.EncodeToString(pub), name, nil)
	})
	n.forgetBook()
	return err
}

// isLoopback reports whether an address is on this machine for certain.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
