package listener

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// serveConn lets a client in and serves its one session.
func (s *serving) serveConn(ctx context.Context, conn net.Conn) error {
	cut := context.AfterFunc(ctx, func() { s.quietClose(conn) })
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	shell, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if !cut() {
		return errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	defer s.quietClose(shell)
	raw, err := base64.StdEncoding.DecodeString(shell.Permissions.Extensions[pubExtension])
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return errors.New("the client has no node key")
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { ssh.DiscardRequests(requests) })
	lonely := time.AfterFunc(requestLimit, func() { s.quietClose(conn) })
	defer lonely.Stop()
	busy := false
	for offer := range channels {
		if offer.ChannelType() != "session" {
			s.reject(offer, ssh.UnknownChannelType, "only sessions")
			continue
		}
		if busy {
			s.reject(offer, ssh.ResourceShortage, "one session for each connection")
			continue
		}
		busy = true
		wg.Go(func() {
			defer s.quietClose(shell)
			if err := s.serveSession(ctx, ed25519.PublicKey(raw), shell, offer, lonely); err != nil {
				s.log.Info("session ended", "from", conn.RemoteAddr(), "error", err)
			}
		})
	}
	return nil
}

func (s *serving) reject(offer ssh.NewChannel, reason ssh.RejectionReason, text string) {
	if err := offer.Reject(reason, text); err != nil {
		s.log.Debug("reject", "error", err)
	}
}

// serveSession waits for the subsystem and hands the channel to Handle. The
// connection ends with its session.
func (s *serving) serveSession(ctx context.Context, pub ed25519.PublicKey, conn io.Closer, offer ssh.NewChannel, lonely *time.Timer) error {
	channel, requests, err := offer.Accept()
	if err != nil {
		return err
	}
	link := &channelLink{Channel: channel, conn: conn, gone: make(chan struct{})}
	defer s.quietClose(link)
	asked := make(chan bool, 1)
	go func() {
		defer close(link.gone)
		for req := range requests {
			ok := req.Type == "subsystem" && isDejaSync(req.Payload)
			if ok {
				select {
				case asked <- true:
				default:
					ok = false // a second one
				}
			}
			if req.WantReply {
				if err := req.Reply(ok, nil); err != nil {
					s.log.Debug("reply", "error", err)
				}
			}
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-link.gone:
		return errors.New("the client asked for nothing")
	case <-time.After(requestLimit):
		return errors.New("the client did not ask for " + Subsystem)
	case <-asked:
	}
	lonely.Stop()
	if err := s.Handle(ctx, pub, link); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	return nil
}

func isDejaSync(payload []byte) bool {
	var want struct{ Name string }
	return ssh.Unmarshal(payload, &want) == nil && want.Name == Subsystem
}

// closeGrace is how long a client may take to answer the end of a channel.
const closeGrace = 500 * time.Millisecond

// channelLink is a channel whose Close ends reads and writes even when the
// client no longer answers.
type channelLink struct {
	ssh.Channel
	conn io.Closer
	gone chan struct{} // closed when the channel is
	once sync.Once
	err  error
}

// Close ends the channel after what was written. A client that does not
// confirm loses its connection.
func (l *channelLink) Close() error {
	l.once.Do(func() {
		cut := time.AfterFunc(closeGrace, func() { _ = l.conn.Close() }) // l.gone follows from it
		// A channel that the client has ended cannot be closed again, and need
		// not be.
		_, _ = l.Channel.CloseWrite(), l.Channel.Close()
		<-l.gone
		if !cut.Stop() {
			l.err = errors.New("the client did not confirm the end of the exchange")
		}
	})
	return l.err
}
