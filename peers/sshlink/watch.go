package sshlink

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// watchedConn closes a connection that stays silent for too long. Closing
// works for every kind of connection and ends reads and writes alike, where a
// deadline does not.
type watchedConn struct {
	net.Conn

	mu    sync.Mutex
	timer *time.Timer
	idle  time.Duration // that each read allows anew; 0 in the handshake
	why   error         // why it was closed
}

// watch allows limit for everything until relax.
func watch(conn net.Conn, limit time.Duration) *watchedConn {
	w := &watchedConn{Conn: conn}
	w.timer = time.AfterFunc(limit, func() { w.cut(errHandshakeTime) })
	return w
}

var (
	errHandshakeTime = &timeoutError{"the SSH handshake took too long"}
	errSilent        = &timeoutError{"the host no longer answers"}
)

// timeoutError is a net.Error and os.ErrDeadlineExceeded.
type timeoutError struct{ text string }

func (e *timeoutError) Error() string        { return e.text }
func (e *timeoutError) Timeout() bool        { return true }
func (e *timeoutError) Temporary() bool      { return true }
func (e *timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// pause stops the clock of the handshake until resume is called.
func (w *watchedConn) pause(limit, after time.Duration) (resume func()) {
	w.timer.Reset(limit)
	return func() { w.timer.Reset(after) }
}

// relax ends the handshake: from now on each read allows idle anew. Zero
// allows any silence.
func (w *watchedConn) relax(idle time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	if w.idle = idle; idle > 0 {
		w.timer = time.AfterFunc(idle, func() { w.cut(errSilent) })
	}
}

// Read implements net.Conn.
func (w *watchedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why != nil {
		return 0, w.why
	}
	if n > 0 && w.idle > 0 {
		w.timer.Reset(w.idle)
	}
	return n, err
}

// Close implements net.Conn.
func (w *watchedConn) Close() error { return w.cut(net.ErrClosed) }

// cut closes the connection for a reason that reads report. The first one
// counts.
func (w *watchedConn) cut(why error) error {
	w.mu.Lock()
	w.timer.Stop()
	w.idle = 0
	if w.why == nil {
		w.why = why
	}
	w.mu.Unlock()
	err := w.Conn.Close()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil // closed before; EOF is how a channel through a jump host says so
	}
	return err
}

// reason returns why the connection was closed, if it was.
func (w *watchedConn) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}
