package sources

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

var notes = Source{
	Harness: "deja",
	Name:    "deja's own notes",
	Aliases: []string{"notes"},
	Version: 1,
	Where:   "`~/.local/share/deja/notes.jsonl` (`DEJA_NOTES_FILE`)",
	What:    "explicit and promoted notes",
	Stores: func(e Env) []Store {
		file := NotesFile(e)
		if file == "" {
			return nil
		}
		return []Store{{Root: filepath.Dir(file), Only: filepath.Base(file), Subagents: true, Home: e.Home}}
	},
	admits: func(st Store, rel string, dir bool) bool { return !dir && rel == st.Only },
	decode: func(_ *Handle, _ Job, out *yield) lineDecoder { return &notesDecoder{out: out} },
}

// NotesFile returns where the notes are kept, empty when there is no home.
func NotesFile(e Env) string {
	if file := e.path("DEJA_NOTES_FILE"); file != "" {
		return file
	}
	if root := e.path("DEJA_HOME"); root != "" {
		return filepath.Join(root, "data", "notes.jsonl")
	}
	if dir := e.get("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "deja", "notes.jsonl")
	}
	if e.GOOS == "windows" {
		if roaming := first(e.path("APPDATA"), e.in("AppData", "Roaming")); roaming != "" {
			return filepath.Join(roaming, "deja", "notes.jsonl")
		}
		return ""
	}
	return e.in(".local", "share", "deja", "notes.jsonl")
}

// Note is one explicit note: an entry of its own, named by project, time and
// text, and the same in every time zone.
type Note struct {
	Session  string    // groups notes as the older project does, by the day in UTC
	Project  string    //
	Text     string    // as it was filed
	Filed    time.Time // when it was filed
	Time     time.Time // when it was so: the source's last activity for a promoted note, else Filed
	Tags     []string  //
	Promoted bool      // distilled from a session
	State    string    // promoted: accepted, rejected, superseded or stale
	Of       string    // promoted: the session it was distilled from, "harness:native id"
	Title    string    // promoted: borrowed from that session
	Evident  time.Time // promoted: last activity of that session, where known
}

// noteLine is a note as it is written.
type noteLine struct {
	TS      string   `json:"ts"`
	Project string   `json:"project"`
	Kind    string   `json:"kind,omitempty"`
	Session string   `json:"session,omitempty"`
	State   string   `json:"state,omitempty"`
	Title   string   `json:"title,omitempty"`
	Text    string   `json:"text"`
	Tags    []string `json:"tags,omitempty"`
	SrcTS   string   `json:"src_ts,omitempty"`
}

const (
	kindPromoted  = "promoted"
	stateAccepted = "accepted"
	notesBucket   = "notes" // project of notes without one
	maxTags       = 8
)

// note makes a note of a line. The reason is empty when it is one.
func (l noteLine) note() (Note, Reason) {
	filed := parseTime(l.TS)
	switch {
	case l.Kind == kindPromoted && strings.TrimSpace(l.Session) == "":
		return Note{}, Malformed
	case filed.IsZero():
		return Note{}, NoTime
	case strings.TrimSpace(l.Text) == "":
		return Note{}, Blank
	}
	n := Note{Project: first(l.Project, notesBucket), Text: l.Text, Filed: filed, Time: filed, Tags: cleanTags(l.Tags)}
	if l.Kind != kindPromoted {
		n.Session = "deja-" + filed.Format(time.DateOnly) + "-" + n.Project
		return n, ""
	}
	n.Promoted, n.Of, n.Title, n.State = true, l.Session, l.Title, stateAccepted
	if slices.Contains([]string{"rejected", "superseded", "stale"}, l.State) {
		n.State = l.State
	}
	n.Session = "deja-note-" + strings.ReplaceAll(l.Session, ":", "-")
	if n.Evident = parseTime(l.SrcTS); !n.Evident.IsZero() && !n.Evident.After(filed) {
		n.Time = n.Evident
	}
	return n, ""
}

// line is the form in which a note is written.
func (n Note) line() noteLine {
	l := noteLine{TS: n.Filed.UTC().Format(time.RFC3339Nano), Project: n.Project, Text: n.Text, Tags: cleanTags(n.Tags)}
	if !n.Promoted {
		return l
	}
	l.Kind, l.Session, l.State, l.Title = kindPromoted, n.Of, first(n.State, stateAccepted), n.Title
	if !n.Evident.IsZero() {
		l.SrcTS = n.Evident.UTC().Format(time.RFC3339Nano)
	}
	return l
}

// cleanTags writes tags alike: in lower case, without a leading "#", each once.
func cleanTags(tags []string) []string {
	var clean []string
	for _, tag := range tags {
		tag = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(tag), "#")))
		if tag != "" && !slices.Contains(clean, tag) && len(clean) < maxTags {
			clean = append(clean, tag)
		}
	}
	return clean
}

// Message is the note as one line of conversation, as older peers render it.
func (n Note) Message() string {
	var b strings.Builder
	if n.Promoted {
		b.WriteString("[" + n.State + "] " + n.Text + " (from " + n.Of + ", " + n.Time.UTC().Format(time.DateOnly) + ")")
	} else {
		b.WriteString(n.Text)
	}
	for _, tag := range n.Tags {
		b.WriteString(" #" + tag)
	}
	return b.String()
}

// Heading is the title of the session that older peers show the note in, empty
// for a plain note.
func (n Note) Heading() string {
	if !n.Promoted {
		return ""
	}
	return first(n.Title, "promoted from "+n.Of) + " [" + n.State + "]"
}

// notesDecoder reads the notes. Each line stands for itself.
type notesDecoder struct{ out *yield }

func (d *notesDecoder) restore(json.RawMessage) error         { return nil }
func (d *notesDecoder) state(func(string) string) (any, bool) { return nil, false }
func (d *notesDecoder) finish(bool) error                     { return nil }

func (d *notesDecoder) line(v *fastjson.Value) (int, error) {
	l := noteLine{
		TS: str(get(v, "ts")), Project: str(get(v, "project")), Kind: str(get(v, "kind")), Session: str(get(v, "session")),
		State: str(get(v, "state")), Title: str(get(v, "title")), Text: str(get(v, "text")), SrcTS: str(get(v, "src_ts")),
	}
	for _, tag := range list(get(v, "tags")) {
		l.Tags = append(l.Tags, str(tag))
	}
	n, why := l.note()
	if why != "" {
		d.out.skip(why, d.out.offset)
		return 0, nil
	}
	return 0, d.out.note(n)
}
