// Package batch is the format in which history is stored and exchanged: entry
// lines, and the signed batches that hold them. FORMAT.md gives every byte,
// with a worked example.
//
// [AppendEntry] and [Parser] turn an entry into its line and back. A [Builder]
// collects lines and seals them. [Open] checks the frame and the header of a
// batch without decompressing it; a [Codec] verifies it, yields its lines, and
// replaces single lines by stubs, which leaves the header and its signature
// as they are. [Card] is what a node says about itself.
//
// Everything that is read here is hostile until [Codec.Verify] has passed:
// lengths are checked before anything is allocated, and what a batch expands
// to is bounded by what its signed header declares.
package batch

import (
	"errors"

	"github.com/deja-node/deja/index/record"
)

// Version is the format that this package writes, and the newest it reads.
const Version = 2

// Limits of a batch.
const (
	MaxHeader  = 16 << 10           // bytes of the header
	MaxBody    = 5 << 20            // bytes of the compressed body
	MaxWindow  = 1 << 20            // bytes of the zstd window
	MaxEntries = 4096               // entries of one batch
	MaxLines   = record.MaxLine + 1 // bytes of all lines with their ends
	CloseAt    = 128 << 10          // bytes of lines that a batch of several entries holds at most
)

// Errors that callers tell apart. All but ErrVersion mean that the bytes are
// not what they claim to be.
var (
	// ErrMalformed says that a batch, a card or a line breaks the format or a limit.
	ErrMalformed = errors.New("malformed batch")
	// ErrSignature says that the key in question did not sign it, or signed other lines.
	ErrSignature = errors.New("signature does not cover it")
	// ErrVersion says that a newer format is needed to read it.
	ErrVersion = errors.New("written in a newer format")
	// ErrTooLong says that an entry is longer than a log keeps.
	ErrTooLong = errors.New("entry too long")
)
