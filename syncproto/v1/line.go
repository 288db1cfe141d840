package v1

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/deja-node/deja/index/record"
)

// Limits of what a line may say.
const (
	maxWord = 120  // runes of a harness, a project, a role, an origin
	maxID   = 1024 // bytes of a session id
	maxTags = 8
)

// Record is one line: a turn, a note or a session, as its file claims.
type Record struct {
	Key     record.SessionKey
	Project string
	Origin  string          // the machine it claims to be from; nobody has proved it
	Kind    record.Kind     // msg, note or session
	Turn    record.Turn     // of a msg or a note
	Note    *Note           // of a note of a newer file
	Session *record.Session // of a session of a newer file

	N     int // newer files: counts repeats
	Part  int // newer files: part of a record that was split
	Parts int
}

// Note is what a note says beside its text.
type Note struct {
	State string
	Tags  []string
	Of    string
	Title string
}

// line is the JSON of one line. What older programs wrote comes first; of what
// newer ones add, only what a record needs. Fields that nothing depends on may
// have any type.
type line struct {
	Harness   string          `json:"harness"`
	SessionID string          `json:"session_id"`
	Role      string          `json:"role"`
	Text      string          `json:"text"`
	Project   json.RawMessage `json:"project"`
	Time      json.RawMessage `json:"time"`
	Origin    json.RawMessage `json:"origin"`

	V     int             `json:"v"`
	Kind  record.Kind     `json:"kind"`
	N     int             `json:"n"`
	Sum   string          `json:"sum"`
	Mid   json.RawMessage `json:"mid"`
	Exit  *int            `json:"exit"`
	Part  int             `json:"part"`
	Parts int             `json:"parts"`

	State json.RawMessage `json:"state"` // of notes
	Tags  json.RawMessage `json:"tags"`
	Of    json.RawMessage `json:"of"`

	Title       json.RawMessage `json:"title"` // of notes and sessions
	Cwd         json.RawMessage `json:"cwd"`
	Remote      json.RawMessage `json:"remote"`
	Root        json.RawMessage `json:"root"`
	Branch      json.RawMessage `json:"branch"`
	Model       json.RawMessage `json:"model"`
	SessionKind json.RawMessage `json:"session_kind"`
	Parent      json.RawMessage `json:"parent"`
	Agent       json.RawMessage `json:"agent"`
	Started     json.RawMessage `json:"started"`
}

// kindEnd marks the closing line of a newer file.
const kindEnd record.Kind = "end"

func parseLine(b []byte) (*line, error) {
	if b[0] != '{' {
		return nil, errors.New("no JSON object")
	}
	l := new(line)
	if err := json.Unmarshal(b, l); err != nil {
		return nil, err
	}
	if l.Kind == kindEnd {
		return l, nil
	}
	l.Harness, l.Role = flat(l.Harness), flat(l.Role)
	switch {
	case l.Harness == "":
		return nil, errors.New("no harness")
	case l.SessionID == "" || len(l.SessionID) > maxID || strings.ContainsFunc(l.SessionID, unicode.IsControl):
		return nil, errors.New("no session id, or an impossible one")
	case l.Role == "":
		return nil, errors.New("no role")
	case l.N < 0 || l.Part < 0 || l.Parts < l.Part:
		return nil, errors.New("impossible counts")
	}
	return l, nil
}

// record makes a record of a line that says something. Lines about rewinds and
// tombs do not: an unsigned file retracts nothing.
func (l *line) record() (Record, bool) {
	if l.Kind == "" {
		l.Kind = record.KindMsg
	}
	rec := Record{
		Key: record.SessionKey{Harness: l.Harness, Native: l.SessionID}, Kind: l.Kind,
		Project: flat(word(l.Project)), Origin: flat(word(l.Origin)),
	}
	switch {
	case l.Kind == record.KindSession:
		rec.Session = l.session(rec.Project)
		return rec, true
	case l.Kind != record.KindMsg && l.Kind != record.KindNote, l.Text == "", l.Role == string(record.RoleMeta):
		return Record{}, false
	}
	rec.N, rec.Part, rec.Parts = l.N, l.Part, l.Parts
	rec.Turn = record.Turn{
		Session: l.SessionID, Role: record.Role(l.Role), Text: l.Text,
		Time: moment(l.Time), Native: flat(word(l.Mid)), Exit: l.Exit,
	}
	if l.Kind == record.KindNote {
		rec.Note = &Note{State: flat(word(l.State)), Tags: words(l.Tags), Of: flat(word(l.Of)), Title: flat(word(l.Title))}
	}
	return rec, true
}

func (l *line) session(project string) *record.Session {
	return &record.Session{
		Harness: l.Harness, Native: l.SessionID, Project: project, Title: flat(word(l.Title)),
		Cwd: flat(word(l.Cwd)), Remote: flat(word(l.Remote)), Root: flat(word(l.Root)), Branch: flat(word(l.Branch)),
		Model: flat(word(l.Model)), Kind: flat(word(l.SessionKind)), Parent: flat(word(l.Parent)), Agent: flat(word(l.Agent)),
		Started: moment(l.Started),
	}
}

// moment reads a time; one that is missing, odd or the year 1 is unknown.
func moment(raw json.RawMessage) time.Time {
	at, err := time.Parse(time.RFC3339Nano, word(raw))
	if err != nil || at.Year() <= 1 {
		return time.Time{}
	}
	return at.UTC()
}

// word reads a string that may be missing or of another type.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func words(raw json.RawMessage) []string {
	var all []string
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var tags []string
	for _, s := range all {
		if s = flat(s); s != "" && len(tags) < maxTags {
			tags = append(tags, s)
		}
	}
	return tags
}

// flat makes one line of printable characters of what names something.
func flat(s string) string {
	s = strings.Map(func(c rune) rune {
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) || unicode.Is(unicode.Cf, c) {
			return ' '
		}
		return c
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	n := 0
	for i := range s {
		if n++; n > maxWord {
			return s[:i]
		}
	}
	return s
}
