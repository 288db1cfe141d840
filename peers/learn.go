package peers

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/record"
)

const (
	maxNames    = 16  // former names that are remembered
	maxNameSize = 120 // bytes of a name
)

// NodeChangedError says that another node answers at a host than before. The
// user decides; nothing is exchanged until then.
type NodeChangedError struct {
	Host     string
	Was, Now record.NodeID
	Known    string // the row that has the new node already, if any
}

// Error implements error.
func (e *NodeChangedError) Error() string {
	text := fmt.Sprintf("%s was node %s and is now node %s", e.Host, e.Was.Short(), e.Now.Short())
	if e.Known != "" {
		text += ", which is known as " + e.Known
	}
	return text + ": nothing was exchanged; if this is right, remove the peer and add it again"
}

// Learn notes which node answered at a host. It is for what an authenticated
// HELLO says, never for what records say. When two rows turn out to be one
// node, the older one stays with its settings and takes over the spellings of
// the other; it stays enabled only if both were. The host may be empty for a
// peer that dialled in: then its node finds the row.
func (b *Book) Learn(host string, node record.NodeID, pub, name string, names []string) error {
	if err := checkKey(node, pub); err != nil {
		return err
	}
	at := b.byHost(host)
	twin := slices.IndexFunc(b.Peers, func(p Peer) bool { return p.Node == node })
	switch {
	case at < 0 && twin < 0:
		return fmt.Errorf("%q (node %s): %w", host, node.Short(), ErrUnknownPeer)
	case at < 0:
		b.Peers[twin].addAlias(host)
		at = twin
	case !b.Peers[at].Node.IsZero() && b.Peers[at].Node != node:
		changed := &NodeChangedError{Host: host, Was: b.Peers[at].Node, Now: node}
		if twin >= 0 {
			changed.Known = b.Peers[twin].Display()
		}
		return changed
	case twin >= 0 && twin != at:
		at = b.merge(min(at, twin), max(at, twin))
	}
	p := &b.Peers[at]
	p.Node = node
	if pub != "" {
		p.Pub = pub
	}
	p.rename(name, names)
	return nil
}

func checkKey(node record.NodeID, pub string) error {
	if node.IsZero() {
		return fmt.Errorf("learn: %w", record.ErrBadID)
	}
	if pub == "" {
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(pub)
	if err != nil {
		return fmt.Errorf("learn: public key of %s: %w", node.Short(), err)
	}
	if record.NodeOf(key) != node {
		return fmt.Errorf("learn: the public key is not that of node %s", node.Short())
	}
	return nil
}

// merge moves what the row at drop knows into the older one at keep.
func (b *Book) merge(keep, drop int) int {
	p, o := &b.Peers[keep], b.Peers[drop]
	p.addAlias(o.Host)
	for _, alias := range o.Aliases {
		p.addAlias(alias)
	}
	if p.Nick == "" {
		p.Nick = o.Nick
	}
	p.Enabled = p.Enabled && o.Enabled
	p.addNames(append([]string{o.Machine}, o.Names...))
	b.Peers = slices.Delete(b.Peers, drop, drop+1)
	return keep
}

func (p *Peer) addAlias(host string) {
	if host != "" && foldHost(host) != foldHost(p.Host) && !containsHost(p.Aliases, host) {
		p.Aliases = append(p.Aliases, host)
	}
}

// rename makes name the node's current one and remembers those before.
func (p *Peer) rename(name string, before []string) {
	was := p.Machine
	if name = cleanName(name); name != "" {
		p.Machine = name
	}
	p.addNames(append(slices.Clone(before), was))
}

func (p *Peer) addNames(names []string) {
	for _, name := range names {
		if name = cleanName(name); name != "" && !slices.Contains(p.Names, name) {
			p.Names = append(p.Names, name)
		}
	}
	p.Names = slices.DeleteFunc(p.Names, func(name string) bool { return name == p.Machine })
	if over := len(p.Names) - maxNames; over > 0 {
		p.Names = slices.Delete(p.Names, 0, over)
	}
}

// cleanName makes a name that a peer chose safe to show.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) > maxNameSize {
		name = strings.ToValidUTF8(name[:maxNameSize], "")
	}
	return strings.TrimSpace(name)
}
