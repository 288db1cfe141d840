package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/deja-node/deja/index/vfs"
)

// cursorKey names one transcript of one store.
type cursorKey struct{ harness, root, file string }

// cursor is what the node remembers of a transcript between runs. Losing it
// costs one re-read and nothing else: what the log holds is not logged twice.
type cursor struct {
	version  int    // of the source's extractor
	mark     []byte // opaque; nil before the first successful read
	broken   int    // malformed lines skipped
	redacted int    // secrets replaced
	failure  string // why the last read failed, empty after a good one
	failures int    // in a row, for the backoff
	retry    int64  // unix seconds before which a failed file is left alone
	gone     bool   // the transcript has vanished; the log keeps what it said
}

// cursors is the file state/cursors: a magic line, then records that are only
// ever appended, the last one of a key counting. A record is its length, its
// crc32c and its body; what follows a damaged one is forgotten, which costs
// re-reads. The file is written anew when most of it is out of date.
//
//	body: uvarint-prefixed harness, root, file; uvarint version, broken,
//	redacted; prefixed failure; uvarint failures, retry, gone; prefixed mark
type cursors struct {
	fs    vfs.FS
	path  string
	all   map[cursorKey]cursor
	dirty map[cursorKey]bool
	stale int  // records in the file that a later one replaces
	whole bool // the file must be written anew
}

const (
	cursorMagic = "DJCURS1\n"
	maxCursors  = 1 << 30 // bytes of the file
	maxCursor   = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func loadCursors(fsys vfs.FS, dir string) (*cursors, error) {
	c := &cursors{fs: fsys, path: path.Join(dir, "cursors"), all: map[cursorKey]cursor{}, dirty: map[cursorKey]bool{}}
	data, err := vfs.ReadFile(fsys, c.path, maxCursors)
	if errors.Is(err, fs.ErrNotExist) {
		c.whole = true
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if len(data) < len(cursorMagic) || string(data[:len(cursorMagic)]) != cursorMagic {
		c.whole = true
		return c, nil
	}
	for rest := data[len(cursorMagic):]; len(rest) > 0; {
		body, n, ok := cursorFrame(rest)
		if !ok {
			c.whole = true
			break
		}
		rest = rest[n:]
		key, cur, ok := parseCursor(body)
		if !ok {
			c.whole = true
			break
		}
		if _, again := c.all[key]; again {
			c.stale++
		}
		c.all[key] = cur
	}
	return c, nil
}

func cursorFrame(b []byte) (body []byte, n int, ok bool) {
	if len(b) < 8 {
		return nil, 0, false
	}
	size := int(binary.LittleEndian.Uint32(b))
	if size > maxCursor || size > len(b)-8 {
		return nil, 0, false
	}
	body = b[8 : 8+size]
	return body, 8 + size, crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(b[4:])
}

func (c *cursors) get(key cursorKey) (cursor, bool) {
	cur, ok := c.all[key]
	return cur, ok
}

func (c *cursors) set(key cursorKey, cur cursor) {
	c.all[key] = cur
	c.dirty[key] = true
}

// save appends what has changed. Callers save after the log is durable, so a
// mark never covers what a crash can still lose.
func (c *cursors) save() error {
	if len(c.dirty) == 0 && !c.whole {
		return nil
	}
	if c.whole || c.stale+len(c.dirty) > 2*len(c.all)+64 {
		return c.rewrite()
	}
	var buf []byte
	for _, key := range slices.SortedFunc(maps.Keys(c.dirty), cursorKey.compare) {
		buf = appendCursor(buf, key, c.all[key])
	}
	f, err := c.fs.Append(c.path)
	if err != nil {
		return err
	}
	_, err = f.Write(buf)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("source cursors: %w", err)
	}
	c.stale += len(c.dirty)
	clear(c.dirty)
	return nil
}

func (c *cursors) rewrite() error {
	buf := []byte(cursorMagic)
	for _, key := range slices.SortedFunc(maps.Keys(c.all), cursorKey.compare) {
		buf = appendCursor(buf, key, c.all[key])
	}
	if err := c.fs.MkdirAll(path.Dir(c.path)); err != nil {
		return err
	}
	if err := vfs.WriteFile(c.fs, c.path, buf); err != nil {
		return fmt.Errorf("source cursors: %w", err)
	}
	c.stale, c.whole = 0, false
	clear(c.dirty)
	return nil
}

func (k cursorKey) compare(o cursorKey) int {
	return slices.Compare([]string{k.harness, k.root, k.file}, []string{o.harness, o.root, o.file})
}

func appendCursor(buf []byte, key cursorKey, cur cursor) []byte {
	start := len(buf)
	buf = append(buf, make([]byte, 8)...)
	for _, s := range []string{key.harness, key.root, key.file} {
		buf = appendPrefixed(buf, s)
	}
	for _, v := range []int{cur.version, cur.broken, cur.redacted} {
		buf = binary.AppendUvarint(buf, uint64(v))
	}
	buf = appendPrefixed(buf, cur.failure)
	gone := uint64(0)
	if cur.gone {
		gone = 1
	}
	for _, v := range []uint64{uint64(cur.failures), uint64(cur.retry), gone} {
		buf = binary.AppendUvarint(buf, v)
	}
	buf = appendPrefixed(buf, string(cur.mark))
	body := buf[start+8:]
	binary.LittleEndian.PutUint32(buf[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(buf[start+4:], crc32.Checksum(body, castagnoli))
	return buf
}

func appendPrefixed(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

func parseCursor(b []byte) (cursorKey, cursor, bool) {
	r := cursorReader{b: b}
	key := cursorKey{r.str(), r.str(), r.str()}
	cur := cursor{version: int(r.num()), broken: int(r.num()), redacted: int(r.num()), failure: r.str()}
	cur.failures, cur.retry, cur.gone = int(r.num()), int64(r.num()), r.num() == 1
	if m := r.str(); m != "" {
		cur.mark = []byte(m)
	}
	return key, cur, !r.bad && len(r.b) == 0
}

// cursorReader reads fields until one is malformed; then all that follow are zero.
type cursorReader struct {
	b   []byte
	bad bool
}

func (r *cursorReader) num() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *cursorReader) str() string {
	n := r.num()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
