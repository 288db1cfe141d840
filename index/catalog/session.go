package catalog

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/deja-node/deja/index/record"
)

// session is what one file, or the memory, says of a session. Everything in it
// can be added to what another says.
type session struct {
	id       record.SessionID
	node     record.NodeID
	key      record.SessionKey
	turns    uint32 // turns and notes
	first    int64  // of their times, noTime when none has any
	last     int64
	opening  opening
	metas    []meta // the newest of each stream, by stream
	docs     []byte // ascending docs as uvarint gaps
	docCount uint32
	lastDoc  uint32 // doc + 1
}

// opening is the first thing the user said: the title of a session without
// one, and the project where no metadata names it.
type opening struct {
	stream  record.StreamID
	seq     record.Seq
	text    string
	project string
}

// meta is one session entry.
type meta struct {
	stream  record.StreamID
	seq     record.Seq
	time    int64
	started int64
	gone    bool
	text    [metaTexts]string
}

// The texts of a meta, in the order in which they are stored. It may not change.
const (
	metaProject = 0
	metaTitle   = 1
	metaCwd     = 2
	metaRemote  = 3
	metaRoot    = 4
	metaBranch  = 5
	metaModel   = 6
	metaKind    = 7
	metaParent  = 8
	metaAgent   = 9
	metaSource  = 10
	metaTexts   = 11
)

func newMeta(s record.StreamID, seq record.Seq, e *record.Entry) meta {
	m := e.Meta
	return meta{
		stream: s, seq: seq, time: nanos(e.Time), started: nanos(m.Started), gone: m.Gone,
		text: [metaTexts]string{
			metaProject: e.Project.String(), metaTitle: m.Title.String(), metaCwd: m.Cwd.String(), metaRemote: m.Remote.String(),
			metaRoot: m.Root.String(), metaBranch: m.Branch.String(), metaModel: m.Model.String(), metaKind: m.Kind,
			metaParent: m.Parent, metaAgent: m.Agent, metaSource: m.Source.String(),
		},
	}
}

const maxOpening = 120 // runes of a title made from what was said

// openingOf makes one line of what the user said.
func openingOf(text string) string {
	var b strings.Builder
	runes := 0
	for field := range strings.FieldsSeq(text) {
		if runes > 0 {
			b.WriteByte(' ')
			runes++
		}
		for _, r := range field {
			if runes == maxOpening {
				return b.String() + "…"
			}
			b.WriteRune(r)
			runes++
		}
		if runes >= maxOpening {
			return b.String()
		}
	}
	return b.String()
}

// before orders openings by their place in the log; an unset one is last.
func (o opening) before(p opening) bool {
	if o.seq == 0 || p.seq == 0 {
		return o.seq != 0
	}
	if c := o.stream.Compare(p.stream); c != 0 {
		return c < 0
	}
	return o.seq < p.seq
}

// learn keeps the newest metadata of each stream.
func (s *session) learn(m meta) {
	i, found := slices.BinarySearchFunc(s.metas, m, func(a, b meta) int { return a.stream.Compare(b.stream) })
	switch {
	case !found:
		s.metas = slices.Insert(s.metas, i, m)
	case m.seq > s.metas[i].seq:
		s.metas[i] = m
	}
}

// see counts one turn at a time.
func (s *session) see(at int64) {
	s.turns++
	s.spread(at, at)
}

func (s *session) spread(first, last int64) {
	if first != noTime && (s.first == noTime || first < s.first) {
		s.first = first
	}
	if last != noTime && (s.last == noTime || last > s.last) {
		s.last = last
	}
}

// put adds a doc; docs come in ascending order.
func (s *session) put(n uint32) {
	s.docs = binary.AppendUvarint(s.docs, uint64(n+1-s.lastDoc))
	s.lastDoc = n + 1
	s.docCount++
}

// add takes in what a later file says, its docs shifted by offset.
func (s *session) add(o *session, offset uint32) error {
	s.turns += o.turns
	s.spread(o.first, o.last)
	if o.opening.before(s.opening) {
		s.opening = o.opening
	}
	for _, m := range o.metas {
		s.learn(m)
	}
	return o.eachDoc(func(n uint32) bool {
		s.put(n + offset)
		return true
	})
}

// eachDoc walks the docs until yield says stop.
func (s *session) eachDoc(yield func(uint32) bool) error {
	last := uint64(0)
	for rest := s.docs; len(rest) > 0; {
		gap, n := binary.Uvarint(rest)
		if n <= 0 || gap == 0 || last+gap > noSession {
			return errList
		}
		rest = rest[n:]
		last += gap
		if !yield(uint32(last - 1)) {
			return nil
		}
	}
	return nil
}

// newest is the metadata that counts: the newest of its stream, and of several
// streams the one of the latest time.
func (s *session) newest() (meta, bool) {
	if len(s.metas) == 0 {
		return meta{}, false
	}
	best := s.metas[0]
	for _, m := range s.metas[1:] {
		if m.time > best.time || m.time == best.time && m.stream.Compare(best.stream) > 0 {
			best = m
		}
	}
	return best, true
}

// appendData stores the part of a session that has no fixed width.
func (s *session) appendData(b []byte) []byte {
	b = append(b, s.node[:]...)
	b = appendString(b, s.key.Harness)
	b = appendString(b, s.key.Native)
	b = appendStream(b, s.opening.stream)
	b = binary.AppendUvarint(b, uint64(s.opening.seq))
	b = appendString(b, s.opening.text)
	b = appendString(b, s.opening.project)
	b = binary.AppendUvarint(b, uint64(len(s.metas)))
	for _, m := range s.metas {
		b = appendStream(b, m.stream)
		b = binary.AppendUvarint(b, uint64(m.seq))
		b = binary.LittleEndian.AppendUint64(b, uint64(m.time))
		b = binary.LittleEndian.AppendUint64(b, uint64(m.started))
		gone := byte(0)
		if m.gone {
			gone = 1
		}
		b = append(b, gone)
		for _, t := range m.text {
			b = appendString(b, t)
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parseData reads what appendData stored.
func (s *session) parseData(b []byte) error {
	r := dataReader{b: b}
	copy(s.node[:], r.take(20))
	s.key = record.SessionKey{Harness: r.str(), Native: r.str()}
	s.opening.stream = r.stream()
	s.opening.seq = record.Seq(r.num())
	s.opening.text, s.opening.project = r.str(), r.str()
	for n := r.num(); n > 0 && !r.bad; n-- {
		m := meta{stream: r.stream(), seq: record.Seq(r.num()), time: r.i64(), started: r.i64(), gone: r.take(1)[0] == 1}
		for i := range m.text {
			m.text[i] = r.str()
		}
		s.metas = append(s.metas, m)
	}
	if r.bad || len(r.b) > 0 {
		return errData
	}
	return nil
}

// dataReader reads fields until one is malformed; then all that follow are zero.
type dataReader struct {
	b   []byte
	bad bool
}

var zeros [32]byte

func (r *dataReader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return zeros[:min(n, len(zeros))]
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *dataReader) num() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *dataReader) str() string {
	n := r.num()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	return string(r.take(int(n)))
}

func (r *dataReader) i64() int64 { return int64(binary.LittleEndian.Uint64(r.take(8))) }

func (r *dataReader) stream() record.StreamID { return parseStream(r.take(28)) }

// appendRow stores the part of a session that has a fixed width.
func (s *session) appendRow(b []byte, dataOff, dataLen, listOff uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(s.id))
	b = binary.LittleEndian.AppendUint64(b, dataOff)
	b = binary.LittleEndian.AppendUint64(b, listOff)
	b = binary.LittleEndian.AppendUint32(b, uint32(dataLen))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.docs)))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.first))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.last))
	b = binary.LittleEndian.AppendUint32(b, s.turns)
	return binary.LittleEndian.AppendUint32(b, s.docCount)
}

// row is appendRow read back.
type row struct {
	id               record.SessionID
	dataOff, listOff uint64
	dataLen, listLen uint32
	first, last      int64
	turns, docs      uint32
}

func parseRow(b []byte) row {
	u64 := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	return row{
		id: record.SessionID(u64(0)), dataOff: u64(8), listOff: u64(16), dataLen: u32(24), listLen: u32(28),
		first: int64(u64(32)), last: int64(u64(40)), turns: u32(48), docs: u32(52),
	}
}

// Session is a session as the view tells it, over all files.
type Session struct {
	ID      record.SessionID
	Node    record.NodeID
	Key     record.SessionKey
	Project string
	Title   string
	Cwd     string
	Remote  string
	Root    string
	Branch  string
	Model   string
	Kind    string
	Parent  string
	Agent   string
	Source  string // of the transcript, home-relative
	Started time.Time
	Updated time.Time
	Turns   int
	Gone    bool
	// Described says that metadata was logged; the fields above are what it said.
	Described bool
	MetaTitle string // the title in the metadata, without the fallback
}

func (s *session) public() Session {
	out := Session{
		ID: s.id, Node: s.node, Key: s.key, Turns: int(s.turns),
		Started: fromNanos(s.first), Updated: fromNanos(s.last), Title: s.opening.text, Project: s.opening.project,
	}
	m, ok := s.newest()
	if !ok {
		return out
	}
	t := &m.text
	out.Described, out.MetaTitle = true, t[metaTitle]
	out.Cwd, out.Remote, out.Root, out.Branch, out.Model = t[metaCwd], t[metaRemote], t[metaRoot], t[metaBranch], t[metaModel]
	out.Kind, out.Parent, out.Agent, out.Source, out.Gone = t[metaKind], t[metaParent], t[metaAgent], t[metaSource], m.gone
	if t[metaTitle] != "" {
		out.Title = t[metaTitle]
	}
	if t[metaProject] != "" {
		out.Project = t[metaProject]
	}
	if m.started != noTime {
		out.Started = fromNanos(min(m.started, max(s.first, m.started)))
	}
	if s.first != noTime {
		out.Started = fromNanos(s.first)
	}
	return out
}
