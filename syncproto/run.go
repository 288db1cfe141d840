package syncproto

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Link is a duplex stream of bytes to a peer. Close must unblock a Read and a
// Write that are under way, and let the peer read what was written before.
type Link interface {
	io.Reader
	io.Writer
	io.Closer
}

// Timing says how long a side waits. A zero duration stands for its default.
type Timing struct {
	Greet  time.Duration // until the magic line; 10 s
	Auth   time.Duration // from there until the peer is known and has said what it has; 30 s
	Idle   time.Duration // without a whole frame and with less than 4 KiB a second; 2 min
	Stall  time.Duration // without any frame but PING; 10 min
	Ping   time.Duration // of silence before a PING is written; 30 s
	Linger time.Duration // for the peer to read why it was refused; 2 s
}

// slowest is the progress that keeps a link from being idle, in bytes a second.
const slowest = 4 << 10

func (t Timing) filled() Timing {
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&t.Greet, 10 * time.Second},
		{&t.Auth, 30 * time.Second},
		{&t.Idle, 2 * time.Minute},
		{&t.Stall, 10 * time.Minute},
		{&t.Ping, 30 * time.Second},
		{&t.Linger, 2 * time.Second},
	} {
		if *f.d == 0 {
			*f.d = f.def
		}
	}
	return t
}

// Run drives a session over a link until both sides are done, the link breaks
// or ctx ends, and closes the link. It reads and writes at the same time, so
// that two sides with full buffers cannot wait for each other. What was
// accepted is durable when it returns, whatever the error.
func Run(ctx context.Context, link Link, s *Session, t Timing) (Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &driver{
		s: s, link: link, timing: t.filled(), cancel: cancel,
		wake: make(chan struct{}, 1), readDone: make(chan struct{}),
	}
	d.close = sync.OnceValue(link.Close)
	stop := context.AfterFunc(ctx, func() { d.close() }) //nolint:errcheck // the cause is reported
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { d.readErr = d.read(ctx) })
	wg.Go(func() { d.writeErr = d.write(ctx) })
	wg.Wait()
	done := s.err == nil && s.Done()
	d.close() //nolint:errcheck // both sides have said goodbye, or the outcome says what broke
	err := errors.Join(d.outcome(ctx, done), s.Finish(context.WithoutCancel(ctx)))
	return s.Report(), err
}

type driver struct {
	link   Link
	timing Timing
	cancel context.CancelCauseFunc
	close  func() error

	mu sync.Mutex // guards s; never held while reading or writing the link
	s  *Session

	wake     chan struct{} // the session may have something to write
	readDone chan struct{} // nothing more will be read
	readErr  error
	writeErr error
}

// outcome picks the error that explains the others.
func (d *driver) outcome(ctx context.Context, done bool) error {
	if done {
		return nil
	}
	if d.s.err != nil {
		return d.s.err
	}
	if pe, ok := errors.AsType[*PreambleError](d.readErr); ok {
		return pe
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range []error{d.readErr, d.writeErr} {
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %w", ErrCut, err)
		}
	}
	return ErrCut
}

// read takes frames until the session is done or the link ends. After an error
// of the session it reads on and drops what comes, so that the peer, which may
// be writing, gets to read why.
func (d *driver) read(ctx context.Context) error {
	defer close(d.readDone)
	idle := d.deadline(d.timing.Greet, "no answer came")
	stall := d.deadline(d.timing.Stall, "nothing was exchanged")
	defer idle.Stop()
	defer stall.Stop()
	alive := func() {
		if d.open() {
			idle.Reset(d.timing.Idle)
		}
	}
	src := bufio.NewReaderSize(&progress{r: d.link, step: int64(d.timing.Idle/time.Second) * slowest, made: alive}, 64<<10)
	if err := d.greet(src); err != nil {
		if pe, ok := errors.AsType[*PreambleError](err); ok && ctx.Err() != nil {
			pe.Err = context.Cause(ctx) // why the link was closed
		}
		d.cancel(err)
		return err
	}
	idle.Reset(d.timing.Auth)
	frames := NewFrameReader(src)
	for {
		f, err := frames.Next(d.limit)
		if err != nil {
			return d.lost(err)
		}
		if f.Type != TypePing {
			stall.Stop() // what the store takes is not the peer's delay
		}
		if d.open() {
			idle.Stop()
		}
		if done := d.receive(ctx, f); done {
			return nil
		}
		alive()
		if f.Type != TypePing {
			stall.Reset(d.timing.Stall)
		}
	}
}

// deadline ends the exchange when nobody stops or resets it in time.
func (d *driver) deadline(after time.Duration, what string) *time.Timer {
	return time.AfterFunc(after, func() { d.cancel(fmt.Errorf("%w: %s in time", ErrCut, what)) })
}

// greet reads the magic line of a server.
func (d *driver) greet(src *bufio.Reader) error {
	if d.s.cfg.Server {
		return nil
	}
	nonce, noise, err := ReadPreamble(src)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.s.Greet(nonce, noise)
	return nil
}

func (d *driver) limit(t Type) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.Limit(t)
}

func (d *driver) open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.phase == open
}

// receive hands a frame to the session. It reports whether reading is over.
func (d *driver) receive(ctx context.Context, f Frame) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.s.Receive(ctx, f) //nolint:errcheck // the session keeps it, and the peer is told
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return d.s.Done() && d.s.err == nil
}

// lost ends reading after an error of the link, or of the bytes on it.
func (d *driver) lost(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, ErrFrame) && d.s.err == nil {
		d.s.fail(err)
	} else if !d.s.Done() {
		d.cancel(fmt.Errorf("%w: %w", ErrCut, err))
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return err
}

// write writes frames whenever the session has some, and a PING when it has
// been silent for long.
func (d *driver) write(ctx context.Context) error {
	w := bufio.NewWriterSize(d.link, 64<<10)
	if _, err := w.Write(d.s.Preamble()); err != nil {
		return d.broken(err)
	}
	silence := time.NewTimer(d.timing.Ping)
	defer silence.Stop()
	for {
		f, more := d.next(ctx)
		if more {
			if err := writeFrame(w, f); err != nil {
				return d.broken(err)
			}
			continue
		}
		if err := w.Flush(); err != nil {
			return d.broken(err)
		}
		if d.over() {
			return nil
		}
		silence.Reset(d.timing.Ping)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.wake:
		case <-silence.C:
			if err := d.ping(w); err != nil {
				return d.broken(err)
			}
		}
	}
}

func (d *driver) next(ctx context.Context) (Frame, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, more, _ := d.s.Next(ctx) //nolint:errcheck // the session keeps it
	return f, more
}

// over reports whether the last frame was written, and then closes the link. A
// peer that is being refused gets the time to read why, and closes first.
func (d *driver) over() bool {
	d.mu.Lock()
	done, err := d.s.Done(), d.s.err
	d.mu.Unlock()
	if !done {
		return false
	}
	if r, ok := errors.AsType[*Refusal](err); err != nil && !(ok && r.Remote) {
		d.linger()
	}
	d.close() //nolint:errcheck // all is written
	return true
}

func (d *driver) ping(w io.Writer) error {
	d.mu.Lock()
	f, ok := d.s.Ping()
	d.mu.Unlock()
	if !ok {
		return nil
	}
	return writeFrame(w, f)
}

// broken is the end of writing. The peer may have closed because it refused
// something; reading goes on for a while to learn what.
func (d *driver) broken(err error) error {
	d.linger()
	d.cancel(fmt.Errorf("%w: %w", ErrCut, err))
	return err
}

func (d *driver) linger() {
	t := time.NewTimer(d.timing.Linger)
	defer t.Stop()
	select {
	case <-d.readDone:
	case <-t.C:
	}
}

func writeFrame(w io.Writer, f Frame) error {
	var head [headerSize]byte
	if _, err := w.Write(appendHead(head[:0], f)); err != nil {
		return err
	}
	_, err := w.Write(f.Payload)
	return err
}

// progress calls made each time another step bytes have arrived.
type progress struct {
	r    io.Reader
	step int64
	got  int64
	made func()
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.got += int64(n); p.got >= p.step {
		p.got = 0
		p.made()
	}
	return n, err
}
