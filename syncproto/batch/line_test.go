package batch_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/syncproto/batch"
)

var (
	seedFlag = flag.Uint64("seed", 0, "replay the random tests of this seed")
	update   = flag.Bool("update", false, "write the golden files anew")
)

func dice(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 9))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

var texts = cmp.AllowUnexported(redact.Text{})

// anyString makes a string of bytes that encoders stumble over.
func anyString(rng *rand.Rand) string {
	pieces := []string{
		"", "plain words", "\"", "\\", "\\u0000", "\n", "\r\n", "\t", "\x00", "\x01\x1f", "\x7f", "é", "日本", "😀", "\u2028", "\ufffd",
		"\xff", "\xc3", "\xed\xa0\x80", "\xf0\x9f", "</script>", "{\"x\":\"", strings.Repeat("long ", 30), "12345678", "1234567\"",
	}
	var b strings.Builder
	for range rng.IntN(6) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

func anyTime(rng *rand.Rand) time.Time {
	switch rng.IntN(5) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(rng.Int64N(1<<40)-1<<39, 0) // often impossible
	case 2:
		return noon.In(time.FixedZone("here", rng.IntN(86400)-43200))
	}
	return noon.Add(time.Duration(rng.Int64N(1 << 50)))
}

func anyEntry(rng *rand.Rand) record.Entry {
	str := func() string { return anyString(rng) }
	txt := func() redact.Text { return redact.Trusted(anyString(rng)) }
	kinds := []record.Kind{
		"", record.KindMsg, record.KindMsg, record.KindNote, record.KindSession,
		record.KindSupersede, record.KindTomb, record.KindUntomb,
	}
	e := record.Entry{
		Kind: kinds[rng.IntN(len(kinds))], Harness: str(), Session: str(), Project: txt(), Role: record.Role(str()), Text: txt(),
		Time: anyTime(rng), Origin: str(), N: rng.IntN(5) - 1, Mid: str(), Part: rng.IntN(4) - 1, Parts: rng.IntN(4) - 1, For: str(),
	}
	for i := range e.Salt {
		e.Salt[i] = byte(rng.Uint32())
	}
	if rng.IntN(3) == 0 {
		n := rng.IntN(300) - 10
		e.Exit = &n
	}
	if rng.IntN(2) == 0 {
		e.Meta = &record.SessionMeta{
			Title: txt(), Cwd: txt(), Root: txt(), Branch: txt(), Model: txt(), Remote: txt(), Source: txt(),
			Kind: str(), Parent: str(), Agent: str(), Started: anyTime(rng), Gone: rng.IntN(2) == 0,
		}
	}
	if rng.IntN(2) == 0 {
		e.Note = &record.NoteMeta{State: str(), Of: str(), Title: txt(), Evident: anyTime(rng)}
		for range rng.IntN(3) {
			e.Note.Tags = append(e.Note.Tags, str())
		}
	}
	if rng.IntN(2) == 0 {
		e.Drop = anyDrop(rng)
	}
	return e
}

func anyDrop(rng *rand.Rand) *record.Drop {
	d := &record.Drop{ID: anyString(rng), Project: anyString(rng), Before: anyTime(rng), Erase: rng.IntN(9), Why: anyString(rng), Reach: anyString(rng)}
	for range rng.IntN(3) {
		from := record.Seq(rng.IntN(1000) + 1)
		d.Ranges = append(d.Ranges, record.Range{Stream: anyStream(rng), From: from, To: from + record.Seq(rng.IntN(9))})
		d.CIDs = append(d.CIDs, record.CID{byte(rng.Uint32()), 31: 1})
		d.Cancels = append(d.Cancels, anyString(rng))
	}
	if rng.IntN(2) == 0 {
		d.Session = &record.SessionKey{Harness: anyString(rng), Native: anyString(rng)}
	}
	return d
}

func anyStream(rng *rand.Rand) (s record.StreamID) {
	for i := range s.Node {
		s.Node[i] = byte(rng.Uint32())
	}
	s.Nonce[3] = byte(rng.Uint32())
	return s
}

// TestLineRoundTrip holds that an entry in normal form comes back from its line
// as it was, that the line is JSON as everybody reads it, and that the content
// id is the same on both sides.
func TestLineRoundTrip(t *testing.T) {
	rng := dice(t)
	var p batch.Parser
	for range 5000 {
		e := anyEntry(rng)
		raw := e
		batch.Normalize(&e)
		line := batch.AppendEntry(nil, &e)
		if !json.Valid(line) || slices.Contains(line, '\n') {
			t.Fatalf("no JSON line: %q", line)
		}
		e.Line = len(line)
		var got record.Entry
		must(t, p.Entry(line, &got))
		if diff := cmp.Diff(e, got, texts); diff != "" {
			t.Fatalf("%s\n(stored -, read +): %s", line, diff)
		}
		raw.N, raw.Part = e.N, e.Part
		if e.Role == record.RoleMeta { // what is no speech loses its text when it is stored
			raw.Role, raw.Text = e.Role, e.Text
		}
		if got.CID() != raw.CID() {
			t.Fatalf("%s: the content id changed", line)
		}
		asOthersRead(t, line, &got)
	}
}

// asOthersRead reads a line as an importer of the older batch files does.
func asOthersRead(t *testing.T, line []byte, e *record.Entry) {
	t.Helper()
	var old struct {
		Harness   string    `json:"harness"`
		SessionID string    `json:"session_id"`
		Project   string    `json:"project"`
		Role      string    `json:"role"`
		Text      string    `json:"text"`
		Time      time.Time `json:"time"`
		Origin    string    `json:"origin"`
	}
	must(t, json.Unmarshal(line, &old))
	if old.Harness != e.Harness || old.SessionID != e.Session || old.Project != e.Project.String() || old.Role != string(e.Role) ||
		old.Text != e.Text.String() || !old.Time.Equal(e.Time) || old.Origin != e.Origin {
		t.Fatalf("an older reader sees %+v in %s", old, line)
	}
	if e.Kind != record.KindMsg && e.Kind != record.KindNote && (old.Role != "meta" || old.Text != "") {
		t.Fatalf("an older reader takes %s for speech", line)
	}
}

// TestNormalIsStable holds that the normal form of a normal form is itself.
func TestNormalIsStable(t *testing.T) {
	rng := dice(t)
	for range 2000 {
		e := anyEntry(rng)
		batch.Normalize(&e)
		again := e
		batch.Normalize(&again)
		if diff := cmp.Diff(e, again, texts); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestLenientFields holds that what belongs to no type is as good as missing,
// and that the rest of the line counts.
func TestLenientFields(t *testing.T) {
	exit := -1
	for line, want := range map[string]record.Entry{
		`{}`:                                {Kind: record.KindMsg},
		` { "text" : "spaces" , "n" : 2 } `: {Kind: record.KindMsg, Text: redact.Trusted("spaces"), N: 2},
		`{"text":7,"role":["user"],"session_id":"s"}`:        {Kind: record.KindMsg, Session: "s"},
		`{"time":"yesterday","origin":"mini"}`:               {Kind: record.KindMsg, Origin: "mini"},
		`{"time":"9999-01-01T00:00:00Z"}`:                    {Kind: record.KindMsg},
		`{"time":"2026-09-01T14:00:00+02:00"}`:               {Kind: record.KindMsg, Time: noon},
		`{"n":-1,"exit":-1}`:                                 {Kind: record.KindMsg, Exit: &exit},
		`{"n":1.5,"exit":"0"}`:                               {Kind: record.KindMsg},
		`{"n":99999999999999999999}`:                         {Kind: record.KindMsg},
		`{"part":3,"parts":2}`:                               {Kind: record.KindMsg},
		`{"part":2,"parts":2}`:                               {Kind: record.KindMsg, Part: 2, Parts: 2},
		`{"salt":"AAAA"}`:                                    {Kind: record.KindMsg},
		`{"salt":"AQAAAAAAAAA"}`:                             {Kind: record.KindMsg, Salt: [8]byte{1}},
		`{"text":"first","text":"last"}`:                     {Kind: record.KindMsg, Text: redact.Trusted("last")},
		`{"text":"\ud83d\ude00 \ud83d \ude00 \ud83d\u0041"}`: {Kind: record.KindMsg, Text: redact.Trusted("😀 \ufffd \ufffd \ufffdA")},
		`{"t\u0065xt":"an escaped name"}`:                    {Kind: record.KindMsg, Text: redact.Trusted("an escaped name")},
		"{\"text\":\"a\xff\xfeb\"}":                          {Kind: record.KindMsg, Text: redact.Trusted("a\ufffdb")},
		`{"kind":"session","role":"user","text":"smuggled"}`: {Kind: record.KindSession, Role: record.RoleMeta, Meta: &record.SessionMeta{}},
		`{"kind":"tomb","ranges":[["x",1,2],[],[1],{"a":1},7],"cids":["x",3],"drop_session":["a"]}`: {Kind: record.KindTomb, Role: record.RoleMeta, Drop: &record.Drop{}},
		`{"kind":"dance","step":[1,2,{"a":null}]}`:                                                  {Kind: "dance", Role: record.RoleMeta, Raw: []byte(`{"kind":"dance","step":[1,2,{"a":null}]}`)},
		`{"kind":7}`: {Kind: record.KindMsg},
	} {
		var p batch.Parser
		var got record.Entry
		if err := p.Entry([]byte(line), &got); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want.Line = len(line)
		if diff := cmp.Diff(want, got, texts); diff != "" {
			t.Errorf("%s (want -, got +): %s", line, diff)
		}
	}
}

// TestMalformedLines holds that what is no JSON object is no entry.
func TestMalformedLines(t *testing.T) {
	for name, line := range map[string]string{
		"nothing": "", "no object": `["a"]`, "a word": "null", "cut": `{"text":"a`, "trailing": `{"text":"a"} {}`,
		"trailing comma": `{"text":"a",}`, "no comma": `{"a":1 "b":2}`, "no colon": `{"a" 1}`, "single quotes": `{'a':1}`,
		"bare control": "{\"text\":\"a\x01\"}", "bare tab": "{\"text\":\"a\tb\"}", "bad escape": `{"text":"\q"}`, "cut escape": `{"text":"\u12"}`,
		"bad number": `{"n":01}`, "plus": `{"n":+1}`, "point": `{"n":1.}`, "exponent": `{"n":1e}`, "NaN": `{"n":NaN}`,
		"too deep":    `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		"kind stub":   `{"kind":"stub"}`,
		"a NUL":       "{}\x00",
		"twice":       `{}{}`,
		"byte order":  "\ufeff{}",
		"open string": `{"text":"\"}`,
	} {
		var p batch.Parser
		var e record.Entry
		if err := p.Entry([]byte(line), &e); err == nil {
			t.Errorf("%s: %q is taken", name, line)
		}
	}
	depth32 := `{"kind":"k","a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`
	var p batch.Parser
	var e record.Entry
	must(t, p.Entry([]byte(depth32), &e))
}

func TestLongLine(t *testing.T) {
	var p batch.Parser
	var e record.Entry
	long := []byte(`{"kind":"k","a":"` + strings.Repeat("x", record.MaxLine) + `"}`)
	if err := p.Entry(long, &e); err == nil {
		t.Error("a line over the limit is taken")
	}
	most := []byte(`{"kind":"k","a":"` + strings.Repeat("x", record.MaxLine-19) + `"}`)
	must(t, p.Entry(most, &e))
}

// TestStubs holds that a stub has one form, and that an entry is none.
func TestStubs(t *testing.T) {
	rng := dice(t)
	var p batch.Parser
	for range 200 {
		s := record.Stub{Reason: record.Withheld}
		if rng.IntN(2) == 0 {
			s.Reason = record.Forgotten
		}
		for i := range s.Leaf {
			s.Leaf[i] = byte(rng.Uint32())
		}
		line := batch.AppendStub(nil, s)
		got, err := batch.ParseStub(line)
		if err != nil || got != s {
			t.Fatalf("%s: %+v, %v", line, got, err)
		}
		leaf, err := batch.Leaf(line)
		if err != nil || leaf != s.Leaf {
			t.Fatalf("%s: leaf %v, %v", line, leaf, err)
		}
		var e record.Entry
		must(t, p.Entry(line, &e))
		if e.Kind != record.KindStub || *e.Stub != s || string(batch.AppendEntry(nil, &e)) != string(line) {
			t.Fatalf("%s: %+v", line, e)
		}
		at := rng.IntN(len(line))
		bad := slices.Clone(line)
		bad[at] ^= 1 << rng.IntN(7)
		if _, err := batch.ParseStub(bad); err == nil && batch.IsStub(bad) {
			if again, _ := batch.ParseStub(bad); again.Leaf == s.Leaf {
				t.Fatalf("two forms of one stub: %s and %s", line, bad)
			}
		}
		if _, err := batch.ParseStub(append(line, ' ')); err == nil {
			t.Fatal("a stub with more behind it is taken")
		}
	}
	for _, line := range []string{
		`{"x":"damaged","h":"` + strings.Repeat("A", 43) + `"}`,
		`{"x":"withheld","h":"` + strings.Repeat("A", 42) + `B"}`, // bits that no byte has
		`{"x":"withheld", "h":"` + strings.Repeat("A", 43) + `"}`,
		`{"x":"withheld","h":"` + strings.Repeat("A", 43) + `","extra":1}`,
	} {
		var e record.Entry
		if err := p.Entry([]byte(line), &e); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}

// TestSplit holds that joining undoes splitting, that parts are within the
// limit and that characters stay whole.
func TestSplit(t *testing.T) {
	rng := dice(t)
	for _, size := range []int{0, 1, record.MaxText - 1, record.MaxText, record.MaxText + 1, 2 * record.MaxText, 3*record.MaxText + 5} {
		s := strings.Repeat("x", rng.IntN(4)) + strings.Repeat([]string{"a", "é", "日", "😀"}[rng.IntN(4)], size)
		parts := batch.SplitText(redact.Trusted(s))
		for i, p := range parts {
			if p.Len() > record.MaxText || len(parts) > 1 && p.Len() == 0 || strings.ToValidUTF8(p.String(), "!") != p.String() {
				t.Fatalf("part %d of %d of %d bytes: %d bytes", i, len(parts), len(s), p.Len())
			}
		}
		if got := batch.JoinText(parts).String(); got != s {
			t.Fatalf("%d bytes come back as %d", len(s), len(got))
		}
	}
}

func typicalEntry() record.Entry {
	exit := 0
	return record.Entry{
		Kind: record.KindMsg, Harness: "claude", Session: "d80e5712-6010-47cf-a9cf-f2da9e74a503", Project: redact.Trusted("api"),
		Role: record.RoleToolOutput, Time: noon, Origin: "mini", Mid: "ae681450-9023-4307-ac3c-0dbb7b2cf5df", Exit: &exit, Salt: [8]byte{1, 2, 3},
		Text: redact.Trusted(strings.Repeat("	if err := w.Flush(); err != nil {\n		return fmt.Errorf(\"flush: %w\", err)\n	}\n	// naïve, but it works\n", 8)),
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := typicalEntry()
	dst := batch.AppendEntry(nil, &e)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = batch.AppendEntry(dst[:0], &e)
	}
}

func BenchmarkParse(b *testing.B) {
	e := typicalEntry()
	line := batch.AppendEntry(nil, &e)
	var p batch.Parser
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Entry(line, &e); err != nil {
			b.Fatal(err)
		}
	}
}
