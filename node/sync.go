package node

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/peers"
	"github.com/deja-node/deja/peers/listener"
	"github.com/deja-node/deja/peers/sshlink"
	"github.com/deja-node/deja/syncproto"
)

// SyncOptions say with whom and how to exchange.
type SyncOptions struct {
	Names    []string // of peers; empty means all that are enabled
	Push     bool
	Pull     bool
	DryRun   bool
	Recent   time.Time
	Patience time.Duration // for a peer that cannot be reached; 0 takes two minutes
}

// Outcome says how the exchange with one peer went.
type Outcome struct {
	Host   string
	Node   record.NodeID
	Name   string
	State  string
	Report syncproto.Report
	Took   time.Duration
	Err    error
	Hint   string
}

// The states of an outcome.
const (
	StateSynced = "ok"
	StateBusy   = "busy" // another sync with the peer is under way
	StateError  = "failed"
)

const (
	defaultPatience = 2 * time.Minute
	syncWorkers     = 4
	startLimit      = 45 * time.Second // for the far side's deja to answer
)

// Sync exchanges with peers, several at a time, and makes searchable what
// came. Every peer has an outcome; one that fails delays and fails no other.
func (n *Node) Sync(ctx context.Context, opt SyncOptions) ([]Outcome, error) {
	if n.cfg.NoRedact {
		return nil, ErrNoRedact
	}
	if n.cfg.Offline {
		return nil, errors.New("DEJA_OFFLINE is set: nothing is exchanged")
	}
	rows, err := n.rows(opt.Names)
	if err != nil {
		return nil, err
	}
	if _, err := n.Refresh(ctx, RefreshOptions{Inline: true}); err != nil && !errors.Is(err, index.ErrBusy) {
		return nil, err
	}
	outcomes := make([]Outcome, len(rows))
	var g errgroup.Group
	g.SetLimit(syncWorkers)
	for i, row := range rows {
		g.Go(func() error {
			outcomes[i] = n.syncPeer(ctx, row, opt)
			return nil
		})
	}
	_ = g.Wait() //nolint:errcheck // every peer carries its own error
	return outcomes, n.catchUp(context.WithoutCancel(ctx))
}

// rows are the peers that names mean, or all that this node calls.
func (n *Node) rows(names []string) ([]peers.Peer, error) {
	b, err := n.book()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(b.Peers), func(p peers.Peer) bool { return !p.Enabled || p.Via == peers.ViaListen }), nil
	}
	var rows []peers.Peer
	for _, name := range names {
		p, err := b.Find(name)
		if err != nil {
			return nil, err
		}
		if p.Via == peers.ViaListen {
			return nil, fmt.Errorf("peer %s calls this node: sync from there", p.Host)
		}
		if !slices.ContainsFunc(rows, func(q peers.Peer) bool { return q.Host == p.Host }) {
			rows = append(rows, p)
		}
	}
	return rows, nil
}

// syncPeer exchanges with one peer, trying again while that can help.
func (n *Node) syncPeer(ctx context.Context, row peers.Peer, opt SyncOptions) Outcome {
	out := Outcome{Host: row.Host, Node: row.Node, Name: row.Display(), State: StateSynced}
	start := n.host.Now()
	lock, err := n.lockPeer(row)
	if errors.Is(err, vfs.ErrLocked) {
		out.State = StateBusy
		return out
	}
	if err == nil {
		err = n.retry(ctx, opt, func() (err error) {
			out.Report, err = n.exchangeOnce(ctx, row, opt)
			return err
		})
		err = errors.Join(err, lock.Close())
	}
	out.Took = n.host.Now().Sub(start)
	if id := out.Report.Peer.Node; !id.IsZero() {
		out.Node = id
	}
	if err != nil {
		out.State, out.Err, out.Hint = StateError, err, hint(row, err)
	}
	if !opt.DryRun {
		out.Err = errors.Join(out.Err, n.remember(row, opt, out))
	}
	return out
}

// lockPeer keeps two syncs with one peer apart.
func (n *Node) lockPeer(row peers.Peer) (io.Closer, error) {
	dir := path.Join(n.stateDir(), "peers")
	if err := n.fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	return n.fs.Lock(path.Join(dir, peerKey(row)+".lock"))
}

// peerKey names the files of a peer that are this node's own: a hash, since a
// host may hold anything and file systems fold case.
func peerKey(row peers.Peer) string {
	h := sha256.Sum256([]byte(row.Host))
	return hex.EncodeToString(h[:8])
}

// retry tries again with growing pauses. What cannot get better by waiting is
// not tried again, authentication least of all.
func (n *Node) retry(ctx context.Context, opt SyncOptions, try func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, time.Minute
	wait.MaxElapsedTime = opt.Patience
	if wait.MaxElapsedTime == 0 {
		wait.MaxElapsedTime = defaultPatience
	}
	var last error
	err := backoff.Retry(func() error {
		last = try()
		if last != nil && (permanent(last) || ctx.Err() != nil) {
			return backoff.Permanent(last)
		}
		return last
	}, backoff.WithContext(wait, ctx))
	if err != nil && last != nil {
		return last // what failed says more than that time ran out
	}
	return err
}

// permanent reports whether only a person can mend it.
func permanent(err error) bool {
	if r, ok := errors.AsType[*syncproto.Refusal](err); ok {
		return r.Permanent()
	}
	if _, ok := errors.AsType[*sshlink.HostKeyError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*sshlink.AuthError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*sshlink.NoBinError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*peers.NodeChangedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	return !errors.Is(err, syncproto.ErrCut) && !isNetwork(err) && !errors.Is(err, index.ErrBusy)
}

func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// hint is the command that helps, empty when none is known.
func hint(row peers.Peer, err error) string {
	if e, ok := errors.AsType[*sshlink.HostKeyError](err); ok {
		if e.Kind == sshlink.KeyChanged {
			return "deja peer add --rekey " + row.Host
		}
		return "deja peer add " + row.Host
	}
	if _, ok := errors.AsType[*peers.NodeChangedError](err); ok {
		return "deja peer remove " + row.Host
	}
	return "deja doctor " + row.Host
}

// remember stores how the exchange went. Times move only when both sides have
// said what they got.
func (n *Node) remember(row peers.Peer, opt SyncOptions, out Outcome) error {
	s, err := peers.LoadState(n.fs, n.stateDir(), row)
	if err != nil {
		return err
	}
	now := n.host.Now().UTC().Truncate(time.Second)
	if out.Err != nil {
		if s.LastError == "" {
			s.SinceError = now
		}
		s.LastError = out.Err.Error()
		s.Failures++
		s.NextAttempt = now.Add(peers.Backoff(s.Failures, n.random))
		return peers.SaveState(n.fs, n.stateDir(), row, s)
	}
	r := out.Report
	if !opt.Pull {
		s.LastPush = now
	}
	if !opt.Push {
		s.LastPull = now
	}
	lack := uint64(0)
	if r.TheyLack > r.Sent.Records+r.Sent.Withheld {
		lack = r.TheyLack - r.Sent.Records - r.Sent.Withheld
	}
	s.TheyLack, s.BehindRecords = &lack, r.Behind-min(r.Behind, r.Received.Records+r.Received.Withheld)
	s.LastError, s.Failures, s.SinceError, s.NextAttempt = "", 0, time.Time{}, time.Time{}
	s.Version, s.Acked = r.Peer.App, r.Acked
	if !r.Peer.Clock.IsZero() {
		s.ClockSkew = r.Peer.Clock.Sub(n.host.Now()).Round(time.Second)
	}
	s.BytesIn += uint64(r.BytesIn)
	s.BytesOut += uint64(r.BytesOut)
	return peers.SaveState(n.fs, n.stateDir(), row, s)
}

// exchangeOnce is one try.
func (n *Node) exchangeOnce(ctx context.Context, row peers.Peer, opt SyncOptions) (syncproto.Report, error) {
	if row.Via == peers.ViaDir || row.Via == peers.ViaSFTP {
		return n.mirror(ctx, row, opt)
	}
	line, err := n.connect(ctx, row, nil)
	if err != nil {
		return syncproto.Report{}, err
	}
	store, err := n.store()
	if err != nil {
		return syncproto.Report{}, errors.Join(err, line.Close())
	}
	s, err := syncproto.New(n.session(row.Node, opt), learning{store, n, row})
	if err != nil {
		return syncproto.Report{}, errors.Join(err, line.Close(), store.Close())
	}
	rep, err := syncproto.Run(ctx, line, s, syncproto.Timing{})
	if err != nil {
		err = explain(err, line.stderr())
	}
	return rep, errors.Join(err, store.Close())
}

// explain adds what the far side printed to an error that it may explain.
func explain(err error, stderr string) error {
	if stderr = strings.TrimSpace(stderr); stderr != "" {
		return fmt.Errorf("%w (the far side says: %.200s)", err, stderr)
	}
	return err
}

func (n *Node) session(expect record.NodeID, opt SyncOptions) syncproto.Config {
	mode := syncproto.Both
	switch {
	case opt.DryRun:
		mode = syncproto.Plan
	case opt.Push:
		mode = syncproto.Push
	case opt.Pull:
		mode = syncproto.Pull
	}
	return syncproto.Config{
		Key: n.id.Key, Name: n.id.Name, App: "deja " + n.host.Version, Expect: expect, Mode: mode, Recent: opt.Recent, Now: n.host.Now(),
	}
}

// store prepares the memory for one exchange.
func (n *Node) store() (*index.Exchange, error) {
	return index.NewExchange(n.indexOptions(), n.id.Names, n.id.Card)
}

// learning notes on a row who answered, once the peer has proved it.
type learning struct {
	*index.Exchange
	n   *Node
	row peers.Peer
}

// Admit implements syncproto.Store.
func (l learning) Admit(ctx context.Context, p syncproto.Peer) (syncproto.Terms, error) {
	if err := l.n.learn(ctx, l.row, p.Node, p.Pub, p.Name); err != nil {
		return syncproto.Terms{}, err
	}
	return l.Exchange.Admit(ctx, p)
}

// line is an open stream to a peer, with what is behind it.
type line struct {
	syncproto.Link
	close       func() error
	stderr      func() string
	fingerprint string
	bin         string
	pub         ed25519.PublicKey
}

// Close closes the stream and what carries it.
func (l *line) Close() error { return errors.Join(l.Link.Close(), l.close()) }

// connect opens a stream to the deja on a peer.
func (n *Node) connect(ctx context.Context, row peers.Peer, decide func(sshlink.HostKey) (bool, error)) (*line, error) {
	addr, err := peers.ParseHost(row.Host)
	if err != nil {
		return nil, err
	}
	if row.Via == peers.ViaDial {
		return n.connectNode(ctx, addr, row, decide)
	}
	conn, err := sshlink.Dial(ctx, n.sshOptions(row, addr, decide))
	if err != nil {
		return nil, err
	}
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	link, bin, err := conn.Exchange(startCtx, row.SSH.Bin)
	if missing, ok := errors.AsType[*sshlink.NoBinError](err); ok && row.SSH.Bin != "" {
		link, bin, err = conn.Exchange(startCtx, "")
		if err != nil {
			err = errors.Join(missing, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &line{Link: link, close: conn.Close, stderr: link.Stderr, fingerprint: conn.Fingerprint(), bin: bin}, nil
}

func (n *Node) sshOptions(row peers.Peer, addr peers.Address, decide func(sshlink.HostKey) (bool, error)) sshlink.Options {
	return sshlink.Options{
		Host: addr.Host, User: or(row.SSH.User, addr.User), Port: max(row.SSH.Port, addr.Port), Identity: row.SSH.Identity, Strict: row.SSH.Strict,
		Home: n.cfg.Home, UserName: n.host.User, Getenv: n.cfg.Getenv,
		KnownHosts: []string{n.cfg.KnownHostsFile()}, Pin: row.SSH.HostKey, Decide: decide, Prompt: n.host.Prompt, Run: n.host.Run, Log: n.host.Log,
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// connectNode opens a stream to a node's own listener, whose host key is the
// node's key.
func (n *Node) connectNode(ctx context.Context, addr peers.Address, row peers.Peer, decide func(sshlink.HostKey) (bool, error)) (*line, error) {
	var shown string
	link, pub, err := sshlink.DialNode(ctx, addr.HostPort(0), n.id.Key, func(pub ed25519.PublicKey) error {
		key, err := ssh.NewPublicKey(pub)
		if err != nil {
			return err
		}
		shown = ssh.FingerprintSHA256(key)
		id := record.NodeOf(pub)
		if !row.Node.IsZero() && id != row.Node {
			return &peers.NodeChangedError{Host: row.Host, Was: row.Node, Now: id}
		}
		if decide == nil {
			if row.Node.IsZero() {
				return fmt.Errorf("node at %s is unknown: deja peer add %s", row.Host, row.Host)
			}
			return nil
		}
		ok, err := decide(sshlink.HostKey{Host: row.Host, Type: key.Type(), Fingerprint: shown})
		if err != nil || ok {
			return err
		}
		return ErrDeclined
	})
	if err != nil {
		return nil, err
	}
	return &line{Link: link, close: func() error { return nil }, stderr: link.Stderr, fingerprint: shown, pub: pub}, nil
}

// meet makes the first contact: it asks once whether to trust who answers,
// at the host key when that is unknown, else when the node has proved itself.
func (n *Node) meet(ctx context.Context, row *peers.Peer, addr peers.Address, opt AddOptions) (syncproto.Peer, error) {
	contact := Contact{Host: opt.Host, Address: addr.HostPort(22), Loopback: isLoopback(addr.Host)}
	if b, err := n.book(); err == nil {
		if old, err := b.Find(opt.Host); err == nil && old.SSH.HostKey != "" {
			contact.OldFingerprint = old.SSH.HostKey
		}
	}
	asked := false
	decide := func(key sshlink.HostKey) (bool, error) {
		asked = true
		contact.Fingerprint = key.Fingerprint
		return opt.Decide(contact)
	}
	if addr.Via == peers.ViaSFTP {
		return syncproto.Peer{}, n.meetBox(ctx, row, addr, decide)
	}
	l, err := n.connect(ctx, *row, decide)
	if err != nil {
		return syncproto.Peer{}, err
	}
	cfg := n.session(record.NodeID{}, SyncOptions{})
	cfg.Mode = syncproto.Probe
	store, err := n.store()
	if err != nil {
		return syncproto.Peer{}, errors.Join(err, l.Close())
	}
	s, err := syncproto.New(cfg, guest{Exchange: store, n: n, probe: true})
	if err != nil {
		return syncproto.Peer{}, errors.Join(err, l.Close(), store.Close())
	}
	rep, err := syncproto.Run(ctx, l, s, syncproto.Timing{})
	if err = errors.Join(err, store.Close()); err != nil && rep.Peer.Node.IsZero() {
		return rep.Peer, explain(err, l.stderr())
	}
	contact.Fingerprint, contact.Node, contact.Name = l.fingerprint, rep.Peer.Node, rep.Peer.Name
	if !asked {
		ok, err := opt.Decide(contact)
		if err != nil || !ok {
			return rep.Peer, declined(ok, err)
		}
	}
	row.SSH.Bin = l.bin
	if row.Via == peers.ViaSSH {
		row.SSH.HostKey = l.fingerprint
	}
	row.Pub = base64.StdEncoding.EncodeToString(rep.Peer.Pub)
	return rep.Peer, nil
}

// catchUp makes searchable what exchanges have added to the log.
func (n *Node) catchUp(ctx context.Context) error {
	m, err := index.Open(n.indexOptions(), n.nameOf)
	if err == nil {
		behind, berr := m.Behind()
		if err = errors.Join(berr, m.Close()); err == nil && !behind {
			return nil
		}
	}
	w, err := index.OpenWriter(ctx, n.indexOptions())
	if err != nil {
		return err
	}
	return errors.Join(w.Publish(ctx), w.Close())
}

// Serve is the far side of one exchange on a stream that a login to this
// account opened: whoever may log in may exchange as this account's node, and
// is kept in the book as one of the user's own machines.
func (n *Node) Serve(ctx context.Context, link syncproto.Link) error {
	if n.cfg.NoRedact {
		return errors.Join(ErrNoRedact, link.Close())
	}
	return n.serve(ctx, link, func(x *index.Exchange) syncproto.Store { return guest{Exchange: x, n: n} })
}

func (n *Node) serve(ctx context.Context, link syncproto.Link, as func(*index.Exchange) syncproto.Store) error {
	if _, err := n.Refresh(ctx, RefreshOptions{Inline: true, Budget: inlineBudget}); err != nil && !errors.Is(err, index.ErrBusy) {
		n.host.Log.WarnContext(ctx, "serving what was read before", "error", err.Error())
	}
	store, err := n.store()
	if err != nil {
		return errors.Join(err, link.Close())
	}
	cfg := n.session(record.NodeID{}, SyncOptions{})
	cfg.Server = true
	s, err := syncproto.New(cfg, as(store))
	if err != nil {
		return errors.Join(err, link.Close(), store.Close())
	}
	_, err = syncproto.Run(ctx, link, s, syncproto.Timing{})
	err = errors.Join(err, store.Close())
	if store.Taken() {
		err = errors.Join(err, n.catchUp(context.WithoutCancel(ctx)))
	}
	return err
}

// guest admits a node that came in by a login, and keeps it in the book. A
// probe is answered by anybody who is asked.
type guest struct {
	*index.Exchange
	n     *Node
	probe bool
}

// Admit implements syncproto.Store.
func (g guest) Admit(ctx context.Context, p syncproto.Peer) (syncproto.Terms, error) {
	if g.probe {
		return syncproto.Terms{}, nil
	}
	if err := g.n.keepGuest(ctx, p); err != nil {
		return syncproto.Terms{}, err
	}
	return g.Exchange.Admit(ctx, p)
}

func (n *Node) keepGuest(ctx context.Context, p syncproto.Peer) error {
	if p.Node == n.id.Node || n.groupOf(p.Node) != "" {
		return nil
	}
	_, err := peers.Update(ctx, n.fs, n.bookPath(), func(b *peers.Book) error {
		if slices.ContainsFunc(b.Peers, func(q peers.Peer) bool { return q.Node == p.Node }) {
			return nil // known and disabled: the policy decides
		}
		host := p.Name
		if _, err := b.Find(host); err == nil || host == "" {
			host = p.Name + "~" + p.Node.Short()
		}
		return b.Add(peers.Peer{
			Host: host, Node: p.Node, Pub: base64.StdEncoding.EncodeToString(p.Pub), Machine: p.Name,
			Group: policy.Mine, Via: peers.ViaListen, Dir: "both", Enabled: true,
		})
	})
	n.forgetBook()
	return err
}

// Listen serves peers that dial this node's own listener until ctx ends. Only
// nodes in the book are let in.
func (n *Node) Listen(ctx context.Context, ln net.Listener) error {
	if n.cfg.NoRedact {
		return errors.Join(ErrNoRedact, ln.Close())
	}
	srv := &listener.Server{
		Key: n.id.Key,
		Allow: func(pub ed25519.PublicKey) bool {
			n.forgetBook()
			return n.groupOf(record.NodeOf(pub)) != ""
		},
		Handle: func(ctx context.Context, pub ed25519.PublicKey, link io.ReadWriteCloser) error {
			return n.serve(ctx, link, func(x *index.Exchange) syncproto.Store { return caller{x, record.NodeOf(pub)} })
		},
		Log: n.host.Log,
	}
	return srv.Serve(ctx, ln)
}

// caller admits the node whose key opened the connection and no other.
type caller struct {
	*index.Exchange
	node record.NodeID
}

// Admit implements syncproto.Store.
func (c caller) Admit(ctx context.Context, p syncproto.Peer) (syncproto.Terms, error) {
	if p.Node != c.node {
		return syncproto.Terms{}, &syncproto.Refusal{Code: syncproto.CodeAuth, Msg: "the connection belongs to another node"}
	}
	return c.Exchange.Admit(ctx, p)
}

// parseNodeKey reads a node's public key as `deja node id` prints it.
func parseNodeKey(line string) (record.NodeID, string, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return record.NodeID{}, "", fmt.Errorf("node key %.60q: %w: pass the line that deja node id prints", line, err)
	}
	crypto, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return record.NodeID{}, "", fmt.Errorf("node key %.60q is no ed25519 key", line)
	}
	pub, ok := crypto.CryptoPublicKey().(ed25519.PublicKey)
	if !ok {
		return record.NodeID{}, "", fmt.Errorf("node key %.60q is no ed25519 key", line)
	}
	return record.NodeOf(pub), base64.StdEncoding.EncodeToString(pub), nil
}

// random is a number from 0 to 1 for the jitter of pauses.
func (n *Node) random() float64 {
	var b [8]byte
	if _, err := io.ReadFull(n.host.Random, b[:]); err != nil {
		return 0.5
	}
	v := uint64(0)
	for _, c := range b[:6] {
		v = v<<8 | uint64(c)
	}
	return float64(v) / float64(1<<48)
}
