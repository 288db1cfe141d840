// Package jsonl reads files of JSON lines that another program may be
// appending to. It promises exact byte offsets, and positions that say whether
// a file still begins with what was read before.
//
// Start at [Reader]. [Position] is what to keep between two readings;
// [TailAt] and [Begins] check it cheaply and fully.
package jsonl

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// MaxLine is the longest line that is handed out; longer ones are passed over.
const MaxLine = 64 << 20

// ErrMoved says that a file does not continue the position it is read from.
var ErrMoved = errors.New("the file no longer begins with what was read before")

// minBuffer is the buffer of a Reader outside long lines.
const minBuffer = 256 << 10

// Line is one line. Its bytes are valid until the next call of Next.
type Line struct {
	// Bytes is the line as Trim leaves it, nil when it was too long.
	Bytes   []byte
	Start   int64 // offset of the first byte
	TooLong bool
}

// Reader splits a file into lines. A last line without a newline is a write in
// progress: it is not handed out, and the position stays before it.
type Reader struct {
	src  io.Reader
	buf  []byte
	line int // buf[line:next] is the line handed out last, its newline included
	next int
	end  int // buf[next:end] is read and not handed out yet

	off  int64 // file offset of buf[0]
	sum  Sum   // of everything before file offset off+upTo
	upTo int
	err  error // what ended reading, io.EOF included

	long   *Position // before the line in hand, when it is too long to be in buf
	inside bool      // the source ended inside that line
}

// buffers of readers that are done.
var buffers = sync.Pool{New: func() any { return new([minBuffer]byte) }}

// NewReader reads from the start of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: buffers.Get().(*[minBuffer]byte)[:]} //nolint:errcheck // the pool holds nothing else
}

// Release gives the buffer back. The reader and its lines are of no use then.
func (r *Reader) Release() {
	if len(r.buf) == minBuffer {
		buffers.Put((*[minBuffer]byte)(r.buf))
	}
	r.buf = nil
}

// Resume reads on from a position. It checks, on the descriptor it will read
// from, that the window before the position is still what it was.
func Resume(src io.ReadSeeker, at Position) (*Reader, error) {
	window := int(min(at.Offset, Window))
	if _, err := src.Seek(at.Offset-int64(window), io.SeekStart); err != nil {
		return nil, err
	}
	r := NewReader(src)
	if _, err := io.ReadFull(src, r.buf[:window]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ErrMoved
	} else if err != nil {
		return nil, err
	}
	if tailOf(r.buf[:window]) != at.Tail {
		return nil, ErrMoved
	}
	r.off, r.sum = at.Offset-int64(window), at.Sum
	r.line, r.next, r.end, r.upTo = window, window, window, window
	return r, nil
}

// ResumeStream is Resume for a source that cannot seek: it reads and checks
// the whole prefix.
func ResumeStream(src io.Reader, at Position) (*Reader, error) {
	r := NewReader(src)
	for r.off+int64(r.next) < at.Offset {
		n := int(min(int64(len(r.buf)-r.next), at.Offset-r.off-int64(r.next)))
		if _, err := io.ReadFull(src, r.buf[r.next:r.next+n]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, ErrMoved
		} else if err != nil {
			return nil, err
		}
		r.next += n
		r.line, r.end = r.next, r.next
		r.discard()
	}
	if got := r.position(r.next); got != at {
		return nil, ErrMoved
	}
	return r, nil
}

// Next returns the next line that is not blank. The error is io.EOF at the
// end, or what the source failed with.
func (r *Reader) Next() (Line, error) {
	r.long = nil
	for {
		r.line = r.next
		i := bytes.IndexByte(r.buf[r.next:r.end], '\n')
		for searched := r.end - r.next; i < 0; searched = r.end - r.line {
			if r.end-r.line > MaxLine {
				return r.passOver()
			}
			if err := r.fill(); err != nil {
				return Line{}, err
			}
			if i = bytes.IndexByte(r.buf[r.line+searched:r.end], '\n'); i >= 0 {
				i += searched
			}
		}
		r.next = r.line + i + 1
		start := r.off + int64(r.line)
		if i > MaxLine {
			return Line{Start: start, TooLong: true}, nil
		}
		if line := Trim(r.buf[r.line:r.next]); len(line) > 0 {
			return Line{Bytes: line, Start: start}, nil
		}
	}
}

// Before is the position before the line that Next returned last.
func (r *Reader) Before() Position {
	if r.long != nil {
		return *r.long
	}
	return r.position(r.line)
}

// After is the position behind the line that Next returned last. Once Next has
// returned an error it is the safe position to read on from.
func (r *Reader) After() Position {
	if r.inside {
		return *r.long
	}
	return r.position(r.next)
}

// Torn returns the number of bytes behind [Reader.After] that were read and do not
// end in a newline yet.
func (r *Reader) Torn() int64 { return r.off + int64(r.end) - r.After().Offset }

// position needs i to be at or after the start of the current line, which is
// how far discard lets the sum run.
func (r *Reader) position(i int) Position {
	return Position{
		Offset: r.off + int64(i),
		Sum:    r.sum.Extend(r.buf[r.upTo:i]),
		Tail:   tailOf(r.buf[max(0, i-Window):i]),
	}
}

// fill reads more behind buf[:end], after making room.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if r.end == len(r.buf) {
		r.discard()
	}
	if r.end == len(r.buf) {
		r.resize(min(2*len(r.buf), MaxLine+Window+minBuffer))
	}
	for {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			r.err = err
		}
		switch {
		case n > 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// discard drops what lies before the window of the current line, which takes
// in the bytes of the sum first.
func (r *Reader) discard() {
	from := max(0, r.line-Window)
	r.sum, r.upTo = r.sum.Extend(r.buf[r.upTo:r.line]), r.line
	if from == 0 {
		return
	}
	if short := r.end - from; short < minBuffer/2 && len(r.buf) > minBuffer {
		old := r.buf
		r.buf = make([]byte, minBuffer)
		copy(r.buf, old[from:r.end])
	} else {
		copy(r.buf, r.buf[from:r.end])
	}
	r.off += int64(from)
	r.line, r.next, r.end, r.upTo = r.line-from, r.next-from, r.end-from, r.upTo-from
}

func (r *Reader) resize(n int) {
	buf := make([]byte, n)
	copy(buf, r.buf[:r.end])
	r.buf = buf
}

// passOver reads to the end of a line that is too long, in constant memory.
func (r *Reader) passOver() (Line, error) {
	before := r.Before()
	r.long = &before
	for {
		r.line, r.next = r.end, r.end
		r.discard()
		if err := r.fill(); err != nil {
			r.inside = true
			return Line{}, err
		}
		if i := bytes.IndexByte(r.buf[r.line:r.end], '\n'); i >= 0 {
			r.next = r.line + i + 1
			return Line{Start: before.Offset, TooLong: true}, nil
		}
	}
}

// Trim cuts what may surround an object on a line: the end of the line, a byte
// order mark, white space, and the NUL runs that a crash leaves where a block
// was never written.
func Trim(line []byte) []byte {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	lo, hi := 0, len(line)
	for lo < hi && line[lo] <= ' ' {
		lo++
	}
	for hi > lo && line[hi-1] <= ' ' {
		hi--
	}
	return line[lo:hi]
}
