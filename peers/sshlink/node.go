package sshlink

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
)

// nodeSubsystem is what a listener of deja serves.
const nodeSubsystem = "deja-sync"

// DialNode connects to the listener of another deja. The key of this node
// authenticates it; check decides about the key of the other one, which is
// returned with the link. The end of ctx closes the link.
func DialNode(ctx context.Context, addr string, key ed25519.PrivateKey, check func(pub ed25519.PublicKey) error) (*Link, ed25519.PublicKey, error) {
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, nil, err
	}
	dialCtx, cancel := context.WithTimeout(ctx, defaultConnect)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(dialCtx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	c := &Conn{target: &target{typed: addr, alive: defaultAlive}, log: discardLog, wire: watch(raw, handshakeLimit)}
	c.stop = context.AfterFunc(ctx, func() { _ = c.wire.cut(context.Cause(ctx)) }) // reads report the cause
	var pub ed25519.PublicKey
	var refused error
	config := &ssh.ClientConfig{
		User: "deja", ClientVersion: clientVersion, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if pub, refused = nodePublic(key); refused == nil {
				refused = check(pub)
			}
			return refused
		},
	}
	link, err := c.nodeLink(addr, config)
	if err == nil {
		return link, pub, nil
	}
	if refused != nil {
		err = refused
	} else if why := c.wire.reason(); why != nil && !errors.Is(why, net.ErrClosed) {
		err = why
	}
	return nil, nil, errors.Join(fmt.Errorf("%s: %w", addr, err), c.Close())
}

func nodePublic(key ssh.PublicKey) (ed25519.PublicKey, error) {
	if holder, ok := key.(ssh.CryptoPublicKey); ok {
		if pub, ok := holder.CryptoPublicKey().(ed25519.PublicKey); ok {
			return pub, nil
		}
	}
	return nil, fmt.Errorf("a key of type %s is no node key", key.Type())
}

// nodeLink shakes hands and asks for the subsystem within the handshake's time.
func (c *Conn) nodeLink(addr string, config *ssh.ClientConfig) (*Link, error) {
	conn, channels, requests, err := ssh.NewClientConn(c.wire, addr, config)
	if err != nil {
		return nil, err
	}
	c.client = ssh.NewClient(conn, channels, requests)
	channel, more, err := c.client.OpenChannel("session", nil)
	if err != nil {
		return nil, err
	}
	link := newLink(channel, more, c)
	link.owns = true
	ok, err := channel.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{nodeSubsystem}))
	if err == nil && !ok {
		err = errors.New("the server is no deja listener")
	}
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	c.wire.relax(defaultAlive * defaultAliveMost)
	c.beat(defaultAlive)
	return link, nil
}
