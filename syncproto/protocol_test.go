package syncproto_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/syncproto"
)

var update = flag.Bool("update", false, "rewrite the example in PROTOCOL.md")

const (
	exampleStart = "<!-- example -->\n"
	exampleEnd   = "<!-- end -->\n"
)

// The example in PROTOCOL.md is an exchange that really takes place.
func TestProtocolExample(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	mini, box := newNode(rng, "mini"), newNode(rng, "box")
	mini.write(entry{Kind: "msg", ID: "m1", Text: "why does the pool run dry?"}, entry{Kind: "msg", ID: "m2", Text: "a connection leaks in the retry"})
	clientNonce, serverNonce := syncproto.Nonce{0xc1, 0x1e, 0x27}, syncproto.Nonce{0x5e, 0x12, 0x7e}
	p := pair(t, mini, box, syncproto.Config{App: "deja 1.0", Nonce: clientNonce}, syncproto.Config{App: "deja 1.0", Nonce: serverNonce})

	var out strings.Builder
	fmt.Fprintf(&out, "```\nS> %q\n", p.server.s.Preamble())
	p.client.s.Greet(serverNonce, "")
	ctx := t.Context()
	for moved := true; moved; {
		moved = false
		for _, side := range []struct {
			name string
			a, b *side
		}{{"C>", p.client, p.server}, {"S>", p.server, p.client}} {
			for side.a.read(ctx) {
				moved = true
			}
			for side.a.write(ctx, side.b) {
				moved = true
				f := side.b.in[len(side.b.in)-1]
				fmt.Fprintf(&out, "%s %s\n", side.name, show(f))
			}
		}
	}
	out.WriteString("```\n")
	if !p.client.s.Done() || !p.server.s.Done() || p.client.err != nil {
		t.Fatalf("the example does not end: %v", p.client.err)
	}
	p.finish(t)
	equalNodes(t, mini, box)

	doc, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), exampleStart)
	example, after, ok2 := strings.Cut(rest, exampleEnd)
	if !ok || !ok2 {
		t.Fatal("PROTOCOL.md has no place for the example")
	}
	if *update {
		if err := os.WriteFile("PROTOCOL.md", []byte(before+exampleStart+out.String()+exampleEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(out.String(), example); diff != "" {
		t.Errorf("the example in PROTOCOL.md is not what happens (run with -update):\n%s", diff)
	}
}

// show prints a frame on one line.
func show(f syncproto.Frame) string {
	if utf8.Valid(f.Payload) && (len(f.Payload) == 0 || f.Payload[0] == '{') {
		return fmt.Sprintf("%-5s %s", f.Type, f.Payload)
	}
	return fmt.Sprintf("%-5s (%d bytes)", f.Type, len(f.Payload))
}
