package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deja-node/deja/index/journal"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/batch"
)

// TestReadersNeverErr lets readers of several kinds run against a writer that
// appends, seals, rolls and rewrites. Whatever a reader gets is a prefix of
// what was added, and it never gets less than before.
func TestReadersNeverErr(t *testing.T) {
	rng := dice(t)
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.OS{}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(rng, fsys)
			dir := logDir
			if name == "disk" {
				dir = filepath.ToSlash(filepath.Join(t.TempDir(), "log"))
				m.opt.Spool = ""
			}
			open := func() *journal.Journal {
				j, err := journal.Open(fsys, dir, m.opt)
				must(t, err)
				return j
			}
			w, err := open().Write(t.Context())
			must(t, err)
			var mu sync.Mutex // guards added
			var added []string
			done, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range 3 {
				seed := rng.Uint64()
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					var err error
					j := open()
					for last := record.Seq(0); done.Err() == nil && err == nil; {
						if i == 1 {
							j = open()
						}
						last, err = readOnce(j, r, m.opt.Own, last, func() []string { mu.Lock(); defer mu.Unlock(); return added })
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			for n := range 250 {
				e := randomEntry(rng, n)
				mu.Lock() // a reader may see the entry as soon as Commit has written it
				_, err := w.Add(&e)
				added = append(added, text(&e))
				mu.Unlock()
				must(t, err)
				switch rng.IntN(8) {
				case 0, 1:
					must(t, w.Commit(t.Context()))
				case 2:
					must(t, w.Seal(t.Context()))
				case 3:
					from := record.Seq(rng.IntN(n+1) + 1)
					_, err := w.Stub(t.Context(), []record.Range{{Stream: m.opt.Own, From: from, To: from}}, record.Forgotten)
					must(t, err)
				}
			}
			stop()
			wg.Wait()
			must(t, w.Close())
		})
	}
}

// stubOf is what stands in for a forgotten line.
func stubOf(line string) string {
	leaf, err := batch.Leaf([]byte(line))
	if err != nil {
		return err.Error()
	}
	return string(batch.AppendStub(nil, record.Stub{Reason: record.Forgotten, Leaf: leaf}))
}

// readOnce reads the log in one of the ways there are.
func readOnce(j *journal.Journal, rng *rand.Rand, s record.StreamID, last record.Seq, added func() []string) (record.Seq, error) {
	front, err := j.Frontier()
	if err != nil {
		return last, err
	}
	if front[s].Seq < last {
		return last, fmt.Errorf("the log shrank from %d to %d", last, front[s].Seq)
	}
	last = front[s].Seq
	if last == 0 {
		return 0, nil
	}
	from := record.Seq(rng.IntN(int(last)) + 1)
	next := from
	for c, err := range j.Read(context.Background(), s, from) {
		if err != nil {
			return last, err
		}
		want := added()
		for i := range c.Entries {
			if got := text(&c.Entries[i]); got != want[next-1] && got != stubOf(want[next-1]) {
				return last, fmt.Errorf("entry %d is %.80s", next, got)
			}
			next++
		}
	}
	if next <= last {
		return last, fmt.Errorf("read up to %d of %d", next-1, last)
	}
	e, err := j.Entry(record.Pos{Stream: s, Seq: from})
	if err != nil {
		return last, err
	}
	if want := added()[from-1]; text(&e) != want && text(&e) != stubOf(want) {
		return last, fmt.Errorf("entry %d alone is %.80s", from, text(&e))
	}
	return last, nil
}

func TestSecondWriterWaits(t *testing.T) {
	rng := dice(t)
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(rng, vfs.NewMem())
		m.opt.PID = 4711
		w := m.writer(t)
		_, err := m.journal(t).Write(t.Context())
		var locked *journal.LockedError
		if !errors.As(err, &locked) || locked.PID != 4711 || !errors.Is(err, vfs.ErrLocked) {
			t.Fatalf("without waiting: %v", err)
		}
		m.opt.Wait = time.Minute
		start := time.Now()
		if _, err := m.journal(t).Write(t.Context()); !errors.Is(err, vfs.ErrLocked) || time.Since(start) != time.Minute {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		time.AfterFunc(20*time.Second, func() { w.Close() })
		second, err := m.journal(t).Write(t.Context())
		must(t, err)
		must(t, second.Close())
		must(t, second.Close())
		if err := second.Commit(t.Context()); err == nil {
			t.Error("a closed writer commits")
		}
	})
}

const holdVar = "DEJA_TEST_HOLD_JOURNAL"

// TestMain lets the test binary be the other process of TestTwoProcesses.
func TestMain(m *testing.M) {
	if dir := os.Getenv(holdVar); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold is a writer until its standard input ends.
func hold(dir string) error {
	j, err := journal.Open(vfs.OS{}, dir, journal.Options{PID: os.Getpid()})
	if err != nil {
		return err
	}
	w, err := j.Write(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("held")
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	return w.Close()
}

func TestTwoProcesses(t *testing.T) {
	rng := dice(t)
	dir := filepath.ToSlash(filepath.Join(t.TempDir(), "log"))
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	other.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, holdVar) }), holdVar+"="+dir)
	in, err := other.StdinPipe()
	must(t, err)
	out, err := other.StdoutPipe()
	must(t, err)
	must(t, other.Start())
	said := make([]byte, 4)
	_, err = io.ReadFull(out, said)
	must(t, err)

	opt := newMachine(rng, vfs.OS{}).opt
	j, err := journal.Open(vfs.OS{}, dir, opt)
	must(t, err)
	_, err = j.Write(t.Context())
	var locked *journal.LockedError
	if !errors.As(err, &locked) || locked.PID != other.Process.Pid {
		t.Errorf("while process %d writes: %v", other.Process.Pid, err)
	}
	if _, err := j.Frontier(); err != nil {
		t.Errorf("reading meanwhile: %v", err)
	}
	must(t, in.Close())
	must(t, other.Wait())
	w, err := j.Write(t.Context())
	must(t, err)
	must(t, w.Close())
}
