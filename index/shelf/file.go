package shelf

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"path"
	"runtime/debug"
	"sync/atomic"

	"github.com/deja-node/deja/index/vfs"
)

// File is one immutable file, mapped into memory. It lives as long as the
// [Snapshot] that it comes from.
type File struct {
	ref      FileRef
	mapping  io.Closer
	payload  []byte
	sums     []byte // page table: one crc32c per page, four bytes each
	sections []Section
	seen     []atomic.Uint64 // one bit per page whose sum was compared
}

// openFile maps a file and checks all but its payload. The cost does not
// depend on the payload but for the page table, a four-thousandth of it.
func openFile(fsys vfs.FS, dir string, ref FileRef) (*File, error) {
	m, err := fsys.Map(path.Join(dir, ref.Name))
	if err != nil {
		return nil, err
	}
	f := &File{ref: ref, mapping: m}
	err = readable(func() error { return f.parse(m.Bytes()) })
	if err != nil {
		m.Close() //nolint:errcheck // the first error is the one to report
		return nil, fmt.Errorf("%s: %w", ref.Name, err)
	}
	return f, nil
}

func (f *File) parse(b []byte) error {
	if int64(len(b)) != f.ref.Size || len(b) < headerSize+footerSize {
		return fmt.Errorf("%d bytes instead of %d: %w", len(b), f.ref.Size, ErrCorrupt)
	}
	tail, err := parseFooter(b[len(b)-footerSize:])
	if err != nil {
		return err
	}
	if tail.footerSum != f.ref.Sum {
		return fmt.Errorf("not the file that was published: %w", ErrCorrupt)
	}
	if string(b[:headerSize]) != string(header()) {
		return fmt.Errorf("header: %w", ErrCorrupt)
	}
	b = b[:len(b)-footerSize]
	table := uint64(tail.sections) * sectionSize
	if tail.payload < headerSize || tail.payload > uint64(len(b)) ||
		uint64(len(b)) != tail.payload+4*uint64(pagesOf(int64(tail.payload)))+table {
		return fmt.Errorf("footer: %w", ErrCorrupt)
	}
	f.payload = b[:tail.payload:tail.payload]
	f.sums = b[tail.payload : uint64(len(b))-table]
	if sum(f.sums) != tail.pageSum {
		return fmt.Errorf("page table: %w", ErrCorrupt)
	}
	f.seen = make([]atomic.Uint64, (len(f.sums)/4+63)/64)
	return f.parseSections(b[uint64(len(b))-table:], tail)
}

func (f *File) parseSections(table []byte, tail footer) error {
	if sum(table) != tail.tableSum {
		return fmt.Errorf("section table: %w", ErrCorrupt)
	}
	f.sections = make([]Section, 0, tail.sections)
	after := uint64(headerSize)
	for ; len(table) > 0; table = table[sectionSize:] {
		s, err := parseSpan(table, after, tail.payload)
		if err != nil {
			return err
		}
		if _, twice := f.Section(s.tag); twice {
			return fmt.Errorf("section %q twice: %w", s.tag, ErrCorrupt)
		}
		after = s.off + s.n
		f.sections = append(f.sections, Section{
			file: f, tag: s.tag, start: int(s.off), data: f.payload[s.off:after:after],
		})
	}
	return nil
}

// Ref returns what the manifest says of the file.
func (f *File) Ref() FileRef { return f.ref }

// Section returns the section of the given tag.
func (f *File) Section(tag string) (Section, bool) {
	for i := range f.sections {
		if f.sections[i].tag == tag {
			return f.sections[i], true
		}
	}
	return Section{}, false
}

// Sections yields all sections in the order of the file.
func (f *File) Sections() iter.Seq[Section] {
	return func(yield func(Section) bool) {
		for _, s := range f.sections {
			if !yield(s) {
				return
			}
		}
	}
}

// Verify compares every page with its sum.
func (f *File) Verify() error {
	for page := range len(f.sums) / 4 {
		if err := f.verify(page); err != nil {
			return fmt.Errorf("%s: at %d: %w", f.ref.Name, page*pageSize, err)
		}
	}
	return nil
}

// verify compares a page with its sum, unless that was done before.
func (f *File) verify(page int) error {
	word, bit := &f.seen[page/64], uint64(1)<<(page%64)
	if word.Load()&bit != 0 {
		return nil
	}
	return readable(func() error {
		start := page * pageSize
		b := f.payload[start:min(start+pageSize, len(f.payload))]
		if sum(b) != binary.LittleEndian.Uint32(f.sums[4*page:]) {
			return ErrCorrupt
		}
		word.Or(bit)
		return nil
	})
}

func (f *File) close() error { return f.mapping.Close() }

// fault is what the runtime panics with when memory cannot be read.
type fault interface {
	error
	Addr() uintptr
}

// readable calls read, and turns the signal that a mapped page raises when the
// disk cannot give it, or the file was cut short, into ErrCorrupt.
func readable(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			err = fmt.Errorf("the disk does not give the page: %w", ErrCorrupt)
		default:
			panic(r)
		}
	}()
	return read()
}

// Section is a named part of a file, read in place. The zero Section is empty.
type Section struct {
	file  *File
	tag   string
	start int // offset in the file
	data  []byte
}

// Tag returns the name of the section.
func (s *Section) Tag() string { return s.tag }

// Len returns the length in bytes.
func (s *Section) Len() int { return len(s.data) }

// Bytes returns n bytes at off without copying them; they must not be changed
// and are gone with the snapshot. Each page they touch is compared with its sum
// once in the life of the file. A range that does not lie in the section is as
// corrupt as a wrong sum, because offsets come from files too.
func (s *Section) Bytes(off, n int) ([]byte, error) {
	if uint(off) <= uint(len(s.data)) && uint(n)-1 < uint(len(s.data)-off) {
		first, last := uint(s.start+off)/pageSize, uint(s.start+off+n-1)/pageSize
		if first == last && s.file.seen[first/64].Load()&(1<<(first%64)) != 0 {
			return s.data[off : off+n : off+n], nil
		}
	}
	return s.verified(off, n)
}

// verified is Bytes for a range that is empty, wrong, new, or longer than a page.
func (s *Section) verified(off, n int) ([]byte, error) {
	if off < 0 || n < 0 || off > len(s.data) || n > len(s.data)-off {
		return nil, s.corrupt(off, fmt.Errorf("%d bytes do not lie in its %d: %w", n, len(s.data), ErrCorrupt))
	}
	if n == 0 {
		return nil, nil
	}
	for page := (s.start + off) / pageSize; page <= (s.start+off+n-1)/pageSize; page++ {
		if err := s.file.verify(page); err != nil {
			return nil, s.corrupt(max(off, page*pageSize-s.start), err)
		}
	}
	return s.data[off : off+n : off+n], nil
}

// All returns the whole section; see Bytes.
func (s *Section) All() ([]byte, error) { return s.Bytes(0, len(s.data)) }

func (s *Section) corrupt(off int, err error) error {
	name := ""
	if s.file != nil {
		name = s.file.ref.Name
	}
	return fmt.Errorf("%s: section %q at %d: %w", name, s.tag, off, err)
}
