package shelf_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

func exampleViews() map[string]shelf.State {
	id := record.StreamID{Nonce: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}
	for i := range id.Node {
		id.Node[i] = byte(0xa0 + i)
	}
	return map[string]shelf.State{"catalog": {
		Version: 3,
		Known:   record.Frontier{id: {Seq: 300, Hash: record.Hash{31: 0xff}}},
		Files:   []shelf.FileRef{{Name: "catalog-1.shelf", Size: 160, Sum: 0x11223344, Weight: 9}},
		Aux:     []byte("{}"),
	}}
}

// field is a part of a format: its length and what it means.
type field struct {
	n       int
	meaning string
}

// dump prints bytes field by field.
func dump(t *testing.T, b []byte, fields []field) string {
	t.Helper()
	var out strings.Builder
	off := 0
	for _, f := range fields {
		if off+f.n > len(b) {
			t.Fatalf("%s ends at %d of %d bytes", f.meaning, off+f.n, len(b))
		}
		meaning := f.meaning
		for at := off; at < off+f.n || meaning != ""; at += 16 {
			part := b[min(at, off+f.n):min(at+16, off+f.n)]
			fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%4d  %-47x  %s", at, spaced(part), meaning), " "))
			meaning = ""
		}
		off += f.n
	}
	if off != len(b) {
		t.Fatalf("the example explains %d of %d bytes", off, len(b))
	}
	return out.String()
}

// spaced prints as bytes with spaces between them.
type spaced []byte

func (s spaced) Format(st fmt.State, _ rune) {
	width, _ := st.Width()
	fmt.Fprintf(st, "%-*s", width, fmt.Sprintf("% x", []byte(s)))
}

func exampleFile(t *testing.T) string {
	t.Helper()
	fsys := vfs.NewMem()
	s := open(t, fsys)
	ref := write(t, s, "v", section{"greeting", []byte("hello")}, section{"numbers", []byte{1, 2, 3}})
	b, err := vfs.ReadFile(fsys, dir+"/"+ref.Name, 1000)
	must(t, err)
	return dump(t, b, []field{
		{8, "magic"},
		{4, "file format 1"},
		{4, "zero"},
		{5, `section "greeting": hello`},
		{3, "padding to a multiple of 8"},
		{3, `section "numbers": 1 2 3`},
		{4, "page table: sum of page 0, bytes 0 to 26"},
		{16, "section table: tag"},
		{8, "offset 16"},
		{8, "length 5"},
		{16, "tag"},
		{8, "offset 24"},
		{8, "length 3"},
		{8, "footer: payload of 27 bytes"},
		{4, "2 sections"},
		{4, "sum of the page table"},
		{4, "sum of the section table"},
		{4, "file format 1"},
		{4, "zero"},
		{4, "sum of the 28 bytes of the footer before"},
		{8, "magic"},
	})
}

func exampleManifest(t *testing.T) string {
	t.Helper()
	return dump(t, shelf.EncodeManifest(7, exampleViews()), []field{
		{8, "magic"},
		{4, "manifest format 1"},
		{1, "generation 7"},
		{1, "1 view"},
		{8, "name: 7 bytes, catalog"},
		{1, "version 3"},
		{1, "known: 1 stream"},
		{20, "node"},
		{8, "nonce"},
		{2, "seq 300"},
		{32, "hash"},
		{1, "1 file"},
		{16, "name: 15 bytes, catalog-1.shelf"},
		{2, "size 160"},
		{4, "sum of the file's footer"},
		{1, "weight 9"},
		{3, "aux: 2 bytes, {}"},
		{4, "sum of everything before"},
	})
}

// TestFormatExamples holds FORMAT.md to what the code writes; -update rewrites
// the examples in it.
func TestFormatExamples(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	must(t, err)
	doc = bytes.ReplaceAll(doc, []byte("\r\n"), []byte("\n"))
	got := string(doc)
	for name, example := range map[string]string{"file": exampleFile(t), "manifest": exampleManifest(t)} {
		begin, end := "<!-- example "+name+" -->\n```\n", "```\n"
		before, rest, ok := strings.Cut(got, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("FORMAT.md has no example of a %s", name)
		}
		got = before + begin + example + end + after
	}
	if *update {
		must(t, os.WriteFile("FORMAT.md", []byte(got), 0o644))
		return
	}
	if d := cmp.Diff(string(doc), got); d != "" {
		t.Errorf("FORMAT.md is not what the code writes (-update rewrites it):\n%s", d)
	}
}
