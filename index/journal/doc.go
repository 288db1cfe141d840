// Package journal keeps the logs: one directory for each stream, with segments
// of signed batches and, for the own stream, an open tail of lines that are
// not sealed yet.
//
// Start at [Journal]. Any number of processes read, and never wait; one at a
// time writes, through a [Writer]. A [View] is what is derived from the logs;
// [Journal.Fold] brings one up to date.
//
// # On disk
//
//	FORMAT                    which versions of the program can read the store
//	LOCK, WRITER              held by the writer, and who that is
//	<node>.<stream>/
//	  HEAD                    how far the segments are committed
//	  CARD                    signed card of the node
//	  <first>.seg             batches back to back, as package batch has them
//	  <first>.idx             where in the segment batches begin: a hint
//	  <first>.tail            lines after HEAD, not sealed
//	  HOLES                   what was damaged and set aside
//	  FORK                    two signed headers that contradict each other
//
// HEAD is the point of commitment. It is replaced after everything up to it is
// durable, and nothing after it counts: a reader stops there, and the next
// writer cuts off what a crash left behind. The tail's name says the position
// of its first line, so the tail that belongs to a HEAD is found by name, and
// one that was sealed is never taken for it. A peer is served only what HEAD
// covers, so it never holds what a crash could remove here.
//
// Batches never change, with one exception: lines can become stubs, and stubs
// lines again, under the same signed header. A segment is then rewritten whole
// and renamed into place, and readers of the old file finish with that.
package journal

import (
	"errors"
	"fmt"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// Errors that callers tell apart. A lock that somebody else holds is
// [vfs.ErrLocked].
var (
	// ErrCorrupt says that bytes of the store are not what was written.
	ErrCorrupt = errors.New("damaged log")
	// ErrNewer says that a newer program has written the store.
	ErrNewer = errors.New("store of a newer deja")
	// ErrFork says that the origin signed two histories.
	ErrFork = errors.New("two histories of one stream")
	// ErrGap says that batches are missing before this one.
	ErrGap = errors.New("batches are missing before it")
	// ErrNoCard says that the key of a node is not known yet.
	ErrNoCard = errors.New("no card of its node")
	// ErrNotFound says that the journal does not hold what was asked for.
	ErrNotFound = errors.New("not in the log")
	// ErrMismatch says that a batch is no other copy of the one it is to replace.
	ErrMismatch = errors.New("not the batch that is stored there")
)

// corrupt is an [ErrCorrupt] about a place in a file.
func corrupt(file string, off int64, err error) error {
	return fmt.Errorf("%s at byte %d: %w: %w", file, off, ErrCorrupt, err)
}

// LockedError says who holds the lock.
type LockedError struct{ PID int } // 0 when it does not say

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return "another process writes to the log"
	}
	return fmt.Sprintf("process %d writes to the log", e.PID)
}

// Unwrap makes the error a [vfs.ErrLocked].
func (e *LockedError) Unwrap() error { return vfs.ErrLocked }

// GapError says which position a stream goes on at.
type GapError struct {
	Stream record.StreamID
	Want   record.Seq
	Got    record.Seq
}

func (e *GapError) Error() string {
	return fmt.Sprintf("stream %s goes on at %d, not at %d", e.Stream, e.Want, e.Got)
}

// Unwrap makes the error an [ErrGap].
func (e *GapError) Unwrap() error { return ErrGap }

// ForkError holds the proof of a fork: two headers with their signatures, as
// batch.Batch.Signed gives them, that cannot belong to one history.
type ForkError struct {
	Stream       record.StreamID `json:"stream"`
	Seq          record.Seq      `json:"seq"`
	Ours, Theirs []byte
}

func (e *ForkError) Error() string {
	return fmt.Sprintf("stream %s at %d: %v", e.Stream, e.Seq, ErrFork)
}

// Unwrap makes the error an [ErrFork].
func (e *ForkError) Unwrap() error { return ErrFork }
