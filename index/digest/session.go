package digest

import (
	"fmt"
	"strings"
	"time"

	"github.com/deja-node/deja/index/record"
)

// Head is what the first lines of a session's digest say.
type Head struct {
	ID      string
	Harness string
	Project string
	Title   string
	Machine string // empty for this one
	Started time.Time
	Updated time.Time
}

// Turn is one turn of a session.
type Turn struct {
	Role record.Role
	Text string
	Exit *int // status of a command, where known
}

// The parts of a digest: how much of the budget each may take, so that one
// long prompt does not push out the outcome, and of how many entries. What a
// part leaves is for the ones after it.
const (
	askedShare, askedMost         = 0.3, 4
	concludedShare, concludedMost = 0.6, 3
	ranShare, ranMost             = 0.6, 12
	filesMost                     = 20

	lineLimit = 160 // bytes of a command or a path
	leastText = 60  // bytes of a text that are worth showing
)

// Session returns a digest of a session in markdown: what was asked, what came
// of it, what ran and which files it touched. It is clean, and has at most
// budget bytes.
func Session(h Head, turns []Turn, budget int) string {
	d := &writer{room: budget}
	d.head(h)
	parts := gather(turns)
	d.texts("Asked", parts.asked, int(askedShare*float64(d.room)))
	d.texts("Concluded", parts.concluded, int(concludedShare*float64(d.room)))
	d.lines("Ran", parts.ran, int(ranShare*float64(d.room)))
	d.lines("Files", parts.files, d.room)
	return strings.TrimRight(d.b.String(), "\n")
}

// parts are what a digest is made of.
type parts struct{ asked, concluded, ran, files []string }

// gather takes the first prompt and the last ones, the last answers (the
// newest first), the commands (those that failed first) and the files.
func gather(turns []Turn) parts {
	var p parts
	var answers, failed, ran []string
	seen := map[string]bool{}
	for _, t := range turns {
		text := strings.TrimSpace(Clean(t.Text))
		if text == "" {
			continue
		}
		switch t.Role {
		case record.RoleUser:
			p.asked = append(p.asked, text)
		case record.RoleAssistant:
			answers = append(answers, text)
		case record.RoleCommand:
			switch c := oneLine(text); {
			case seen[c]:
			case t.Exit != nil && *t.Exit != 0:
				failed = append(failed, fmt.Sprintf("%s (exit %d)", c, *t.Exit))
			default:
				ran = append(ran, c)
			}
			seen[oneLine(text)] = true
		case record.RoleFiles, record.RoleEdit:
			for _, f := range paths(t.Role, text) {
				if !seen["file "+f] {
					p.files = append(p.files, f)
				}
				seen["file "+f] = true
			}
		}
	}
	if n := len(p.asked); n > askedMost {
		p.asked = append(p.asked[:1:1], p.asked[n-askedMost+1:]...)
	}
	for i := len(answers) - 1; i >= 0 && len(p.concluded) < concludedMost; i-- {
		p.concluded = append(p.concluded, answers[i])
	}
	p.ran = first(append(failed, ran...), ranMost)
	p.files = first(p.files, filesMost)
	return p
}

func first(s []string, n int) []string { return s[:min(len(s), n)] }

// paths are the files that a work record names: all lines of a list, and the
// first line of an edit.
func paths(role record.Role, text string) []string {
	if role == record.RoleEdit {
		text, _, _ = strings.Cut(text, "\n")
	}
	var out []string
	for l := range strings.SplitSeq(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, oneLine(l))
		}
	}
	return out
}

// oneLine makes clean text fit for one line.
func oneLine(s string) string { return Cut(strings.Join(strings.Fields(s), " "), lineLimit) }

// writer writes what fits.
type writer struct {
	b    strings.Builder
	room int
}

// put writes s if there is room for all of it.
func (d *writer) put(s string) bool {
	if len(s) > d.room {
		return false
	}
	d.b.WriteString(s)
	d.room -= len(s)
	return true
}

func (d *writer) head(h Head) {
	title := oneLine(Clean(h.Title))
	if title == "" {
		title = "Untitled session"
	}
	d.put("# " + title + "\n")
	var facts []string
	for _, f := range []string{h.Harness, h.Project, h.Machine, h.ID} {
		if f = oneLine(Clean(f)); f != "" {
			facts = append(facts, f)
		}
	}
	if !h.Updated.IsZero() {
		facts = append(facts, span(h.Started, h.Updated))
	}
	if len(facts) > 0 {
		d.put(strings.Join(facts, " · ") + "\n")
	}
}

// span is a time, or two where a session went on for more than a day.
func span(from, to time.Time) string {
	const day = "2006-01-02"
	if from.IsZero() || from.Format(day) == to.Format(day) {
		return to.Format(day)
	}
	return from.Format(day) + " to " + to.Format(day)
}

// texts writes a part of quoted texts. They share the room evenly, and what a
// short one leaves is for the others.
func (d *writer) texts(name string, texts []string, room int) {
	heading := "\n## " + name + "\n"
	room = min(room, d.room) - len(heading)
	for i, t := range texts {
		q := quote(t, room/(len(texts)-i))
		if q == "" {
			continue
		}
		if heading != "" && !d.put(heading) || !d.put(q) {
			return
		}
		heading = ""
		room -= len(q)
	}
}

// quote makes a text a quotation of at most limit bytes; it is empty when too
// little of it would be left.
func quote(text string, limit int) string {
	const begin, next, end = "> ", "\n> ", "\n"
	for room := limit - len(begin) - len(end); room > 0; {
		part := Cut(text, room)
		if len(part) < min(leastText, len(text)) {
			return ""
		}
		q := begin + strings.ReplaceAll(part, "\n", next) + end
		if len(q) <= limit {
			return q
		}
		room -= len(q) - limit
	}
	return ""
}

// lines writes a part of short lines.
func (d *writer) lines(name string, lines []string, room int) {
	heading := "\n## " + name + "\n"
	room = min(room, d.room) - len(heading)
	for _, l := range lines {
		l = "- " + l + "\n"
		if len(l) > room || heading != "" && !d.put(heading) || !d.put(l) {
			return
		}
		heading = ""
		room -= len(l)
	}
}
