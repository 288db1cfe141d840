package batch

import (
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
)

// Normalize makes of an entry what reading its line back gives: strings of
// valid UTF-8, times that a log can keep, numbers in their range, and nothing
// that the kind does not have. What is folded into a view when it is appended
// is thereby what a rebuild folds.
func Normalize(e *record.Entry) {
	if e.Raw != nil || e.Kind == record.KindStub {
		return
	}
	if e.Kind == "" {
		e.Kind = record.KindMsg
	}
	if !spoken(e.Kind) {
		e.Role, e.Text = record.RoleMeta, redact.Text{}
	}
	each(record.StoredText, &e.Harness, &e.Session, &e.Origin, &e.Mid, &e.For)
	e.Role = record.Role(record.StoredText(string(e.Role)))
	eachText(&e.Project, &e.Text)
	e.Time = record.StoredTime(e.Time)
	e.N = count(e.N)
	if e.Parts = count(e.Parts); e.Part < 1 || e.Part > e.Parts {
		e.Part, e.Parts = 0, 0
	}
	e.Meta = own(e.Kind == record.KindSession, e.Meta, normalMeta)
	e.Note = own(e.Kind == record.KindNote, e.Note, normalNote)
	removes := e.Kind == record.KindSupersede || e.Kind == record.KindTomb || e.Kind == record.KindUntomb
	e.Drop = own(removes, e.Drop, normalDrop)
}

// own returns a normal copy of a part that the kind has, and nil for one that
// it does not have.
func own[T any](has bool, part *T, normal func(*T)) *T {
	if !has {
		return nil
	}
	p := new(T)
	if part != nil {
		*p = *part
	}
	normal(p)
	return p
}

func normalMeta(m *record.SessionMeta) {
	eachText(&m.Title, &m.Cwd, &m.Root, &m.Branch, &m.Model, &m.Remote, &m.Source)
	each(record.StoredText, &m.Kind, &m.Parent, &m.Agent)
	m.Started = record.StoredTime(m.Started)
}

func normalNote(m *record.NoteMeta) {
	eachText(&m.Title)
	each(record.StoredText, &m.State, &m.Of)
	m.Tags = storedTexts(m.Tags)
	m.Evident = record.StoredTime(m.Evident)
}

func normalDrop(d *record.Drop) {
	each(record.StoredText, &d.ID, &d.Project, &d.Why, &d.Reach)
	d.Cancels = storedTexts(d.Cancels)
	if d.Session != nil {
		k := *d.Session
		each(record.StoredText, &k.Harness, &k.Native)
		d.Session = &k
	}
	d.Before = record.StoredTime(d.Before)
	d.Erase = count(d.Erase)
}

func storedTexts(all []string) []string {
	if len(all) == 0 {
		return nil
	}
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = record.StoredText(s)
	}
	return out
}

func each(f func(string) string, all ...*string) {
	for _, s := range all {
		*s = f(*s)
	}
}

func eachText(all ...*redact.Text) {
	for _, t := range all {
		if s := t.String(); record.StoredText(s) != s {
			*t = redact.Trusted(record.StoredText(s))
		}
	}
}

func count(n int) int { return min(max(n, 0), maxCount) }
