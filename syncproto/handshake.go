package syncproto

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strconv"
	"strings"
)

// The handshake of a session: who is there, and whether the policy has
// anything for it.

func (s *Session) onHello(p []byte) error {
	h, err := decodeHello(p)
	if err != nil {
		return err
	}
	if !slices.Contains(h.versions, Version) {
		return refuse(CodeVersion, "this node speaks version %d of the exchange, the other one %s", Version, list(h.versions))
	}
	if s.greeting != nil && *s.greeting != h.nonce {
		return refuse(CodeAuth, "the magic line and the hello have different nonces")
	}
	if h.node == s.self {
		return refuse(CodeAuth, "the other side is this very node")
	}
	s.theirs, s.phase = h, waitAuth
	s.queue(TypeAuth, ed25519.Sign(s.cfg.Key, s.authMessage(s.cfg.Server)))
	return nil
}

// authMessage is what the client, or the server, of this exchange signs.
func (s *Session) authMessage(server bool) []byte {
	if s.cfg.Server {
		return authMessage(server, s.theirs, s.mine)
	}
	return authMessage(server, s.mine, s.theirs)
}

func (s *Session) onAuth(ctx context.Context, sig []byte) error {
	if !ed25519.Verify(s.theirs.pub, s.authMessage(!s.cfg.Server), sig) {
		return refuse(CodeAuth, "the other side does not hold the key of node %s", s.theirs.node.Short())
	}
	s.report.Peer = Peer{Node: s.theirs.node, Pub: s.theirs.pub, Name: s.theirs.name, App: s.theirs.app, Clock: s.theirs.clock}
	if !s.cfg.Expect.IsZero() && s.cfg.Expect != s.theirs.node {
		return refuse(CodeNodeChanged, "node %s answers where node %s was expected", s.theirs.node.Short(), s.cfg.Expect.Short())
	}
	s.phase = waitHave
	if s.cfg.Mode == Probe {
		s.queueBye()
		return nil
	}
	terms, err := s.store.Admit(ctx, s.report.Peer)
	if err != nil {
		return err
	}
	if n := len(terms.Offers); n > maxStreams {
		return refuse(CodeLimit, "%d streams are on offer, one exchange carries at most %d", n, maxStreams)
	}
	s.terms = terms
	s.giving.init(terms.Offers)
	s.queue(TypeHave, encodeHave(terms, s.cfg.Mode == Pull || s.cfg.Mode == Plan))
	return nil
}

func list(versions []int) string {
	words := make([]string, 0, len(versions))
	for _, v := range versions[:min(len(versions), 8)] {
		words = append(words, strconv.Itoa(v))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
