package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// state is what is known of a stream at one moment. It is never changed.
type state struct {
	stream record.StreamID
	dir    string
	head   record.Head  // of the committed batches
	segs   []record.Seq // names of the segments, ascending
	holes  []record.Range
	bare   bool // nothing was ever written
	lost   bool // HEAD was missing or damaged, and head was found out
}

// headFile is HEAD. The sum makes a damaged file one that is missing.
type headFile struct {
	record.Head
	Sum uint32 `json:"sum"`
}

func headSum(h record.Head) uint32 {
	return crc32.Checksum(fmt.Appendf(nil, "%d %s", h.Seq, h.Hash), castagnoli)
}

// readHead returns nil when there is no sound HEAD.
func readHead(fsys vfs.FS, dir string) (*record.Head, error) {
	data, err := vfs.ReadFile(fsys, path.Join(dir, headName), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a missing HEAD is a state like others
	}
	if err != nil {
		return nil, err
	}
	var f headFile
	if json.Unmarshal(data, &f) != nil || f.Sum != headSum(f.Head) {
		return nil, nil //nolint:nilnil // as good as missing: it can be found out from the segments
	}
	return &f.Head, nil
}

func writeHead(fsys vfs.FS, dir string, h record.Head) error {
	data, err := json.Marshal(headFile{h, headSum(h)})
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, path.Join(dir, headName), append(data, '\n'))
}

// load reads how far a stream is committed now. HEAD is read before the folder
// is listed, so the list has every segment that HEAD covers.
func (j *Journal) load(s record.StreamID) (*state, error) {
	st := &state{stream: s, dir: path.Join(j.dir, s.String())}
	head, err := readHead(j.fs, st.dir)
	if err != nil {
		return st, err
	}
	if st.segs, err = listSeqs(j.fs, st.dir, segSuffix); err != nil {
		return st, err
	}
	if st.holes, err = readHoles(j.fs, st.dir); err != nil {
		return st, err
	}
	if head == nil {
		found, err := j.findHead(st)
		if err != nil {
			return st, err
		}
		st.bare = len(st.segs) == 0
		head, st.lost = &found, !st.bare
	}
	st.head = *head
	j.mu.Lock()
	defer j.mu.Unlock()
	j.logs[s] = st
	return st, nil
}

// cached returns the state that was loaded last, nil if none is kept.
func (j *Journal) cached(s record.StreamID) *state {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.logs[s]
}

// reaching returns a state of the stream, not older than one that has seq.
func (j *Journal) reaching(s record.StreamID, seq record.Seq) (*state, error) {
	if st := j.cached(s); st != nil && st.head.Seq >= seq {
		return st, nil
	}
	return j.load(s)
}

// listSeqs returns the positions that name the files of a folder with a suffix.
func listSeqs(fsys vfs.FS, dir, suffix string) ([]record.Seq, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []record.Seq
	for _, e := range entries {
		if first, ok := parseSeqName(e.Name(), suffix); ok {
			all = append(all, first)
		}
	}
	return all, nil
}

// segmentOf returns the index of the segment that would hold seq, -1 if none.
func (st *state) segmentOf(seq record.Seq) int {
	i, found := slices.BinarySearch(st.segs, seq)
	if found {
		return i
	}
	return i - 1
}

func (st *state) segPath(i int) string { return path.Join(st.dir, seqName(st.segs[i], segSuffix)) }

// hole returns the end of the hole that covers seq, 0 if none does.
func (st *state) hole(seq record.Seq) record.Seq {
	for _, h := range st.holes {
		if h.From <= seq && seq <= h.To {
			return h.To
		}
	}
	return 0
}

// readHoles reads HOLES. A damaged one is as good as none: the gaps are then
// found again.
func readHoles(fsys vfs.FS, dir string) ([]record.Range, error) {
	data, err := vfs.ReadFile(fsys, path.Join(dir, holesName), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var holes []record.Range
	if json.Unmarshal(data, &holes) != nil {
		return nil, nil
	}
	return holes, nil
}

func writeHoles(fsys vfs.FS, dir string, holes []record.Range) error {
	data, err := json.Marshal(holes)
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, path.Join(dir, holesName), append(data, '\n'))
}

// Holes returns the spans of a stream that were damaged and set aside.
func (j *Journal) Holes(s record.StreamID) ([]record.Range, error) {
	st, err := j.load(s)
	return st.holes, err
}
