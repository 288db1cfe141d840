package catalog_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/catalog"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

var update = flag.Bool("update", false, "write the example of FORMAT.md anew")

// example folds three entries into one file.
func example(t *testing.T) (*shelf.Shelf, *shelf.Snapshot) {
	t.Helper()
	sh, err := shelf.Open(vfs.NewMem(), "/index")
	if err != nil {
		t.Fatal(err)
	}
	v, err := catalog.Open(sh, shelf.State{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	base := record.Entry{Kind: record.KindMsg, Harness: "claude", Session: "s1", Project: redact.Trusted("harbor")}
	ask, say, meta := base, base, base
	ask.Role, ask.Text, ask.Time, ask.Mid = record.RoleUser, redact.Trusted("why?"), at, "m1"
	say.Role, say.Text, say.Time = record.RoleAssistant, redact.Trusted("because"), at.Add(time.Second)
	meta.Kind, meta.Role, meta.Time, meta.Meta = record.KindSession, record.RoleMeta, at, &record.SessionMeta{Title: redact.Trusted("Title"), Cwd: redact.Trusted("/w")}
	s := record.StreamID{Node: record.NodeID{1}, Nonce: [8]byte{2}}
	if err := v.Apply(t.Context(), s, 1, []record.Entry{ask, say, meta}); err != nil {
		t.Fatal(err)
	}
	st, err := v.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Publish(map[string]shelf.State{catalog.Name: st}); err != nil {
		t.Fatal(err)
	}
	snap, err := sh.Snapshot(catalog.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := snap.Close(); err != nil {
			t.Error(err)
		}
	})
	return sh, snap
}

// TestFormatExample prints the file of the example and compares it with
// FORMAT.md.
func TestFormatExample(t *testing.T) {
	_, snap := example(t)
	files, err := snap.Files(catalog.Name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("```\n")
	for sec := range files[0].Sections() {
		raw, err := sec.All()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s, %d bytes\n", sec.Tag(), len(raw))
		for i := 0; i < len(raw); i += 28 {
			fmt.Fprintf(&b, "    % x\n", raw[i:min(i+28, len(raw))])
		}
	}
	b.WriteString("```\n")
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), "<!-- example -->\n")
	_, after, closed := strings.Cut(rest, "<!-- /example -->")
	if !ok || !closed {
		t.Fatal("FORMAT.md has no place for the example")
	}
	want := before + "<!-- example -->\n" + b.String() + "<!-- /example -->" + after
	if *update {
		if err := os.WriteFile("FORMAT.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(doc) {
		t.Errorf("FORMAT.md is out of date; go test ./index/catalog -update writes:\n%s", b.String())
	}
}

// What the example says is what a reader answers.
func TestExampleReadsBack(t *testing.T) {
	_, snap := example(t)
	r, err := catalog.NewReader(snap)
	if err != nil {
		t.Fatal(err)
	}
	list, total, err := r.Sessions(catalog.Filter{}, 10)
	if err != nil || total != 1 || len(list) != 1 {
		t.Fatalf("%d sessions, %v", total, err)
	}
	s := list[0]
	if s.Title != "Title" || s.Project != "harbor" || s.Cwd != "/w" || s.Turns != 2 || s.Updated.Sub(s.Started) != time.Second {
		t.Errorf("session %+v", s)
	}
	turns, err := r.Turns(s.ID)
	if err != nil || len(turns) != 2 || turns[0].Role != record.RoleUser || turns[1].Pos.Seq != 2 {
		t.Errorf("turns %+v, %v", turns, err)
	}
	if session, ok, err := r.Message(record.NodeID{1}, "claude", "m1"); session != "s1" || !ok || err != nil {
		t.Errorf("message: %q %v %v", session, ok, err)
	}
	for _, selector := range []string{"claude:s1", s.ID.Short(), s.ID.String()[:5]} {
		if found, err := r.Find(selector); err != nil || len(found) != 1 {
			t.Errorf("%s: %d found, %v", selector, len(found), err)
		}
	}
}

// Every flipped byte of a file is noticed, or changes no answer.
func TestFlippedBytes(t *testing.T) {
	answer := func(fsys vfs.FS) (string, error) {
		sh, err := shelf.Open(fsys, "/index")
		if err != nil {
			return "", err
		}
		snap, err := sh.Snapshot(catalog.Name)
		if err != nil {
			return "", err
		}
		defer snap.Close()
		r, err := catalog.NewReader(snap)
		if err != nil {
			return "", err
		}
		list, total, err := r.Sessions(catalog.Filter{}, 10)
		if err != nil {
			return "", err
		}
		turns, err := r.Turns(list[0].ID)
		return fmt.Sprint(list, total, turns), err
	}
	fsys := vfs.NewMem()
	build(t, fsys)
	want, err := answer(fsys)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fsys.ReadDir("/index")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range names {
		name := "/index/" + d.Name()
		whole, err := vfs.ReadFile(fsys, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			flipped := append([]byte{}, whole...)
			flipped[i] ^= 0x41
			if err := vfs.WriteFile(fsys, name, flipped); err != nil {
				t.Fatal(err)
			}
			if got, err := answer(fsys); err == nil && got != want {
				t.Fatalf("%s: byte %d changes the answer to %s", d.Name(), i, got)
			}
		}
		if err := vfs.WriteFile(fsys, name, whole); err != nil {
			t.Fatal(err)
		}
	}
}

func build(t *testing.T, fsys vfs.FS) {
	t.Helper()
	sh, err := shelf.Open(fsys, "/index")
	if err != nil {
		t.Fatal(err)
	}
	v, err := catalog.Open(sh, shelf.State{})
	if err != nil {
		t.Fatal(err)
	}
	e := record.Entry{Kind: record.KindMsg, Harness: "claude", Session: "s1", Role: record.RoleUser, Text: redact.Trusted("why?"), Time: time.Unix(1e9, 0)}
	if err := v.Apply(t.Context(), record.StreamID{Node: record.NodeID{1}}, 1, []record.Entry{e}); err != nil {
		t.Fatal(err)
	}
	st, err := v.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Publish(map[string]shelf.State{catalog.Name: st}); err != nil {
		t.Fatal(err)
	}
}
