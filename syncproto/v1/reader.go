package v1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/deja-node/deja/index/record"
)

// Limits of what is read.
const (
	maxLine     = record.MaxLine
	maxProblems = 100 // that a summary lists
)

// Problem is one line that was not taken, and why.
type Problem struct {
	Line   int // from 1
	Offset int64
	Why    string
}

// Summary says how a file was read.
type Summary struct {
	Lines    int // in the file
	Records  int // yielded
	Blank    int // without speech: left out on purpose
	Bad      int // not readable
	Problems []Problem
	Torn     bool   // the last line has no end: the file was cut inside it
	Short    bool   // a file of the newer shape whose closing line is missing or does not agree: it was cut between two
	Origin   string // that all records claim, if they agree on one
}

// Whole reports whether all that was written into the file was read.
func (s Summary) Whole() bool { return s.Bad == 0 && !s.Torn && !s.Short }

// Reader reads one batch file. A line that cannot be read is counted, named
// and left out; the others are yielded.
type Reader struct {
	r      *bufio.Reader
	sum    Summary
	offset int64
	mixed  bool // the records claim different origins
	line   []byte

	// What a closing line is compared with: the lines since the start of the
	// file, or since the closing line before, where files were joined.
	newer bool // a line of the newer shape was among them
	open  int
	hash  hash.Hash
}

// NewReader returns a reader of the file's contents.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), hash: sha256.New()}
}

// Records yields the records of the file, and at most one error, last: that of
// the underlying reader, or of ctx.
func (r *Reader) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			if err := context.Cause(ctx); err != nil {
				yield(Record{}, err)
				return
			}
			at := r.offset
			long, err := r.next()
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Record{}, err)
				return
			}
			ended := err != nil
			if ended && len(r.line) == 0 && !long {
				r.finish()
				return
			}
			rec, ok := r.take(at, long, ended)
			if ok && !yield(rec, nil) {
				return
			}
			if ended {
				r.finish()
				return
			}
		}
	}
}

// Summary says what was read so far; all of it after Records has ended.
func (r *Reader) Summary() Summary { return r.sum }

// next reads a line into r.line, without its end. A line that is too long is
// passed over; io.EOF says that the line had no end.
func (r *Reader) next() (long bool, err error) {
	r.line = r.line[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		r.offset += int64(len(part))
		if len(r.line)+len(part) > maxLine+1 {
			long, r.line = true, r.line[:0]
		}
		if !long {
			r.line = append(r.line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return long, err
	}
}

// take makes a record of the line in r.line, if it holds one.
func (r *Reader) take(at int64, long, ended bool) (Record, bool) {
	r.sum.Lines++
	if long {
		r.open++
		r.bad(at, fmt.Sprintf("longer than %d bytes", maxLine))
		return Record{}, false
	}
	line := bytes.TrimRight(r.line, "\r\n")
	if at == 0 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(bytes.TrimSpace(line)) == 0 {
		r.sum.Blank++
		return Record{}, false
	}
	l, err := parseLine(line)
	if err == nil && l.Kind == kindEnd {
		r.close(l)
		return Record{}, false
	}
	r.open++
	r.hash.Write(line)
	r.hash.Write([]byte{'\n'})
	if err != nil && ended {
		r.sum.Torn = true
		return Record{}, false
	}
	if err != nil {
		r.bad(at, err.Error())
		return Record{}, false
	}
	r.newer = r.newer || l.V >= 2
	rec, ok := l.record()
	if !ok {
		r.sum.Blank++
		return Record{}, false
	}
	r.claim(rec.Origin)
	r.sum.Records++
	return rec, true
}

func (r *Reader) bad(at int64, why string) {
	r.sum.Bad++
	if len(r.sum.Problems) < maxProblems {
		r.sum.Problems = append(r.sum.Problems, Problem{Line: r.sum.Lines, Offset: at, Why: why})
	}
}

// claim keeps the origin while all records agree on it.
func (r *Reader) claim(origin string) {
	switch {
	case r.mixed:
	case r.sum.Records == 0:
		r.sum.Origin = origin
	case r.sum.Origin != origin:
		r.mixed, r.sum.Origin = true, ""
	}
}

// close compares the lines so far with what their closing line says.
func (r *Reader) close(l *line) {
	if l.N != r.open || l.Sum != hex.EncodeToString(r.hash.Sum(nil)) {
		r.sum.Short = true
	}
	r.newer, r.open = false, 0
	r.hash.Reset()
}

func (r *Reader) finish() { r.sum.Short = r.sum.Short || r.newer }
