package node_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
	"github.com/deja-node/deja/sources"
)

// home is a machine of a test: a home directory, and a node on it.
type home struct {
	t   *testing.T
	dir string
	n   *node.Node
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	cfg, err := config.Load(config.Env{Home: h.dir, GOOS: runtime.GOOS, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if h.n, err = node.Open(cfg, node.Host{Machine: node.Machine{ID: "m"}, Now: time.Now, Random: rand.Reader}); err != nil {
		t.Fatal(err)
	}
	return h
}

// claude writes a transcript of Claude Code and returns its path.
func (h *home) claude(project, session string, texts ...string) string {
	h.t.Helper()
	var b strings.Builder
	for i, text := range texts {
		fmt.Fprintf(&b, `{"type":"user","uuid":"%s-%s-%d","sessionId":"%s","cwd":"/w/%s","timestamp":"2026-11-30T10:00:%02d.000Z","message":{"role":"user","content":%q}}`+"\n",
			project, session, i, session, project, i, text)
	}
	path := filepath.Join(h.dir, ".claude", "projects", "-w-"+project, session+".jsonl")
	h.write(path, b.String())
	return path
}

func (h *home) write(path, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) index() node.Report {
	h.t.Helper()
	rep, err := h.n.Refresh(h.t.Context(), node.RefreshOptions{Depth: sources.Whole})
	if err != nil {
		h.t.Fatal(err)
	}
	return rep
}

func (h *home) search(text string) []index.Hit {
	h.t.Helper()
	ans, _, err := h.n.Search(h.t.Context(), node.SearchQuery{Text: text, Limit: 20})
	if err != nil {
		h.t.Fatal(err)
	}
	return ans.Hits
}

func (h *home) finds(text string, want int) {
	h.t.Helper()
	if got := len(h.search(text)); got != want {
		h.t.Errorf("%q finds %d sessions, want %d", text, got, want)
	}
}

// The harness deletes a transcript: it is still searched, shown and kept by a
// full rebuild.
func TestComplaint01SourceVanishes(t *testing.T) {
	h := newHome(t)
	path := h.claude("api", "s1", "the quokka test fails")
	h.index()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	h.index()
	h.finds("quokka", 1)
	if err := h.n.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.finds("quokka", 1)
	if w, err := h.n.Show(t.Context(), "claude:s1", 0, 0); err != nil || len(w.Messages) != 1 {
		t.Errorf("show: %d messages, %v", len(w.Messages), err)
	}
}

// An unplugged disk is no deletion.
func TestComplaint44UnpluggedRoot(t *testing.T) {
	h := newHome(t)
	h.claude("api", "s1", "the quokka test fails")
	h.index()
	if err := os.Rename(filepath.Join(h.dir, ".claude"), filepath.Join(h.dir, "away")); err != nil {
		t.Fatal(err)
	}
	rep := h.index()
	if s := rep.Sources[0]; s.State != node.StateUnplugged || rep.Total.Superseded != 0 {
		t.Errorf("state %s, %+v", s.State, rep.Total)
	}
	h.finds("quokka", 1)
	if err := os.Rename(filepath.Join(h.dir, "away"), filepath.Join(h.dir, ".claude")); err != nil {
		t.Fatal(err)
	}
	if rep := h.index(); rep.Total.Added != 0 {
		t.Errorf("%d records added by plugging in again", rep.Total.Added)
	}
}

// One odd record costs itself alone.
func TestComplaint47PoisonRecord(t *testing.T) {
	h := newHome(t)
	path := h.claude("api", "s1", "before the poison")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := func(n int, text string) string {
		return fmt.Sprintf(`{"type":"user","uuid":"p%d","sessionId":"s1","cwd":"/w/api","timestamp":"2026-11-30T11:00:%02d.000Z","message":{"role":"user","content":"%s"}}`+"\n", n, n, text)
	}
	h.write(path, "\xef\xbb\xbf"+string(whole)+
		line(1, `nul \u0000 inside`)+line(2, `lone \ud800 surrogate`)+line(3, "invalid \xff bytes")+
		strings.Repeat("\x00", 64)+"\n"+strings.Repeat("[", 100000)+"\n{broken\n"+
		strings.Replace(line(4, "windows line"), "\n", "\r\n", 1)+line(5, "after the poison"))
	rep := h.index()
	for _, word := range []string{"before", "nul", "lone", "invalid", "windows", "after"} {
		h.finds(word, 1)
	}
	if rep.Sources[0].Broken == 0 {
		t.Error("no malformed line was counted")
	}
}

// A bad file among good ones stops none of them, and is named.
func TestComplaint52And53BadFile(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read every file")
	}
	h := newHome(t)
	for i := range 50 {
		h.claude("api", fmt.Sprint("s", i), fmt.Sprintf("session number %d speaks of wombat%d", i, i))
	}
	bad := h.claude("api", "bad", "hidden numbat")
	if err := os.Chmod(bad, 0); err != nil {
		t.Fatal(err)
	}
	rep := h.index()
	if !rep.Failed() || len(rep.Sources[0].Failed) != 1 || rep.Total.Added < 50 {
		t.Errorf("failed %v, added %d", rep.Sources[0].Failed, rep.Total.Added)
	}
	h.finds("wombat49", 1)
	if err := os.Chmod(bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.n.Refresh(t.Context(), node.RefreshOptions{Depth: sources.Whole, Reread: true}); err != nil {
		t.Fatal(err)
	}
	h.finds("numbat", 1)
}

// Progress is told before the first file is read.
func TestComplaint55Progress(t *testing.T) {
	h := newHome(t)
	h.claude("api", "s1", "one")
	h.claude("api", "s2", "two")
	var steps []node.Progress
	_, err := h.n.Refresh(t.Context(), node.RefreshOptions{Progress: func(p node.Progress) { steps = append(steps, p) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 3 || steps[0].Files != 0 || steps[0].OfFiles != 2 || steps[2].Files != 2 {
		t.Errorf("steps %+v", steps)
	}
}

// Two transcripts with one id erase nothing of each other.
func TestComplaint58SameID(t *testing.T) {
	h := newHome(t)
	h.claude("api", "same", "the first speaks of quolls")
	h.claude("web", "same", "the second speaks of bilbies")
	h.write(filepath.Join(h.dir, ".codex", "sessions", "rollout-2026-11-30T09-00-00-same.jsonl"),
		`{"timestamp":"2026-11-30T09:00:00.000Z","type":"session_meta","payload":{"id":"same","cwd":"/w/third","source":"cli"}}`+"\n"+
			`{"timestamp":"2026-11-30T09:00:01.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"the third speaks of dunnarts"}]}}`+"\n")
	h.index()
	h.index()
	for _, word := range []string{"quolls", "bilbies", "dunnarts"} {
		h.finds(word, 1)
	}
	if a, b := h.search("quolls"), h.search("dunnarts"); a[0].Session.ID == b[0].Session.ID {
		t.Error("two harnesses share one session")
	}
}

// Nothing is written outside the three directories of the platform.
func TestComplaint67Places(t *testing.T) {
	h := newHome(t)
	h.claude("api", "s1", "one")
	h.index()
	if _, err := h.n.Remember(t.Context(), "a note", "api", nil); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(h.dir, path)
		if err != nil {
			return err
		}
		cfg := h.n.Config()
		for _, dir := range []string{cfg.ConfigDir, cfg.DataDir, cfg.IndexDir, filepath.Dir(cfg.NotesFile), filepath.Join(h.dir, ".claude")} {
			if strings.HasPrefix(path, dir+string(filepath.Separator)) {
				return nil
			}
		}
		t.Errorf("%s was written", rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A flipped byte anywhere in the views is noticed and mended from the log; no
// wrong hit ever.
func TestComplaint70FlippedViews(t *testing.T) {
	h := newHome(t)
	h.claude("api", "s1", "the quokka test fails")
	h.claude("web", "s2", "the wombat test passes")
	h.index()
	entries, err := os.ReadDir(h.n.Config().IndexDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(h.n.Config().IndexDir, e.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			continue // a rebuild has replaced it
		}
		for i := 0; i < len(whole); i += 1 + len(whole)/40 {
			flipped := append([]byte{}, whole...)
			flipped[i] ^= 0x20
			if err := os.WriteFile(path, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			hits := h.search("quokka")
			if len(hits) != 1 || hits[0].Session.Native != "s1" {
				t.Fatalf("%s: byte %d flipped: %d hits", e.Name(), i, len(hits))
			}
			if _, err := os.Stat(path); err != nil {
				break
			}
		}
	}
}

// Times of files decide nothing.
func TestComplaint77TouchedFiles(t *testing.T) {
	h := newHome(t)
	path := h.claude("api", "s1", "the quokka test fails")
	h.index()
	for _, at := range []time.Time{time.Unix(0, 0), time.Now().Add(48 * time.Hour)} {
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if rep := h.index(); rep.Total.Added+rep.Total.Superseded != 0 {
			t.Errorf("touching changed %+v", rep.Total)
		}
	}
	h.finds("quokka", 1)
}

// One corrupt file of the state wedges nothing: notes still work, and the
// error of what cannot go on names the file.
func TestComplaint79CorruptFile(t *testing.T) {
	for _, name := range []string{"state/cursors", "log/FORMAT"} {
		h := newHome(t)
		h.claude("api", "s1", "the quokka test fails")
		h.index()
		path := filepath.Join(h.n.Config().DataDir, filepath.FromSlash(name))
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		h.write(path, "nonsense")
		_, _, err := h.n.Search(t.Context(), node.SearchQuery{Text: "quokka", Limit: 1})
		if err != nil && !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%s: %v does not name it", name, err)
		}
		if _, err := h.n.Remember(t.Context(), "a note", "api", nil); err != nil && !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%s: remember: %v", name, err)
		}
		if _, err := os.Stat(h.n.Config().NotesFile); err != nil {
			t.Errorf("%s: the note was not kept: %v", name, err)
		}
	}
}
