package jsonl

import (
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"io"
)

// Sum is a running checksum of a file from its first byte. It grows with the
// file: the sum of a longer prefix follows from that of a shorter one and the
// bytes between. Two CRCs of unrelated polynomials tell rewritten prefixes
// apart by 64 bits at memory speed; against somebody who forges a collision in
// his own transcripts there is nothing to defend.
type Sum struct {
	Castagnoli, IEEE uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Extend returns the sum of what s covers followed by p.
func (s Sum) Extend(p []byte) Sum {
	return Sum{
		Castagnoli: crc32.Update(s.Castagnoli, castagnoli, p),
		IEEE:       crc32.Update(s.IEEE, crc32.IEEETable, p),
	}
}

// Window is how many bytes before an offset [Tail] covers.
const Window = 4096

// Tail identifies the last [Window] bytes before an offset, or all of them
// when there are fewer.
type Tail [16]byte

func tailOf(window []byte) Tail {
	sum := sha256.Sum256(window)
	return Tail(sum[:16])
}

// Position is a place between two lines and what lies before it.
type Position struct {
	Offset int64
	Sum    Sum
	Tail   Tail
}

// TailAt computes the tail of an offset.
func TailAt(f io.ReaderAt, offset int64) (Tail, error) {
	window := make([]byte, min(offset, Window))
	if n, err := f.ReadAt(window, offset-int64(len(window))); n < len(window) {
		return Tail{}, err
	}
	return tailOf(window), nil
}

// Begins reports whether the contents of r begin with what lies before p. It
// reads no more than that.
func Begins(r io.Reader, p Position) (bool, error) {
	buf := make([]byte, 128<<10+Window)
	var sum Sum
	kept, left := 0, p.Offset // buf[:kept] is the window before what is read next
	for left > 0 {
		chunk := buf[kept:min(int64(len(buf)), int64(kept)+left)]
		n, err := io.ReadFull(r, chunk)
		sum = sum.Extend(chunk[:n])
		left -= int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		end := kept + n
		kept = copy(buf, buf[max(0, end-Window):end])
	}
	return sum == p.Sum && tailOf(buf[:kept]) == p.Tail, nil
}
