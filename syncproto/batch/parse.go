package batch

import (
	"encoding/base64"
	"fmt"
	"math"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
)

// Limits of the numbers in a line.
const (
	maxCount = math.MaxInt32
	maxSeq   = record.Seq(1) << 53 // what a JSON number holds exactly everywhere
)

// Parser reads lines. It remembers the names that lines repeat, so that a
// parser used for many lines allocates little more than their texts.
type Parser struct {
	s     scanner
	known [knownNames]string
	rare  rare
	kept  bool // rare holds something of an earlier line
}

// The names that neighbouring lines share.
const (
	knownHarness = iota
	knownSession
	knownProject
	knownRole
	knownOrigin
	knownKind
	knownNames
)

// rare collects the fields of sessions, notes and removals until the kind of
// the line is known for sure.
type rare struct {
	title redact.Text
	meta  record.SessionMeta
	note  record.NoteMeta
	drop  record.Drop
}

// Entry reads a line into e, whatever e held. The line is not kept, and only
// lines whose batch has been verified may be passed: their text is taken for
// scrubbed. Fields of an unexpected type count as missing, and of fields that
// come twice the last counts. A stub line gives an entry of kind stub, a line
// of an unknown kind one with Raw.
func (p *Parser) Entry(line []byte, e *record.Entry) error {
	*e = record.Entry{Kind: record.KindMsg, Line: len(line)}
	if len(line) > record.MaxLine {
		return fmt.Errorf("%w: line of %d bytes", ErrMalformed, len(line))
	}
	if IsStub(line) {
		stub, err := ParseStub(line)
		*e = record.Entry{Kind: record.KindStub, Line: len(line), Stub: &stub}
		return err
	}
	if p.kept {
		p.rare, p.kept = rare{}, false
	}
	p.s.reset(line)
	if !p.s.open('{') {
		p.s.fail()
	}
	for p.s.more('}') {
		p.field(p.s.key(), e)
	}
	if !p.s.end() || e.Kind == record.KindStub {
		return fmt.Errorf("%w: line %.60q", ErrMalformed, line)
	}
	p.finish(line, e)
	return nil
}

// finish settles what depends on more than one field.
func (p *Parser) finish(line []byte, e *record.Entry) {
	if e.Parts == 0 || e.Part < 1 || e.Part > e.Parts {
		e.Part, e.Parts = 0, 0
	}
	if !spoken(e.Kind) {
		e.Role, e.Text = record.RoleMeta, redact.Text{}
	}
	r := &p.rare
	switch e.Kind {
	case record.KindMsg:
	case record.KindSession:
		m := r.meta
		m.Title = r.title
		e.Meta = &m
	case record.KindNote:
		m := r.note
		m.Title = r.title
		e.Note = &m
	case record.KindSupersede, record.KindTomb, record.KindUntomb:
		d := r.drop
		e.Drop = &d
	default:
		e.Raw = append([]byte(nil), line...)
	}
}

func (p *Parser) field(key []byte, e *record.Entry) {
	switch string(key) {
	case "harness":
		e.Harness = p.name(knownHarness)
	case "session_id":
		e.Session = p.name(knownSession)
	case "project":
		e.Project = redact.Trusted(p.name(knownProject))
	case "role":
		e.Role = record.Role(p.name(knownRole))
	case "text":
		e.Text = p.text()
	case "time":
		e.Time = p.time()
	case "origin":
		e.Origin = p.name(knownOrigin)
	case "kind":
		if k := p.name(knownKind); k != "" {
			e.Kind = record.Kind(k)
		}
	case "salt":
		e.Salt = p.salt()
	case "n":
		e.N = p.count()
	case "mid":
		e.Mid = p.string()
	case "exit":
		e.Exit = p.exit()
	case "part":
		e.Part = p.count()
	case "parts":
		e.Parts = p.count()
	case "for":
		e.For = p.string()
	default:
		p.rareField(string(key))
	}
}

// rareField reads a field that only some kinds have.
func (p *Parser) rareField(key string) {
	r := &p.rare
	p.kept = true
	switch key {
	case "title":
		r.title = p.text()
	case "cwd":
		r.meta.Cwd = p.text()
	case "remote":
		r.meta.Remote = p.text()
	case "root":
		r.meta.Root = p.text()
	case "branch":
		r.meta.Branch = p.text()
	case "model":
		r.meta.Model = p.text()
	case "session_kind":
		r.meta.Kind = p.string()
	case "parent":
		r.meta.Parent = p.string()
	case "agent":
		r.meta.Agent = p.string()
	case "started":
		r.meta.Started = p.time()
	case "source":
		r.meta.Source = p.text()
	case "gone":
		r.meta.Gone, _ = p.s.truth()
	case "state":
		r.note.State = p.string()
	case "tags":
		r.note.Tags = p.strings()
	case "of":
		r.note.Of = p.string()
	case "evident":
		r.note.Evident = p.time()
	default:
		p.dropField(key)
	}
}

func (p *Parser) dropField(key string) {
	d := &p.rare.drop
	switch key {
	case "id":
		d.ID = p.string()
	case "ranges":
		d.Ranges = p.ranges()
	case "cids":
		d.CIDs = p.cids()
	case "drop_session":
		d.Session = p.sessionKey()
	case "drop_project":
		d.Project = p.string()
	case "before":
		d.Before = p.time()
	case "erase":
		d.Erase = p.count()
	case "why":
		d.Why = p.string()
	case "reach":
		d.Reach = p.string()
	case "cancels":
		d.Cancels = p.strings()
	default:
		p.s.skip()
	}
}

// name reads a string, and returns the one it returned last if they are equal.
func (p *Parser) name(which int) string {
	b, _ := p.s.str()
	if p.known[which] != string(b) {
		p.known[which] = string(b)
	}
	return p.known[which]
}

func (p *Parser) string() string {
	b, _ := p.s.str()
	return string(b)
}

func (p *Parser) text() redact.Text { return redact.Trusted(p.string()) }

func (p *Parser) time() time.Time {
	b, ok := p.s.str()
	if !ok {
		return time.Time{}
	}
	var t time.Time
	if err := t.UnmarshalText(b); err != nil {
		return time.Time{}
	}
	return record.StoredTime(t)
}

func (p *Parser) salt() (salt [8]byte) {
	b, _ := p.s.str()
	if len(b) != base64.RawStdEncoding.EncodedLen(len(salt)) {
		return salt
	}
	if _, err := base64.RawStdEncoding.Decode(salt[:], b); err != nil {
		return [8]byte{}
	}
	return salt
}

func (p *Parser) count() int {
	n, ok := p.s.integer()
	if !ok || n < 0 || n > maxCount {
		return 0
	}
	return int(n)
}

func (p *Parser) exit() *int {
	n, ok := p.s.integer()
	code := int(n)
	if !ok || int64(code) != n {
		return nil
	}
	return &code
}

// list reads an array and calls one for each element, which has to pass it.
func (p *Parser) list(one func()) {
	if p.s.peek() != '[' {
		p.s.skip()
		return
	}
	for ok := p.s.open('['); ok && p.s.more(']'); {
		one()
	}
}

func (p *Parser) strings() (all []string) {
	p.list(func() {
		if b, ok := p.s.str(); ok {
			all = append(all, string(b))
		}
	})
	return all
}

func (p *Parser) cids() (all []record.CID) {
	p.list(func() {
		var c record.CID
		if b, ok := p.s.str(); ok && c.UnmarshalText(b) == nil {
			all = append(all, c)
		}
	})
	return all
}

func (p *Parser) sessionKey() *record.SessionKey {
	if all := p.strings(); len(all) == 2 {
		return &record.SessionKey{Harness: all[0], Native: all[1]}
	}
	return nil
}

// ranges reads elements of the form [stream, from, to]. One that is anything
// else names nothing.
func (p *Parser) ranges() (all []record.Range) {
	p.list(func() {
		var r record.Range
		sound, at := true, 0
		p.list(func() {
			switch at {
			case 0:
				b, ok := p.s.str()
				sound = sound && ok && r.Stream.UnmarshalText(b) == nil
			case 1:
				r.From, sound = p.seq(sound)
			case 2:
				r.To, sound = p.seq(sound)
			default:
				sound = false
				p.s.skip()
			}
			at++
		})
		if sound && at == 3 && r.From <= r.To {
			all = append(all, r)
		}
	})
	return all
}

func (p *Parser) seq(sound bool) (record.Seq, bool) {
	n, ok := p.s.integer()
	if !ok || n < 1 || record.Seq(n) > maxSeq {
		return 0, false
	}
	return record.Seq(n), sound
}
