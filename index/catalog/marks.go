package catalog

import (
	"bytes"
	"encoding/json"

	"github.com/deja-node/deja/index/record"
)

// Marks returns the last positions of a span that hold a tomb or an untomb,
// and a note; 0 where there is none.
func (r *Reader) Marks(s record.StreamID, from, to record.Seq) (tomb, note record.Seq, err error) {
	for _, f := range r.files {
		n, err := f.lastNote(s, from, to)
		if err != nil {
			return 0, 0, err
		}
		note = max(note, n)
		rows, err := f.tombRows()
		if err != nil {
			return 0, 0, err
		}
		for _, t := range rows {
			if t.Stream == s && t.Seq >= from && t.Seq <= to {
				tomb = max(tomb, t.Seq)
			}
		}
	}
	return tomb, note, nil
}

// lastNote walks the docs of a span from its end.
func (f *file) lastNote(s record.StreamID, from, to record.Seq) (record.Seq, error) {
	for i, r := range f.ranges {
		if r.stream != s {
			continue
		}
		lo, hi := max(from, r.first), min(to, r.next()-1)
		for seq := hi; seq >= lo && seq > 0; seq-- {
			d, err := f.doc(f.starts[i] + uint32(seq-r.first))
			if err != nil {
				return 0, err
			}
			if d.kind == kindNote {
				return seq, nil
			}
		}
	}
	return 0, nil
}

// tombRows reads the tombs and untombs of the file.
func (f *file) tombRows() ([]tombRow, error) {
	b, err := f.tombs.All()
	if err != nil {
		return nil, err
	}
	var rows []tombRow
	for line := range bytes.Lines(b) {
		var t tombRow
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, corrupt(f.f, "tombs")
		}
		rows = append(rows, t)
	}
	return rows, nil
}
