package journal

import (
	"slices"

	"github.com/deja-node/deja/index/record"
)

// block is a batch or a tail that has been taken apart into lines.
type block struct {
	stream record.StreamID
	first  record.Seq
	lines  [][]byte
	size   int
}

func (b *block) holds(p record.Pos) bool {
	return b.stream == p.Stream && b.first <= p.Seq && p.Seq-b.first < record.Seq(len(b.lines))
}

// Limits of what is kept taken apart. A search shows lines from a handful of
// places, and an agent then reads on from there.
const (
	maxBlocks     = 32
	maxBlockBytes = 8 << 20
)

// blockCache holds the blocks used last, newest first. The journal's mutex guards it.
type blockCache struct {
	all  []*block
	size int
}

func (c *blockCache) get(p record.Pos) *block {
	i := slices.IndexFunc(c.all, func(b *block) bool { return b.holds(p) })
	if i < 0 {
		return nil
	}
	b := c.all[i]
	copy(c.all[1:i+1], c.all[:i])
	c.all[0] = b
	return b
}

func (c *blockCache) put(b *block) {
	c.drop(func(o *block) bool { return o.stream == b.stream && o.first == b.first })
	c.all = slices.Insert(c.all, 0, b)
	c.size += b.size
	for len(c.all) > 1 && (len(c.all) > maxBlocks || c.size > maxBlockBytes) {
		last := len(c.all) - 1
		c.size -= c.all[last].size
		c.all[last] = nil
		c.all = c.all[:last]
	}
}

func (c *blockCache) drop(which func(*block) bool) {
	c.all = slices.DeleteFunc(c.all, func(b *block) bool {
		if which(b) {
			c.size -= b.size
			return true
		}
		return false
	})
}
