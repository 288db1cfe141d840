package vfs_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/deja-node/deja/index/vfs"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomised tests; 0 draws one")

func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// tree lists a file system: every name, files with their text.
func tree(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	must(t, err)
	var all []string
	for _, d := range list {
		name := path.Join(dir, d.Name())
		if d.IsDir() {
			all = append(all, name+"/")
			all = append(all, tree(t, fsys, name)...)
			continue
		}
		b, err := vfs.ReadFile(fsys, name, 1<<30)
		must(t, err)
		all = append(all, fmt.Sprintf("%s=%q", name, b))
	}
	return all
}

// history does random things in a directory, and syncs now and then.
func history(t *testing.T, rng *rand.Rand, fsys vfs.FS, base string, steps int) {
	t.Helper()
	dirs := []string{base + "/", base + "/d", base + "/d/e"}
	must(t, fsys.MkdirAll(dirs[2]))
	name := func() string { return path.Join(dirs[rng.IntN(3)], string(rune('w'+rng.IntN(4)))) }
	may := func(err error) { // names may be missing; nothing else may go wrong
		t.Helper()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for range steps {
		switch rng.IntN(6) {
		case 0:
			may(fsys.Rename(name(), name()))
		case 1:
			may(fsys.Remove(name()))
		case 2:
			must(t, fsys.SyncDir(dirs[rng.IntN(3)]))
		default:
			open := []func(string) (vfs.File, error){fsys.Create, fsys.Append}[rng.IntN(2)]
			f, err := open(name())
			must(t, err)
			_, err = f.Write(fmt.Appendf(nil, "%d.", rng.IntN(1e6)))
			must(t, err)
			if rng.IntN(3) == 0 {
				must(t, f.Truncate(int64(rng.IntN(12))))
			}
			if rng.IntN(2) == 0 {
				must(t, f.Sync())
			}
			must(t, f.Close())
		}
	}
}

// syncAll makes a whole file system durable.
func syncAll(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	must(t, err)
	for _, d := range list {
		name := path.Join(dir, d.Name())
		if d.IsDir() {
			syncAll(t, fsys, name)
			continue
		}
		f, err := fsys.Append(name)
		must(t, err)
		must(t, errors.Join(f.Sync(), f.Close()))
	}
	must(t, fsys.SyncDir(dir))
}

func TestWhatIsSyncedSurvives(t *testing.T) {
	rng := random(t)
	for range 200 {
		m := vfs.NewMem()
		history(t, rng, m, "", rng.IntN(60))
		syncAll(t, m, "/")
		want := tree(t, m, "/")
		if got := tree(t, m.AfterCrash(rng), "/"); !slices.Equal(got, want) {
			t.Fatalf("after a crash:\n%q\nbefore:\n%q", got, want)
		}
	}
}

func TestCrashLeavesTheOriginal(t *testing.T) {
	rng := random(t)
	for range 100 {
		m := vfs.NewMem()
		history(t, rng, m, "", 40)
		want := tree(t, m, "/")
		seed := rng.Uint64()
		first := m.AfterCrash(rand.New(rand.NewPCG(seed, 1)))
		again := m.AfterCrash(rand.New(rand.NewPCG(seed, 1)))
		once := tree(t, first, "/")
		if !slices.Equal(once, tree(t, again, "/")) {
			t.Fatal("one seed has two outcomes")
		}
		history(t, rng, first, "", 40)
		if !slices.Equal(once, tree(t, again, "/")) || !slices.Equal(want, tree(t, m, "/")) {
			t.Fatal("file systems share state after a crash")
		}
		history(t, rng, m, "", 10)
		if !slices.Equal(once, tree(t, again, "/")) {
			t.Fatal("the original changes what came out of a crash")
		}
	}
}

// TestCrashOutcomes: what is not synced may be there or not, in every way that
// a disk has.
func TestCrashOutcomes(t *testing.T) {
	rng := random(t)
	m := vfs.NewMem()
	writeText(t, m, "/synced", "base")
	syncAll(t, m, "/")
	f, err := m.Append("/synced")
	must(t, err)
	_, err = f.Write([]byte("-tail"))
	must(t, errors.Join(err, f.Close()))
	writeText(t, m, "/fresh", "fresh")
	must(t, m.Rename("/synced", "/renamed"))

	seen := map[string]bool{}
	for range 2000 {
		got := strings.Join(tree(t, m.AfterCrash(rng), "/"), " ")
		if !strings.Contains(got, `="base`) {
			t.Fatalf("synced bytes are gone: %s", got)
		}
		if strings.Contains(got, "/synced=") == strings.Contains(got, "/renamed=") {
			t.Fatalf("a rename happened by half: %s", got)
		}
		for what, sign := range map[string]string{
			"append kept": `="base-tail"`, "append lost": `="base"`, "append cut": `="base-t"`,
			"append zeroed": `="base-t\x00\x00\x00"`,
			"rename kept":   "/renamed=", "rename lost": "/synced=",
			"name kept": "/fresh=", "name without its bytes": `/fresh=""`, "both kept": `/fresh="fresh"`,
		} {
			seen[what] = seen[what] || strings.Contains(got, sign)
		}
		seen["name lost"] = seen["name lost"] || !strings.Contains(got, "/fresh=")
	}
	if len(seen) != 10 {
		t.Fatalf("%d outcomes", len(seen))
	}
	for what, ok := range seen {
		if !ok {
			t.Errorf("never: %s", what)
		}
	}
}

// TestCrashKeepsOrder: a name that is used again survives only with what
// happened to it before.
func TestCrashKeepsOrder(t *testing.T) {
	rng := random(t)
	m := vfs.NewMem()
	writeText(t, m, "/x", "first")
	syncAll(t, m, "/")
	must(t, m.Rename("/x", "/y"))
	writeText(t, m, "/x", "")
	reused := false
	for range 300 {
		got := tree(t, m.AfterCrash(rng), "/")
		if !slices.Contains(got, `/y="first"`) && !slices.Contains(got, `/x="first"`) {
			t.Fatalf("a file was lost for good: %q", got)
		}
		reused = reused || slices.Contains(got, `/x=""`)
	}
	if !reused {
		t.Error("the second file never survived")
	}
	must(t, m.MkdirAll("/d"))
	writeText(t, m, "/d/a", "moved")
	must(t, m.Rename("/d/a", "/a"))
	syncAll(t, m, "/")
	if got := tree(t, m.AfterCrash(rng), "/"); !slices.Contains(got, `/a="moved"`) {
		t.Errorf("a synced move between directories is gone: %q", got)
	}
}

// TestOverwrittenBytes: what is synced, or mapped, does not change with what
// is written in its place.
func TestOverwrittenBytes(t *testing.T) {
	m := vfs.NewMem()
	front, err := m.Create("/a")
	must(t, err)
	defer front.Close()
	writeText(t, m, "/a", "synced and mapped")
	syncAll(t, m, "/")
	mapping, err := m.Map("/a")
	must(t, err)
	_, err = front.Write([]byte("OVER"))
	must(t, err)
	wantText(t, m, "/a", "OVERed and mapped")
	if string(mapping.Bytes()) != "synced and mapped" {
		t.Errorf("the mapping changes to %q", mapping.Bytes())
	}
	rng, lost := random(t), false
	for range 50 {
		lost = lost || oneOf(t, m.AfterCrash(rng), "/a") == "synced and mapped"
	}
	if !lost {
		t.Error("what was not synced never is lost")
	}
}

func TestCrashFreesLocks(t *testing.T) {
	m := vfs.NewMem()
	_, err := m.Lock("/lock")
	must(t, err)
	lock, err := m.AfterCrash(random(t)).Lock("/lock")
	must(t, err)
	must(t, lock.Close())
	_, err = m.Lock("/lock")
	wantErr(t, "the lock of the original", err, vfs.ErrLocked)
}

func TestQuota(t *testing.T) {
	m := vfs.NewMem()
	writeText(t, m, "/a", "12345")
	m.SetQuota(8)
	f, err := m.Append("/b")
	must(t, err)
	n, err := f.Write([]byte("6789"))
	if n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote %d, %v; want 3 and a full disk", n, err)
	}
	wantText(t, m, "/b", "678")
	wantErr(t, "a whole file", vfs.WriteFile(m, "/a", []byte("x")), syscall.ENOSPC)
	wantText(t, m, "/a", "12345")
	c, err := m.Create("/a")
	must(t, err)
	_, err = c.Write([]byte("abcde")) // in the place of what was there
	must(t, err)
	must(t, m.Remove("/a"))
	_, err = f.Write([]byte("9"))
	must(t, errors.Join(err, f.Close(), c.Close()))
	if m.Used() != 4 {
		t.Errorf("%d bytes used, want 4", m.Used())
	}
	m.SetQuota(0)
	must(t, vfs.WriteFile(m, "/a", make([]byte, 1000)))
}

// TestWriteFileIsAtomic stops the machine at every operation of WriteFile.
func TestWriteFileIsAtomic(t *testing.T) {
	rng := random(t)
	const name = "/dir/file"
	for _, old := range []string{"", "old contents"} {
		for _, plan := range []vfs.Plan{{}, {Torn: true}, {Dead: true}, {Dead: true, Torn: true}, {Writes: true}} {
			for plan.N = 0; ; plan.N++ {
				m := vfs.NewMem()
				must(t, m.MkdirAll("/dir"))
				if old != "" {
					must(t, vfs.WriteFile(m, name, []byte(old)))
				}
				fault := vfs.NewFault(m, plan)
				err := vfs.WriteFile(fault, name, []byte("new contents"))
				if fault.Fired() != errors.Is(err, vfs.ErrInjected) {
					t.Fatalf("%s failed (%v), and WriteFile returned %v", fault.Op(), fault.Fired(), err)
				}
				if !plan.Dead {
					checkNoTemps(t, m, err)
				}
				for range 50 {
					got := oneOf(t, m.AfterCrash(rng), name)
					if got != "new contents" && (err == nil || got != old) {
						t.Fatalf("%q after a crash at %s, which returned %v", got, fault.Op(), err)
					}
				}
				if !fault.Fired() {
					break
				}
			}
		}
	}
}

func oneOf(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1000)
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	return string(b)
}

func checkNoTemps(t *testing.T, fsys vfs.FS, cause error) {
	t.Helper()
	list, err := fsys.ReadDir("/dir")
	must(t, err)
	for _, d := range list {
		if vfs.IsTemp(d.Name()) {
			t.Fatalf("%s is left after %v", d.Name(), cause)
		}
	}
}
