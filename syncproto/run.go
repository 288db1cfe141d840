package syncproto

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
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
	Ping   time.Duration // of silence before a PING is written, once to twice; 30 s
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
		link: link, timing: t.filled(), cancel: cancel, server: s.cfg.Server, turn: make(chan *Session, 1),
		wake: make(chan struct{}, 1), readDone: make(chan struct{}), writeDone: make(chan struct{}),
	}
	d.turn <- s
	d.close = sync.OnceValue(link.Close)
	stop := context.AfterFunc(ctx, func() { d.close() }) //nolint:errcheck // the cause is reported
	defer stop()
	d.w = bufio.NewWriterSize(link, 64<<10)
	var wg sync.WaitGroup
	wg.Go(func() { d.readErr = d.read(ctx) })
	wg.Go(func() { d.writeErr = d.write(ctx) })
	wg.Go(d.keepAlive)
	wg.Wait()
	s.report.BytesOut += d.pings
	d.close() //nolint:errcheck // both sides have said goodbye, or the outcome says what broke
	err := errors.Join(d.outcome(ctx, s), s.Finish(context.WithoutCancel(ctx)))
	return s.Report(), err
}

type driver struct {
	link   Link
	timing Timing
	cancel context.CancelCauseFunc
	close  func() error

	server bool
	turn   chan *Session // holds the session while nobody uses it; see use

	wmu   sync.Mutex // guards w and pings
	w     *bufio.Writer
	pings int64 // bytes
	wrote atomic.Bool
	quiet atomic.Bool // a PING may be written
	open  atomic.Bool // the handshake is over

	wake      chan struct{} // the session may have something to write
	readDone  chan struct{} // nothing more will be read
	writeDone chan struct{} // nothing more will be written
	readErr   error
	writeErr  error
}

// use calls f with the session, which nobody else uses meanwhile. The link is
// neither read nor written in f, so that a slow peer holds up nobody; a slow
// store does.
func (d *driver) use(f func(s *Session)) {
	s := <-d.turn
	defer func() { d.turn <- s }()
	f(s)
	d.quiet.Store(s.Quiet())
	d.open.Store(s.phase == open)
}

// outcome picks the error that explains the others.
func (d *driver) outcome(ctx context.Context, s *Session) error {
	if s.err != nil {
		return s.err
	}
	if s.Done() {
		return nil
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
		if d.open.Load() {
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
		if d.open.Load() {
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
	if d.server {
		return nil
	}
	nonce, noise, err := ReadPreamble(src)
	if err != nil {
		return err
	}
	d.use(func(s *Session) { s.Greet(nonce, noise) })
	return nil
}

func (d *driver) limit(t Type) (n int) {
	d.use(func(s *Session) { n = s.Limit(t) })
	return n
}

// receive hands a frame to the session. It reports whether reading is over.
func (d *driver) receive(ctx context.Context, f Frame) (over bool) {
	d.use(func(s *Session) {
		s.Receive(ctx, f) //nolint:errcheck // the session keeps it, and the peer is told
		over = s.Done() && s.err == nil
	})
	d.rouse()
	return over
}

// rouse makes the writer look whether there is something to write.
func (d *driver) rouse() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// lost ends reading after an error of the link, or of the bytes on it.
func (d *driver) lost(err error) error {
	d.use(func(s *Session) {
		if errors.Is(err, ErrFrame) && s.err == nil {
			s.fail(err)
		} else if !s.Done() {
			d.cancel(fmt.Errorf("%w: %w", ErrCut, err))
		}
	})
	d.rouse()
	return err
}

// write writes frames whenever the session has some.
func (d *driver) write(ctx context.Context) error {
	defer close(d.writeDone)
	var magic []byte
	d.use(func(s *Session) { magic = s.Preamble() })
	if err := d.put(magic, nil); err != nil {
		return d.broken(err)
	}
	for {
		f, more := d.next(ctx)
		if more {
			if err := d.put(appendHead(nil, f), f.Payload); err != nil {
				return d.broken(err)
			}
			continue
		}
		if err := d.flush(); err != nil {
			return d.broken(err)
		}
		if d.over() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.wake:
		}
	}
}

func (d *driver) next(ctx context.Context) (f Frame, more bool) {
	d.use(func(s *Session) { f, more, _ = s.Next(ctx) }) //nolint:errcheck // the session keeps it
	return f, more
}

func (d *driver) put(head, payload []byte) error {
	d.wmu.Lock()
	defer d.wmu.Unlock()
	d.wrote.Store(true)
	if _, err := d.w.Write(head); err != nil {
		return err
	}
	_, err := d.w.Write(payload)
	return err
}

func (d *driver) flush() error {
	d.wmu.Lock()
	defer d.wmu.Unlock()
	return d.w.Flush()
}

// keepAlive writes a PING whenever nothing else was written for a while. It
// does not ask the session, which may be waiting for its store just then.
func (d *driver) keepAlive() {
	tick := time.NewTicker(d.timing.Ping)
	defer tick.Stop()
	for {
		select {
		case <-d.writeDone:
			return
		case <-tick.C:
		}
		if d.wrote.Swap(false) || !d.quiet.Load() || !d.wmu.TryLock() {
			continue
		}
		_, err := d.w.Write(appendHead(nil, Frame{Type: TypePing}))
		err = errors.Join(err, d.w.Flush())
		d.pings += int64(headerSize)
		d.wmu.Unlock()
		if err != nil {
			return // the writer meets it too
		}
	}
}

// over reports whether the last frame was written, and then closes the link. A
// peer that is being refused gets the time to read why, and closes first.
func (d *driver) over() bool {
	var done bool
	var err error
	d.use(func(s *Session) { done, err = s.Done(), s.err })
	if !done {
		return false
	}
	if r, ok := errors.AsType[*Refusal](err); err != nil && !(ok && r.Remote) {
		d.linger()
	}
	d.close() //nolint:errcheck // all is written
	return true
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
