package postings_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/record"
)

var update = flag.Bool("update", false, "rewrite the example in FORMAT.md")

// field is a part of a section: its length and what it means.
type field struct {
	n       int
	meaning string
}

var exampleFields = []struct {
	tag    string
	fields []field
}{
	{"streams", []field{{20, "node"}, {8, "nonce"}}},
	{"ranges", []field{{4, "stream 0"}, {4, "3 entries"}, {8, "from seq 1 on"}}},
	{"threads", []field{
		{8, "session"}, {4, "stream 0"}, {4, "1 turn of speech"}, {4, "1 of work"}, {8, "2 tokens of speech"}, {8, "2 of work"},
	}},
	{"docs", []field{
		{8, "doc 0: size 2, role 1 (user), thread 0, place 0"},
		{8, "doc 1: size 2, role 6 (command), thread 0, place 0"},
		{8, "doc 2: no thread"},
	}},
	{"lists", []field{
		{1, "make, work: gap 2 (doc 1), once"},
		{2, "pool, speech: gap 1 (doc 0), tf 2"},
		{1, "pool, work: gap 2 (doc 1), once"},
	}},
	{"terms", []field{
		{1, "nothing shared"},
		{5, "4 bytes: make"},
		{1, "no speech list, and a work list"},
		{1, "of 1 byte"},
		{1, "nothing shared"},
		{5, "4 bytes: pool"},
		{1, "a speech list of 2 bytes, and a work list"},
		{1, "of 1 byte"},
	}},
	{"blocks", []field{{8, "block 0: its terms"}, {8, "its lists"}}},
}

func example(t *testing.T) string {
	t.Helper()
	s := record.StreamID{Nonce: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}
	for i := range s.Node {
		s.Node[i] = byte(0xa0 + i)
	}
	x := newIndex(t)
	x.apply(s, 1, []record.Entry{
		msg("s", record.RoleUser, "Pools, pool"), msg("s", record.RoleCommand, "make pool"),
		{Kind: record.KindSession, Harness: "claude", Session: "s", Role: record.RoleMeta},
	})
	x.publish()
	secs := sections(t, x)
	var out strings.Builder
	for _, e := range exampleFields {
		explain(t, &out, e.tag, secs[e.tag], e.fields)
	}
	return out.String()
}

// explain prints a section field by field.
func explain(t *testing.T, out *strings.Builder, tag string, b []byte, fields []field) {
	t.Helper()
	off := 0
	for _, f := range fields {
		if off+f.n > len(b) {
			t.Fatalf("%s: %s ends at %d of %d bytes", tag, f.meaning, off+f.n, len(b))
		}
		meaning := f.meaning
		for at := off; at < off+f.n; at += 16 {
			part := b[at:min(at+16, off+f.n)]
			fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-8s %3d  %-47s  %s", tag, at, fmt.Sprintf("% x", part), meaning), " "))
			meaning, tag = "", ""
		}
		off += f.n
	}
	if off != len(b) {
		t.Fatalf("%s: the example explains %d of %d bytes", tag, off, len(b))
	}
}

// TestFormatExample holds FORMAT.md to what the code writes; -update rewrites
// the example in it.
func TestFormatExample(t *testing.T) {
	raw, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")))
	const begin, end = "<!-- example -->\n```\n", "```\n"
	before, rest, ok := strings.Cut(doc, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("FORMAT.md has no example")
	}
	got := before + begin + example(t) + end + after
	if *update {
		if err := os.WriteFile("FORMAT.md", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(doc, got); d != "" {
		t.Errorf("FORMAT.md is not what the code writes (-update rewrites it):\n%s", d)
	}
}
