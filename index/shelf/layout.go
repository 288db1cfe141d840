package shelf

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
)

// The layout of a file; FORMAT.md explains it. None of these may change
// without a new fileFormat.
const (
	fileMagic   = "dejashlf"
	fileFormat  = 1
	pageSize    = 16 << 10
	alignment   = 8  // of the start of a section
	headerSize  = 16 // magic, format, zero
	tagSize     = 16
	sectionSize = tagSize + 16 // tag, offset, length
	footerSize  = 40           // payload, sections, three sums, format, magic
	maxSections = 256
)

const (
	manifestName   = "MANIFEST"
	manifestMagic  = "dejamani"
	manifestFormat = 1
	maxManifest    = 16 << 20
	fileSuffix     = ".shelf"
	maxName        = 80
	maxView        = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func pagesOf(payload int64) int64 { return (payload + pageSize - 1) / pageSize }

func header() []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint32(b, fileFormat)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// footer is the end of a file: where everything is, and the sums of it.
type footer struct {
	payload   uint64 // length of header, sections and padding
	sections  uint32
	pageSum   uint32 // of the page table
	tableSum  uint32 // of the section table
	format    uint32
	footerSum uint32 // of the fields above
}

func (f footer) encode() []byte {
	b := make([]byte, 0, footerSize)
	b = binary.LittleEndian.AppendUint64(b, f.payload)
	b = binary.LittleEndian.AppendUint32(b, f.sections)
	b = binary.LittleEndian.AppendUint32(b, f.pageSum)
	b = binary.LittleEndian.AppendUint32(b, f.tableSum)
	b = binary.LittleEndian.AppendUint32(b, f.format)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, sum(b))
	return append(b, fileMagic...)
}

// parseFooter reads the last footerSize bytes of a file.
func parseFooter(b []byte) (footer, error) {
	if string(b[32:]) != fileMagic {
		return footer{}, fmt.Errorf("no footer: %w", ErrCorrupt)
	}
	f := footer{
		payload:   binary.LittleEndian.Uint64(b),
		sections:  binary.LittleEndian.Uint32(b[8:]),
		pageSum:   binary.LittleEndian.Uint32(b[12:]),
		tableSum:  binary.LittleEndian.Uint32(b[16:]),
		format:    binary.LittleEndian.Uint32(b[20:]),
		footerSum: binary.LittleEndian.Uint32(b[28:]),
	}
	if sum(b[:28]) != f.footerSum {
		return footer{}, fmt.Errorf("footer: %w", ErrCorrupt)
	}
	if f.format > fileFormat {
		return footer{}, fmt.Errorf("this index needs a deja with shelf file format %d, this one reads up to %d: %w",
			f.format, fileFormat, ErrNewer)
	}
	if f.format == 0 || f.sections > maxSections {
		return footer{}, fmt.Errorf("footer: %w", ErrCorrupt)
	}
	return f, nil
}

// span is one section: its tag and where in the file it lies.
type span struct {
	tag    string
	off, n uint64
}

func (s span) encode(b []byte) []byte {
	var tag [tagSize]byte
	copy(tag[:], s.tag)
	b = append(b, tag[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.off)
	return binary.LittleEndian.AppendUint64(b, s.n)
}

// parseSpan reads one row of the section table, which starts after the end of
// the section before it.
func parseSpan(b []byte, after, payload uint64) (span, error) {
	s := span{
		tag: string(bytes.TrimRight(b[:tagSize], "\x00")),
		off: binary.LittleEndian.Uint64(b[tagSize:]),
		n:   binary.LittleEndian.Uint64(b[tagSize+8:]),
	}
	if !validTag(s.tag) || s.off < after || s.off > payload || s.n > payload-s.off {
		return span{}, fmt.Errorf("section table: %w", ErrCorrupt)
	}
	return s, nil
}

// validTag says what names a section: 1 to 16 characters of ASCII without spaces.
func validTag(tag string) bool {
	return tag != "" && len(tag) <= tagSize && !strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r > '~' })
}

// validName says what may name a file or a view: nothing that leaves the
// directory, and nothing that is another name on a disk that folds case.
func validName(name string, limit int) bool {
	if name == "" || len(name) > limit || name[0] == '.' || name[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

func validFile(name string) bool {
	return validName(name, maxName) && strings.HasSuffix(name, fileSuffix)
}

// newName returns a file name that never was used before.
func newName(view string) string {
	return view + "-" + strings.ToLower(rand.Text()[:16]) + fileSuffix
}

// randomGeneration leaves room for all the generations to come.
func randomGeneration() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) >> 8
}
