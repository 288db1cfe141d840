package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// A tail begins with a magic, the time when it was begun and a checksum.
// Frames follow: length, checksum, and lines with their ends. The checksum of
// a frame covers its place too, so that a block of another file is no frame.
const (
	tailMagic   = "DJT1"
	tailHeadLen = len(tailMagic) + 8 + 4
	frameLen    = 4 + 4
	maxTail     = 4 << 20 // bytes; a batch is sealed long before
)

// tail is a tail file as far as it is sound.
type tail struct {
	first record.Seq // position of the first line
	began time.Time
	lines [][]byte
	good  int64 // bytes up to the end of the last sound frame
	size  int64
	rest  []byte // what follows them
}

func (t *tail) len() int { return len(t.all()) }

func (t *tail) all() [][]byte {
	if t == nil {
		return nil
	}
	return t.lines
}

func (t *tail) bytes() int {
	if t == nil {
		return 0
	}
	return int(t.size)
}

func appendTailHead(dst []byte, began time.Time) []byte {
	from := len(dst)
	dst = append(dst, tailMagic...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(began.Unix()))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// appendFrame appends a frame of lines that will stand at off in the tail of
// the lines from first on.
func appendFrame(dst []byte, first record.Seq, off int64, lines []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(lines)))
	dst = binary.BigEndian.AppendUint32(dst, frameSum(first, off, lines))
	return append(dst, lines...)
}

func frameSum(first record.Seq, off int64, lines []byte) uint32 {
	var place [20]byte
	binary.BigEndian.PutUint64(place[:], uint64(first))
	binary.BigEndian.PutUint64(place[8:], uint64(off))
	binary.BigEndian.PutUint32(place[16:], uint32(len(lines)))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, lines)
}

// parseTail reads a tail as far as it is sound. The lines are parts of data.
func parseTail(first record.Seq, data []byte) *tail {
	t := &tail{first: first, size: int64(len(data)), rest: data}
	if len(data) < tailHeadLen || string(data[:len(tailMagic)]) != tailMagic {
		return t
	}
	sum := binary.BigEndian.Uint32(data[tailHeadLen-4:])
	if sum != crc32.Checksum(data[:tailHeadLen-4], castagnoli) {
		return t
	}
	t.began = time.Unix(int64(binary.BigEndian.Uint64(data[len(tailMagic):])), 0).UTC()
	t.good = int64(tailHeadLen)
	for {
		p := data[t.good:]
		if len(p) < frameLen {
			break
		}
		n := int64(binary.BigEndian.Uint32(p))
		if n > int64(len(p)-frameLen) {
			break
		}
		lines := p[frameLen : frameLen+n]
		if binary.BigEndian.Uint32(p[4:]) != frameSum(first, t.good, lines) {
			break
		}
		for line := range bytes.Lines(lines) {
			t.lines = append(t.lines, bytes.TrimSuffix(line, []byte{'\n'}))
		}
		t.good += frameLen + n
	}
	t.rest = data[t.good:]
	return t
}

// readTail reads the tail whose first line stands at first, nil if there is none.
func readTail(fsys vfs.FS, dir string, first record.Seq) (*tail, error) {
	name := path.Join(dir, seqName(first, tailSuffix))
	data, err := vfs.ReadFile(fsys, name, maxTail)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no tail is a state like others
	}
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, corrupt(name, 0, err)
	}
	if err != nil {
		return nil, err
	}
	return parseTail(first, data), nil
}

// loadTail returns a state of the stream with the tail that belongs to it. A
// tail that is gone was sealed, so that HEAD has moved.
func (j *Journal) loadTail(s record.StreamID) (*state, *tail, error) {
	st, err := j.load(s)
	if err != nil {
		return st, nil, err
	}
	for range maxRaces {
		t, err := readTail(j.fs, st.dir, st.head.Seq+1)
		if err != nil || t != nil {
			return st, t, err
		}
		head, err := readHead(j.fs, st.dir)
		if err != nil || head == nil || *head == st.head {
			return st, nil, err
		}
		st, err = j.load(s)
		if err != nil {
			return st, nil, err
		}
	}
	return st, nil, fmt.Errorf("%s: sealed %d times while its tail was read", st.dir, maxRaces)
}

// maxRaces bounds how often a reader starts again because of a writer.
const maxRaces = 1000
