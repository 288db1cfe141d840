package shelf_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// large is more than a writer buffers.
const large = 300_000

// commit publishes number k: two views whose files all say k, and one file of
// the round before. One of the files is larger than pad.
func commit(s *shelf.Shelf, k int, before shelf.FileRef, pad int) (shelf.FileRef, error) {
	say := fmt.Append(nil, k)
	a, err := tryWrite(s, "a", section{"text", say}, section{"padding", make([]byte, pad)})
	if err != nil {
		return a, err
	}
	b, err := tryWrite(s, "b", section{"text", say})
	if err != nil {
		return b, err
	}
	files := []shelf.FileRef{a}
	if before.Name != "" {
		files = []shelf.FileRef{before, a}
	}
	return a, s.Publish(map[string]shelf.State{
		"a": {Version: 1, Files: files, Aux: say},
		"b": {Version: 1, Files: []shelf.FileRef{b}},
	})
}

// round returns which commit a snapshot is of, and an error for a mixture.
func round(snap *shelf.Snapshot) (int, error) {
	a, err := texts(snap, "a")
	if err != nil {
		return 0, err
	}
	b, err := texts(snap, "b")
	if err != nil {
		return 0, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	k := 0
	if _, err := fmt.Sscan(b[0], &k); err != nil {
		return 0, err
	}
	want := []string{fmt.Sprint(k)}
	if k > 1 {
		want = []string{fmt.Sprint(k - 1), fmt.Sprint(k)}
	}
	if !slices.Equal(a, want) || string(snap.State("a").Aux) != b[0] {
		return 0, fmt.Errorf("a mixture: %q, %q, %q", a, b, snap.State("a").Aux)
	}
	return k, nil
}

func roundOf(s *shelf.Shelf) (k int, err error) {
	snap, err := s.Snapshot()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if err := snap.Verify(context.Background()); err != nil {
		return 0, err
	}
	return round(snap)
}

// TestEveryOperationFails stops the machine at every operation of a commit.
// Then the shelf holds the commit before or the new one, and the next commit
// works and leaves nothing behind.
func TestEveryOperationFails(t *testing.T) {
	rng := random(t)
	for _, plan := range []vfs.Plan{{}, {Dead: true}, {Dead: true, Torn: true}} {
		for _, old := range []int{0, 1} {
			for plan.N = 0; failOnce(t, rng, plan, old); plan.N++ {
				continue
			}
		}
	}
}

// failOnce reports whether the plan's operation was reached.
func failOnce(t *testing.T, rng *rand.Rand, plan vfs.Plan, old int) bool {
	t.Helper()
	m := vfs.NewMem()
	var before shelf.FileRef
	for k := 1; k <= old; k++ {
		var err error
		before, err = commit(open(t, m), k, before, large)
		must(t, err)
	}
	fault := vfs.NewFault(m, plan)
	s, err := shelf.Open(fault, dir)
	if err == nil {
		_, err = commit(s, old+1, before, large)
	}
	sweeping := strings.HasPrefix(fault.Op(), "readdir ") || strings.HasPrefix(fault.Op(), "remove ")
	if fault.Fired() && !sweeping {
		wantErr(t, "a commit in which "+fault.Op()+" failed", err, vfs.ErrInjected)
	} else {
		must(t, err)
	}
	checkAfter(t, m, fault.Op(), old, err)
	for range 6 {
		crashed := m.AfterCrash(rng)
		checkAfter(t, crashed, "crash at "+fault.Op(), old, err)
		if _, err := commit(open(t, crashed), 1, shelf.FileRef{}, large); err != nil {
			t.Fatalf("the commit after a crash at %s: %v", fault.Op(), err)
		}
		if names := listed(t, crashed); len(names) != 3 {
			t.Fatalf("the commit after a crash at %s leaves %q", fault.Op(), names)
		}
	}
	return fault.Fired()
}

func checkAfter(t *testing.T, fsys vfs.FS, what string, old int, commitErr error) {
	t.Helper()
	k, err := roundOf(open(t, fsys))
	if err != nil {
		t.Fatalf("after %s: %v", what, err)
	}
	if k != old+1 && (k != old || commitErr == nil) {
		t.Fatalf("after %s, which returned %v, the shelf holds %d; it held %d", what, commitErr, k, old)
	}
}

// TestReadingFails: an error of the disk is told as such, and nothing stays mapped.
func TestReadingFails(t *testing.T) {
	m := vfs.NewMem()
	first, err := commit(open(t, m), 1, shelf.FileRef{}, large)
	must(t, err)
	_, err = commit(open(t, m), 2, first, large)
	must(t, err)
	for n := 0; ; n++ {
		fault := vfs.FailAt(m, n)
		fsys := &counted{FS: fault}
		s, err := shelf.Open(fsys, dir)
		if err == nil {
			_, err = roundOf(s)
		}
		if fsys.open.Load() != 0 {
			t.Errorf("%d files stay mapped after %s failed", fsys.open.Load(), fault.Op())
		}
		if !fault.Fired() {
			must(t, err)
			return
		}
		wantErr(t, fault.Op(), err, vfs.ErrInjected)
	}
}

// TestFullDisk: a commit that does not fit leaves the shelf as it was, and
// gives its room back.
func TestFullDisk(t *testing.T) {
	m := vfs.NewMem()
	first, err := commit(open(t, m), 1, shelf.FileRef{}, large)
	must(t, err)
	used := m.Used()
	for _, quota := range []int64{1, 1000, 300_000, used - 300, used - 1} {
		m.SetQuota(used + quota)
		_, err := commit(open(t, m), 2, first, large)
		wantErr(t, fmt.Sprintf("a commit with room for %d bytes", quota), err, syscall.ENOSPC)
		k, err := roundOf(open(t, m))
		if err != nil || k != 1 {
			t.Errorf("the shelf holds %d, %v", k, err)
		}
	}
	m.SetQuota(0)
	must(t, open(t, m).Publish(nil))
	if m.Used() != used {
		t.Errorf("%d bytes used, want the %d from before", m.Used(), used)
	}
}

// unsynced is the real disk without the wait for it.
type unsynced struct{ vfs.OS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

func (u unsynced) Create(name string) (vfs.File, error) {
	f, err := u.OS.Create(name)
	return unsyncedFile{f}, err
}

func (unsynced) SyncDir(string) error { return nil }

// TestReadersDuringPublishes: every snapshot is one commit, whole, and they
// never go back.
func TestReadersDuringPublishes(t *testing.T) {
	const commits = 300
	fsys := &counted{FS: unsynced{}}
	root := t.TempDir()
	at := func() *shelf.Shelf {
		s, err := shelf.Open(fsys, root)
		must(t, err)
		return s
	}
	shared := at()
	_, err := commit(shared, 1, shelf.FileRef{}, 1000)
	must(t, err)

	var done atomic.Bool
	var wg sync.WaitGroup
	for reader := range 4 {
		s := shared
		if reader%2 == 0 {
			s = at() // as another process has it
		}
		wg.Go(func() {
			last, seen := 0, 0
			for !done.Load() || last < commits {
				k, err := roundOf(s)
				if err != nil || k < last {
					t.Errorf("after %d came %d: %v", last, k, err)
					return
				}
				if k > last {
					seen++
				}
				last = k
			}
			t.Logf("a reader saw %d commits", seen)
		})
	}
	var before shelf.FileRef
	for k := 1; k <= commits; k++ {
		if before, err = commit(shared, k, before, 1000); err != nil {
			t.Error(err)
			break
		}
	}
	done.Store(true)
	wg.Wait()
	if got := fsys.open.Load(); got != 0 {
		t.Errorf("%d files stay mapped", got)
	}
}
