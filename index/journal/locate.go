package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// segmentID names a segment of a stream.
type segmentID struct {
	stream record.StreamID
	first  record.Seq
}

// segmentIndex says where batches of a segment begin. It may lack any of them,
// and is never trusted: every use looks at the batch itself.
type segmentIndex struct{ marks []mark }

// mark is one beginning of a batch.
type mark struct {
	first record.Seq
	off   int64
}

// markLen is the length of a mark on disk: first, offset, and a checksum.
const markLen = 16

func (m mark) append(dst []byte) []byte {
	from := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.first))
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.off))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

const maxIndex = 64 << 20 // bytes of an index file

// readIndex reads the index file beside a segment, as far as it is sound.
func readIndex(fsys vfs.FS, name string) (segmentIndex, error) {
	var x segmentIndex
	data, err := vfs.ReadFile(fsys, name, maxIndex)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrTooLarge) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	last := mark{off: -1}
	for ; len(data) >= markLen; data = data[markLen:] {
		m := mark{record.Seq(binary.BigEndian.Uint64(data)), int64(binary.BigEndian.Uint32(data[8:]))}
		sum := binary.BigEndian.Uint32(data[12:])
		if sum != crc32.Checksum(data[:12], castagnoli) || m.first <= last.first || m.off <= last.off {
			break
		}
		x.marks = append(x.marks, m)
		last = m
	}
	return x, nil
}

// appendIndex adds marks to the index file beside a segment. It is not synced.
func appendIndex(fsys vfs.FS, segPath string, marks []mark) error {
	f, err := fsys.Append(indexPath(segPath))
	if err != nil {
		return err
	}
	var b []byte
	for _, m := range marks {
		b = m.append(b)
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// replaceIndex writes the index file anew.
func replaceIndex(fsys vfs.FS, segPath string, marks []mark) error {
	if err := removeIfThere(fsys, indexPath(segPath)); err != nil {
		return err
	}
	return appendIndex(fsys, segPath, marks)
}

func indexPath(segPath string) string { return strings.TrimSuffix(segPath, segSuffix) + idxSuffix }

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place is where a batch begins: in a segment of a state, at an offset.
type place struct {
	seg int
	off int64
}

// locate returns where the batch begins that holds seq, or the one after it
// where seq stands in a hole, and the open segment: an offset is good for that
// file only, since another of the same name can take its place. There is none
// where all segments end before seq.
func (j *Journal) locate(st *state, seq record.Seq) (place, *segment, error) {
	i := max(st.segmentOf(seq), 0)
	if i >= len(st.segs) {
		return place{seg: i}, nil, nil
	}
	id := segmentID{st.stream, st.segs[i]}
	g, err := openSegment(j.fs, st.segPath(i))
	if err != nil {
		return place{}, nil, err
	}
	j.mu.Lock()
	x, cached := j.indexes[id]
	j.mu.Unlock()
	if !cached {
		x, err = readIndex(j.fs, indexPath(g.name))
	}
	var off int64
	if err == nil {
		off, x, err = x.search(g, st.stream, seq)
	}
	if err != nil {
		return place{}, nil, errors.Join(err, g.close())
	}
	j.mu.Lock()
	j.indexes[id] = x
	j.mu.Unlock()
	return place{seg: i, off: off}, g, nil
}

// search returns the offset of the batch that holds seq or follows it, the end
// of the file if there is none, and the index with what was learnt on the way.
func (x segmentIndex) search(g *segment, s record.StreamID, seq record.Seq) (int64, segmentIndex, error) {
	i, exact := slices.BinarySearchFunc(x.marks, seq, func(m mark, seq record.Seq) int {
		if m.first < seq {
			return -1
		}
		return int(min(m.first-seq, 1))
	})
	if !exact {
		i--
	}
	off := int64(0)
	if i >= 0 {
		off = x.marks[i].off
		h, _, err := g.peek(off)
		if err != nil && !isDamage(err) && !errors.Is(err, io.EOF) {
			return 0, x, err
		}
		if err != nil || h.Stream != s || h.First != x.marks[i].first {
			return segmentIndex{}.search(g, s, seq) // the index is of another file
		}
	}
	for shared := true; ; {
		h, next, err := g.peek(off)
		if errors.Is(err, io.EOF) {
			return g.size, x, nil
		}
		if err != nil && isDamage(err) {
			return 0, x, corrupt(g.name, off, err)
		}
		if err != nil {
			return 0, x, err
		}
		if n := len(x.marks); n == 0 || x.marks[n-1].first < h.First {
			if shared { // others read the array of the marks
				x.marks, shared = slices.Clip(x.marks), false
			}
			x.marks = append(x.marks, mark{h.First, off})
		}
		if h.Last() >= seq {
			return off, x, nil
		}
		off = next
	}
}
