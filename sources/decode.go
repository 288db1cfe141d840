package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources/jsonl"
)

// Job is one reading of one file.
type Job struct {
	File   File
	Mark   Mark   // of the reading before; nil reads from the start
	Memory Memory // what the log holds; nil is an empty log
	// Settled says that nobody is expected to append any more. A call whose
	// result is not there is then yielded without one; otherwise it waits in
	// the mark, since what a command exited with cannot be told later.
	Settled bool
	// Scrub is applied to every text that a mark has to carry, since marks are
	// stored. Without it marks carry no text: commands that wait are then
	// lost, and what is known of a session says nothing in the next reading.
	Scrub func(string) string
}

// carry makes a text fit for a mark.
func (j Job) carry(text string) string {
	if j.Scrub == nil || text == "" {
		return ""
	}
	return j.Scrub(text)
}

// Memory is what the log already holds of a harness, including what earlier
// readings of the same run yielded.
type Memory interface {
	// Message returns the session that holds a message with this native id.
	Message(mid string) (session string, ok bool)
	// Turn reports whether a session holds such a turn. The text is raw.
	Turn(session string, role record.Role, t time.Time, text string) bool
	// Session reports whether the log holds turns of a session.
	Session(native string) bool
}

// Sink receives what a reading yields. A nil function ignores its part. An
// error ends the reading and comes back as it is.
type Sink struct {
	// Session comes before the first turn of a session in this reading, and
	// again at the end when more is known: the last call is the truth. An
	// empty field says nothing. It may come for a session without turns here.
	Session func(record.Session) error
	Turn    func(record.Turn) error
	Note    func(Note) error
	// Undo takes turns back that the user took back in the harness.
	Undo func(Undo) error
}

// Undo voids every turn of a session yielded so far whose time is From or later.
type Undo struct {
	Session string
	From    time.Time
}

// Result says how a reading went.
type Result struct {
	// Mark covers everything that was yielded. It is valid beside an error of
	// the disk or the context, and nil when a function of the sink failed.
	Mark    Mark
	Lines   int // lines read, those skipped included
	Turns   int // turns and notes yielded
	Skipped []Skip
	Torn    int64 // bytes of an unfinished last line
}

// Skip counts lines that were passed over for one reason.
type Skip struct {
	Reason Reason
	Lines  int
	First  int64 // offset of the first
}

// Reason says why a line was passed over.
type Reason string

// The reasons.
const (
	Malformed Reason = "malformed"         // not what the format says
	TooLong   Reason = "too long"          // over 64 MiB
	Arguments Reason = "broken arguments"  // a call whose arguments are no JSON
	NoTime    Reason = "no readable time"  // a note without one
	Blank     Reason = "nothing but blank" // a note without text
)

// Broken reports whether the line was damaged, rather than of no use.
func (r Reason) Broken() bool { return r == Malformed || r == TooLong || r == Arguments }

// Decode reads a file from a mark on. It returns at most one error, after
// whatever could be read. When the file no longer begins with what the mark
// covers, the error is [jsonl.ErrMoved] and nothing was yielded.
func (h *Handle) Decode(ctx context.Context, job Job, to Sink) (res Result, err error) {
	r := reading{h: h, job: job, out: newYield(h, job, to), result: &res}
	file, err := h.open(job.File)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return res, err
	}
	r.stat.stat(info)
	content, done, err := expand(job.File, file)
	if err != nil {
		return res, err
	}
	defer done()
	var seeker io.ReadSeeker
	if !compressed(job.File) {
		seeker = file
	}
	if err := r.start(content, seeker); err != nil {
		return res, err
	}
	defer r.lines.Release()
	return res, r.run(ctx)
}

// lineDecoder decodes the lines of one file. What it must remember between
// lines is its state, which marks carry.
type lineDecoder interface {
	// restore takes over the state of a mark, before any line.
	restore(state json.RawMessage) error
	// line takes one line. A number other than zero says that the line must be
	// read again by the next reading; where the number is another than that of
	// the line before, the lines to be read again begin here, and the state is
	// from then on that of before this line.
	line(v *fastjson.Value) (hold int, err error)
	// finish ends the reading. When nobody appends any more, what still waits
	// is yielded.
	finish(settled bool) error
	// state returns what a mark must carry, and whether something waits. Every
	// text in it has been through carry.
	state(carry func(string) string) (state any, waits bool)
}

// reading is the state of one Decode.
type reading struct {
	h      *Handle
	job    Job
	out    *yield
	dec    lineDecoder
	lines  *jsonl.Reader
	stat   File
	result *Result
	hold   int             // what the decoder said of the line before
	held   *jsonl.Position // before the lines that must be read again
}

// keptState is the state part of a mark.
type keptState struct {
	Sessions []*sessionState `json:"s,omitempty"`
	Decoder  json.RawMessage `json:"d,omitempty"`
}

// start opens the lines at the mark. seeker is nil when the content cannot seek.
func (r *reading) start(content io.Reader, seeker io.ReadSeeker) (err error) {
	r.dec = r.h.source.decode(r.h, r.job, r.out)
	p, ok := parseMark(r.job.Mark)
	if r.job.Mark == nil {
		r.lines = jsonl.NewReader(content)
		return nil
	}
	if !ok || !r.h.current(p) {
		return fmt.Errorf("%s: mark of another version: %w", r.job.File.Rel, jsonl.ErrMoved)
	}
	var kept keptState
	if err := json.Unmarshal(p.state, &kept); err != nil {
		return fmt.Errorf("%s: mark: %w", r.job.File.Rel, errors.Join(err, jsonl.ErrMoved))
	}
	r.out.restore(kept.Sessions)
	if err := r.dec.restore(kept.Decoder); err != nil {
		return fmt.Errorf("%s: mark: %w", r.job.File.Rel, errors.Join(err, jsonl.ErrMoved))
	}
	if seeker != nil {
		r.lines, err = jsonl.Resume(seeker, p.at)
	} else {
		r.lines, err = jsonl.ResumeStream(content, p.at)
	}
	return err
}

// run reads to the end. Errors of the sink void the mark; all others leave it.
func (r *reading) run(ctx context.Context) error {
	p := parsers.Get().(*lineParser) //nolint:errcheck // the pool holds nothing else
	defer p.release()
	for {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), r.end(false))
		}
		line, err := r.lines.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return r.end(r.job.Settled)
			}
			return errors.Join(fmt.Errorf("%s: %w", r.job.File.Rel, err), r.end(false))
		}
		r.result.Lines++
		if line.TooLong {
			r.out.skip(TooLong, line.Start)
			continue
		}
		v, err := p.parse(line.Bytes)
		if err != nil || v.Type() != fastjson.TypeObject {
			r.out.skip(Malformed, line.Start)
			continue
		}
		r.out.offset = line.Start
		hold, err := r.dec.line(v)
		if err != nil {
			return err
		}
		switch {
		case hold == 0:
			r.held = nil
		case hold != r.hold:
			at := r.lines.Before()
			r.held = &at
		}
		r.hold = hold
	}
}

// end closes the reading and makes its mark.
func (r *reading) end(settled bool) error {
	if err := r.dec.finish(settled); err != nil {
		return err
	}
	if err := r.out.finish(); err != nil {
		return err
	}
	state, waits := r.dec.state(r.job.carry)
	decoder, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("%s: mark: %w", r.job.File.Rel, err)
	}
	kept, err := json.Marshal(keptState{Sessions: r.out.kept(r.job.carry), Decoder: decoder})
	if err != nil {
		return fmt.Errorf("%s: mark: %w", r.job.File.Rel, err)
	}
	m := mark{flags: r.h.flags(), version: uint16(r.h.source.Version), at: r.lines.After(), stat: r.stat, state: kept}
	m.size = m.at.Offset + r.lines.Torn()
	if r.held != nil && !settled {
		m.at = *r.held
		waits = true
	}
	if waits {
		m.flags |= flagPending
	}
	if compressed(r.job.File) {
		m.size = r.stat.Size
	}
	r.result.Mark, r.result.Torn = m.mark(), r.lines.Torn()
	r.result.Turns, r.result.Skipped = r.out.turns, r.out.skipped
	return nil
}

// lineParser parses lines with buffers that are kept between files.
type lineParser struct {
	fastjson.Parser
	big bool // the buffers have grown beyond what is worth keeping
}

var parsers = sync.Pool{New: func() any { return new(lineParser) }}

// bigLine is where a line is checked before it is parsed: the parser quotes
// what it stumbles over at every level of nesting, which a hostile line could
// make costly.
const bigLine = 1 << 20

var errNotJSON = errors.New("not JSON")

// parse parses a line. Bytes that are no UTF-8 are replaced first, so that what
// is yielded, what a mark carries and what is read again are the same.
func (p *lineParser) parse(line []byte) (*fastjson.Value, error) {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\ufffd"))
	}
	if p.big {
		*p = lineParser{}
	}
	if p.big = len(line) > bigLine; p.big && !json.Valid(line) {
		return nil, errNotJSON
	}
	return p.ParseBytes(line)
}

func (p *lineParser) release() {
	if !p.big {
		parsers.Put(p)
	}
}
