package syncproto

import (
	"io"
	"sync"
)

// pipeBuffer is what one direction of a [Pipe] holds before a Write waits.
const pipeBuffer = 256 << 10

// Pipe joins two sides inside one process: two links, each reading what the
// other writes. Closing either end ends both directions; what was written
// before can still be read.
func Pipe() (client, server Link) {
	up, down := newHalf(), newHalf()
	return &pipeEnd{r: down, w: up}, &pipeEnd{r: up, w: down}
}

type pipeEnd struct{ r, w *half }

func (p *pipeEnd) Read(b []byte) (int, error)  { return p.r.read(b) }
func (p *pipeEnd) Write(b []byte) (int, error) { return p.w.write(b) }

func (p *pipeEnd) Close() error {
	p.r.close(true)
	p.w.close(false)
	return nil
}

// half is one direction: a bounded buffer.
type half struct {
	mu     sync.Mutex // guards the rest
	cond   *sync.Cond
	buf    []byte
	closed bool // nothing more is written
	gone   bool // nobody reads any more
}

func newHalf() *half {
	h := &half{}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 && !h.closed && !h.gone && len(b) > 0 {
		h.cond.Wait()
	}
	switch {
	case h.gone:
		return 0, io.ErrClosedPipe
	case len(h.buf) == 0 && h.closed:
		return 0, io.EOF
	}
	n := copy(b, h.buf)
	h.buf = h.buf[:copy(h.buf, h.buf[n:])]
	h.cond.Broadcast()
	return n, nil
}

func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := 0
	for done < len(b) {
		for len(h.buf) >= pipeBuffer && !h.closed && !h.gone {
			h.cond.Wait()
		}
		if h.closed || h.gone {
			return done, io.ErrClosedPipe
		}
		n := min(len(b)-done, pipeBuffer-len(h.buf))
		h.buf = append(h.buf, b[done:done+n]...)
		done += n
		h.cond.Broadcast()
	}
	return done, nil
}

// close ends the direction: for its reader when reading, else for its writer.
func (h *half) close(reading bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reading {
		h.gone = true
	} else {
		h.closed = true
	}
	h.cond.Broadcast()
}
