package catalog

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

// memtable is what was applied since the last flush.
type memtable struct {
	ranges   []docRange
	docs     []doc
	cids     map[uint64]uint32 // of turns and notes; equal short hashes keep the first
	mids     map[uint64]uint32
	sessions map[record.SessionID]*session
	order    []*session // by ordinal
	ordinal  map[*session]uint32
	drops    []drop
	cidDrops []record.CID
	tombs    [][]byte // JSON of tomb and untomb entries with their place
	latest   uint32   // ordinal of the session of the last entry
	strings  int
}

func newMemtable() *memtable {
	return &memtable{
		cids: map[uint64]uint32{}, mids: map[uint64]uint32{},
		sessions: map[record.SessionID]*session{}, ordinal: map[*session]uint32{},
	}
}

// bytes is about what the memtable occupies.
func (m *memtable) bytes() int {
	return cap(m.docs)*24 + (len(m.cids)+len(m.mids))*32 + len(m.order)*400 + m.strings
}

// apply takes one entry as the next doc.
func (m *memtable) apply(s record.StreamID, seq record.Seq, e *record.Entry) {
	n := uint32(len(m.docs))
	d := doc{session: noSession, time: noTime}
	switch e.Kind {
	case record.KindMsg, record.KindNote:
		d = m.turn(s, seq, n, e)
	case record.KindSession:
		if e.Meta != nil {
			m.session(s.Node, e).learn(newMeta(s, seq, e))
		}
	case record.KindSupersede:
		m.drop(e.Drop)
	case record.KindTomb, record.KindUntomb:
		m.tombs = append(m.tombs, tombLine(s, seq, e))
	}
	m.docs = append(m.docs, d)
}

func (m *memtable) turn(s record.StreamID, seq record.Seq, n uint32, e *record.Entry) doc {
	c := e.CID().Short()
	if _, ok := m.cids[c]; !ok {
		m.cids[c] = n
	}
	if e.Mid != "" {
		h := midHash(e.Harness, e.Mid)
		if _, ok := m.mids[h]; !ok {
			m.mids[h] = n
		}
	}
	st := m.session(s.Node, e)
	d := doc{session: m.ordinal[st], kind: kindTurn, role: roleNumber(e.Role), time: nanos(e.Time)}
	if e.Kind == record.KindNote {
		d.kind = kindNote
	}
	st.put(n)
	if e.Part > 1 {
		d.kind = kindPart
		return d
	}
	st.see(d.time)
	if e.Role == record.RoleUser {
		o := opening{stream: s, seq: seq, project: e.Project.String()}
		if o.before(st.opening) {
			o.text = openingOf(e.Text.String())
			st.opening = o
			m.strings += len(o.text)
		}
	} else if st.opening.seq == 0 && st.opening.project == "" {
		st.opening.project = e.Project.String()
	}
	return d
}

func (m *memtable) session(node record.NodeID, e *record.Entry) *session {
	key := record.SessionKey{Harness: e.Harness, Native: e.Session}
	if n := len(m.order); n > 0 {
		// Entries come in runs of one session.
		if last := m.order[m.latest]; last.key == key && last.node == node {
			return last
		}
	}
	id := record.SessionOf(node, key)
	st := m.sessions[id]
	if st == nil {
		st = &session{id: id, node: node, key: key, first: noTime, last: noTime}
		m.sessions[id] = st
		m.ordinal[st] = uint32(len(m.order))
		m.order = append(m.order, st)
	}
	m.latest = m.ordinal[st]
	return st
}

func (m *memtable) drop(d *record.Drop) {
	if d == nil {
		return
	}
	for _, r := range d.Ranges {
		m.drops = append(m.drops, drop{r.Stream, r.From, r.To})
	}
	m.cidDrops = append(m.cidDrops, d.CIDs...)
}

// tombRow is a tomb or an untomb as the view keeps it.
type tombRow struct {
	Stream record.StreamID `json:"stream"`
	Seq    record.Seq      `json:"seq"`
	Kind   record.Kind     `json:"kind"`
	Drop   *record.Drop    `json:"drop"`
}

func tombLine(s record.StreamID, seq record.Seq, e *record.Entry) []byte {
	b, err := json.Marshal(tombRow{s, seq, e.Kind, e.Drop})
	if err != nil {
		panic(err) // the types above always marshal
	}
	return append(b, '\n')
}

// flush writes the memtable as a file.
func (m *memtable) flush(sh *shelf.Shelf) (shelf.FileRef, error) {
	order := slices.Clone(m.order)
	slices.SortFunc(order, func(a, b *session) int { return compareIDs(a.id, b.id) })
	renamed := make([]uint32, len(order))
	for i, s := range order {
		renamed[m.ordinal[s]] = uint32(i)
	}
	w, err := startFile(sh, m.ranges)
	if err != nil {
		return shelf.FileRef{}, err
	}
	w.section(secDocs)
	for _, d := range m.docs {
		if d.session != noSession {
			d.session = renamed[d.session]
		}
		w.put(appendDoc(w.buf[:0], d))
	}
	w.keys(secCIDs, sortedKeys(m.cids))
	w.keys(secMIDs, sortedKeys(m.mids))
	w.dropTables(m.drops, m.cidDrops)
	w.section(secTombs)
	for _, t := range m.tombs {
		w.put(t)
	}
	w.sessionData()
	for _, s := range order {
		w.session(s)
	}
	return w.finish(uint64(len(m.docs)))
}

func compareIDs(a, b record.SessionID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func sortedKeys(m map[uint64]uint32) []key {
	keys := make([]key, 0, len(m))
	for h, n := range m {
		keys = append(keys, key{h, n})
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// fileWriter writes one file section by section.
type fileWriter struct {
	w     *shelf.Writer
	buf   []byte
	rows  []byte
	lists []byte
	data  uint64
}

func startFile(sh *shelf.Shelf, ranges []docRange) (*fileWriter, error) {
	sw, err := sh.Create(Name)
	if err != nil {
		return nil, err
	}
	w := &fileWriter{w: sw}
	w.section(secRanges)
	for _, r := range ranges {
		w.put(appendRange(w.buf[:0], r))
	}
	return w, nil
}

func (w *fileWriter) section(tag string) { w.w.Section(tag) }

// put passes bytes on; the writer keeps its first error for Finish.
func (w *fileWriter) put(b []byte) {
	w.w.Write(b) //nolint:errcheck // as said
}

func (w *fileWriter) keys(tag string, keys []key) {
	w.section(tag)
	for _, k := range keys {
		w.put(appendKey(w.buf[:0], k))
	}
}

// dropTables stores drops by position, then those by content, each with a
// number of them in front.
func (w *fileWriter) dropTables(drops []drop, cids []record.CID) {
	w.section(secDrops)
	w.put(binary.LittleEndian.AppendUint64(w.buf[:0], uint64(len(drops))))
	for _, d := range drops {
		w.put(appendDrop(w.buf[:0], d))
	}
	for _, c := range cids {
		w.put(c[:])
	}
}

// sessionData begins the sessions; rows and lists are gathered meanwhile.
func (w *fileWriter) sessionData() { w.section(secData) }

func (w *fileWriter) session(s *session) {
	w.buf = s.appendData(w.buf[:0])
	w.put(w.buf)
	w.rows = s.appendRow(w.rows, w.data, uint64(len(w.buf)), uint64(len(w.lists)))
	w.data += uint64(len(w.buf))
	w.lists = append(w.lists, s.docs...)
}

func (w *fileWriter) finish(docs uint64) (shelf.FileRef, error) {
	w.section(secLists)
	w.put(w.lists)
	w.section(secSessions)
	w.put(w.rows)
	ref, err := w.w.Finish()
	// Small files weigh alike, so that a few of them are merged soon.
	ref.Weight = max(docs, 512)
	return ref, err
}
