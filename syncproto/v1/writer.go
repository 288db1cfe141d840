package v1

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Writer writes one batch file. Lines of a log are already what an older reader
// takes; entries without speech have no text, and it drops them.
type Writer struct {
	w     *bufio.Writer
	hash  hash.Hash
	lines int
}

// NewWriter returns a writer of a file's contents.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 64<<10), hash: sha256.New()}
}

// Lines is how many lines were written.
func (w *Writer) Lines() int { return w.lines }

var errLine = errors.New("a line must be one JSON object")

// Line writes an entry line, without its end, as package batch encodes it.
func (w *Writer) Line(line []byte) error {
	if len(line) > maxLine || len(line) < 2 || line[0] != '{' || bytes.IndexByte(line, '\n') >= 0 {
		return errLine
	}
	w.lines++
	w.hash.Write(line)
	w.hash.Write([]byte{'\n'})
	if _, err := w.w.Write(line); err != nil {
		return err
	}
	return w.w.WriteByte('\n')
}

// endLine closes a file: it counts and sums up the lines before it, so that a
// file that was cut between two lines is found out. To an older reader it is a
// record without text.
type endLine struct {
	Harness   string `json:"harness"`
	SessionID string `json:"session_id"`
	Project   string `json:"project"`
	Role      string `json:"role"`
	Text      string `json:"text"`
	Time      string `json:"time"`
	Origin    string `json:"origin"`
	V         int    `json:"v"`
	Kind      string `json:"kind"`
	N         int    `json:"n"`
	Sum       string `json:"sum"`
}

// Finish writes the closing line and everything that is still buffered.
func (w *Writer) Finish() error {
	line, err := json.Marshal(endLine{
		Harness: "deja", SessionID: "end", Role: "meta", Time: "0001-01-01T00:00:00Z", V: 2,
		Kind: string(kindEnd), N: w.lines, Sum: hex.EncodeToString(w.hash.Sum(nil)),
	})
	if err != nil {
		return fmt.Errorf("closing line: %w", err)
	}
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return w.w.Flush()
}
