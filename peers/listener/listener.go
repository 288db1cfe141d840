// Package listener is the SSH server of a node whose system has none, or whose
// user does not want to use it. It knows one subsystem, deja-sync, and no
// shell: a client is a node, known by its ed25519 key, and gets a link.
//
// Start at [Server]. The client's side is sshlink.DialNode.
package listener

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Subsystem is what a client asks for on its session channel.
const Subsystem = "deja-sync"

const (
	maxConns       = 64
	maxPerAddress  = 8
	maxAuthTries   = 3
	handshakeLimit = 10 * time.Second
	requestLimit   = 10 * time.Second       // from the handshake to the subsystem
	stopGrace      = 800 * time.Millisecond // for handlers, from the end of ctx
	acceptPause    = 50 * time.Millisecond  // after a failed accept
	pubExtension   = "deja-node-pub"
)

// Server answers nodes that dial in.
type Server struct {
	// Key is the node's key, and the host key.
	Key ed25519.PrivateKey
	// Allow says whether a key may connect at all. It is asked before the
	// client has proved to hold the key.
	Allow func(pub ed25519.PublicKey) bool
	// Handle drives one exchange. It returns soon after ctx ends or its link
	// fails; the link is closed behind it.
	Handle func(ctx context.Context, pub ed25519.PublicKey, link io.ReadWriteCloser) error
	// Log takes what goes wrong with single connections; nil drops it.
	Log *slog.Logger
}

// serving is one run of Serve.
type serving struct {
	*Server
	config *ssh.ServerConfig
	log    *slog.Logger

	mu    sync.Mutex
	conns map[net.Conn]string // to the address of the client
	wg    sync.WaitGroup
}

// Serve accepts connections until ctx ends or the listener fails. It closes
// the listener, and returns when all its connections have ended. The end of
// ctx is no error.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	config, err := s.sshConfig()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	run := &serving{Server: s, config: config, log: s.Log, conns: map[net.Conn]string{}}
	if run.log == nil {
		run.log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- ln.Close() })
	err = run.accept(ctx, ln)
	if stop() {
		err = errors.Join(err, ln.Close())
	} else if closeErr := <-stopped; !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	cancel()
	late := time.AfterFunc(stopGrace, run.closeAll)
	defer late.Stop()
	run.wg.Wait()
	return err
}

func (s *Server) sshConfig() (*ssh.ServerConfig, error) {
	signer, err := ssh.NewSignerFromKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("node key: %w", err)
	}
	config := &ssh.ServerConfig{
		MaxAuthTries:            maxAuthTries,
		ServerVersion:           "SSH-2.0-deja",
		PublicKeyAuthAlgorithms: []string{ssh.KeyAlgoED25519},
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			pub, err := nodeKey(key)
			if err != nil {
				return nil, err
			}
			if !s.Allow(pub) {
				return nil, fmt.Errorf("key %s is not allowed", ssh.FingerprintSHA256(key))
			}
			return &ssh.Permissions{Extensions: map[string]string{pubExtension: base64.StdEncoding.EncodeToString(pub)}}, nil
		},
	}
	config.AddHostKey(signer)
	return config, nil
}

func nodeKey(key ssh.PublicKey) (ed25519.PublicKey, error) {
	if key.Type() == ssh.KeyAlgoED25519 {
		if crypto, ok := key.(ssh.CryptoPublicKey); ok {
			if pub, ok := crypto.CryptoPublicKey().(ed25519.PublicKey); ok {
				return pub, nil
			}
		}
	}
	return nil, fmt.Errorf("a key of type %s is no node key", key.Type())
}

// accept hands out connections until the listener is closed. Another failure,
// such as too many open files, is waited out.
func (s *serving) accept(ctx context.Context, ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				s.quietClose(conn)
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.log.Warn("accept", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		if !s.admit(conn) {
			s.log.Warn("too many connections", "from", conn.RemoteAddr())
			s.quietClose(conn)
			continue
		}
		s.wg.Go(func() {
			defer s.forget(conn)
			if err := s.serveConn(ctx, conn); err != nil && ctx.Err() == nil {
				s.log.Info("connection ended", "from", conn.RemoteAddr(), "error", err)
			}
		})
	}
}

// admit counts a connection in, unless there are too many.
func (s *serving) admit(conn net.Conn) bool {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for _, other := range s.conns {
		if other == address {
			same++
		}
	}
	if len(s.conns) >= maxConns || same >= maxPerAddress {
		return false
	}
	s.conns[conn] = address
	return true
}

func (s *serving) forget(conn net.Conn) {
	s.quietClose(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

func (s *serving) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		s.quietClose(conn)
	}
}

// quietClose closes what may be closed already.
func (s *serving) quietClose(c io.Closer) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		s.log.Debug("close", "error", err)
	}
}
