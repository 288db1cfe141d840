package v1_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/syncproto/v1"
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

// read reads a whole file.
func read(t testing.TB, file string) ([]v1.Record, v1.Summary) {
	t.Helper()
	r := v1.NewReader(strings.NewReader(file))
	var all []v1.Record
	for rec, err := range r.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all, r.Summary()
}

const oldLine = `{"harness":"claude","session_id":"s1","project":"work/api","role":"user","text":"hello","time":"2026-09-01T10:00:00.5Z","origin":"mini"}`

func TestOldFile(t *testing.T) {
	all, sum := read(t, oldLine+"\n"+strings.Replace(oldLine, "hello", "again", 1)+"\n")
	want := v1.Record{
		Key: record.SessionKey{Harness: "claude", Native: "s1"}, Project: "work/api", Origin: "mini", Kind: record.KindMsg,
		Turn: record.Turn{Session: "s1", Role: "user", Text: "hello", Time: time.Date(2026, 9, 1, 10, 0, 0, 5e8, time.UTC)},
	}
	if len(all) != 2 || !cmp.Equal(all[0], want) {
		t.Errorf("read %s", cmp.Diff([]v1.Record{want}, all))
	}
	if !sum.Whole() || sum.Records != 2 || sum.Origin != "mini" {
		t.Errorf("summary %+v", sum)
	}
}

// Each line stands for itself: what is wrong with one does not touch the others.
func TestLines(t *testing.T) {
	with := func(field, value string) string {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(oldLine), &m); err != nil {
			t.Fatal(err)
		}
		if value == "" {
			delete(m, field)
		} else {
			m[field] = json.RawMessage(value)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tt := range []struct {
		name, line string
		records    int
		blank, bad int
	}{
		{"whole", oldLine, 1, 0, 0},
		{"unknown fields", with("more", `{"a":[1]}`), 1, 0, 0},
		{"an odd time", with("time", `7`), 1, 0, 0},
		{"no time", with("time", ""), 1, 0, 0},
		{"an odd project", with("project", `["x"]`), 1, 0, 0},
		{"an unknown role", with("role", `"system"`), 1, 0, 0},
		{"carriage return", oldLine + "\r", 1, 0, 0},
		{"no text", with("text", `""`), 0, 1, 0},
		{"meta", with("role", `"meta"`), 0, 1, 0},
		{"an unknown kind", with("kind", `"claim"`), 0, 1, 0},
		{"a tomb", with("kind", `"tomb"`), 0, 1, 0},
		{"empty", "", 0, 1, 0},
		{"no JSON", "hello", 0, 0, 1},
		{"cut JSON", oldLine[:60], 0, 0, 1},
		{"a list", `[1]`, 0, 0, 1},
		{"two values", oldLine + oldLine, 0, 0, 1},
		{"no harness", with("harness", ""), 0, 0, 1},
		{"a harness of controls", with("harness", `"\u0007"`), 0, 0, 1},
		{"no session", with("session_id", ""), 0, 0, 1},
		{"a session with a control", with("session_id", `"a\nb"`), 0, 0, 1},
		{"a long session", with("session_id", `"`+strings.Repeat("s", 1025)+`"`), 0, 0, 1},
		{"no role", with("role", ""), 0, 0, 1},
		{"an odd text", with("text", `7`), 0, 0, 1},
		{"negative counts", with("n", `-1`), 0, 0, 1},
		{"deep", oldLine[:len(oldLine)-1] + `,"more":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, sum := read(t, oldLine+"\n"+tt.line+"\n"+oldLine+"\n")
			if len(all) != tt.records+2 || sum.Blank != tt.blank || sum.Bad != tt.bad || sum.Torn {
				t.Errorf("%d records, %+v", len(all), sum)
			}
			if tt.bad > 0 && (len(sum.Problems) != 1 || sum.Problems[0].Line != 2 || sum.Problems[0].Offset != int64(len(oldLine))+1 || sum.Problems[0].Why == "") {
				t.Errorf("problems %+v", sum.Problems)
			}
		})
	}
}

// Names come without controls and in bounds; the text stays what it is.
func TestHostileNames(t *testing.T) {
	text := "\x1b[31mred\u202e\x00 \xff"
	line, err := json.Marshal(map[string]string{
		"harness": "cl\x1bude", "session_id": "s", "project": "a\nb\u202e" + strings.Repeat("p", 500), "role": " user ", "text": text, "origin": "mi\tni",
	})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := read(t, "\ufeff"+string(line)+"\n")
	if len(all) != 1 {
		t.Fatal("the line was not read")
	}
	r := all[0]
	if r.Key.Harness != "cl ude" || r.Origin != "mi ni" || r.Turn.Role != "user" || !strings.HasPrefix(r.Project, "a b ppp") || len(r.Project) != 120 {
		t.Errorf("%+v", r)
	}
	if r.Turn.Text != strings.ToValidUTF8(text, "\ufffd") {
		t.Errorf("text %q", r.Turn.Text)
	}
}

func TestLongLine(t *testing.T) {
	long := strings.Replace(oldLine, "hello", strings.Repeat("x", record.MaxLine), 1)
	most := strings.Replace(oldLine, "hello", strings.Repeat("x", record.MaxLine-len(oldLine)+5), 1)
	all, sum := read(t, long+"\n"+most+"\n"+oldLine+"\n"+long)
	if len(all) != 2 || len(most) != record.MaxLine || len(all[0].Turn.Text) < record.MaxLine-200 {
		t.Errorf("%d records", len(all))
	}
	if sum.Bad != 2 || sum.Problems[0].Line != 1 || sum.Problems[1].Line != 4 || !strings.Contains(sum.Problems[0].Why, "8388608") {
		t.Errorf("summary %+v", sum)
	}
}

func TestOrigins(t *testing.T) {
	other := strings.Replace(oldLine, "mini", "box", 1)
	if _, sum := read(t, oldLine+"\n"+other+"\n"+other+"\n"); sum.Origin != "" {
		t.Errorf("different origins make %q", sum.Origin)
	}
}

func entryLine(i int) string {
	return fmt.Sprintf(`{"harness":"claude","session_id":"s1","project":"api","role":"user","text":"text %d","time":"2026-09-01T10:00:00Z","origin":"mini","v":2,"kind":"msg","salt":"AAAAAAAAAAA","n":%d,"mid":"m%d","exit":1,"part":1,"parts":2}`, i, i, i)
}

func write(t testing.TB, lines ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := v1.NewWriter(&b)
	for _, l := range lines {
		if err := w.Line([]byte(l)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is written is read back, and an older reader, which knows seven fields
// and drops what has no text, reads the same records.
func TestWriteAndRead(t *testing.T) {
	note := `{"harness":"deja","session_id":"notes","project":"api","role":"user","text":"decided","time":"2026-09-01T10:00:00Z","origin":"mini","v":2,"kind":"note","n":0,"title":"T","state":"accepted","tags":["a","b"],"of":"claude:s1"}`
	session := `{"harness":"claude","session_id":"s1","project":"api","role":"meta","text":"","time":"2026-09-01T10:00:00Z","origin":"mini","v":2,"kind":"session","n":0,"title":"A title","cwd":"~/api","branch":"main","started":"2026-09-01T09:00:00Z"}`
	tomb := `{"harness":"","session_id":"","project":"","role":"meta","text":"","time":"2026-09-01T10:00:00Z","origin":"mini","v":2,"kind":"tomb","n":0,"id":"t"}`
	file := write(t, entryLine(0), note, session, entryLine(1))
	all, sum := read(t, file)
	if len(all) != 4 || !sum.Whole() {
		t.Fatalf("%d records, %+v", len(all), sum)
	}
	if r := all[0]; r.N != 0 || r.Turn.Native != "m0" || *r.Turn.Exit != 1 || r.Part != 1 || r.Parts != 2 {
		t.Errorf("turn %+v", r)
	}
	if n := all[1].Note; n == nil || n.State != "accepted" || len(n.Tags) != 2 || n.Of != "claude:s1" || n.Title != "T" {
		t.Errorf("note %+v", n)
	}
	if s := all[2].Session; s == nil || s.Title != "A title" || s.Cwd != "~/api" || s.Started.Hour() != 9 || s.Project != "api" {
		t.Errorf("session %+v", s)
	}
	older := 0
	for l := range strings.SplitSeq(strings.TrimSpace(file), "\n") {
		var m struct {
			Harness string    `json:"harness"`
			Session string    `json:"session_id"`
			Project string    `json:"project"`
			Role    string    `json:"role"`
			Text    string    `json:"text"`
			Time    time.Time `json:"time"`
			Origin  string    `json:"origin"`
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Errorf("an older reader fails on %s: %v", l, err)
		}
		if m.Text != "" {
			older++
		}
	}
	if older != 3 {
		t.Errorf("an older reader sees %d records", older)
	}
	if err := v1.NewWriter(io.Discard).Line([]byte(tomb)); err != nil {
		t.Error(err)
	}
}

// A newer file that is cut anywhere, or loses or gains a line, says so.
func TestCutFile(t *testing.T) {
	rng := newRand(t)
	var lines []string
	for i := range 5 {
		lines = append(lines, entryLine(i))
	}
	file := write(t, lines...)
	for cut := range len(file) - 1 {
		all, sum := read(t, file[:cut])
		if n := strings.Count(file[:cut], "\n"); len(all) < n-1 || len(all) > 5 {
			t.Fatalf("cut at %d: %d records of %d lines", cut, len(all), n)
		}
		if sum.Whole() && cut > 0 {
			t.Fatalf("cut at %d of %d: it passes for whole", cut, len(file))
		}
	}
	if _, sum := read(t, file[:len(file)-1]); !sum.Whole() {
		t.Error("a file without its last line end is not whole")
	}
	if _, sum := read(t, file+file); !sum.Whole() || sum.Records != 10 {
		t.Errorf("two files joined: %+v", sum)
	}
	all := strings.SplitAfter(file, "\n")
	for range 20 {
		i, j := rng.IntN(5), rng.IntN(5)
		changed := append([]string(nil), all...)
		switch rng.IntN(3) {
		case 0:
			changed[i] = ""
		case 1:
			changed[i] += changed[j]
		case 2:
			changed[i] = strings.Replace(changed[i], "text", "Text", 2)
		}
		if _, sum := read(t, strings.Join(changed, "")); sum.Whole() {
			t.Errorf("a changed file passes for whole:\n%s", strings.Join(changed, ""))
		}
	}
}

// An older file has no closing line: only a cut inside a line can be told.
func TestCutOldFile(t *testing.T) {
	file := oldLine + "\n" + oldLine + "\n"
	for cut := range len(file) {
		_, sum := read(t, file[:cut])
		whole := cut == 0 || cut == len(oldLine) || cut == len(oldLine)+1 || cut == len(file)-1
		if sum.Whole() != whole || sum.Bad != 0 {
			t.Errorf("cut at %d: %+v", cut, sum)
		}
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	r := v1.NewReader(io.MultiReader(strings.NewReader(oldLine+"\n"+oldLine[:20]), iotest.ErrReader(broken)))
	n := 0
	var last error
	for _, err := range r.Records(t.Context()) {
		if n++; err != nil {
			last = err
		}
	}
	if !errors.Is(last, broken) || n != 2 || r.Summary().Records != 1 {
		t.Errorf("%d steps, %v, %+v", n, last, r.Summary())
	}
}

func TestWriterRefuses(t *testing.T) {
	w := v1.NewWriter(io.Discard)
	for _, l := range []string{"", "{", "x{}", "{\n}", "{" + strings.Repeat(" ", record.MaxLine)} {
		if err := w.Line([]byte(l)); err == nil {
			t.Errorf("a line %.20q", l)
		}
	}
	if w.Lines() != 0 {
		t.Error("refused lines are counted")
	}
	read, broken := io.Pipe()
	read.CloseWithError(errors.ErrUnsupported)
	full := v1.NewWriter(broken)
	if err := full.Line([]byte(oldLine)); err != nil {
		t.Fatal(err)
	}
	if err := full.Finish(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a writer that fails: %v", err)
	}
}

func TestNames(t *testing.T) {
	at := time.Unix(0, 1_756_720_800_000_000_001)
	n := v1.NameOf("/home/someone/history", at)
	if back, ok := v1.ParseName(n.String()); !ok || back != n || len(n.Source) != 12 || n.Time != at.UnixNano() {
		t.Errorf("%v", n)
	}
	for _, s := range []string{
		"", "deja-sync.jsonl", "deja-sync-0123456789ab-1.json", "deja-sync-0123456789AB-1.jsonl", "deja-sync-0123456789ab-.jsonl",
		"deja-sync-0123456789ab-1.jsonl.part", "../deja-sync-0123456789ab-1.jsonl", "deja-sync-0123456789ab-99999999999999999999.jsonl",
		"deja-sync-0123456789ab-9999999999999999999.jsonl", "deja-sync-0123456789ab-1.jsonl\n",
	} {
		if _, ok := v1.ParseName(s); ok {
			t.Errorf("%q is taken for a batch file", s)
		}
	}
}

// Fail every operation: no file is there, or the whole one.
func TestCreate(t *testing.T) {
	name := v1.NameOf("x", time.Unix(1, 0))
	fill := func(w *v1.Writer) error { return w.Line([]byte(entryLine(1))) }
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("/out"); err != nil {
			t.Fatal(err)
		}
		fsys := vfs.FailAt(mem, n)
		made, err := v1.Create(fsys, "/out", name, fill)
		if fsys.Fired() && !errors.Is(err, vfs.ErrInjected) {
			t.Errorf("fault %d was swallowed: %v", n, err)
		}
		names, err := v1.Files(mem, "/out")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			f, err := v1.Open(mem, "/out", name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			if _, sum := read(t, string(b)); !sum.Whole() || sum.Records != 1 {
				t.Errorf("fault %d left %+v", n, sum)
			}
		}
		if !fsys.Fired() {
			if !made || len(names) != 1 {
				t.Errorf("made %v, %v", made, names)
			}
			if _, err := v1.Create(fsys, "/out", name, fill); err == nil {
				t.Error("a file was written over")
			}
			return
		}
	}
}

func TestFiles(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/in/deja-sync-0123456789ab-9.jsonl"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deja-sync-0123456789ab-20.jsonl", "deja-sync-aaaaaaaaaaaa-3.jsonl", "deja-sync-0123456789ab-003.jsonl", "notes.txt", "deja-sync-bbbbbbbbbbbb-3.jsonl"} {
		if err := vfs.WriteFile(mem, "/in/"+name, []byte(oldLine)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := v1.Files(mem, "/in")
	if want := "[deja-sync-aaaaaaaaaaaa-3.jsonl deja-sync-bbbbbbbbbbbb-3.jsonl deja-sync-0123456789ab-20.jsonl]"; err != nil || fmt.Sprint(names) != want {
		t.Errorf("%v, %v", names, err)
	}
	made, err := v1.Create(mem, "/in", v1.NameOf("y", time.Unix(1, 0)), func(*v1.Writer) error { return nil })
	if made || err != nil {
		t.Errorf("an empty file: %v, %v", made, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(oldLine + "\n" + entryLine(1) + "\n"))
	f.Add([]byte(write(f, entryLine(1), entryLine(2))))
	f.Add([]byte("\ufeff{}\n\n[]\r\n{\"kind\":\"end\"}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		all, sum := read(t, string(file))
		if len(all) != sum.Records || sum.Records+sum.Blank+sum.Bad > sum.Lines {
			t.Errorf("%d records, %+v", len(all), sum)
		}
		for _, r := range all {
			if r.Key.Harness == "" || r.Key.Native == "" || r.Kind != record.KindSession && r.Turn.Text == "" {
				t.Errorf("record %+v", r)
			}
		}
	})
}

func BenchmarkReader(b *testing.B) {
	var lines []string
	for i := range 10000 {
		lines = append(lines, strings.Replace(entryLine(i), "text ", strings.Repeat("some words of text ", 40), 1))
	}
	file := write(b, lines...)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		for _, err := range v1.NewReader(strings.NewReader(file)).Records(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
