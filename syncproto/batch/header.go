package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/deja-node/deja/index/record"
)

// Header is what the origin signs about a batch.
type Header struct {
	Stream record.StreamID
	First  record.Seq  // position of the first entry
	N      int         // how many entries follow one another
	Prev   record.Hash // of the header before it in the stream; zero for the first
	Root   record.Hash // SHA-256 of the leaf hashes, one after the other
	Ulen   int         // bytes of the entry lines with their ends, as they were sealed
	At     time.Time   // when it was sealed
	Min    int         // oldest format whose readers understand it
}

// Last returns the position of the last entry.
func (h *Header) Last() record.Seq { return h.First + record.Seq(h.N) - 1 }

// append appends the JSON of the header.
func (h *Header) append(dst []byte) []byte {
	l := line{append(dst, `{"v":2,"s":"`...)}
	l.name(h.Stream.String())
	l.number(`","first":`, int64(h.First))
	l.number(`,"n":`, int64(h.N))
	l.name(`,"prev":"`).name(h.Prev.String())
	l.name(`","root":"`).name(h.Root.String())
	l.number(`","ulen":`, int64(h.Ulen))
	l.name(`,"at":`).time(h.At)
	l.number(`,"min":`, int64(h.Min))
	return append(l.b, '}')
}

// HashHeader returns the hash by which the next header of the stream, and
// everybody's head, name the header with these bytes.
func HashHeader(head []byte) record.Hash { return sha256.Sum256(head) }

// headerFields are the fields that a header must have.
var headerFields = []string{"v", "s", "first", "n", "prev", "root", "ulen", "at", "min"}

// parseHeader reads the JSON of a header. Fields it does not know are for
// newer readers; one that comes twice would mean different things to different
// ones, and is refused.
func parseHeader(b []byte) (Header, error) {
	var (
		h    Header
		s    scanner
		seen []string
	)
	s.reset(b)
	if !s.open('{') {
		s.fail()
	}
	for s.more('}') {
		key := string(s.key())
		if slices.Contains(seen, key) || !h.field(key, &s) {
			s.fail()
		}
		seen = append(seen, key)
	}
	if !s.end() {
		return h, fmt.Errorf("%w: header %.200q", ErrMalformed, b)
	}
	if h.Min > Version {
		return h, fmt.Errorf("%w: %d, this program reads %d", ErrVersion, h.Min, Version)
	}
	for _, key := range headerFields {
		if !slices.Contains(seen, key) {
			return h, fmt.Errorf("%w: header lacks %q", ErrMalformed, key)
		}
	}
	return h, h.check()
}

// field reads one value and reports whether it can be one of its field.
func (h *Header) field(key string, s *scanner) bool {
	switch key {
	case "v":
		v, ok := s.integer()
		return ok && v >= Version
	case "s":
		b, ok := s.str()
		return ok && h.Stream.UnmarshalText(b) == nil
	case "first":
		n, ok := s.integer()
		h.First = record.Seq(n)
		return ok && n > 0
	case "n":
		return s.small(&h.N)
	case "prev":
		return s.hash(&h.Prev)
	case "root":
		return s.hash(&h.Root)
	case "ulen":
		return s.small(&h.Ulen)
	case "at":
		b, ok := s.str()
		return ok && h.At.UnmarshalText(b) == nil
	case "min":
		return s.small(&h.Min)
	default:
		s.skip()
		return true
	}
}

// small reads a positive number that fits every int.
func (s *scanner) small(to *int) bool {
	n, ok := s.integer()
	*to = int(n)
	return ok && n > 0 && n <= maxCount
}

// hash reads a hash in lower-case hex.
func (s *scanner) hash(to *record.Hash) bool {
	b, ok := s.str()
	return ok && to.UnmarshalText(b) == nil && hex.EncodeToString(to[:]) == string(b)
}

// check holds a header to the limits.
func (h *Header) check() error {
	switch {
	case h.N > MaxEntries, h.Ulen > MaxLines, h.Ulen < h.N, h.First > maxSeq-MaxEntries:
	case (h.First == 1) != (h.Prev == record.Hash{}):
	default:
		return nil
	}
	return fmt.Errorf("%w: impossible header of %s at %d", ErrMalformed, h.Stream, h.First)
}
