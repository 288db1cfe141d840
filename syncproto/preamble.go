package syncproto

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// magic starts the line with which a server begins; see PROTOCOL.md.
const magic = "DEJA-SYNC/"

// preambleSize is the length of the server's magic line of version 2.
const preambleSize = len("\n"+magic+"2 ") + 2*nonceSize + len("\n")

// maxNoise is how much a remote shell may print before the magic line.
const maxNoise = 64 << 10

// AppendPreamble appends the line that a server writes before its first frame.
// It begins with a line break, so that unfinished output of a remote shell
// does not hide it.
func AppendPreamble(dst []byte, nonce Nonce) []byte {
	dst = append(dst, "\n"+magic+"2 "...)
	dst = hex.AppendEncode(dst, nonce[:])
	return append(dst, '\n')
}

// PreambleError says that the far side did not answer as a deja node: it could
// not be started, or a remote shell printed something else.
type PreambleError struct {
	Noise string // what the far side printed instead, made harmless and cut
	Err   error
}

// Error implements error.
func (e *PreambleError) Error() string {
	if e.Noise == "" {
		return fmt.Sprintf("no deja node answered: %v", e.Err)
	}
	return fmt.Sprintf("no deja node answered (it printed %q): %v", e.Noise, e.Err)
}

// Unwrap returns the cause.
func (e *PreambleError) Unwrap() error { return e.Err }

// errNoise says that the magic line did not come within [maxNoise] bytes.
var errNoise = fmt.Errorf("%w: no magic line in the first %d bytes", ErrFrame, maxNoise)

// ReadPreamble reads up to and including the server's magic line. It returns
// the server's nonce and what was printed before the line.
func ReadPreamble(r *bufio.Reader) (nonce Nonce, noise string, err error) {
	var seen, line []byte
	for range maxNoise {
		c, err := r.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nonce, "", &PreambleError{Noise: quote(append(seen, line...)), Err: err}
		}
		line = append(line, c)
		if c != '\n' {
			continue
		}
		if nonce, ok, err := parseMagic(string(line)); ok || err != nil {
			return nonce, quote(seen), err
		}
		seen, line = append(seen, line...), line[:0]
	}
	return nonce, "", &PreambleError{Noise: quote(append(seen, line...)), Err: errNoise}
}

// parseMagic reads a line. It fails when the line is a magic line of a version
// that this package does not speak.
func parseMagic(line string) (nonce Nonce, ok bool, err error) {
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), magic)
	if !ok {
		return nonce, false, nil
	}
	version, hexNonce, ok := strings.Cut(rest, " ")
	v, numErr := strconv.ParseUint(version, 10, 16)
	if !ok || numErr != nil {
		return nonce, false, nil
	}
	if v != Version {
		return nonce, false, refuse(CodeVersion, "this node speaks DEJA-SYNC/%d, the other one DEJA-SYNC/%d", Version, v)
	}
	if len(hexNonce) != 2*nonceSize {
		return nonce, false, nil
	}
	if _, err := hex.Decode(nonce[:], []byte(hexNonce)); err != nil {
		return Nonce{}, false, nil //nolint:nilerr // a line that only looks like the magic is noise
	}
	return nonce, true, nil
}

// quote makes a hint of noise: its last part, harmless.
func quote(b []byte) string {
	const keep = 2 << 10
	return harmless(string(b[max(0, len(b)-keep):]), maxWords)
}
