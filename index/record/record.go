// Package record is the vocabulary of the project: who owns history, where in
// a log an entry stands, what a transcript says ([Turn], raw) and what a log
// keeps ([Entry], scrubbed).
//
// A [Turn] must never be stored, logged or sent; the write gate of package
// index is the only place that turns one into an Entry.
package record

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NodeID identifies a node: the first 20 bytes of SHA-256("deja-node-1" || public key).
type NodeID [20]byte

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NodeOf derives the id of the node that holds the given public key.
func NodeOf(pub ed25519.PublicKey) NodeID {
	sum := sha256.Sum256(append([]byte("deja-node-1"), pub...))
	return NodeID(sum[:20])
}

// String returns the 32 character form: base32, lower case, no padding.
func (id NodeID) String() string { return base32Lower.EncodeToString(id[:]) }

// Short returns the first eight characters, which people read and type.
func (id NodeID) Short() string { return id.String()[:8] }

// IsZero reports whether the id is unset.
func (id NodeID) IsZero() bool { return id == NodeID{} }

// MarshalText implements encoding.TextMarshaler.
func (id NodeID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *NodeID) UnmarshalText(b []byte) error {
	v, err := ParseNode(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// ErrBadID is wrapped by every error about a malformed node or stream id.
var ErrBadID = errors.New("malformed id")

// ParseNode reads the 32 character form.
func ParseNode(s string) (NodeID, error) {
	var id NodeID
	b, err := base32Lower.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("node %.40q: %w", s, ErrBadID)
	}
	copy(id[:], b)
	return id, nil
}

// StreamID identifies one log of a node: the node and eight random bytes. A
// node starts another stream when it can no longer be sure of its own head.
type StreamID struct {
	Node  NodeID
	Nonce [8]byte
}

// String returns "<node>.<16 hex digits>", which is also the directory name of the log.
func (s StreamID) String() string { return s.Node.String() + "." + hex.EncodeToString(s.Nonce[:]) }

// IsZero reports whether the id is unset.
func (s StreamID) IsZero() bool { return s == StreamID{} }

// Compare orders streams by node, then nonce.
func (s StreamID) Compare(o StreamID) int {
	if c := slices.Compare(s.Node[:], o.Node[:]); c != 0 {
		return c
	}
	return slices.Compare(s.Nonce[:], o.Nonce[:])
}

// MarshalText implements encoding.TextMarshaler.
func (s StreamID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *StreamID) UnmarshalText(b []byte) error {
	v, err := ParseStream(string(b))
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// ParseStream reads the form that String writes, in lower case only.
func ParseStream(s string) (StreamID, error) {
	var id StreamID
	node, nonce, ok := strings.Cut(s, ".")
	if !ok || len(nonce) != 16 || strings.ToLower(nonce) != nonce {
		return id, fmt.Errorf("stream %.60q: %w", s, ErrBadID)
	}
	n, err := ParseNode(node)
	if err != nil {
		return id, fmt.Errorf("stream %.60q: %w", s, ErrBadID)
	}
	id.Node = n
	if _, err := hex.Decode(id.Nonce[:], []byte(nonce)); err != nil {
		return StreamID{}, fmt.Errorf("stream %.60q: %w", s, ErrBadID)
	}
	return id, nil
}

// Seq is the position of an entry in its stream: dense, from 1.
type Seq uint64

// Pos names one entry.
type Pos struct {
	Stream StreamID
	Seq    Seq
}

// Hash is a SHA-256 sum: of a batch header, or of an entry line (a leaf).
type Hash [32]byte

// String returns the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != 2*len(h) {
		return fmt.Errorf("hash %.70q: %w", b, ErrBadID)
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return fmt.Errorf("hash %.70q: %w", b, ErrBadID)
	}
	return nil
}

// Head is how far a stream is known: the last sequence number and the hash of
// the header of the batch that ends there. Hash is zero for the open tail of
// the own stream, which is not signed yet.
type Head struct {
	Seq  Seq  `json:"seq"`
	Hash Hash `json:"hash"`
}

// Frontier says what a node, or a view, has: one head per stream.
type Frontier map[StreamID]Head

// Clone copies the frontier.
func (f Frontier) Clone() Frontier { return maps.Clone(f) }

// Covers reports whether f has everything that g has, by sequence numbers.
func (f Frontier) Covers(g Frontier) bool {
	for s, h := range g {
		if f[s].Seq < h.Seq {
			return false
		}
	}
	return true
}

// Streams returns the streams of the frontier in order.
func (f Frontier) Streams() []StreamID {
	return slices.SortedFunc(maps.Keys(f), StreamID.Compare)
}

// SessionKey names a session as its harness does.
type SessionKey struct {
	Harness string // id of the harness, as in package sources
	Native  string // the harness's own session id, opaque
}

// String returns "harness:native".
func (k SessionKey) String() string { return k.Harness + ":" + k.Native }

// SessionID names a session of one origin in the views: the first eight bytes
// of SHA-256 over the origin's node id, the harness and the native id. Two
// machines that use one native id for different sessions keep both.
type SessionID uint64

// SessionOf derives the id of a session.
func SessionOf(node NodeID, key SessionKey) SessionID {
	var room [256]byte
	b := append(room[:0], "deja-session-1"...)
	b = append(b, node[:]...)
	b = appendField(b, key.Harness)
	b = appendField(b, key.Native)
	sum := sha256.Sum256(b)
	return SessionID(binary.BigEndian.Uint64(sum[:]))
}

// String returns the id in 13 characters of base32.
func (id SessionID) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return base32Lower.EncodeToString(b[:])
}

// Short returns the first eight characters, which lists print.
func (id SessionID) Short() string { return id.String()[:8] }

// CID is the content id of an entry; see [Entry.CID].
type CID [32]byte

// String returns the id in 52 characters of base32.
func (c CID) String() string { return base32Lower.EncodeToString(c[:]) }

// MarshalText implements encoding.TextMarshaler.
func (c CID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CID) UnmarshalText(b []byte) error {
	v, err := base32Lower.DecodeString(string(b))
	if err != nil || len(v) != len(c) {
		return fmt.Errorf("content id %.60q: %w", b, ErrBadID)
	}
	copy(c[:], v)
	return nil
}

// Short returns the first eight bytes as a number: the key of the views'
// content tables.
func (c CID) Short() uint64 { return binary.BigEndian.Uint64(c[:8]) }
