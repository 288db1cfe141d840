package shelf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/deja-node/deja/index/vfs"
)

// bufferSize is what a writer gathers before it writes: whole pages.
const bufferSize = 16 * pageSize

// Writer makes one file, section after section. The first error stays and is
// returned by every later Write and by Finish. Its memory does not grow with
// the file but for four bytes per page.
type Writer struct {
	shelf    *Shelf
	name     string
	file     vfs.File
	buf      []byte
	flushed  int64 // bytes before buf
	sums     []byte
	sections []span
	err      error
}

// Create starts a file of a view. It counts for nothing until Finish has made
// its reference and Publish has listed it.
func (s *Shelf) Create(view string) (*Writer, error) {
	if !validName(view, maxView) {
		return nil, fmt.Errorf("view %q: %w", view, fs.ErrInvalid)
	}
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return nil, err
	}
	name := newName(view)
	file, err := s.fs.Create(s.path(name))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.fresh[name] = true
	s.mu.Unlock()
	w := &Writer{shelf: s, name: name, file: file, buf: make([]byte, 0, bufferSize)}
	w.buf = append(w.buf, header()...)
	return w, nil
}

// Section ends the section before and begins one of the given tag: 1 to 16
// characters of ASCII that no other section of the file has.
func (w *Writer) Section(tag string) {
	for _, s := range w.sections {
		if s.tag == tag {
			w.fail(fmt.Errorf("section %q: %w", tag, fs.ErrExist))
		}
	}
	if !validTag(tag) || len(w.sections) == maxSections {
		w.fail(fmt.Errorf("section %q: %w", tag, fs.ErrInvalid))
	}
	if gap := w.offset() % alignment; gap != 0 {
		var zeros [alignment]byte
		w.append(zeros[gap:])
	}
	w.sections = append(w.sections, span{tag: tag, off: uint64(w.offset())})
}

// Len returns how many bytes the section that was begun last has so far.
func (w *Writer) Len() int64 {
	if len(w.sections) == 0 {
		return 0
	}
	return int64(w.sections[len(w.sections)-1].n)
}

// Write appends to the section that was begun last.
func (w *Writer) Write(b []byte) (int, error) {
	if len(w.sections) == 0 {
		w.fail(fmt.Errorf("write before the first section: %w", fs.ErrInvalid))
	}
	if w.err != nil {
		return 0, w.err
	}
	w.append(b)
	if w.err != nil {
		return 0, w.err
	}
	w.sections[len(w.sections)-1].n += uint64(len(b))
	return len(b), nil
}

// Finish completes the file and returns once it is durable. After an error the
// file is removed.
func (w *Writer) Finish() (FileRef, error) {
	payload := w.offset()
	w.flush()
	tail := footer{
		payload:  uint64(payload),
		sections: uint32(len(w.sections)),
		pageSum:  sum(w.sums),
		format:   fileFormat,
	}
	var table []byte
	for _, s := range w.sections {
		table = s.encode(table)
	}
	tail.tableSum = sum(table)
	end := tail.encode()
	for _, part := range [][]byte{w.sums, table, end} {
		w.write(part)
	}
	if w.err == nil {
		w.fail(w.file.Sync())
	}
	if err := w.err; err != nil {
		return FileRef{}, errors.Join(err, w.Abort())
	}
	if err := w.file.Close(); err != nil {
		w.fail(err)
		return FileRef{}, errors.Join(err, w.remove())
	}
	w.fail(fs.ErrClosed)
	size := payload + int64(len(w.sums)+len(table)+len(end))
	return FileRef{
		Name:   w.name,
		Size:   size,
		Sum:    binary.LittleEndian.Uint32(end[28:]),
		Weight: uint64(size),
	}, nil
}

// Abort removes the unfinished file. After Finish it does nothing.
func (w *Writer) Abort() error {
	if errors.Is(w.err, fs.ErrClosed) {
		return nil
	}
	w.err = fs.ErrClosed
	return errors.Join(w.file.Close(), w.remove())
}

func (w *Writer) remove() error {
	w.shelf.mu.Lock()
	delete(w.shelf.fresh, w.name)
	w.shelf.mu.Unlock()
	return w.shelf.fs.Remove(w.shelf.path(w.name))
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) offset() int64 { return w.flushed + int64(len(w.buf)) }

func (w *Writer) append(b []byte) {
	for len(b) > 0 && w.err == nil {
		n := copy(w.buf[len(w.buf):cap(w.buf)], b)
		w.buf = w.buf[:len(w.buf)+n]
		b = b[n:]
		if len(w.buf) == cap(w.buf) {
			w.flush()
		}
	}
}

// flush writes the buffer and notes the sums of its pages. The buffer starts
// at a page, so only the last page of a file is ever summed short.
func (w *Writer) flush() {
	w.write(w.buf)
	w.flushed += int64(len(w.buf))
	for b := w.buf; len(b) > 0; b = b[min(pageSize, len(b)):] {
		w.sums = binary.LittleEndian.AppendUint32(w.sums, sum(b[:min(pageSize, len(b))]))
	}
	w.buf = w.buf[:0]
}

func (w *Writer) write(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	_, err := w.file.Write(b)
	w.fail(err)
}
