package batch

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
)

// AppendEntry appends the line of an entry in normal form, without its end: the bytes that
// are hashed, stored and sent. It is one JSON object whose first fields are
// those of the older batch files, so that their readers take it; entries other
// than messages and notes carry the role meta and no text, which such a reader
// drops. An entry with Raw is that line as it is.
func AppendEntry(dst []byte, e *record.Entry) []byte {
	switch {
	case e.Kind == record.KindStub && e.Stub != nil:
		return AppendStub(dst, *e.Stub)
	case e.Raw != nil:
		return append(dst, e.Raw...)
	}
	role, text := e.Role, e.Text
	if !spoken(e.Kind) {
		role, text = record.RoleMeta, redact.Text{}
	}
	l := line{append(dst, `{"harness":`...)}
	l.text(e.Harness)
	l.name(`,"session_id":`).text(e.Session)
	l.name(`,"project":`).text(e.Project.String())
	l.name(`,"role":`).text(string(role))
	l.name(`,"text":`).text(text.String())
	l.name(`,"time":`).time(e.Time)
	l.name(`,"origin":`).text(e.Origin)
	l.name(`,"v":2,"kind":`).text(string(e.Kind))
	l.name(`,"salt":"`)
	l.b = append(base64.RawStdEncoding.AppendEncode(l.b, e.Salt[:]), '"')
	l.number(`,"n":`, int64(e.N))
	l.optText(`,"mid":`, e.Mid)
	if e.Exit != nil {
		l.number(`,"exit":`, int64(*e.Exit))
	}
	if e.Parts > 0 {
		l.number(`,"part":`, int64(e.Part))
		l.number(`,"parts":`, int64(e.Parts))
	}
	l.optText(`,"for":`, e.For)
	if e.Meta != nil {
		l.session(e.Meta)
	}
	if e.Note != nil {
		l.note(e.Note)
	}
	if e.Drop != nil {
		l.drop(e.Drop)
	}
	return append(l.b, '}')
}

// spoken reports whether entries of the kind carry a role and a text.
func spoken(k record.Kind) bool { return k == record.KindMsg || k == record.KindNote }

// line builds one line. The names of fields come with the punctuation before
// and after them.
type line struct{ b []byte }

func (l *line) name(s string) *line {
	l.b = append(l.b, s...)
	return l
}

func (l *line) text(s string) { l.b = appendString(l.b, s) }

func (l *line) time(t time.Time) {
	l.b = append(l.b, '"')
	l.b = record.StoredTime(t).AppendFormat(l.b, time.RFC3339Nano)
	l.b = append(l.b, '"')
}

func (l *line) number(name string, n int64) {
	l.b = strconv.AppendInt(append(l.b, name...), n, 10)
}

func (l *line) optText(name, s string) {
	if s != "" {
		l.name(name).text(s)
	}
}

func (l *line) optTime(name string, t time.Time) {
	if t = record.StoredTime(t); !t.IsZero() {
		l.name(name).time(t)
	}
}

func (l *line) optTexts(name string, all []string) {
	for i, s := range all {
		l.name(opening(name, i)).text(s)
	}
	l.closeList(len(all))
}

// opening returns what stands before the i-th element of a list.
func opening(name string, i int) string {
	if i == 0 {
		return name + "["
	}
	return ","
}

func (l *line) closeList(n int) {
	if n > 0 {
		l.b = append(l.b, ']')
	}
}

func (l *line) session(m *record.SessionMeta) {
	l.optText(`,"title":`, m.Title.String())
	l.optText(`,"cwd":`, m.Cwd.String())
	l.optText(`,"remote":`, m.Remote.String())
	l.optText(`,"root":`, m.Root.String())
	l.optText(`,"branch":`, m.Branch.String())
	l.optText(`,"model":`, m.Model.String())
	l.optText(`,"session_kind":`, m.Kind)
	l.optText(`,"parent":`, m.Parent)
	l.optText(`,"agent":`, m.Agent)
	l.optTime(`,"started":`, m.Started)
	l.optText(`,"source":`, m.Source.String())
	if m.Gone {
		l.name(`,"gone":true`)
	}
}

func (l *line) note(m *record.NoteMeta) {
	l.optText(`,"title":`, m.Title.String())
	l.optText(`,"state":`, m.State)
	l.optTexts(`,"tags":`, m.Tags)
	l.optText(`,"of":`, m.Of)
	l.optTime(`,"evident":`, m.Evident)
}

func (l *line) drop(d *record.Drop) {
	l.optText(`,"id":`, d.ID)
	for i, r := range d.Ranges {
		l.name(opening(`,"ranges":`, i))
		l.b = append(l.b, '[')
		l.text(r.Stream.String())
		l.number(`,`, int64(r.From))
		l.number(`,`, int64(r.To))
		l.b = append(l.b, ']')
	}
	l.closeList(len(d.Ranges))
	for i, c := range d.CIDs {
		l.name(opening(`,"cids":`, i)).text(c.String())
	}
	l.closeList(len(d.CIDs))
	if d.Session != nil {
		l.name(`,"drop_session":[`).text(d.Session.Harness)
		l.name(`,`).text(d.Session.Native)
		l.name(`]`)
	}
	l.optText(`,"drop_project":`, d.Project)
	l.optTime(`,"before":`, d.Before)
	l.number(`,"erase":`, int64(d.Erase))
	l.optText(`,"why":`, d.Why)
	l.optText(`,"reach":`, d.Reach)
	l.optTexts(`,"cancels":`, d.Cancels)
}

// appendString appends a JSON string. Only what JSON demands is escaped: the
// quote, the backslash and the control characters.
func appendString(dst []byte, s string) []byte {
	s = record.StoredText(s)
	dst = append(dst, '"')
	for {
		n := special(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, s[n])
		s = s[n+1:]
	}
}

const hexDigits = "0123456789abcdef"

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '\n':
		return append(dst, '\\', 'n')
	case '"', '\\':
		return append(dst, '\\', c)
	case '\t':
		return append(dst, '\\', 't')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
