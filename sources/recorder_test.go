package sources_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources"
)

// recorder is a sink that keeps everything, and the memory that follows from it.
type recorder struct {
	events   []string // turns, notes and undos in order
	turns    map[string][]record.Turn
	sessions map[string]record.Session
	notes    []sources.Note
	mids     map[string]string
}

var _ sources.Memory = (*recorder)(nil)

func newRecorder() *recorder {
	return &recorder{turns: map[string][]record.Turn{}, sessions: map[string]record.Session{}, mids: map[string]string{}}
}

func (r *recorder) clone() *recorder {
	c := &recorder{
		events: slices.Clone(r.events), turns: map[string][]record.Turn{}, sessions: maps.Clone(r.sessions),
		notes: slices.Clone(r.notes), mids: maps.Clone(r.mids),
	}
	for id, turns := range r.turns {
		c.turns[id] = slices.Clone(turns)
	}
	return c
}

func (r *recorder) sink(t testing.TB) sources.Sink {
	return sources.Sink{
		Session: func(s record.Session) error { r.session(s); return nil },
		Turn: func(turn record.Turn) error {
			if _, ok := r.sessions[turn.Session]; !ok {
				t.Errorf("a turn of %s comes before the session", turn.Session)
			}
			if strings.TrimSpace(turn.Text) == "" {
				t.Errorf("a turn without text: %+v", turn)
			}
			r.turns[turn.Session] = append(r.turns[turn.Session], turn)
			if turn.Native != "" {
				r.mids[turn.Native] = turn.Session
			}
			r.events = append(r.events, fmt.Sprintf("%s %s", turn.Session, renderTurn(turn)))
			return nil
		},
		Note: func(n sources.Note) error {
			r.notes = append(r.notes, n)
			r.events = append(r.events, fmt.Sprintf("note %+v", n))
			return nil
		},
		Undo: func(u sources.Undo) error {
			r.events = append(r.events, fmt.Sprintf("undo %+v", u))
			r.turns[u.Session] = slices.DeleteFunc(r.turns[u.Session], func(turn record.Turn) bool { return !turn.Time.Before(u.From) })
			return nil
		},
	}
}

// session takes over what a call says; an empty field says nothing.
func (r *recorder) session(s record.Session) {
	old := r.sessions[s.Native]
	keep := func(dst *string, was string) {
		if *dst == "" {
			*dst = was
		}
	}
	for _, f := range []struct {
		dst *string
		was string
	}{
		{&s.Cwd, old.Cwd},
		{&s.Branch, old.Branch},
		{&s.Model, old.Model},
		{&s.Title, old.Title},
		{&s.Parent, old.Parent},
		{&s.Kind, old.Kind},
		{&s.Agent, old.Agent},
		{&s.Source, old.Source},
		{&s.Remote, old.Remote},
	} {
		keep(f.dst, f.was)
	}
	if s.Project == "" && s.Cwd == "" {
		s.Project, s.Guessed = old.Project, old.Guessed
	}
	if s.Started.IsZero() || !old.Started.IsZero() && old.Started.Before(s.Started) {
		s.Started = old.Started
	}
	if old.Updated.After(s.Updated) {
		s.Updated = old.Updated
	}
	r.sessions[s.Native] = s
}

func (r *recorder) Message(mid string) (string, bool) {
	session, ok := r.mids[mid]
	return session, ok
}

func (r *recorder) Turn(session string, role record.Role, at time.Time, text string) bool {
	return slices.ContainsFunc(r.turns[session], func(t record.Turn) bool { return t.Role == role && t.Time.Equal(at) && t.Text == text })
}

func (r *recorder) Session(native string) bool { return len(r.turns[native]) > 0 }

// The lines of want.jsonl.
type wantSession struct {
	Harness string `json:"harness"`
	Native  string `json:"native"`
	Cwd     string `json:"cwd,omitempty"`
	Project string `json:"project"`
	Guessed bool   `json:"guessed,omitempty"`
	Remote  string `json:"remote,omitempty"`
	Title   string `json:"title,omitempty"`
	Branch  string `json:"branch,omitempty"`
	Model   string `json:"model,omitempty"`
	Parent  string `json:"parent,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Started string `json:"started,omitempty"`
	Updated string `json:"updated,omitempty"`
}

type wantTurn struct {
	Role   record.Role `json:"role"`
	Time   string      `json:"time,omitempty"`
	Text   string      `json:"text"`
	Native string      `json:"native,omitempty"`
	Exit   *int        `json:"exit,omitempty"`
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func renderTurn(t record.Turn) string {
	return jsonLine(wantTurn{Role: t.Role, Time: stamp(t.Time), Text: t.Text, Native: t.Native, Exit: t.Exit})
}

func jsonLine(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// render writes what was recorded as want.jsonl has it.
func (r *recorder) render(harness string, projects *sources.Projects) string {
	r.fold(harness)
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(r.sessions)) {
		s := r.sessions[id]
		if len(r.turns[id]) == 0 {
			continue
		}
		projects.Fill(&s)
		b.WriteString(jsonLine(map[string]wantSession{"session": {
			Harness: s.Harness, Native: s.Native, Cwd: s.Cwd, Project: s.Project, Guessed: s.Guessed, Remote: s.Remote, Title: s.Title,
			Branch: s.Branch, Model: s.Model, Parent: s.Parent, Kind: s.Kind, Agent: s.Agent, Started: stamp(s.Started), Updated: stamp(s.Updated),
		}}) + "\n")
		for _, t := range r.turns[id] {
			b.WriteString(renderTurn(t) + "\n")
		}
	}
	return b.String()
}

// fold makes sessions of notes, as older peers show them: promoted notes
// newest first.
func (r *recorder) fold(harness string) {
	for _, n := range r.notes {
		r.session(record.Session{Harness: harness, Native: n.Session, Project: n.Project, Title: n.Heading(), Started: n.Time, Updated: n.Time})
		t := record.Turn{Session: n.Session, Role: record.RoleUser, Time: n.Time, Text: n.Message()}
		if n.Promoted {
			r.turns[n.Session] = slices.Insert(r.turns[n.Session], 0, t)
		} else {
			r.turns[n.Session] = append(r.turns[n.Session], t)
		}
	}
	r.notes = nil
}
