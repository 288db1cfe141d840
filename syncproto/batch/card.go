package batch

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deja-node/deja/index/record"
)

// MaxCard bounds the bytes of a signed card.
const MaxCard = 16 << 10

const cardDomain = "deja-card-2\n"

// Card is what a node says about itself. Of two cards of a node the one with
// the higher number holds. Names are labels: nothing is trusted because of one.
type Card struct {
	Node   record.NodeID     `json:"node"`
	Pub    ed25519.PublicKey `json:"pub"`
	Name   string            `json:"name"`
	Names  []string          `json:"names,omitempty"` // what it called itself before
	Number uint64            `json:"card"`
	At     time.Time         `json:"at"`
	// Extra holds the fields of newer programs, which signing keeps.
	Extra map[string]json.RawMessage `json:"-"`
}

// signedCard is a card as it is stored and sent. The signature covers the
// card's bytes as they stand.
type signedCard struct {
	Card json.RawMessage `json:"card"`
	Sig  []byte          `json:"sig"`
}

// cardFields are the fields of a card that this program knows.
var cardFields = []string{"v", "node", "pub", "name", "names", "card", "at"}

// SignCard returns the signed card of the node that holds the key.
func SignCard(key ed25519.PrivateKey, c Card) ([]byte, error) {
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("card: not an ed25519 key")
	}
	c.Pub, c.Node, c.At = pub, record.NodeOf(pub), c.At.UTC().Truncate(time.Second)
	body, err := json.Marshal(struct {
		V int `json:"v"`
		Card
	}{Version, c})
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		field, err := json.Marshal(map[string]json.RawMessage{name: c.Extra[name]})
		if err != nil {
			return nil, fmt.Errorf("card: field %q: %w", name, err)
		}
		if !slices.Contains(cardFields, name) {
			body = append(append(body[:len(body)-1], ','), field[1:]...)
		}
	}
	raw, err := json.Marshal(signedCard{body, ed25519.Sign(key, append([]byte(cardDomain), body...))})
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	if len(raw) > MaxCard {
		return nil, fmt.Errorf("%w: card of %d bytes", ErrTooLong, len(raw))
	}
	return raw, nil
}

// ParseCard reads a signed card and proves it: its key is that of the node it
// names, and has signed it.
func ParseCard(raw []byte) (Card, error) {
	if len(raw) > MaxCard {
		return Card{}, fmt.Errorf("%w: card of %d bytes", ErrMalformed, len(raw))
	}
	var signed signedCard
	if err := strict(raw, &signed); err != nil {
		return Card{}, err
	}
	var c struct {
		V   int `json:"v"`
		Min int `json:"min"`
		Card
	}
	if err := strict(signed.Card, &c); err != nil {
		return Card{}, err
	}
	if c.Min > Version {
		return Card{}, fmt.Errorf("card: %w: %d, this program reads %d", ErrVersion, c.Min, Version)
	}
	if len(c.Pub) != ed25519.PublicKeySize || record.NodeOf(c.Pub) != c.Node {
		return Card{}, fmt.Errorf("card: %w: the key is not that of node %s", ErrSignature, c.Node.Short())
	}
	if !ed25519.Verify(c.Pub, append([]byte(cardDomain), signed.Card...), signed.Sig) {
		return Card{}, fmt.Errorf("card of node %s: %w", c.Node.Short(), ErrSignature)
	}
	if err := json.Unmarshal(signed.Card, &c.Extra); err != nil {
		return Card{}, fmt.Errorf("card: %w: %w", ErrMalformed, err)
	}
	maps.DeleteFunc(c.Extra, func(name string, _ json.RawMessage) bool { return slices.Contains(cardFields, name) })
	if len(c.Extra) == 0 {
		c.Extra = nil
	}
	return c.Card, nil
}

// strict reads a JSON object whose names are distinct in any spelling, because
// encoding/json takes names of either case.
func strict(raw []byte, to any) error {
	var (
		s    scanner
		seen [][]byte
	)
	s.reset(raw)
	if !s.open('{') {
		s.fail()
	}
	for s.more('}') {
		key := bytes.ToLower(s.key())
		if slices.ContainsFunc(seen, func(k []byte) bool { return bytes.EqualFold(k, key) }) {
			s.fail()
		}
		seen = append(seen, key)
		s.skip()
	}
	if !s.end() {
		return fmt.Errorf("card: %w", ErrMalformed)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("card: %w: %w", ErrMalformed, err)
	}
	return nil
}
