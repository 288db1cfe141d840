package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/peers"
	"github.com/deja-node/deja/peers/mailbox"
	"github.com/deja-node/deja/peers/sshlink"
	"github.com/deja-node/deja/syncproto"
)

// mirror exchanges with a mailbox: a folder here, or on an SFTP server.
func (n *Node) mirror(ctx context.Context, row peers.Peer, opt SyncOptions) (rep syncproto.Report, err error) {
	box, closeBox, err := n.openBox(ctx, row, nil)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, closeBox()) }()
	state, err := n.boxState(row)
	if err != nil {
		return rep, err
	}
	store, err := n.store()
	if err != nil {
		return rep, err
	}
	cfg := n.session(row.Node, opt)
	rep, err = syncproto.Mirror(ctx, box, store, syncproto.MirrorConfig{Key: cfg.Key, Name: row.Host, Mode: cfg.Mode, Now: cfg.Now}, state)
	err = errors.Join(err, store.Close())
	if !opt.DryRun {
		err = errors.Join(err, n.saveBoxState(row, state))
	}
	return rep, err
}

// openBox opens the mailbox of a row.
func (n *Node) openBox(ctx context.Context, row peers.Peer, decide func(sshlink.HostKey) (bool, error)) (box *mailbox.Box, closeBox func() error, err error) {
	name := mailbox.Options{Name: row.Host, Tag: n.id.Node.Short()}
	if row.Via == peers.ViaDir {
		b, err := mailbox.Dir(row.Path, name)
		if err != nil {
			return nil, nil, err
		}
		return b, b.Close, nil
	}
	addr, err := peers.ParseHost(row.Host)
	if err != nil {
		return nil, nil, err
	}
	conn, err := sshlink.Dial(ctx, n.sshOptions(row, addr, decide))
	if err != nil {
		return nil, nil, err
	}
	client, err := conn.SFTP()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: sftp: %w", row.Host, err), conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // closing is how a library without contexts is cancelled
	return mailbox.SFTP(client, addr.Path, name), func() error {
		stop()
		return errors.Join(client.Close(), conn.Close())
	}, nil
}

// meetBox makes the first contact with a mailbox on a server.
func (n *Node) meetBox(ctx context.Context, row *peers.Peer, addr peers.Address, decide func(sshlink.HostKey) (bool, error)) error {
	asked := false
	box, closeBox, err := n.openBox(ctx, *row, func(k sshlink.HostKey) (bool, error) {
		asked = true
		return decide(k)
	})
	if err != nil {
		return err
	}
	_, err = box.List(ctx, "")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the first sync makes the folder
	}
	if err == nil && !asked {
		var ok bool
		ok, err = decide(sshlink.HostKey{Host: addr.HostPort(22)})
		err = declined(ok, err)
	}
	return errors.Join(err, closeBox())
}

func (n *Node) boxStatePath(row peers.Peer) string {
	return filepath.ToSlash(filepath.Join(n.cfg.StateDir(), "peers", peerKey(row)+".box.json"))
}

const maxBoxState = 16 << 20

// boxState is what is remembered of a mailbox. Losing it costs reads only, so
// a damaged one counts as none.
func (n *Node) boxState(row peers.Peer) (*syncproto.BoxState, error) {
	s := &syncproto.BoxState{}
	data, err := vfs.ReadFile(n.fs, n.boxStatePath(row), maxBoxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, s) != nil {
		return &syncproto.BoxState{}, nil
	}
	return s, nil
}

func (n *Node) saveBoxState(row peers.Peer, s *syncproto.BoxState) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return vfs.WriteFile(n.fs, n.boxStatePath(row), data)
}
