package catalog

import "github.com/deja-node/deja/index/record"

// Brief is the part of a session that a filter asks for most: little of a file
// is read for it.
type Brief struct {
	Node  record.NodeID
	Key   record.SessionKey
	Turns int
}

// Brief returns the brief of a session.
func (r *Reader) Brief(id record.SessionID) (b Brief, ok bool, err error) {
	if r.mem != nil || r.touched[id] {
		s, ok, err := r.sum(id)
		if err != nil || !ok {
			return b, false, err
		}
		return Brief{s.node, s.key, int(s.turns)}, true, nil
	}
	for _, f := range r.files {
		row, found, err := f.find(id)
		if err != nil {
			return b, false, err
		}
		if !found {
			continue
		}
		b.Turns += int(row.turns)
		if ok {
			continue
		}
		data, err := f.data.Bytes(int(row.dataOff), int(row.dataLen))
		if err != nil {
			return b, false, err
		}
		d := dataReader{b: data}
		copy(b.Node[:], d.take(len(b.Node)))
		b.Key = record.SessionKey{Harness: d.str(), Native: d.str()}
		if d.bad {
			return b, false, corrupt(f.f, errData.Error())
		}
		ok = true
	}
	return b, ok, nil
}
