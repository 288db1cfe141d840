package node

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deja-node/deja/index/vfs"
)

// What was saved is what is loaded, over random histories of changes, saves
// and reopenings.
func TestCursorsLaw(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	fsys := vfs.NewMem()
	c, err := loadCursors(fsys, "/state")
	if err != nil {
		t.Fatal(err)
	}
	want := map[cursorKey]cursor{}
	for step := range 300 {
		for range rng.IntN(5) {
			key := cursorKey{"h", "/root", fmt.Sprint("file ", rng.IntN(20))}
			cur := cursor{
				version: rng.IntN(3), broken: rng.IntN(9), redacted: rng.IntN(9), failures: rng.IntN(3), retry: rng.Int64N(1 << 40),
				gone: rng.IntN(2) == 0, mark: bytes.Repeat([]byte{byte(step)}, 1+rng.IntN(40)),
			}
			if rng.IntN(4) == 0 {
				cur.failure = "broken \x00 pipe"
			}
			want[key] = cur
			c.set(key, cur)
		}
		if err := c.save(); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(10) > 0 {
			continue
		}
		if c, err = loadCursors(fsys, "/state"); err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(c.all, want, sameCursor) {
			t.Fatalf("step %d: loaded %v, want %v", step, c.all, want)
		}
	}
}

func sameCursor(a, b cursor) bool {
	mark := bytes.Equal(a.mark, b.mark)
	a.mark, b.mark = nil, nil
	return mark && fmt.Sprint(a) == fmt.Sprint(b)
}

// Every byte flip and every cut is noticed: what is loaded is a part of what
// was saved, and the next save mends the file.
func TestCursorsDamage(t *testing.T) {
	fsys := vfs.NewMem()
	c, err := loadCursors(fsys, "/state")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.set(cursorKey{"h", "/r", fmt.Sprint(i)}, cursor{mark: []byte{1, 2, byte(i)}})
	}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	whole, err := vfs.ReadFile(fsys, "/state/cursors", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, data []byte) {
		t.Helper()
		if err := vfs.WriteFile(fsys, "/state/cursors", data); err != nil {
			t.Fatal(err)
		}
		got, err := loadCursors(fsys, "/state")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for key, cur := range got.all {
			if !sameCursor(cur, c.all[key]) {
				t.Errorf("%s: %v became %v", what, key, cur)
			}
		}
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x10
		check(fmt.Sprint("flip at ", i), flipped)
		check(fmt.Sprint("cut at ", i), whole[:i])
	}
}
