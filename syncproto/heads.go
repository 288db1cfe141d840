package syncproto

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deja-node/deja/index/record"
)

// headsBlock is what the size of a heads file is counted in: whole blocks and,
// on top, the number of the revision. So a listing shows every change, even on
// a server whose clock has seconds only.
const headsBlock = 1024

// headsMsg is what a node says in a mailbox about its own streams: its HAVE.
type headsMsg struct {
	V       int                  `json:"v"`
	Node    record.NodeID        `json:"node"`
	Pub     []byte               `json:"pub"`
	Card    []byte               `json:"card,omitempty"`
	Policy  string               `json:"policy,omitempty"`
	Streams map[string]haveEntry `json:"streams"`
	At      string               `json:"at,omitempty"`
}

type signedHeads struct {
	Heads json.RawMessage `json:"heads"`
	Sig   []byte          `json:"sig"`
}

const headsDomain = "deja-heads-2\n"

// encodeHeads signs what a node offers, as a file that differs in size from
// the one of prevSize bytes before it.
func encodeHeads(key ed25519.PrivateKey, m headsMsg, prevSize int64) []byte {
	body := mustJSON(m)
	b := mustJSON(signedHeads{body, ed25519.Sign(key, append([]byte(headsDomain), body...))})
	rev := (int(prevSize%headsBlock) + 1) % headsBlock
	size := (len(b)+headsBlock-1)/headsBlock*headsBlock + rev
	for len(b) < size {
		b = append(b, ' ')
	}
	return b
}

type boxHeads struct {
	card []byte
	have
}

// decodeHeads verifies the heads file of a node.
func decodeHeads(node record.NodeID, p []byte) (*boxHeads, error) {
	var signed signedHeads
	if err := decode(p, &signed); err != nil {
		return nil, err
	}
	var m headsMsg
	if err := json.Unmarshal(signed.Heads, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if m.V != Version {
		return nil, refuse(CodeVersion, "this node reads mailboxes of version %d, this file is of version %d", Version, m.V)
	}
	if m.Node != node || len(m.Pub) != ed25519.PublicKeySize || record.NodeOf(m.Pub) != node {
		return nil, refuse(CodeAuth, "the heads file of node %s is of another node", node.Short())
	}
	if !ed25519.Verify(m.Pub, append([]byte(headsDomain), signed.Heads...), signed.Sig) {
		return nil, refuse(CodeAuth, "the heads file of node %s is not signed by it", node.Short())
	}
	h, err := parseHave(haveMsg{Policy: m.Policy, Streams: m.Streams})
	if err != nil {
		return nil, err
	}
	for _, o := range h.offers {
		if o.stream.Node != node {
			return nil, refuse(CodeAuth, "the heads file of node %s names stream %s", node.Short(), o.stream)
		}
	}
	return &boxHeads{card: m.Card, have: *h}, nil
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
