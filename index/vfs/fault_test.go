package vfs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/deja-node/deja/index/vfs"
)

// steps are operations of every kind, in an order in which each can succeed.
// The letters say which of them write.
func steps(fsys vfs.FS) ([]func() error, string) {
	var f, r vfs.File
	b := make([]byte, 4)
	return []func() error{
		func() error { return fsys.MkdirAll("/d") },
		func() (err error) { f, err = fsys.Create("/d/a"); return err },
		func() error { _, err := f.Write([]byte("text")); return err },
		func() error { return f.Sync() },
		func() error { _, err := f.Stat(); return err },
		func() error { return f.Truncate(4) },
		func() error { return f.Close() },
		func() (err error) { r, err = fsys.Open("/d/a"); return err },
		func() error { _, err := r.Read(b); return err },
		func() error { _, err := r.ReadAt(b, 0); return err },
		func() error { return fsys.Rename("/d/a", "/d/b") },
		func() error { return fsys.SyncDir("/d") },
		func() error { _, err := fsys.ReadDir("/d"); return err },
		func() error { _, err := fsys.Stat("/d/b"); return err },
		func() error { _, err := fsys.Map("/d/b"); return err },
		func() error { _, err := fsys.Lock("/d/lock"); return err },
		func() (err error) { f, err = fsys.Append("/d/b"); return err },
		func() error { return fsys.Remove("/d/b") },
	}, "wwwwrwwrrrwwrrrwww"
}

func TestFaultFailsTheNth(t *testing.T) {
	all, kinds := steps(vfs.NewMem())
	if len(all) != len(kinds) {
		t.Fatalf("%d steps, %d kinds", len(all), len(kinds))
	}
	for n := range all {
		m := vfs.NewMem()
		fault := vfs.FailAt(m, n)
		ops, _ := steps(fault)
		for i, op := range ops[:n] {
			if err := op(); err != nil {
				t.Fatalf("step %d of %d: %v", i, n, err)
			}
		}
		if fault.Fired() || fault.Ops() != n {
			t.Errorf("after %d steps: fired %v, %d operations", n, fault.Fired(), fault.Ops())
		}
		wantErr(t, "the step that is to fail", ops[n](), vfs.ErrInjected)
		if !fault.Fired() || fault.Op() == "" {
			t.Errorf("step %d fired unnoticed", n)
		}
	}
}

func TestFaultOfWritesOnly(t *testing.T) {
	_, kinds := steps(vfs.NewMem())
	for n := range strings.Count(kinds, "w") {
		fault := vfs.NewFault(vfs.NewMem(), vfs.Plan{N: n, Writes: true})
		ops, _ := steps(fault)
		writes := 0
		for i, op := range ops {
			err := op()
			if kinds[i] == 'w' {
				writes++
			}
			if writes <= n {
				must(t, err)
				continue
			}
			wantErr(t, "the write that is to fail", err, vfs.ErrInjected)
			break
		}
	}
}

func TestDeadDisk(t *testing.T) {
	full := errors.New("made up")
	m := vfs.NewMem()
	fault := vfs.NewFault(m, vfs.Plan{N: 3, Writes: true, Dead: true, Err: full})
	ops, _ := steps(fault)
	for _, op := range ops[:3] {
		must(t, op())
	}
	for _, op := range ops[3:7] { // the file is open; nothing is done to it any more
		wantErr(t, "an operation of a dead disk", op(), full)
	}
	wantErr(t, "reading a dead disk", openErr(fault.Open("/d/a")), full)
	wantText(t, m, "/d/a", "text")
	if fault.Op() != "sync /d/a" {
		t.Errorf("%q failed first", fault.Op())
	}
}

func TestTornWrite(t *testing.T) {
	m := vfs.NewMem()
	fault := vfs.NewFault(m, vfs.Plan{N: 1, Torn: true, Err: syscall.ENOSPC})
	f, err := fault.Create("/a")
	must(t, err)
	n, err := f.Write([]byte("torn"))
	if n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a torn write returned %d, %v", n, err)
	}
	must(t, f.Close())
	wantText(t, m, "/a", "to")
}

// TestFailedCloseCloses: an error must not keep a descriptor open.
func TestFailedCloseCloses(t *testing.T) {
	m := vfs.NewMem()
	fault := vfs.FailAt(m, 1)
	f, err := fault.Append("/a")
	must(t, err)
	wantErr(t, "close", f.Close(), vfs.ErrInjected)
	_, err = f.Write([]byte("x"))
	if err == nil {
		t.Error("the file is still open")
	}
}
