package batch_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/syncproto/batch"
)

// worked prints a small batch, step by step.
func worked(t *testing.T) string {
	t.Helper()
	key := keyOf(1)
	entries := []record.Entry{
		{
			Kind: record.KindMsg, Harness: "claude", Session: "abc123", Project: redact.Trusted("api"), Role: record.RoleUser,
			Text: redact.Trusted("why does \"make\" fail?\n"), Time: noon, Origin: "mini", Salt: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Mid: "m-1",
		},
		{
			Kind: record.KindSession, Harness: "claude", Session: "abc123", Project: redact.Trusted("api"), Time: noon, Origin: "mini",
			Salt: [8]byte{8, 7, 6, 5, 4, 3, 2, 1}, Meta: &record.SessionMeta{Title: redact.Trusted("make"), Started: noon},
		},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "public key   %x\nnode         %s\n", pubOf(key), record.NodeOf(pubOf(key)))
	var bld batch.Builder
	for i := range entries {
		batch.Normalize(&entries[i])
		line := batch.AppendEntry(nil, &entries[i])
		leaf, err := batch.Leaf(line)
		must(t, err)
		must(t, bld.AddLine(line))
		fmt.Fprintf(&b, "\nline %d       %s\nleaf         %s\ncontent id   %s\n", i+1, line, leaf, entries[i].CID())
	}
	raw, s, err := bld.Seal(nil, key, 2, batch.Header{Stream: streamOf(key), First: 1, At: noon})
	must(t, err)
	signed := s.Signed()
	head := signed[:len(signed)-64]
	fmt.Fprintf(&b, "\nheader       %s\nsignature    %x\nheader hash  %s\nfirst bytes  %s\n", head, signed[len(head):], s.Hash, hex.EncodeToString(raw[:16]))
	var c batch.Codec
	stubbed, _, err := c.Stub(nil, s, func(seq record.Seq, _ []byte) string { return []string{record.Withheld, ""}[seq-1] })
	must(t, err)
	fmt.Fprintf(&b, "\nwithheld     %s\n", linesOf(t, &c, stubbed)[0])
	return b.String()
}

// TestWorkedExample holds FORMAT.md to what the package does.
func TestWorkedExample(t *testing.T) {
	const name, fence = "FORMAT.md", "```\n"
	doc, err := os.ReadFile(name)
	must(t, err)
	before, rest, ok := strings.Cut(string(doc), fence)
	printed, after, closed := strings.Cut(rest, fence)
	if !ok || !closed {
		t.Fatal("FORMAT.md has no example")
	}
	want := worked(t)
	if *update {
		must(t, os.WriteFile(name, []byte(before+fence+want+fence+after), 0o644))
		return
	}
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("the example in FORMAT.md: %s", diff)
	}
}
