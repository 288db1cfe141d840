package peers_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/peers"
)

func testNode(seed byte) (record.NodeID, string) {
	pub := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed)), ed25519.SeedSize))).Public().(ed25519.PublicKey)
	return record.NodeOf(pub), base64.StdEncoding.EncodeToString(pub)
}

func peer(host string) peers.Peer {
	return peers.Peer{Host: host, Via: peers.ViaSSH, Dir: peers.DirBoth, Enabled: true}
}

// Law: concurrent updates lose nothing.
func TestUpdateConcurrent(t *testing.T) {
	name := filepath.ToSlash(filepath.Join(t.TempDir(), "state", "peers.json"))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 3 {
				_, err := peers.Update(t.Context(), vfs.OS{}, name, func(b *peers.Book) error {
					return b.Add(peer(fmt.Sprintf("host-%d-%d", i, j)))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b, err := peers.Load(vfs.OS{}, name)
	if err != nil || len(b.Peers) != 24 {
		t.Fatalf("%d peers, %v", len(b.Peers), err)
	}
}

func TestUpdateLocked(t *testing.T) {
	m := vfs.NewMem()
	lock, err := m.Lock("/peers.json.lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := peers.Update(ctx, m, "/peers.json", func(*peers.Book) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	refuse := errors.New("no")
	if _, err := peers.Update(t.Context(), m, "/peers.json", func(*peers.Book) error { return refuse }); !errors.Is(err, refuse) {
		t.Fatal(err)
	}
	if _, err := m.Stat("/peers.json"); err == nil {
		t.Fatal("a refused change was written")
	}
}

func TestUnknownFieldsKept(t *testing.T) {
	const text = `{"v":2,"theme":{"a":[1,2]},"peers":[
	 {"host":"mini","node":"","color":"red","ssh":{"port":22,"jump":"x"},"enabled":false},
	 {"host":"old","last_push":"2026-01-02T03:04:05Z","last_pull":"","last_error":"","machine":"Old"}]}`
	m := vfs.NewMem()
	if err := vfs.WriteFile(m, "/peers.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	b, err := peers.Update(t.Context(), m, "/peers.json", func(b *peers.Book) error {
		b.Peers[0].Nick = "m"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.Peers[0].Enabled || !b.Peers[1].Enabled || b.Peers[1].Via != peers.ViaSSH || b.Peers[1].Dir != peers.DirBoth || b.Peers[1].Machine != "Old" {
		t.Fatalf("%+v", b.Peers)
	}
	data, err := vfs.ReadFile(m, "/peers.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	err = json.Unmarshal([]byte(`{"v":2,"theme":{"a":[1,2]},"peers":[
	 {"host":"mini","nick":"m","color":"red","ssh":{"port":22,"jump":"x"},"via":"ssh","dir":"both","enabled":false},
	 {"host":"old","last_push":"2026-01-02T03:04:05Z","last_pull":"","last_error":"","machine":"Old","via":"ssh","dir":"both","enabled":true}]}`), &want)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n%s", err, data)
	}
}

func TestBrokenBook(t *testing.T) {
	m := vfs.NewMem()
	if err := vfs.WriteFile(m, "/peers.json", []byte(`{"peers":[{`)); err != nil {
		t.Fatal(err)
	}
	called := false
	if _, err := peers.Update(t.Context(), m, "/peers.json", func(*peers.Book) error { called = true; return nil }); err == nil || called {
		t.Fatal(err, called)
	}
	for _, name := range []string{"/peers.json", "/peers.json.bad"} {
		if data, err := vfs.ReadFile(m, name, 100); err != nil || string(data) != `{"peers":[{` {
			t.Fatalf("%s: %q %v", name, data, err)
		}
	}
	if err := vfs.WriteFile(m, "/peers.json", []byte(`{"v":9}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := peers.Load(m, "/peers.json"); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	nodeA, _ := testNode(0)
	nodeB, _ := testNode(1)
	a, b, c := peer("me@Mini"), peer("root@mini"), peer("mini.local")
	a.Node, a.Machine, a.Names = nodeA, "mac-mini", []string{"old-mini"}
	b.Node, b.Nick, b.Aliases = nodeB, "Server", []string{"192.0.2.7"}
	c.Machine = "server" // another's nickname
	d := peer("twin")
	d.Machine = "MAC-MINI"
	book := peers.Book{Peers: []peers.Peer{a, b, c, d}}
	for name, want := range map[string]string{
		"me@mini": "me@Mini", "me@MINI": "me@Mini", "ME@mini": "", "mini": "",
		"root@Mini": "root@mini", "server": "root@mini", "SERVER": "root@mini", "192.0.2.7": "root@mini",
		nodeA.String()[:6]: "me@Mini", nodeA.String()[:5]: "", strings.ToUpper(nodeB.String()): "root@mini",
		"old-mini": "me@Mini", "Old-Mini": "me@Mini", "mini.LOCAL": "mini.local", "": "",
	} {
		got, err := book.Find(name)
		if got.Host != want || (want == "") != errors.Is(err, peers.ErrUnknownPeer) {
			t.Errorf("Find(%q) = %q, %v; want %q", name, got.Host, err, want)
		}
	}
	var several *peers.AmbiguousError
	if _, err := book.Find("mac-mini"); !errors.As(err, &several) || len(several.Candidates) != 2 || !strings.Contains(err.Error(), nodeA.Short()) {
		t.Errorf("ambiguous: %v", err)
	}
}

func TestLearn(t *testing.T) {
	nodeA, pubA := testNode(0)
	nodeB, pubB := testNode(1)
	book := peers.Book{Peers: []peers.Peer{peer("mini"), peer("192.0.2.7"), peer("box")}}
	steps := []struct {
		host, pub, name string
		node            record.NodeID
	}{{"mini", pubA, "mac\x1b-mini", nodeA}, {"mini", pubA, "studio", nodeA}, {"box", pubB, "box", nodeB}, {"192.0.2.7", pubA, "studio", nodeA}, {"mini.local", "", "", nodeA}}
	for _, s := range steps {
		if err := book.Learn(s.host, s.node, s.pub, s.name, nil); err != nil {
			t.Fatal(s.host, err)
		}
	}
	if len(book.Peers) != 2 {
		t.Fatalf("%+v", book.Peers)
	}
	p := book.Peers[0]
	if p.Host != "mini" || p.Node != nodeA || p.Pub != pubA || p.Machine != "studio" ||
		!reflect.DeepEqual(p.Aliases, []string{"192.0.2.7", "mini.local"}) || !reflect.DeepEqual(p.Names, []string{"mac-mini"}) {
		t.Fatalf("%+v", p)
	}
	var changed *peers.NodeChangedError
	if err := book.Learn("192.0.2.7", nodeB, pubB, "x", nil); !errors.As(err, &changed) || changed.Known != "box" || changed.Was != nodeA {
		t.Fatal(err)
	}
	nodeC, pubC := testNode(2)
	if err := book.Learn("elsewhere", nodeC, pubC, "", nil); !errors.Is(err, peers.ErrUnknownPeer) {
		t.Fatal(err)
	}
	if err := book.Learn("mini", nodeA, pubB, "", nil); err == nil {
		t.Fatal("a foreign key was taken")
	}
	if !reflect.DeepEqual(p, book.Peers[0]) {
		t.Fatal("a refused HELLO changed the row")
	}
}

func TestParseHost(t *testing.T) {
	for in, want := range map[string]peers.Address{
		"mini":                   {Via: "ssh", Host: "mini"},
		"me@mini:2222":           {Via: "ssh", User: "me", Host: "mini", Port: 2222},
		"a@b@mini":               {Via: "ssh", User: "a@b", Host: "mini"},
		"ssh://me@mini:22":       {Via: "ssh", User: "me", Host: "mini", Port: 22},
		"[fe80::1%eth0]:22":      {Via: "ssh", Host: "fe80::1%eth0", Port: 22},
		"::1":                    {Via: "ssh", Host: "::1"},
		"deja://mini:7022":       {Via: "dial", Host: "mini", Port: 7022},
		"deja://[::1]:7022":      {Via: "dial", Host: "::1", Port: 7022},
		"sftp://nas/volume/deja": {Via: "sftp", Host: "nas", Path: "/volume/deja"},
		"sftp://u@nas:23/~/deja": {Via: "sftp", User: "u", Host: "nas", Port: 23, Path: "/~/deja"},
		"/mnt/x":                 {Via: "dir", Path: "/mnt/x"},
		"~/Dropbox/deja":         {Via: "dir", Path: "~/Dropbox/deja"},
		`C:\sync`:                {Via: "dir", Path: `C:\sync`},
		"":                       {}, "-oProxyCommand=x": {}, "a b": {}, "mini:": {}, "mini:x": {}, "mini:70000": {}, "@mini": {},
		"-l@mini": {}, "ssh://mini/x": {}, "deja://mini": {}, "sftp://nas": {}, "http://x": {}, "[::1": {}, "a\nb": {}, "a;b": {},
	} {
		got, err := peers.ParseHost(in)
		if got != want || (err == nil) != (want.Via != "") {
			t.Errorf("ParseHost(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestState(t *testing.T) {
	m := vfs.NewMem()
	var p peers.Peer
	if err := json.Unmarshal([]byte(`{"host":"mini","last_pull":"2026-01-02T03:04:05Z"}`), &p); err != nil {
		t.Fatal(err)
	}
	s, err := peers.LoadState(m, "/state", p)
	if err != nil || s.LastPull.Year() != 2026 {
		t.Fatal(s, err)
	}
	node, _ := testNode(0)
	lack := uint64(3)
	s = peers.State{LastError: "x", Acked: map[record.StreamID]record.Seq{{Node: node}: 7}, TheyLack: &lack}
	if err := peers.SaveState(m, "/state", p, s); err != nil {
		t.Fatal(err)
	}
	p.Node = node // the state follows the row
	for range 2 {
		got, err := peers.LoadState(m, "/state", p)
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v %v", got, err)
		}
		if err := peers.SaveState(m, "/state", p, s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackoff(t *testing.T) {
	if peers.Backoff(0, rand.Float64) != 0 {
		t.Fatal("a wait without a failure")
	}
	for n := 1; n < 100; n++ {
		if d := peers.Backoff(n, rand.Float64); d < 5*time.Minute || d > 6*time.Hour {
			t.Fatal(n, d)
		}
	}
	if d := peers.Backoff(1, func() float64 { return 0 }); d != 5*time.Minute {
		t.Fatal(d)
	}
}
