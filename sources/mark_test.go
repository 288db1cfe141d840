package sources_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources"
	"github.com/deja-node/deja/sources/jsonl"
)

// chat is a Claude transcript of n messages.
func chat(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"type":"user","uuid":"u%d","sessionId":"s1","cwd":"/srv/x","timestamp":"2026-05-04T%02d:%02d:%02d.000Z","message":{"content":"message %d %s"}}`+"\n",
			i, i/3600%24, i/60%60, i%60, i, strings.Repeat("word ", 200))
	}
	return b.String()
}

func TestCheckTrustsContent(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	name := filepath.Join(home, ".claude", "projects", "-x", "s.jsonl")
	text := chat(50)
	flipped := []byte(text)
	flipped[100] ^= 1
	write(t, name, text)
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	mark := decode(t, h, sources.Job{File: d.Files[0]}, sources.Sink{}).Mark

	tests := []struct {
		name   string
		change func()
		want   [3]sources.Change // at a glance, whole, deep
	}{
		{"nothing", func() {}, [3]sources.Change{sources.Same, sources.Same, sources.Same}},
		{"touched", func() { touch(t, name) }, [3]sources.Change{sources.Same, sources.Same, sources.Same}},
		{"restored from a backup", func() {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			write(t, name, text)
			touch(t, name)
		}, [3]sources.Change{sources.Same, sources.Same, sources.Same}},
		{"appended", func() { write(t, name, text+line) }, [3]sources.Change{sources.Grew, sources.Grew, sources.Grew}},
		{"appended in part", func() { write(t, name, text+line[:20]) }, [3]sources.Change{sources.Grew, sources.Grew, sources.Grew}},
		{"cut", func() { write(t, name, text[:len(text)-10]) }, [3]sources.Change{sources.Rewound, sources.Rewound, sources.Rewound}},
		{"emptied", func() { write(t, name, "") }, [3]sources.Change{sources.Rewound, sources.Rewound, sources.Rewound}},
		{"end rewritten", func() { write(t, name, text[:len(text)-30]+strings.Repeat("x", 40)+"\n") }, [3]sources.Change{sources.Rewound, sources.Rewound, sources.Rewound}},
		{"beginning rewritten", func() { write(t, name, string(flipped)) }, [3]sources.Change{sources.Same, sources.Rewound, sources.Rewound}},
		{"rewritten and grown", func() { write(t, name, string(flipped)+line) }, [3]sources.Change{sources.Grew, sources.Rewound, sources.Rewound}},
	}
	for _, test := range tests {
		test.change()
		f := discover(t, s, env(home)).Files[0]
		for depth, want := range test.want {
			got, err := h.Check(t.Context(), f, mark, sources.Depth(depth))
			if err != nil || got != want {
				t.Errorf("%s, depth %d: %v, %v; want %v", test.name, depth, got, err, want)
			}
		}
	}
}

func touch(t *testing.T, name string) {
	t.Helper()
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
}

// A stat that was told apart and proved harmless is accepted from then on.
func TestTouchedMark(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	name := filepath.Join(home, ".claude", "projects", "-x", "s.jsonl")
	write(t, name, chat(3))
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	mark := decode(t, h, sources.Job{File: d.Files[0]}, sources.Sink{}).Mark
	if mark.Size() != d.Files[0].Size || sources.Mark(nil).Size() != 0 {
		t.Errorf("size %d, want %d", mark.Size(), d.Files[0].Size)
	}
	touch(t, name)
	f := discover(t, s, env(home)).Files[0]
	touched := mark.Touched(f)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Check(t.Context(), f, mark, sources.Glance); err == nil {
		t.Error("the mark of another stat was accepted without reading")
	}
	if got, err := h.Check(t.Context(), f, touched, sources.Glance); err != nil || got != sources.Same {
		t.Errorf("the touched mark gives %v, %v", got, err)
	}
}

func TestForeignMarks(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	write(t, filepath.Join(home, ".claude", "projects", "-x", "s.jsonl"), chat(3))
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	mark := decode(t, h, sources.Job{File: d.Files[0]}, sources.Sink{}).Mark
	for cut := range mark {
		if got, err := h.Check(t.Context(), d.Files[0], mark[:cut], sources.Deep); err != nil || got == sources.Same && cut < sources.MarkHeader {
			t.Fatalf("a mark cut at %d: %v, %v", cut, got, err)
		}
		if _, err := h.Decode(t.Context(), sources.Job{File: d.Files[0], Mark: mark[:cut:cut]}, sources.Sink{}); cut > 0 && !errors.Is(err, jsonl.ErrMoved) {
			t.Fatalf("a mark cut at %d is decoded with %v", cut, err)
		}
	}
	other := open(t, s, discover(t, s, env(home, "DEJA_INCLUDE_SUBAGENTS", "0")).Store)
	if got, err := other.Check(t.Context(), d.Files[0], mark, sources.Glance); err != nil || got != sources.Unknown {
		t.Errorf("a mark of other settings: %v, %v", got, err)
	}
	newer := s
	newer.Version++
	if got, err := open(t, newer, d.Store).Check(t.Context(), d.Files[0], mark, sources.Glance); err != nil || got != sources.Unknown {
		t.Errorf("a mark of another version: %v, %v", got, err)
	}
}

// A file that moved on between the check and the reading is not misread.
func TestDecodeChecksWhatItReads(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	name := filepath.Join(home, ".claude", "projects", "-x", "s.jsonl")
	write(t, name, chat(9))
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	mark := decode(t, h, sources.Job{File: d.Files[0]}, sources.Sink{}).Mark
	write(t, name, strings.ReplaceAll(chat(10), "word", "else"))
	to := newRecorder()
	res, err := h.Decode(t.Context(), sources.Job{File: d.Files[0], Mark: mark}, to.sink(t))
	if !errors.Is(err, jsonl.ErrMoved) || res.Mark != nil || len(to.events) > 0 {
		t.Errorf("got %v, mark %v, %d events", err, res.Mark, len(to.events))
	}
}

// Compressing and archiving a rollout change neither its key nor its mark.
func TestCompressedTwinKeepsItsMark(t *testing.T) {
	home, s := t.TempDir(), source(t, "codex")
	base := "rollout-2026-05-06T10-00-00-019e0000-0001-7000-8000-000000000001.jsonl"
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, `{"timestamp":"2026-05-06T08:%02d:%02d.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"answer %d %s"}]}}`+"\n", i/60, i%60, i, strings.Repeat("word ", 100))
	}
	plain := filepath.Join(home, ".codex", "sessions", "2026", "05", "06", base)
	write(t, plain, b.String())
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	mark := decode(t, h, sources.Job{File: d.Files[0]}, sources.Sink{}).Mark
	key := d.Files[0].Key

	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.Remove(plain)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".codex", "archived_sessions", base+".zst"), z.String())
	f := discover(t, s, env(home)).Files[0]
	if f.Key != key {
		t.Fatalf("the key became %q, was %q", f.Key, key)
	}
	for _, depth := range []sources.Depth{sources.Glance, sources.Whole, sources.Deep} {
		if got, err := h.Check(t.Context(), f, mark, depth); err != nil || got != sources.Grew {
			t.Errorf("depth %d: %v, %v", depth, got, err)
		}
	}
	to := newRecorder()
	res := decode(t, h, sources.Job{File: f, Mark: mark}, to.sink(t))
	if len(to.events) > 0 {
		t.Errorf("the same turns came again: %d", len(to.events))
	}
	if got, err := h.Check(t.Context(), f, res.Mark, sources.Whole); err != nil || got != sources.Same {
		t.Errorf("after reading: %v, %v", got, err)
	}
}

// A command in flight waits for its exit status, and is not lost when nothing
// comes any more.
func TestCommandsWait(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	name := filepath.Join(home, ".claude", "projects", "-x", "s.jsonl")
	calls := `{"type":"assistant","uuid":"a1","sessionId":"s1","timestamp":"2026-05-04T08:00:01.000Z","message":{"content":[{"type":"text","text":"Running."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make test"}},{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"make lint"}}]}}` + "\n"
	result := `{"type":"user","uuid":"u2","sessionId":"s1","timestamp":"2026-05-04T08:00:09.000Z","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"Exit code 2\nno"}]}}` + "\n"
	write(t, name, line+calls)
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	to := newRecorder()
	roles := func() (got []string) {
		for _, turn := range to.turns["s1"] {
			got = append(got, string(turn.Role))
		}
		return got
	}
	mark := decode(t, h, sources.Job{File: d.Files[0]}, to.sink(t)).Mark
	if got := fmt.Sprint(roles()); got != "[user assistant]" || !mark.Pending() {
		t.Fatalf("in flight: %s, pending %v", got, mark.Pending())
	}
	write(t, name, line+calls+result)
	mark = decode(t, h, sources.Job{File: d.Files[0], Mark: mark}, to.sink(t)).Mark
	if got := fmt.Sprint(roles()); got != "[user assistant command tool-output]" || *to.turns["s1"][2].Exit != 2 || !mark.Pending() {
		t.Fatalf("one result: %s, pending %v", got, mark.Pending())
	}
	mark = decode(t, h, sources.Job{File: d.Files[0], Mark: mark, Settled: true}, to.sink(t)).Mark
	if got := to.turns["s1"]; len(got) != 5 || got[4].Text != "$ make lint" || got[4].Exit != nil || mark.Pending() {
		t.Fatalf("settled: %v, pending %v", got, mark.Pending())
	}
	decode(t, h, sources.Job{File: d.Files[0], Mark: mark, Settled: true}, to.sink(t))
	if len(to.turns["s1"]) != 5 {
		t.Error("a command came twice")
	}
}

// More calls than a mark carries are yielded oldest first.
func TestTooManyCalls(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	var b strings.Builder
	for i := range sources.MaxCalls + 3 {
		fmt.Fprintf(&b, `{"type":"assistant","uuid":"a%d","sessionId":"s1","timestamp":"2026-05-04T08:00:01.000Z","message":{"content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"make t%d"}}]}}`+"\n", i, i, i)
	}
	write(t, filepath.Join(home, ".claude", "projects", "-x", "s.jsonl"), b.String())
	d := discover(t, s, env(home))
	to := newRecorder()
	decode(t, open(t, s, d.Store), sources.Job{File: d.Files[0]}, to.sink(t))
	if got := to.turns["s1"]; len(got) != 3 || got[0].Text != "$ make t0" {
		t.Errorf("%d commands came early", len(got))
	}
}

// Prompts from the history come again when it is read again, and make way for
// nothing that a rollout has told already.
func TestHistoryReadAgain(t *testing.T) {
	home, s := t.TempDir(), source(t, "codex")
	write(t, filepath.Join(home, ".codex", "history.jsonl"), `{"session_id":"gone","ts":1778054500,"text":"one"}`+"\n"+`{"session_id":"kept","ts":1778054501,"text":"two"}`+"\n")
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	memory := newRecorder()
	memory.turns["kept"] = []record.Turn{{Session: "kept", Role: record.RoleUser, Text: "two", Time: time.UnixMilli(1778054501123).UTC()}}
	for range 2 {
		got := newRecorder()
		decode(t, h, sources.Job{File: d.Files[0], Memory: memory}, got.sink(t))
		if len(got.events) != 1 || len(got.turns["gone"]) != 1 {
			t.Fatalf("got %v", got.events)
		}
		memory.turns["gone"] = got.turns["gone"]
	}
}

func TestSinkErrorsComeBack(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	write(t, filepath.Join(home, ".claude", "projects", "-x", "s.jsonl"), chat(3))
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	full := errors.New("disk full")
	for name, sink := range map[string]sources.Sink{
		"session": {Session: func(record.Session) error { return full }},
		"turn":    {Turn: func(record.Turn) error { return full }},
	} {
		res, err := h.Decode(t.Context(), sources.Job{File: d.Files[0]}, sink)
		if !errors.Is(err, full) || res.Mark != nil {
			t.Errorf("%s: %v, mark %v", name, err, res.Mark)
		}
	}
}

// A line over the limit costs itself alone, and little memory.
func TestHugeLine(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	name := filepath.Join(home, ".claude", "projects", "-x", "s.jsonl")
	huge := `{"type":"user","uuid":"u2","sessionId":"s1","message":{"content":[{"type":"image","data":"` + strings.Repeat("A", 70<<20) + `"}]}}` + "\n"
	write(t, name, line+huge+strings.ReplaceAll(line, "u1", "u3"))
	d := discover(t, s, env(home))
	h := open(t, s, d.Store)
	to := newRecorder()
	res := decode(t, h, sources.Job{File: d.Files[0]}, to.sink(t))
	if len(to.turns["s1"]) != 2 || res.Lines != 3 || len(res.Skipped) != 1 || res.Skipped[0].Reason != sources.TooLong || res.Skipped[0].First != int64(len(line)) {
		t.Errorf("%d turns, %+v", len(to.turns["s1"]), res.Skipped)
	}
	if got, err := h.Check(t.Context(), d.Files[0], res.Mark, sources.Deep); err != nil || got != sources.Same {
		t.Errorf("check: %v, %v", got, err)
	}
}

// A hostile line costs a skip, not a crash or seconds.
func TestHostileLines(t *testing.T) {
	home, s := t.TempDir(), source(t, "claude")
	bad := []string{
		strings.Repeat(`{"a":`, 100000) + "1" + strings.Repeat("}", 100000),
		strings.Repeat("[", 1<<20),
		strings.Repeat(`[`, 290) + "t" + strings.Repeat("x", 4<<20),
		`{"type":"user","message":{"content":[[[[]]]]}}`,
		`{"type":5,"message":7,"uuid":[],"sessionId":{},"timestamp":{}}`,
		`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":"x"},null,3,{"type":"tool_use","name":"Edit","input":{"edits":[1]}}]}}`,
		`{"type":"user","sessionId":"s1","message":{"content":[{"type":"tool_result","content":[null,{"type":"text"},{"type":"tool_result","content":"x"}]}]}}`,
	}
	write(t, filepath.Join(home, ".claude", "projects", "-x", "s.jsonl"), strings.Join(bad, "\n")+"\n"+line)
	d := discover(t, s, env(home))
	to := newRecorder()
	res := decode(t, open(t, s, d.Store), sources.Job{File: d.Files[0], Settled: true}, to.sink(t))
	if len(to.turns["s1"]) != 1 || res.Lines != len(bad)+1 || len(res.Skipped) != 1 || res.Skipped[0].Lines != 3 {
		t.Errorf("%v, %+v", to.turns, res)
	}
}
