package shelf

import (
	"encoding/binary"

	"github.com/deja-node/deja/index/vfs"
)

// PageSize is the unit of checksums.
const PageSize = pageSize

// NewerManifest is an intact manifest of a format that is still to come.
func NewerManifest() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(manifestMagic), manifestFormat+1)
	b = append(b, "what only a newer deja knows"...)
	return binary.LittleEndian.AppendUint32(b, sum(b))
}

// EncodeManifest and ParseManifest are the two directions of the format.
func EncodeManifest(generation uint64, views map[string]State) []byte {
	return manifest{generation: generation, views: views}.encode()
}

// ParseManifest reads what EncodeManifest wrote.
func ParseManifest(b []byte) (uint64, map[string]State, error) {
	m, err := parseManifest(b)
	return m.generation, m.views, err
}

// SealManifest gives bytes the checksum that lets a parser see them.
func SealManifest(b []byte) []byte {
	b = append([]byte(manifestMagic), b...)
	return binary.LittleEndian.AppendUint32(b, sum(b))
}

// SealFile gives the tables and the footer of a file the checksums that let a
// parser see them, as far as the bytes allow.
func SealFile(b []byte) []byte {
	if len(b) < headerSize+footerSize {
		return b
	}
	copy(b, header())
	end := b[len(b)-footerSize:]
	copy(end[32:], fileMagic)
	rest := uint64(len(b) - footerSize)
	payload, sections := binary.LittleEndian.Uint64(end), uint64(binary.LittleEndian.Uint32(end[8:]))
	if table := sections * sectionSize; table <= rest && payload <= rest-table {
		binary.LittleEndian.PutUint32(end[12:], sum(b[payload:rest-table]))
		binary.LittleEndian.PutUint32(end[16:], sum(b[rest-table:rest]))
	}
	binary.LittleEndian.PutUint32(end[28:], sum(end[:28]))
	return b
}

// OpenBytes opens a file of the given contents as a snapshot does.
func OpenBytes(b []byte) (*File, error) {
	fsys := vfs.NewMem()
	f, err := fsys.Create("/v-1.shelf")
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(b); err != nil {
		return nil, err
	}
	ref := FileRef{Name: "v-1.shelf", Size: int64(len(b))}
	if len(b) >= footerSize {
		ref.Sum = binary.LittleEndian.Uint32(b[len(b)-footerSize+28:])
	}
	return openFile(fsys, "/", ref)
}
