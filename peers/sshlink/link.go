package sshlink

import (
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	maxStderr  = 8 << 10
	closeGrace = 200 * time.Millisecond // for the server to confirm the end of a channel; a peer that goes on indexing does not
)

// Link is a stream to a deja on a peer. Close lets the peer read what was
// written, and unblocks reads and writes.
type Link struct {
	channel ssh.Channel
	conn    io.Closer // closed when the server does not confirm the end
	owns    bool      // the connection serves this link alone
	head    []byte    // read while waiting for the greeting
	gone    chan struct{}
	drained chan struct{} // closed when stderr has ended

	mu     sync.Mutex
	stderr []byte
	status int // -1: not known

	once sync.Once
	err  error
}

func newLink(channel ssh.Channel, requests <-chan *ssh.Request, conn io.Closer) *Link {
	l := &Link{channel: channel, conn: conn, gone: make(chan struct{}), drained: make(chan struct{}), status: -1}
	go l.watchRequests(requests)
	go l.keepStderr(channel.Stderr())
	return l
}

// watchRequests runs until the channel is closed.
func (l *Link) watchRequests(requests <-chan *ssh.Request) {
	defer close(l.gone)
	for req := range requests {
		var exit struct{ Status uint32 }
		if req.Type == "exit-status" && ssh.Unmarshal(req.Payload, &exit) == nil {
			l.mu.Lock()
			l.status = int(exit.Status)
			l.mu.Unlock()
		}
		if req.WantReply && req.Reply(false, nil) != nil {
			continue // the channel is closing, which ends the loop
		}
	}
}

// keepStderr keeps the first of it and reads on, so that the peer never waits.
func (l *Link) keepStderr(r io.Reader) {
	defer close(l.drained)
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		l.mu.Lock()
		l.stderr = append(l.stderr, buf[:min(n, maxStderr-len(l.stderr))]...)
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Stderr returns what the peer's deja said beside the exchange, the first
// 8 KiB, without control characters.
func (l *Link) Stderr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cleanText(string(l.stderr))
}

// ExitStatus returns how the peer's deja ended, once it is known.
func (l *Link) ExitStatus() (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status, l.status >= 0
}

// Read implements io.Reader.
func (l *Link) Read(b []byte) (int, error) {
	if len(l.head) > 0 {
		n := copy(b, l.head)
		l.head = l.head[n:]
		return n, nil
	}
	return l.channel.Read(b)
}

// Write implements io.Writer.
func (l *Link) Write(b []byte) (int, error) { return l.channel.Write(b) }

// Close implements io.Closer. It fails only when the server does not confirm
// the end in time: then it loses the connection, which is what ends a
// read or write.
func (l *Link) Close() error {
	l.once.Do(func() {
		cut := time.AfterFunc(closeGrace, func() { _ = l.conn.Close() }) // l.gone follows from it
		// A channel that the other side has ended cannot be closed again, and
		// need not be.
		_, _ = l.channel.CloseWrite(), l.channel.Close()
		<-l.gone
		<-l.drained
		if !cut.Stop() {
			l.err = errUnconfirmed
		}
		if l.owns {
			l.err = errors.Join(l.err, l.conn.Close())
		}
	})
	return l.err
}

var errUnconfirmed = errors.New("the peer did not confirm the end of the exchange")
