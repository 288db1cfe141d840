package syncproto

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/deja-node/deja/syncproto/batch"
)

// Version is the version of the exchange that this package speaks.
const Version = 2

// Type says what a frame carries. A receiver skips types that it does not know
// when their high bit is set, and refuses the others.
type Type uint8

// The frame types of version 2. The numbers are on the wire and never change.
const (
	TypeHello Type = 0x01 // who speaks, and how
	TypeAuth  Type = 0x02 // proof of the node key
	TypeHave  Type = 0x03 // the streams on offer
	TypeWant  Type = 0x04 // a request for a span of a stream, and credit
	TypeBatch Type = 0x05 // one batch
	TypeAck   Type = 0x06 // a head that is durable at the receiver
	TypeErr   Type = 0x07 // a refusal, of one stream or of the exchange
	TypePing  Type = 0x08 // still here
	TypeBye   Type = 0x09 // nothing more is wanted; the receipt
	TypeCard  Type = 0x0a // a signed node card
)

// skippable is the bit that marks a type which a receiver may ignore.
const skippable Type = 0x80

var typeNames = [...]string{
	TypeHello: "HELLO", TypeAuth: "AUTH", TypeHave: "HAVE", TypeWant: "WANT", TypeBatch: "BATCH",
	TypeAck: "ACK", TypeErr: "ERR", TypePing: "PING", TypeBye: "BYE", TypeCard: "CARD",
}

// String returns the name of the type as PROTOCOL.md writes it.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type %#02x", uint8(t))
}

// Frame is one message of an exchange.
type Frame struct {
	Type    Type
	Payload []byte
}

// Limits of a frame's payload.
const (
	headerSize = 5            // length and type
	maxBatch   = batch.MaxLen // a BATCH
	maxControl = 1 << 20      // anything else after the handshake
	maxEarly   = 16 << 10     // anything before the peer has proved who it is
)

// ErrFrame is wrapped by every error about bytes that are no frame, or a frame
// that has no place where it stands.
var ErrFrame = errors.New("malformed exchange")

// AppendFrame appends the wire form of a frame.
func AppendFrame(dst []byte, f Frame) []byte {
	return append(appendHead(dst, f), f.Payload...)
}

func appendHead(dst []byte, f Frame) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Payload)))
	return append(dst, byte(f.Type))
}

// FrameReader reads frames from a stream into one buffer.
type FrameReader struct {
	r   *bufio.Reader
	buf []byte
}

// NewFrameReader returns a reader of the frames in r.
func NewFrameReader(r *bufio.Reader) *FrameReader { return &FrameReader{r: r} }

// Next reads a frame whose payload is at most limit(type) bytes. The payload is
// valid until the next call. It returns io.EOF at the end of the stream
// between two frames, and io.ErrUnexpectedEOF inside one.
func (fr *FrameReader) Next(limit func(Type) int) (Frame, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(fr.r, head[:]); err != nil {
		return Frame{}, err
	}
	n, t := binary.BigEndian.Uint32(head[:4]), Type(head[4])
	if most := limit(t); int64(n) > int64(most) {
		return Frame{}, fmt.Errorf("%w: %s of %d bytes, at most %d are allowed", ErrFrame, t, n, most)
	}
	if err := fr.fill(int(n)); err != nil {
		return Frame{}, err
	}
	return Frame{Type: t, Payload: fr.buf}, nil
}

// fill reads n bytes. The buffer grows with what has arrived, so that a length
// alone costs no memory.
func (fr *FrameReader) fill(n int) error {
	const step = 256 << 10
	fr.buf = fr.buf[:0]
	for len(fr.buf) < n {
		at := len(fr.buf)
		grow := min(n-at, max(step, at))
		if cap(fr.buf) < at+grow {
			bigger := make([]byte, at, at+grow)
			copy(bigger, fr.buf)
			fr.buf = bigger
		}
		fr.buf = fr.buf[:at+grow]
		if _, err := io.ReadFull(fr.r, fr.buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
