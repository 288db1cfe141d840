package syncproto

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deja-node/deja/index/record"
)

const nonceSize = 16

// Nonce makes the signatures of one exchange useless in any other.
type Nonce [nonceSize]byte

// Limits of what a control frame may say.
const (
	maxStreams = 500     // streams in one HAVE
	maxSpans   = 64      // holes of one stream in one HAVE
	maxSeq     = 1 << 48 // positions; keeps sums of them far from overflow
	maxDepth   = 32      // of JSON
	maxCredit  = 64 << 20
)

// Span is a run of positions of a stream, both ends included.
type Span struct{ From, To record.Seq }

// hash16 is the short form of a header hash: enough to notice that two nodes
// mean different histories, and short enough to send always.
func hash16(h record.Hash) string { return hex.EncodeToString(h[:8]) }

type helloMsg struct {
	V     []int  `json:"v"`
	Pub   []byte `json:"pub"`
	Nonce string `json:"nonce"`
	Name  string `json:"name,omitempty"`
	App   string `json:"app,omitempty"`
	Clock string `json:"clock,omitempty"`
}

type hello struct {
	versions  []int
	pub       ed25519.PublicKey
	nonce     Nonce
	name, app string
	clock     time.Time
	sum       [sha256.Size]byte // of the payload, which AUTH signs
	node      record.NodeID
}

func (h *hello) encode() []byte {
	m := helloMsg{
		V: h.versions, Pub: h.pub, Nonce: hex.EncodeToString(h.nonce[:]),
		Name: h.name, App: h.app, Clock: formatTime(h.clock),
	}
	b := mustJSON(m)
	h.sum = sha256.Sum256(b)
	h.node = record.NodeOf(h.pub)
	return b
}

// decodeHello reads a HELLO. What only informs people may be missing or of the
// wrong shape; the rest may not.
func decodeHello(p []byte) (*hello, error) {
	var fields map[string]json.RawMessage
	if err := decode(p, &fields); err != nil {
		return nil, err
	}
	h := &hello{sum: sha256.Sum256(p)}
	if err := json.Unmarshal(fields["v"], &h.versions); err != nil {
		return nil, fmt.Errorf("%w: versions: %w", ErrFrame, err)
	}
	if !slices.Contains(h.versions, Version) {
		return h, nil // an unknown version is told apart before its fields are read
	}
	var pub []byte
	var nonce string
	if err := errors.Join(json.Unmarshal(fields["pub"], &pub), json.Unmarshal(fields["nonce"], &nonce)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if len(pub) != ed25519.PublicKeySize || len(nonce) != 2*nonceSize {
		return nil, fmt.Errorf("%w: a public key of %d bytes, a nonce of %d digits", ErrFrame, len(pub), len(nonce))
	}
	if _, err := hex.Decode(h.nonce[:], []byte(nonce)); err != nil {
		return nil, fmt.Errorf("%w: nonce: %w", ErrFrame, err)
	}
	h.pub, h.node = pub, record.NodeOf(pub)
	h.name = harmless(optional(fields["name"]), maxName)
	h.app = harmless(optional(fields["app"]), maxName)
	if at, err := time.Parse(time.RFC3339, optional(fields["clock"])); err == nil {
		h.clock = at
	}
	return h, nil
}

// optional reads a string that may be missing or of another type.
func optional(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// authMessage is what a side signs. It names the side, so that a signature
// cannot be sent back, and both HELLOs with their nonces, keys and versions.
func authMessage(fromServer bool, client, server *hello) []byte {
	side := "client"
	if fromServer {
		side = "server"
	}
	m := []byte("deja-auth-2\n" + side + "\n")
	for _, h := range []*hello{client, server} {
		m = append(m, h.nonce[:]...)
		m = append(m, h.node[:]...)
		m = append(m, h.sum[:]...)
	}
	return m
}

type haveMsg struct {
	Policy  string               `json:"policy,omitempty"`
	Closed  bool                 `json:"closed,omitempty"`
	Streams map[string]haveEntry `json:"streams"`
}

// haveEntry is written as [head, "hash16", card] or [head, "hash16", card, [[from, to], ...]].
type haveEntry struct {
	head   record.Seq
	hash16 string
	card   uint64
	holes  []Span
}

// MarshalJSON implements json.Marshaler.
func (e haveEntry) MarshalJSON() ([]byte, error) {
	v := []any{e.head, e.hash16, e.card}
	if len(e.holes) > 0 {
		holes := make([][2]record.Seq, 0, min(len(e.holes), maxSpans))
		for _, h := range e.holes[:cap(holes)] {
			holes = append(holes, [2]record.Seq{h.From, h.To})
		}
		v = append(v, holes)
	}
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *haveEntry) UnmarshalJSON(b []byte) error {
	var v []json.RawMessage
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if len(v) < 3 {
		return fmt.Errorf("%d fields of a stream, 3 are needed", len(v))
	}
	err := errors.Join(json.Unmarshal(v[0], &e.head), json.Unmarshal(v[1], &e.hash16), json.Unmarshal(v[2], &e.card))
	if err != nil || len(v) == 3 {
		return err
	}
	var holes [][2]record.Seq
	if err := json.Unmarshal(v[3], &holes); err != nil {
		return err
	}
	if len(holes) > maxSpans {
		return fmt.Errorf("%d holes of a stream, at most %d are allowed", len(holes), maxSpans)
	}
	for _, h := range holes {
		e.holes = append(e.holes, Span{h[0], h[1]})
	}
	return nil
}

// offer is one stream of the peer's HAVE.
type offer struct {
	stream record.StreamID
	haveEntry
}

type have struct {
	policy string
	closed bool
	offers []offer // in the order of the streams
}

func (h *have) find(s record.StreamID) (offer, bool) {
	i, ok := slices.BinarySearchFunc(h.offers, s, func(o offer, s record.StreamID) int { return o.stream.Compare(s) })
	if !ok {
		return offer{}, false
	}
	return h.offers[i], true
}

func encodeHave(terms Terms, closed bool) []byte {
	return mustJSON(haveMsg{Policy: terms.Policy, Closed: closed, Streams: entries(terms.Offers)})
}

func entries(offers []Offer) map[string]haveEntry {
	m := make(map[string]haveEntry, len(offers))
	for _, o := range offers {
		m[o.Stream.String()] = haveEntry{o.Head.Seq, hash16(o.Head.Hash), o.Card, o.Holes}
	}
	return m
}

func decodeHave(p []byte) (*have, error) {
	var m haveMsg
	if err := decode(p, &m); err != nil {
		return nil, err
	}
	return parseHave(m)
}

func parseHave(m haveMsg) (*have, error) {
	if len(m.Streams) > maxStreams {
		return nil, refuse(CodeLimit, "the other node offers %d streams, at most %d are allowed", len(m.Streams), maxStreams)
	}
	h := &have{policy: harmless(m.Policy, maxName), closed: m.Closed}
	for name, e := range m.Streams {
		s, err := record.ParseStream(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFrame, err)
		}
		if e.head == 0 || e.head > maxSeq || len(e.hash16) != 16 {
			return nil, fmt.Errorf("%w: stream %s: head %d, hash %.20q", ErrFrame, s, e.head, e.hash16)
		}
		for _, hole := range e.holes {
			if hole.From == 0 || hole.From > hole.To || hole.To > e.head {
				return nil, fmt.Errorf("%w: stream %s: hole %d to %d", ErrFrame, s, hole.From, hole.To)
			}
		}
		h.offers = append(h.offers, offer{s, e})
	}
	slices.SortFunc(h.offers, func(a, b offer) int { return a.stream.Compare(b.stream) })
	return h, nil
}

// wantMsg asks for a span of a stream, grants credit, or both.
type wantMsg struct {
	S       string     `json:"s,omitempty"`
	From    record.Seq `json:"from,omitempty"`
	To      record.Seq `json:"to,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	Fill    bool       `json:"fill,omitempty"`
	Recover bool       `json:"recover,omitempty"`
	Since   string     `json:"since,omitempty"`
}

type ackMsg struct {
	S    string     `json:"s"`
	Head record.Seq `json:"head"`
	Hash string     `json:"hash,omitempty"`
}

type errMsg struct {
	Code    Code     `json:"code"`
	Msg     string   `json:"msg,omitempty"`
	S       string   `json:"s,omitempty"`
	Retry   int64    `json:"retry,omitempty"` // seconds
	Headers [][]byte `json:"headers,omitempty"`
}

func encodeErr(r *Refusal) []byte {
	m := errMsg{Code: r.Code, Msg: r.Msg, Retry: int64(r.Retry / time.Second), Headers: r.Headers}
	if !r.Stream.IsZero() {
		m.S = r.Stream.String()
	}
	return mustJSON(m)
}

func decodeErr(p []byte) (*Refusal, error) {
	var m errMsg
	if err := decode(p, &m); err != nil {
		return nil, err
	}
	r := &Refusal{Code: Code(harmless(string(m.Code), 32)), Msg: harmless(m.Msg, maxWords), Headers: m.Headers, Remote: true}
	r.Retry = time.Duration(min(max(m.Retry, 0), 7*24*3600)) * time.Second
	if m.S == "" {
		return r, nil
	}
	s, err := record.ParseStream(m.S)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	r.Stream = s
	return r, nil
}

// byeMsg is the receipt of what its sender received.
type byeMsg struct {
	Records   uint64 `json:"records"`
	Had       uint64 `json:"had,omitempty"`
	Forgotten uint64 `json:"forgotten,omitempty"`
	Withheld  uint64 `json:"withheld,omitempty"`
	Filled    uint64 `json:"filled,omitempty"`
	Refused   uint64 `json:"refused,omitempty"`
}

func (m *byeMsg) add(r Receipt) {
	m.Records += uint64(r.Records)
	m.Had += uint64(r.Had)
	m.Forgotten += uint64(r.Forgotten)
	m.Withheld += uint64(r.Withheld)
	m.Filled += uint64(r.Filled)
}

// mustJSON encodes a message of our own, which always can be.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("syncproto: %T: %v", v, err))
	}
	return b
}
