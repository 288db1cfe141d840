package batch

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/deja-node/deja/index/record"
)

const (
	magic      = "DJB2"
	prefixLen  = len(magic) + 4        // up to the header
	signedLen  = ed25519.SignatureSize // after the header
	suffixLen  = 4                     // the checksum
	signDomain = "deja-batch-2\n"      // before the header, in what is signed
	lengthLen  = 4                     // of the body
	minLen     = prefixLen + 2 + signedLen + lengthLen + suffixLen
)

// MaxLen bounds the length of a batch.
const MaxLen = prefixLen + MaxHeader + signedLen + lengthLen + MaxBody + suffixLen

// PrefixLen is how many bytes of a batch [HeadLen] needs.
const PrefixLen = prefixLen

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is an opened batch: a view of its bytes.
type Batch struct {
	Header
	Hash record.Hash // of the header
	Raw  []byte      // the whole
	body []byte
	head []byte
	sig  []byte
}

// Signed returns the header's bytes and their signature, one after the other:
// what proves to anybody which history the origin signed.
func (b *Batch) Signed() []byte { return b.Raw[prefixLen : prefixLen+len(b.head)+signedLen] }

// HeadLen returns how many bytes of a batch, of which the first [PrefixLen]
// are given, [Len] needs.
func HeadLen(p []byte) (int, error) {
	if len(p) < prefixLen || string(p[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: no batch begins here", ErrMalformed)
	}
	n := binary.BigEndian.Uint32(p[len(magic):])
	if n > MaxHeader {
		return 0, fmt.Errorf("%w: header of %d bytes", ErrMalformed, n)
	}
	return prefixLen + int(n) + signedLen + lengthLen, nil
}

// Len returns the length of the batch whose first [HeadLen] bytes are given.
func Len(p []byte) (int, error) {
	n, err := HeadLen(p)
	if err != nil {
		return 0, err
	}
	if len(p) < n {
		return 0, fmt.Errorf("%w: cut in its header", ErrMalformed)
	}
	body := binary.BigEndian.Uint32(p[n-lengthLen:])
	if body > MaxBody {
		return 0, fmt.Errorf("%w: body of %d bytes", ErrMalformed, body)
	}
	return n + int(body) + suffixLen, nil
}

// PeekHeader reads the header of the batch whose first [HeadLen] bytes are
// given. Nothing is verified.
func PeekHeader(p []byte) (Header, record.Hash, error) {
	n, err := HeadLen(p)
	if err == nil && len(p) < n {
		err = fmt.Errorf("%w: cut in its header", ErrMalformed)
	}
	if err != nil {
		return Header{}, record.Hash{}, err
	}
	head := p[prefixLen : n-signedLen-lengthLen]
	h, err := parseHeader(head)
	return h, HashHeader(head), err
}

// Open opens the batch that raw holds from its first to its last byte. It
// checks the frame, the checksum and the header, and keeps raw. What the batch
// says is not proved before [Codec.Verify].
func Open(raw []byte) (*Batch, error) {
	n, err := Len(raw)
	if err != nil {
		return nil, err
	}
	if n != len(raw) {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrMalformed, len(raw), n)
	}
	sum := binary.BigEndian.Uint32(raw[n-suffixLen:])
	if sum != crc32.Checksum(raw[:n-suffixLen], castagnoli) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrMalformed)
	}
	b := &Batch{Raw: raw}
	headEnd := prefixLen + int(binary.BigEndian.Uint32(raw[len(magic):]))
	b.head = raw[prefixLen:headEnd]
	b.sig = raw[headEnd : headEnd+signedLen]
	b.body = raw[headEnd+signedLen+lengthLen : n-suffixLen]
	b.Hash = HashHeader(b.head)
	b.Header, err = parseHeader(b.head)
	return b, err
}

// VerifySigned reads a header and its signature as [Batch.Signed] gives them,
// and checks the signature.
func VerifySigned(signed []byte, pub ed25519.PublicKey) (Header, record.Hash, error) {
	if len(signed) < signedLen || len(signed) > MaxHeader+signedLen {
		return Header{}, record.Hash{}, fmt.Errorf("%w: signed header of %d bytes", ErrMalformed, len(signed))
	}
	head, sig := signed[:len(signed)-signedLen], signed[len(signed)-signedLen:]
	h, err := parseHeader(head)
	if err == nil {
		err = checkSignature(h.Stream, head, sig, pub)
	}
	return h, HashHeader(head), err
}

func checkSignature(s record.StreamID, head, sig []byte, pub ed25519.PublicKey) error {
	if len(pub) != ed25519.PublicKeySize || record.NodeOf(pub) != s.Node {
		return fmt.Errorf("%w: the key is not that of node %s", ErrSignature, s.Node.Short())
	}
	if !ed25519.Verify(pub, append([]byte(signDomain), head...), sig) {
		return fmt.Errorf("%w: header", ErrSignature)
	}
	return nil
}

// appendFrame appends a batch of a header, its signature and a body.
func appendFrame(dst, head, sig, body []byte) []byte {
	from := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)))
	dst = append(dst, head...)
	dst = append(dst, sig...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, body...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}
