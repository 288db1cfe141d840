package node_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/node"
)

var day = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func identity(t *testing.T, fsys vfs.FS, m node.Machine, chosen string) node.Identity {
	t.Helper()
	id, err := node.LoadIdentity(fsys, "/node", m, chosen, day, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIdentityIsMadeOnce(t *testing.T) {
	fsys := vfs.NewMem()
	m := node.Machine{Hostname: "mini.local", ID: "m1"}
	first := identity(t, fsys, m, "")
	again := identity(t, fsys, m, "")
	if first.Node != again.Node || first.Stream != again.Stream || again.Moved || first.Name != "mini" || first.Card != 1 {
		t.Errorf("first %+v, then %+v", first, again)
	}
}

// A renamed host is the same node and the same stream, under another label.
func TestRenamedHost(t *testing.T) {
	fsys := vfs.NewMem()
	first := identity(t, fsys, node.Machine{Hostname: "old", ID: "m1"}, "")
	again := identity(t, fsys, node.Machine{Hostname: "new", ID: "m1"}, "")
	if again.Node != first.Node || again.Stream != first.Stream || again.Moved {
		t.Errorf("became another: %+v", again)
	}
	if again.Name != "new" || len(again.Names) != 1 || again.Names[0] != "old" || again.Card != 2 {
		t.Errorf("labels %+v", again)
	}
}

// A copy on another machine keeps the key and begins a new stream, once.
func TestCopiedState(t *testing.T) {
	fsys := vfs.NewMem()
	first := identity(t, fsys, node.Machine{Hostname: "a", ID: "m1"}, "")
	moved := identity(t, fsys, node.Machine{Hostname: "a", ID: "m2"}, "")
	if moved.Node != first.Node || moved.Stream == first.Stream || !moved.Moved {
		t.Errorf("first %+v, on another machine %+v", first, moved)
	}
	if again := identity(t, fsys, node.Machine{Hostname: "a", ID: "m2"}, ""); again.Moved || again.Stream != moved.Stream {
		t.Errorf("moved twice: %+v", again)
	}
}

// A damaged key or description is an error with a remedy, never a new node.
func TestDamagedIdentity(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"/node/node.key", "nonsense", "not a node key"},
		{"/node/node.key", "DEJA-NODE-KEY-1\nAAAA\n", "not a node key"},
		{"/node/node.json", "{", "remove it"},
		{"/node/node.json", `{"v":99}`, "upgrade deja"},
		{"/node/node.json", `{"v":2,"stream":"short","bound":"x"}`, ""},
	} {
		fsys := vfs.NewMem()
		m := node.Machine{Hostname: "a", ID: "m1"}
		identity(t, fsys, m, "")
		if err := vfs.WriteFile(fsys, c.file, []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		_, err := node.LoadIdentity(fsys, "/node", m, "", day, rand.Reader)
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %q: %v, want %q", c.file, c.text, err, c.want)
		}
	}
}

// A crash while the identity is made leaves none or a whole one.
func TestIdentityCrash(t *testing.T) {
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		fault := vfs.FailAt(mem, n)
		_, err := node.LoadIdentity(fault, "/node", node.Machine{ID: "m1"}, "", day, rand.Reader)
		if !fault.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if err == nil {
			t.Errorf("fault %d was swallowed: %s", n, fault.Op())
		}
		if _, err := node.LoadIdentity(mem, "/node", node.Machine{ID: "m1"}, "", day, rand.Reader); err != nil {
			t.Errorf("after fault %d: %v", n, err)
		}
	}
}
