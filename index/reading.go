package index

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deja-node/deja/index/catalog"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/syncproto/batch"
)

// Limits of what a transcript may name. Longer ones are cut, not refused: a
// name is a label, and the turn it belongs to is worth keeping.
const (
	maxName  = 512 // bytes of a session id, message id or agent name
	maxLabel = 240 // bytes of a title, project, branch or model
	maxPath  = 4096
)

// ReadingOptions describe one read of one transcript.
type ReadingOptions struct {
	Harness string
	Source  string // path of the transcript, home-relative
	// Whole says that the transcript was read from its start. What an earlier
	// read logged of its sessions and this one does not meet has been rewound
	// or edited away, and is superseded.
	Whole bool
	// Shared reports whether another transcript holds turns of the session
	// too, so that a turn missing here proves nothing. Nil means no.
	Shared func(native string) bool
}

// Counts says what a reading did.
type Counts struct {
	Turns      int // turns that the source handed in
	Added      int // entries appended
	Known      int // turns that the log held already
	Excluded   int // turns that policy keeps out
	Superseded int // entries that a rewind dropped
}

// Add sums counts.
func (c *Counts) Add(o Counts) {
	c.Turns += o.Turns
	c.Added += o.Added
	c.Known += o.Known
	c.Excluded += o.Excluded
	c.Superseded += o.Superseded
}

// Reading takes in what one read of one transcript yields. Calls come from one
// goroutine, between [Writer.Begin] and [Reading.End].
type Reading struct {
	w        *Writer
	opt      ReadingOptions
	sessions map[string]*sessionState
	current  *sessionState // of the last turn, since turns come in runs
	counts   Counts
	entry    record.Entry // reused for every turn
}

// sessionState is what a reading knows of one session.
type sessionState struct {
	raw      record.Session
	known    bool // a Session call described it
	excluded bool
	project  redact.Text
	living   map[record.Pos]bool // whole reads: own entries met or made
	matched  bool                // whole reads: at least one turn was logged before
}

// Begin starts the intake of one read.
func (w *Writer) Begin(opt ReadingOptions) *Reading {
	return &Reading{w: w, opt: opt, sessions: map[string]*sessionState{}}
}

// Session takes in what the transcript says of a session so far. It may come
// again with more; the last one counts. The first must come before the turns,
// since turns carry the project.
func (r *Reading) Session(s record.Session) {
	st := r.session(s.Native)
	st.raw, st.known = s, true
	st.project = r.w.label(s.Project, maxLabel)
	st.excluded = !r.w.opt.Policy.MayIngest(s.Project, s.Cwd)
}

func (r *Reading) session(native string) *sessionState {
	if r.current != nil && r.current.raw.Native == native {
		return r.current
	}
	st := r.sessions[native]
	if st == nil {
		st = &sessionState{raw: record.Session{Harness: r.opt.Harness, Native: native}}
		if r.opt.Whole {
			st.living = map[record.Pos]bool{}
		}
		r.sessions[native] = st
	}
	r.current = st
	return st
}

// Turn takes in one turn.
func (r *Reading) Turn(ctx context.Context, t record.Turn) error {
	r.counts.Turns++
	st := r.session(t.Session)
	if st.excluded {
		r.counts.Excluded++
		return nil
	}
	e := &r.entry
	*e = record.Entry{
		Kind: record.KindMsg, Harness: r.opt.Harness, Session: name(t.Session), Project: st.project,
		Role: t.Role, Time: t.Time, Origin: r.w.opt.Origin, Mid: name(t.Native), Exit: t.Exit,
		Text: r.w.scrub.Scrub(t.Text),
	}
	return r.take(ctx, st, e)
}

// Note takes in one explicit note.
func (r *Reading) Note(ctx context.Context, t record.Turn, project string, meta NoteMeta) error {
	r.counts.Turns++
	st := r.session(t.Session)
	if !r.w.opt.Policy.MayIngest(project, "") {
		r.counts.Excluded++
		return nil
	}
	e := &r.entry
	*e = record.Entry{
		Kind: record.KindNote, Harness: r.opt.Harness, Session: name(t.Session), Project: r.w.label(project, maxLabel),
		Role: record.RoleUser, Time: t.Time, Origin: r.w.opt.Origin, Text: r.w.scrub.Scrub(t.Text), Note: meta.scrubbed(r.w.scrub),
	}
	return r.take(ctx, st, e)
}

// take numbers an entry, skips it when the log holds it, and appends it
// otherwise. A text over the limit becomes several entries of one record.
func (r *Reading) take(ctx context.Context, st *sessionState, e *record.Entry) error {
	if e.Text.Len() <= record.MaxText {
		return r.takePart(ctx, st, e)
	}
	parts := batch.SplitText(e.Text)
	e.Parts = len(parts)
	for i, text := range parts {
		e.Part, e.Text = i+1, text
		if err := r.takePart(ctx, st, e); err != nil {
			return err
		}
	}
	return nil
}

// takePart skips an entry that the log holds. Turns equal in session, role,
// time and text are one turn, so re-reading is idempotent. One that was
// superseded and has come back is logged again under the next number.
func (r *Reading) takePart(ctx context.Context, st *sessionState, e *record.Entry) error {
	for e.N = 0; ; e.N++ {
		at, logged, err := r.w.ownEntry(e.CID())
		if err != nil {
			return err
		}
		if !logged {
			break
		}
		if !r.w.superseded(at) {
			r.counts.Known++
			st.matched = true
			st.lives(at)
			return nil
		}
	}
	seq, err := r.w.append(ctx, e)
	if err != nil {
		return err
	}
	r.counts.Added++
	st.lives(record.Pos{Stream: r.w.opt.Stream, Seq: seq})
	return nil
}

func (st *sessionState) lives(at record.Pos) {
	if st.living != nil {
		st.living[at] = true
	}
}

// Undo takes back the turns of a session that are as old as from or newer: the
// user took them back in the harness.
func (r *Reading) Undo(ctx context.Context, session string, from time.Time) error {
	st := r.session(session)
	turns, err := r.w.ownTurns(r.opt.Harness, session)
	if err != nil {
		return err
	}
	var gone []record.Pos
	for _, t := range turns {
		if !t.Time.Before(from) {
			gone = append(gone, t.Pos)
			delete(st.living, t.Pos)
		}
	}
	return r.takeBack(ctx, st, gone)
}

// End finishes the reading: it supersedes what a rewind took away and logs the
// metadata of sessions where it changed. A reading that ended early proves
// nothing about what it did not meet.
func (r *Reading) End(ctx context.Context, complete bool) (Counts, error) {
	for _, native := range slices.Sorted(maps.Keys(r.sessions)) {
		st := r.sessions[native]
		if st.excluded {
			continue
		}
		if complete {
			if err := r.supersede(ctx, st); err != nil {
				return r.counts, err
			}
		}
		if !st.known {
			continue
		}
		if err := r.describe(ctx, st); err != nil {
			return r.counts, err
		}
	}
	return r.counts, nil
}

// supersede drops the entries of a session that a whole read no longer meets.
// A transcript that shares nothing with what was logged is another text under
// the same id, not a rewind: then both stay.
func (r *Reading) supersede(ctx context.Context, st *sessionState) error {
	if !r.opt.Whole || !st.matched || (r.opt.Shared != nil && r.opt.Shared(st.raw.Native)) {
		return nil
	}
	turns, err := r.w.ownTurns(r.opt.Harness, st.raw.Native)
	if err != nil {
		return err
	}
	var gone []record.Pos
	for _, t := range turns {
		if !st.living[t.Pos] {
			gone = append(gone, t.Pos)
		}
	}
	return r.takeBack(ctx, st, gone)
}

// takeBack logs that entries no longer stand.
func (r *Reading) takeBack(ctx context.Context, st *sessionState, gone []record.Pos) error {
	if len(gone) == 0 {
		return nil
	}
	r.counts.Superseded += len(gone)
	_, err := r.w.append(ctx, &record.Entry{
		Kind: record.KindSupersede, Harness: r.opt.Harness, Session: name(st.raw.Native), Project: st.project,
		Role: record.RoleMeta, Time: r.w.opt.Now().UTC(), Origin: r.w.opt.Origin,
		Drop: &record.Drop{Ranges: ranges(gone), Why: "rewind"},
	})
	return err
}

// ranges folds places into ranges.
func ranges(at []record.Pos) []record.Range {
	slices.SortFunc(at, func(a, b record.Pos) int {
		return cmp.Or(a.Stream.Compare(b.Stream), cmp.Compare(a.Seq, b.Seq))
	})
	var out []record.Range
	for _, p := range at {
		if n := len(out); n > 0 && out[n-1].Stream == p.Stream && out[n-1].To+1 == p.Seq {
			out[n-1].To = p.Seq
			continue
		}
		out = append(out, record.Range{Stream: p.Stream, From: p.Seq, To: p.Seq})
	}
	return out
}

// describe logs the session's metadata unless the log says the same already.
// What the transcript does not say keeps what the log has.
func (r *Reading) describe(ctx context.Context, st *sessionState) error {
	s := st.raw
	before, known, err := r.w.ownSession(r.opt.Harness, s.Native)
	if err != nil {
		return err
	}
	text := func(raw, logged string, limit int) redact.Text {
		if raw == "" && known {
			raw = logged
		}
		return r.w.label(raw, limit)
	}
	meta := &record.SessionMeta{
		Title:  text(s.Title, before.MetaTitle, maxLabel),
		Cwd:    text(s.Cwd, before.Cwd, maxPath),
		Remote: text(s.Remote, before.Remote, maxPath),
		Root:   text(s.Root, before.Root, maxLabel),
		Branch: text(s.Branch, before.Branch, maxLabel),
		Model:  text(s.Model, before.Model, maxLabel),
		Source: text(cmp.Or(s.Source, r.opt.Source), before.Source, maxPath),
		Kind:   name(cmp.Or(s.Kind, before.Kind)), Parent: name(cmp.Or(s.Parent, before.Parent)), Agent: name(cmp.Or(s.Agent, before.Agent)),
	}
	project := text(s.Project, before.Project, maxLabel)
	if known && before.Described && !before.Gone && sameMeta(before, project, meta) {
		return nil
	}
	_, err = r.w.append(ctx, &record.Entry{
		Kind: record.KindSession, Harness: r.opt.Harness, Session: name(s.Native), Project: project,
		Role: record.RoleMeta, Time: s.Updated.UTC(), Origin: r.w.opt.Origin, Meta: meta,
	})
	return err
}

func sameMeta(s catalog.Session, project redact.Text, m *record.SessionMeta) bool {
	return s.Project == project.String() && s.MetaTitle == m.Title.String() && s.Cwd == m.Cwd.String() &&
		s.Remote == m.Remote.String() && s.Root == m.Root.String() && s.Branch == m.Branch.String() &&
		s.Model == m.Model.String() && s.Source == m.Source.String() &&
		s.Kind == m.Kind && s.Parent == m.Parent && s.Agent == m.Agent
}

// label scrubs a short text and cuts it afterwards, so that a secret which
// straddles the cut is caught.
func (w *Writer) label(s string, limit int) redact.Text {
	if s == "" {
		return redact.Text{}
	}
	text := w.scrub.Scrub(flatten(s))
	if text.Len() <= limit {
		return text
	}
	return w.scrub.Scrub(strings.ToValidUTF8(text.String()[:limit], ""))
}

// name bounds an identifier from outside and takes control characters out.
func name(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "")
	}
	return flatten(s)
}

// flatten turns control characters into spaces: identifiers and labels are one line.
func flatten(s string) string {
	clean := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
}
