package shelf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// manifest says what is on the shelf.
type manifest struct {
	generation uint64
	views      map[string]State
}

// readManifest returns an empty manifest if there is none.
func (s *Shelf) readManifest() (manifest, error) {
	b, err := vfs.ReadFile(s.fs, s.path(manifestName), maxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return manifest{views: map[string]State{}}, nil
	case errors.Is(err, vfs.ErrTooLarge):
		return manifest{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case err != nil:
		return manifest{}, err
	}
	m, err := parseManifest(b)
	if err != nil {
		return manifest{}, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
}

// files returns every listed file by its name.
func (m manifest) files() map[string]FileRef {
	files := map[string]FileRef{}
	for _, st := range m.views {
		for _, ref := range st.Files {
			files[ref.Name] = ref
		}
	}
	return files
}

// check returns an error for a manifest that must not be written, or cannot
// have been written by Publish.
func (m manifest) check() error {
	seen := map[string]bool{}
	for view, st := range m.views {
		if !validName(view, maxView) || st.Version < 1 {
			return fmt.Errorf("view %.40q version %d: %w", view, st.Version, fs.ErrInvalid)
		}
		for _, ref := range st.Files {
			if !validFile(ref.Name) || ref.Size < 0 || seen[ref.Name] {
				return fmt.Errorf("view %s: file %.100q: %w", view, ref.Name, fs.ErrInvalid)
			}
			seen[ref.Name] = true
		}
	}
	return nil
}

func (m manifest) encode() []byte {
	b := append([]byte(nil), manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, manifestFormat)
	b = binary.AppendUvarint(b, m.generation)
	b = binary.AppendUvarint(b, uint64(len(m.views)))
	for _, view := range slices.Sorted(maps.Keys(m.views)) {
		b = appendBytes(b, view)
		b = m.views[view].encode(b)
	}
	return binary.LittleEndian.AppendUint32(b, sum(b))
}

func (st State) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(st.Version))
	b = binary.AppendUvarint(b, uint64(len(st.Known)))
	for _, s := range st.Known.Streams() {
		head := st.Known[s]
		b = append(b, s.Node[:]...)
		b = append(b, s.Nonce[:]...)
		b = binary.AppendUvarint(b, uint64(head.Seq))
		b = append(b, head.Hash[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(st.Files)))
	for _, ref := range st.Files {
		b = appendBytes(b, ref.Name)
		b = binary.AppendUvarint(b, uint64(ref.Size))
		b = binary.LittleEndian.AppendUint32(b, ref.Sum)
		b = binary.AppendUvarint(b, ref.Weight)
	}
	return appendBytes(b, st.Aux)
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func parseManifest(b []byte) (manifest, error) {
	const fixed = len(manifestMagic) + 4
	if len(b) < fixed+4 || string(b[:len(manifestMagic)]) != manifestMagic {
		return manifest{}, ErrCorrupt
	}
	body, tail := b[:len(b)-4], b[len(b)-4:]
	if sum(body) != binary.LittleEndian.Uint32(tail) {
		return manifest{}, ErrCorrupt
	}
	if format := binary.LittleEndian.Uint32(b[len(manifestMagic):]); format > manifestFormat {
		return manifest{}, fmt.Errorf("this index needs a deja with shelf format %d, this one reads up to %d: %w",
			format, manifestFormat, ErrNewer)
	}
	d := decoder{b: body[fixed:]}
	m := manifest{generation: d.uvarint(), views: map[string]State{}}
	views := d.count(minState)
	for range views {
		view := string(d.bytes())
		m.views[view] = d.state()
	}
	if d.bad || len(d.b) > 0 || len(m.views) != views {
		return manifest{}, ErrCorrupt
	}
	if err := m.check(); err != nil {
		return manifest{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return m, nil
}

// The fewest bytes that one element of a list takes, which bounds a list by
// the bytes that are left before anything is allocated for it.
const (
	minState  = 6
	minStream = 28 + 1 + 32
	minFile   = 1 + 1 + 4 + 1
)

// decoder reads a manifest. After the first impossible value it is bad, and
// all that follows is zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// count reads the length of a list whose elements take at least size bytes.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) state() State {
	st := State{Version: int(d.uvarint())}
	streams := d.count(minStream)
	st.Known = make(record.Frontier, streams)
	for range streams {
		var s record.StreamID
		var head record.Head
		copy(s.Node[:], d.take(uint64(len(s.Node))))
		copy(s.Nonce[:], d.take(uint64(len(s.Nonce))))
		head.Seq = record.Seq(d.uvarint())
		copy(head.Hash[:], d.take(uint64(len(head.Hash))))
		st.Known[s] = head
	}
	d.bad = d.bad || len(st.Known) != streams
	files := d.count(minFile)
	st.Files = make([]FileRef, 0, files)
	for range files {
		st.Files = append(st.Files, FileRef{
			Name:   string(d.bytes()),
			Size:   int64(d.uvarint()),
			Sum:    d.uint32(),
			Weight: d.uvarint(),
		})
	}
	st.Aux = slices.Clone(d.bytes())
	return st
}
