package mailbox_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deja-node/deja/peers/mailbox"
	"github.com/deja-node/deja/syncproto"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomised tests; 0 draws one")

func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

const (
	node   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	stream = node + ".0123456789abcdef"
	heads  = "heads/" + node + ".json"
	meta   = "deja-mailbox.json"
	dir    = "b/" + stream
)

func batchName(first, last int) string {
	return fmt.Sprintf("%s/%020d-%020d-0123456789abcdef.djb", dir, first, last)
}

// carrier is a kind of mailbox under test. Where the files lie on this
// machine, path says so.
type carrier struct {
	box  *mailbox.Box
	path string
	// open opens the same mailbox for another node.
	open func(tag string) *mailbox.Box
}

// list returns the names in a directory of a mailbox.
func list(t testing.TB, box *mailbox.Box, dir string) []string {
	t.Helper()
	objects, err := box.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

func put(t testing.TB, box *mailbox.Box, name string, data []byte, replace bool) {
	t.Helper()
	if err := box.Put(t.Context(), name, data, replace); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, box *mailbox.Box, name string, size int) []byte {
	t.Helper()
	data, err := box.Get(t.Context(), name, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// conform is what every carrier has to do.
func conform(t *testing.T, fresh func(t *testing.T) carrier) {
	rng := newRand(t)
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	t.Run("empty", func(t *testing.T) {
		c := fresh(t)
		for _, d := range []string{"", "heads", dir} {
			if names := list(t, c.box, d); len(names) != 0 {
				t.Errorf("%q holds %v", d, names)
			}
		}
		if _, err := c.box.Get(t.Context(), heads, 1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get: %v", err)
		}
		if err := c.box.Remove(t.Context(), heads); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	t.Run("put and get", func(t *testing.T) {
		c := fresh(t)
		for i, n := range []int{0, 1, 32 << 10, 32<<10 + 1, 300 << 10, 4 << 20} {
			name, data := batchName(i+1, i+1), random(n)
			put(t, c.box, name, data, false)
			if !bytes.Equal(get(t, c.open("second"), name, n), data) {
				t.Errorf("%d bytes came back otherwise", n)
			}
			if _, err := c.box.Get(t.Context(), name, int64(n+1)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get of another size: %v", err)
			}
		}
		if names := list(t, c.box, dir); len(names) != 6 {
			t.Errorf("the directory holds %v", names)
		}
		if err := c.box.Remove(t.Context(), batchName(1, 1)); err != nil {
			t.Error(err)
		}
		if names := list(t, c.box, dir); len(names) != 5 {
			t.Errorf("after Remove it holds %v", names)
		}
	})
	t.Run("put again", func(t *testing.T) {
		c := fresh(t)
		one, two := random(1000), random(1000)
		put(t, c.box, batchName(1, 2), one, false)
		put(t, c.open("second"), batchName(1, 2), two, false)
		if !bytes.Equal(get(t, c.box, batchName(1, 2), 1000), one) {
			t.Error("a file that was there was written again")
		}
		put(t, c.box, batchName(1, 2), two[:500], false)
		if !bytes.Equal(get(t, c.box, batchName(1, 2), 500), two[:500]) {
			t.Error("a file of the wrong size was left")
		}
	})
	t.Run("replace", func(t *testing.T) {
		c := fresh(t)
		for i := range 5 {
			data := random(100 + i)
			put(t, c.box, heads, data, true)
			put(t, c.box, meta, data, true)
			if !bytes.Equal(get(t, c.box, heads, len(data)), data) || !bytes.Equal(get(t, c.box, meta, len(data)), data) {
				t.Error("it was not replaced")
			}
		}
		if names := list(t, c.box, "heads"); len(names) != 1 {
			t.Errorf("heads holds %v", names)
		}
	})
	t.Run("names", func(t *testing.T) { refusesNames(t, fresh(t)) })
	t.Run("two at once", func(t *testing.T) {
		c := fresh(t)
		data := random(100 << 10)
		var wg sync.WaitGroup
		for i := range 4 {
			box := c.open(fmt.Sprint("node", i))
			wg.Go(func() {
				for j := range 5 {
					if err := box.Put(t.Context(), batchName(j+1, j+1), data, false); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if names := list(t, c.box, dir); len(names) != 5 {
			t.Errorf("it holds %v", names)
		}
	})
	t.Run("faults", func(t *testing.T) { survivesFaults(t, fresh, random) })
	t.Run("foreign files", func(t *testing.T) { ignoresForeign(t, fresh(t)) })
	t.Run("nodes converge", func(t *testing.T) { converge(t, fresh(t)) })
}

func refusesNames(t *testing.T, c carrier) {
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "heads", "heads/..", "heads/x.json", dir, dir + "/x.djb", dir + "/../../x", strings.ToUpper(heads)} {
		if err := c.box.Put(t.Context(), name, []byte("x"), true); err == nil {
			t.Errorf("Put of %q", name)
		}
		if _, err := c.box.Get(t.Context(), name, 1); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get of %q: %v", name, err)
		}
		if err := c.box.Remove(t.Context(), name); err == nil {
			t.Errorf("Remove of %q", name)
		}
	}
	for _, d := range []string{"..", "/", "b", "heads/..", "b/" + node} {
		if _, err := c.box.List(t.Context(), d); err == nil {
			t.Errorf("List of %q", d)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	if err := c.box.Put(ctx, heads, nil, true); !errors.Is(err, stop) {
		t.Errorf("Put after the end: %v", err)
	}
}

var errInjected = errors.New("injected")

// survivesFaults fails every operation in turn: an error comes back, no half
// file can be seen, and the same Put works afterwards.
func survivesFaults(t *testing.T, fresh func(t *testing.T) carrier, random func(int) []byte) {
	old, data := random(2000), random(3000)
	for _, replace := range []bool{false, true} {
		name := batchName(1, 9)
		if replace {
			name = heads
		}
		for n := 1; ; n++ {
			c := fresh(t)
			if replace {
				put(t, c.box, name, old, true)
			}
			left := n
			box := mailbox.Interpose(c.box, func(string) error {
				if left--; left == 0 {
					return errInjected
				}
				return nil
			})
			err := box.Put(t.Context(), name, data, replace)
			if left > 0 {
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("replace %v: %d operations", replace, n-1)
				break
			}
			if err != nil && !errors.Is(err, errInjected) {
				t.Errorf("operation %d: %v", n, err)
			}
			whole(t, c.open("second"), name, old, data, replace)
			put(t, c.box, name, data, replace)
			if !bytes.Equal(get(t, c.box, name, len(data)), data) {
				t.Errorf("operation %d: the file is not what was put", n)
			}
			list(t, c.box, filepath.ToSlash(filepath.Dir(name)))
			noParts(t, c)
		}
	}
}

// whole fails when a file can be seen that is neither the old nor the new one.
func whole(t *testing.T, box *mailbox.Box, name string, old, data []byte, replace bool) {
	t.Helper()
	objects, err := box.List(t.Context(), filepath.ToSlash(filepath.Dir(name)))
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, o := range objects {
		if o.Name != filepath.Base(name) {
			continue
		}
		seen = true
		got := get(t, box, name, int(o.Size))
		if !bytes.Equal(got, data) && !(replace && bytes.Equal(got, old)) {
			t.Errorf("a file of %d bytes can be seen", o.Size)
		}
	}
	if replace && !seen {
		t.Error("the old file is gone and the new one is not there")
	}
}

// noParts fails when unfinished files of the node lie about after a listing.
func noParts(t *testing.T, c carrier) {
	t.Helper()
	if c.path == "" {
		return
	}
	err := filepath.WalkDir(c.path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".part-first-") {
			t.Errorf("%s is left", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ignoresForeign puts things into the mailbox that do not belong there.
func ignoresForeign(t *testing.T, c carrier) {
	if c.path == "" {
		t.Skip("its files are not on this machine")
	}
	put(t, c.box, batchName(1, 1), []byte("good"), false)
	put(t, c.box, heads, []byte("good"), true)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(c.path, filepath.FromSlash(name)) }
	if err := os.Symlink(secret, in(batchName(2, 2))); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir(in(batchName(3, 3)), 0o700); err != nil {
		t.Fatal(err)
	}
	fifo := makeFifo(t, in(batchName(4, 4)))
	for _, name := range []string{".part-second-ABCDEFGHIJKLM", ".part-first-ABCDEFGHIJKLM", ".part-first-short", "conflict copy.djb"} {
		if err := os.WriteFile(in(dir+"/"+name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := list(t, c.box, dir)
	want := []string{".part-first-short", ".part-second-ABCDEFGHIJKLM", filepath.Base(batchName(1, 1)), "conflict copy.djb"}
	if !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}
	odd := []string{batchName(2, 2), batchName(3, 3)}
	if fifo {
		odd = append(odd, batchName(4, 4))
	}
	for _, name := range odd {
		for _, size := range []int64{0, 6} {
			if data, err := c.box.Get(t.Context(), name, size); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get of %s: %q, %v", name, data, err)
			}
		}
		if err := c.box.Put(t.Context(), name, []byte("secret"), false); err == nil {
			t.Errorf("Put over %s", name)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the file outside is now %q, %v", data, err)
	}
}

var _ syncproto.Box = (*mailbox.Box)(nil)
