package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknownPeer says that no row answers to a name.
var ErrUnknownPeer = errors.New("no such peer")

// AmbiguousError says that several rows answer to a name.
type AmbiguousError struct {
	Name       string
	Candidates []Peer
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	var list []string
	for _, p := range e.Candidates {
		shown := p.Display()
		if !p.Node.IsZero() {
			shown += " (" + p.Node.Short() + ")"
		}
		list = append(list, shown)
	}
	return fmt.Sprintf("%q may be %s: use the typed host or the node id", e.Name, strings.Join(list, " or "))
}

// minNodePrefix is how much of a node id stands for the node.
const minNodePrefix = 6

// Find returns the peer that a name stands for. What the user chose comes
// first: node id (six characters or more), nickname, typed host. Then come
// aliases, and last what nodes call themselves or did before, so that a peer
// cannot take the name of another by calling itself so.
func (b Book) Find(name string) (Peer, error) {
	for _, matches := range []func(Peer, string) bool{chosenName, aliasName, ownName} {
		var found []Peer
		for _, p := range b.Peers {
			if matches(p, name) {
				found = append(found, p)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return Peer{}, &AmbiguousError{Name: name, Candidates: found}
		}
	}
	return Peer{}, fmt.Errorf("%q: %w", name, ErrUnknownPeer)
}

func chosenName(p Peer, name string) bool {
	if name == "" {
		return false
	}
	if !p.Node.IsZero() && len(name) >= minNodePrefix && strings.HasPrefix(p.Node.String(), strings.ToLower(name)) {
		return true
	}
	return strings.EqualFold(p.Nick, name) || foldHost(p.Host) == foldHost(name)
}

func aliasName(p Peer, name string) bool { return name != "" && containsHost(p.Aliases, name) }

func ownName(p Peer, name string) bool {
	same := func(s string) bool { return strings.EqualFold(s, name) }
	return name != "" && (same(p.Machine) || slices.ContainsFunc(p.Names, same))
}
