package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"

	"github.com/deja-node/deja/index/record"
)

const (
	stubOpen  = `{"x":"`
	stubHash  = `","h":"`
	stubClose = `"}`
	hashText  = 43 // characters of a hash in base64
)

// maxStub is the length of the longest stub line with its end.
const maxStub = len(stubOpen) + len(record.Forgotten) + len(stubHash) + hashText + len(stubClose) + 1

// AppendStub appends the line that stands in for an entry.
func AppendStub(dst []byte, s record.Stub) []byte {
	dst = append(dst, stubOpen...)
	dst = append(dst, s.Reason...)
	dst = append(dst, stubHash...)
	dst = base64.RawStdEncoding.AppendEncode(dst, s.Leaf[:])
	return append(dst, stubClose...)
}

// IsStub reports whether a line is meant to be a stub. No entry line begins like one.
func IsStub(line []byte) bool { return bytes.HasPrefix(line, []byte(stubOpen)) }

// ParseStub reads a stub line. Nobody signs one, so it has one form only and
// can carry nothing else.
func ParseStub(line []byte) (record.Stub, error) {
	var s record.Stub
	for _, reason := range []string{record.Withheld, record.Forgotten} {
		text, ok := bytes.CutPrefix(line, []byte(stubOpen+reason+stubHash))
		if !ok || len(text) != hashText+len(stubClose) || string(text[hashText:]) != stubClose {
			continue
		}
		s.Reason = reason
		if _, err := base64.RawStdEncoding.Strict().Decode(s.Leaf[:], text[:hashText]); err == nil {
			return s, nil
		}
	}
	return record.Stub{}, fmt.Errorf("%w: stub %.100q", ErrMalformed, line)
}

const leafDomain = "deja-leaf-2\n"

// Leaf returns the hash under which a batch commits to an entry line. For a
// stub line it is the hash that the stub holds.
func Leaf(line []byte) (record.Hash, error) { return new(hasher).leaf(line) }

// hasher hashes lines with one state used over and over.
type hasher struct {
	state hash.Hash
	sum   record.Hash
}

var leafPrefix = []byte(leafDomain)

// leaf is Leaf.
func (h *hasher) leaf(line []byte) (record.Hash, error) {
	if IsStub(line) {
		s, err := ParseStub(line)
		return s.Leaf, err
	}
	if h.state == nil {
		h.state = sha256.New()
	}
	h.state.Reset()
	h.state.Write(leafPrefix)
	h.state.Write(line)
	h.state.Sum(h.sum[:0])
	return h.sum, nil
}
