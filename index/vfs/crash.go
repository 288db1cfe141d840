package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// settle makes the pending changes of one directory durable, and with them the
// earlier changes of other directories that they build on.
func (m *Mem) settle(dir *node) {
	needed := map[entry]bool{}
	settled := make([]bool, len(m.pending))
	for i, op := range slices.Backward(m.pending) {
		if op.at.dir == dir || op.from.dir == dir || needed[op.at] || needed[op.from] {
			settled[i] = true
			needed[op.at] = true
			if op.from.dir != nil {
				needed[op.from] = true
			}
		}
	}
	var rest []dirOp
	for i, op := range m.pending {
		if settled[i] {
			op.apply(durable)
		} else {
			rest = append(rest, op)
		}
	}
	m.pending = rest
}

// AfterCrash returns the file system as it might look after a loss of power at
// this moment. Synced bytes and names are there. Every other change of a
// directory is kept or lost, and lost if an earlier change of the same name is.
// Every other write is kept, lost, or torn: cut short, or with zeros or noise
// in the place of its end. Locks are free. The original is left as it is.
func (m *Mem) AfterCrash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crash{rng: rng, kept: map[*node]map[string]*node{}}
	c.keepNames(m.pending)
	clone := &Mem{quota: m.quota, changes: m.changes, locked: map[*node]bool{}}
	clone.root = c.clone(m.root)
	return clone
}

// crash draws one outcome.
type crash struct {
	rng  *rand.Rand
	kept map[*node]map[string]*node // directories whose names differ from the durable ones
}

// chance draws how likely changes are to be kept: never, always or between.
func (c *crash) chance() float64 { return []float64{0, 1, 0.5, 0.9}[c.rng.IntN(4)] }

func (c *crash) keepNames(pending []dirOp) {
	chance := c.chance()
	lost := map[entry]bool{}
	for _, op := range pending {
		if lost[op.at] || lost[op.from] || c.rng.Float64() >= chance {
			lost[op.at] = true
			if op.from.dir != nil {
				lost[op.from] = true
			}
			continue
		}
		op.apply(c.names)
	}
}

// names returns the names of a directory as they survive.
func (c *crash) names(dir *node) map[string]*node {
	if c.kept[dir] == nil {
		c.kept[dir] = maps.Clone(dir.durable)
	}
	return c.kept[dir]
}

// clone copies a tree as it survives; everything in the copy is durable.
func (c *crash) clone(n *node) *node {
	if !n.isDir() {
		data := c.contents(n)
		return &node{mod: n.mod, data: data, synced: data[:len(data):len(data)]}
	}
	dir := newDir()
	dir.mod = n.mod
	names := c.names(n)
	for _, name := range sortedNames(names) { // in order, so that a seed gives one outcome
		kid := c.clone(names[name])
		dir.kids[name], dir.durable[name] = kid, kid
	}
	return dir
}

// contents draws what a file holds.
func (c *crash) contents(n *node) []byte {
	b := slices.Clone(n.synced)
	chance := c.chance()
	for _, e := range n.edits {
		if c.rng.Float64() < chance {
			b = e.apply(b, 0)
		} else if !e.cut && c.rng.IntN(2) == 0 {
			b = c.tear(e).apply(b, 0)
		}
	}
	return b
}

// tear damages the end of a write.
func (c *crash) tear(e edit) edit {
	at := c.rng.IntN(len(e.data) + 1)
	torn := slices.Clone(e.data)
	switch c.rng.IntN(3) {
	case 0:
		torn = torn[:at]
	case 1:
		clear(torn[at:])
	case 2:
		for i := range torn[at:] {
			torn[at+i] = byte(c.rng.Uint32())
		}
	}
	return edit{off: e.off, data: torn}
}
