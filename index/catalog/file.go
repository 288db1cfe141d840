package catalog

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

var (
	errList = errors.New("malformed list of docs")
	errData = errors.New("malformed session")
)

// file is one file, read in place.
type file struct {
	f      *shelf.File
	docs   shelf.Section
	cids   shelf.Section
	mids   shelf.Section
	rows   shelf.Section
	data   shelf.Section
	lists  shelf.Section
	drops  shelf.Section
	tombs  shelf.Section
	ranges []docRange
	starts []uint32
	count  uint32 // docs
}

func openFile(sf *shelf.File) (*file, error) {
	f := &file{f: sf}
	var ranges shelf.Section
	for tag, sec := range map[string]*shelf.Section{
		secRanges: &ranges, secDocs: &f.docs, secCIDs: &f.cids, secMIDs: &f.mids, secSessions: &f.rows,
		secData: &f.data, secLists: &f.lists, secDrops: &f.drops, secTombs: &f.tombs,
	} {
		s, ok := sf.Section(tag)
		if !ok {
			return nil, corrupt(sf, "no section "+tag)
		}
		*sec = s
	}
	raw, err := ranges.All()
	if err != nil {
		return nil, err
	}
	var total uint64
	for ; len(raw) >= rangeSize; raw = raw[rangeSize:] {
		r := parseRange(raw)
		f.ranges = append(f.ranges, r)
		f.starts = append(f.starts, uint32(total))
		total += uint64(r.count)
	}
	if total*docSize != uint64(f.docs.Len()) || total >= noSession || f.rows.Len()%sessionSize != 0 ||
		f.cids.Len()%keySize != 0 || f.mids.Len()%keySize != 0 {
		return nil, corrupt(sf, "tables of different lengths")
	}
	f.count = uint32(total)
	return f, nil
}

func (f *file) doc(n uint32) (doc, error) {
	if n >= f.count {
		return doc{}, corrupt(f.f, "no such doc")
	}
	b, err := f.docs.Bytes(int(n)*docSize, docSize)
	if err != nil {
		return doc{}, err
	}
	d := parseDoc(b)
	if d.session != noSession && int(d.session) >= f.sessions() || int(d.role) >= len(roles) {
		return doc{}, corrupt(f.f, "doc out of bounds")
	}
	return d, nil
}

func (f *file) sessions() int { return f.rows.Len() / sessionSize }

// pos is the place of a doc in the log.
func (f *file) pos(n uint32) record.Pos {
	i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > n }) - 1
	r := f.ranges[i]
	return record.Pos{Stream: r.stream, Seq: r.first + record.Seq(n-f.starts[i])}
}

// docAt is the doc of a place in the log.
func (f *file) docAt(p record.Pos) (uint32, bool) {
	for i, r := range f.ranges {
		if r.stream == p.Stream && p.Seq >= r.first && p.Seq < r.next() {
			return f.starts[i] + uint32(p.Seq-r.first), true
		}
	}
	return 0, false
}

func (f *file) row(i int) (row, error) {
	b, err := f.rows.Bytes(i*sessionSize, sessionSize)
	if err != nil {
		return row{}, err
	}
	r := parseRow(b)
	if r.dataOff+uint64(r.dataLen) > uint64(f.data.Len()) || r.listOff+uint64(r.listLen) > uint64(f.lists.Len()) {
		return row{}, corrupt(f.f, "session out of bounds")
	}
	return r, nil
}

// find returns the row of a session.
func (f *file) find(id record.SessionID) (row, bool, error) {
	lo, hi := 0, f.sessions()
	for lo < hi {
		mid := (lo + hi) / 2
		b, err := f.rows.Bytes(mid*sessionSize, 8)
		if err != nil {
			return row{}, false, err
		}
		if record.SessionID(binary.LittleEndian.Uint64(b)) < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == f.sessions() {
		return row{}, false, nil
	}
	r, err := f.row(lo)
	return r, err == nil && r.id == id, err
}

// load reads all that the file says of a session.
func (f *file) load(r row) (*session, error) {
	s := &session{id: r.id, first: r.first, last: r.last, turns: r.turns, docCount: r.docs}
	data, err := f.data.Bytes(int(r.dataOff), int(r.dataLen))
	if err != nil {
		return nil, err
	}
	if err := s.parseData(data); err != nil {
		return nil, corrupt(f.f, err.Error())
	}
	if s.docs, err = f.lists.Bytes(int(r.listOff), int(r.listLen)); err != nil {
		return nil, err
	}
	return s, nil
}

// lookup finds the docs under a short hash.
func (f *file) lookup(table *shelf.Section, hash uint64, yield func(doc uint32) bool) error {
	n := table.Len() / keySize
	lo, hi := 0, n
	for lo < hi {
		mid := (lo + hi) / 2
		b, err := table.Bytes(mid*keySize, keySize)
		if err != nil {
			return err
		}
		if parseKey(b).hash < hash {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for ; lo < n; lo++ {
		b, err := table.Bytes(lo*keySize, keySize)
		if err != nil {
			return err
		}
		k := parseKey(b)
		if k.hash != hash {
			return nil
		}
		if k.doc >= f.count {
			return corrupt(f.f, "key of no doc")
		}
		if !yield(k.doc) {
			return nil
		}
	}
	return nil
}

// taken reads the drops by position and by content.
func (f *file) taken() (drops []drop, cids []record.CID, err error) {
	b, err := f.drops.All()
	if err != nil {
		return nil, nil, err
	}
	if len(b) < 8 {
		return nil, nil, corrupt(f.f, "drops")
	}
	n := binary.LittleEndian.Uint64(b)
	b = b[8:]
	if n > uint64(len(b)/dropSize) {
		return nil, nil, corrupt(f.f, "drops")
	}
	for ; n > 0; n-- {
		drops = append(drops, parseDrop(b))
		b = b[dropSize:]
	}
	for ; len(b) >= len(record.CID{}); b = b[len(record.CID{}):] {
		cids = append(cids, record.CID(b[:len(record.CID{})]))
	}
	return drops, cids, nil
}

// merge writes files as one.
func merge(sh *shelf.Shelf, files []*file) (shelf.FileRef, error) {
	var ranges []docRange
	offsets := make([]uint32, len(files))
	total := uint32(0)
	for i, f := range files {
		offsets[i] = total
		total += f.count
		for _, r := range f.ranges {
			ranges = extend(ranges, r.stream, r.first, r.count)
		}
	}
	w, err := startFile(sh, ranges)
	if err != nil {
		return shelf.FileRef{}, err
	}
	if err := w.mergeAll(files, offsets); err != nil {
		return shelf.FileRef{}, errors.Join(err, w.w.Abort())
	}
	return w.finish(uint64(total))
}

func (w *fileWriter) mergeAll(files []*file, offsets []uint32) error {
	renamed, err := unite(files)
	if err != nil {
		return err
	}
	w.section(secDocs)
	for i, f := range files {
		for n := range f.count {
			d, err := f.doc(n)
			if err != nil {
				return err
			}
			if d.session != noSession {
				d.session = renamed[i][d.session]
			}
			w.put(appendDoc(w.buf[:0], d))
		}
	}
	if err := w.mergeKeys(secCIDs, files, offsets, func(f *file) *shelf.Section { return &f.cids }); err != nil {
		return err
	}
	if err := w.mergeKeys(secMIDs, files, offsets, func(f *file) *shelf.Section { return &f.mids }); err != nil {
		return err
	}
	if err := w.mergeDrops(files); err != nil {
		return err
	}
	return w.mergeSessions(files, offsets)
}

// unite says which ordinal each session of each file gets in the merged table.
func unite(files []*file) ([][]uint32, error) {
	var all []record.SessionID
	ids := make([][]record.SessionID, len(files))
	for i, f := range files {
		for k := range f.sessions() {
			r, err := f.row(k)
			if err != nil {
				return nil, err
			}
			if k > 0 && ids[i][k-1] >= r.id {
				return nil, corrupt(f.f, "sessions out of order")
			}
			ids[i] = append(ids[i], r.id)
		}
		all = append(all, ids[i]...)
	}
	slices.SortFunc(all, compareIDs)
	all = slices.Compact(all)
	renamed := make([][]uint32, len(files))
	for i := range files {
		at := 0
		for _, id := range ids[i] {
			for all[at] != id {
				at++
			}
			renamed[i] = append(renamed[i], uint32(at))
		}
	}
	return renamed, nil
}

// mergeKeys joins sorted tables, the docs shifted. The files are in the order
// of their docs, so equal hashes stay in the order of the log.
func (w *fileWriter) mergeKeys(tag string, files []*file, offsets []uint32, table func(*file) *shelf.Section) error {
	w.section(tag)
	at := make([]int, len(files))
	for {
		best := -1
		var least key
		for i, f := range files {
			if at[i] >= table(f).Len()/keySize {
				continue
			}
			b, err := table(f).Bytes(at[i]*keySize, keySize)
			if err != nil {
				return err
			}
			k := parseKey(b)
			k.doc += offsets[i]
			if best < 0 || compareKeys(k, least) < 0 {
				best, least = i, k
			}
		}
		if best < 0 {
			return nil
		}
		at[best]++
		w.put(appendKey(w.buf[:0], least))
	}
}

func (w *fileWriter) mergeDrops(files []*file) error {
	var drops []drop
	var cids []record.CID
	for _, f := range files {
		d, c, err := f.taken()
		if err != nil {
			return err
		}
		drops, cids = append(drops, d...), append(cids, c...)
	}
	w.dropTables(drops, cids)
	w.section(secTombs)
	for _, f := range files {
		b, err := f.tombs.All()
		if err != nil {
			return err
		}
		w.put(b)
	}
	return nil
}

func (w *fileWriter) mergeSessions(files []*file, offsets []uint32) error {
	w.sessionData()
	at := make([]int, len(files))
	for {
		least, some := record.SessionID(0), false
		for i, f := range files {
			if at[i] < f.sessions() {
				r, err := f.row(at[i])
				if err != nil {
					return err
				}
				if !some || r.id < least {
					least, some = r.id, true
				}
			}
		}
		if !some {
			return nil
		}
		sum := &session{id: least, first: noTime, last: noTime}
		for i, f := range files {
			if at[i] >= f.sessions() {
				continue
			}
			r, err := f.row(at[i])
			if err != nil {
				return err
			}
			if r.id != least {
				continue
			}
			at[i]++
			s, err := f.load(r)
			if err != nil {
				return err
			}
			sum.node, sum.key = s.node, s.key
			if sum.opening.project == "" && sum.opening.seq == 0 {
				sum.opening.project = s.opening.project
			}
			if err := sum.add(s, offsets[i]); err != nil {
				return corrupt(f.f, err.Error())
			}
		}
		w.session(sum)
	}
}
