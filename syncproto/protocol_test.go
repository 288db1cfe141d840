package syncproto_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

var update = flag.Bool("update", false, "rewrite the example in PROTOCOL.md")

const (
	exampleStart = "<!-- example -->\n"
	exampleEnd   = "<!-- end -->\n"
)

// recorded holds what both sides of the example wrote, when it was made.
var recorded = filepath.Join("..", "testdata", "wire", "exchange-2")

func exampleNodes() (mini, box *modelNode, client, server syncproto.Config) {
	rng := rand.New(rand.NewPCG(2, 0))
	mini, box = newNode(rng, "mini"), newNode(rng, "box")
	mini.write(entry{Kind: "msg", ID: "m1", Text: "why does the pool run dry?"}, entry{Kind: "msg", ID: "m2", Text: "a connection leaks in the retry"})
	client = syncproto.Config{App: "deja 1.0", Nonce: syncproto.Nonce{0xc1, 0x1e, 0x27}}
	server = syncproto.Config{App: "deja 1.0", Nonce: syncproto.Nonce{0x5e, 0x12, 0x7e}}
	return mini, box, client, server
}

// An exchange with a program of the day the recording was made still works: each
// side completes it against what the other one wrote then.
func TestRecordedExchange(t *testing.T) {
	for _, server := range []bool{true, false} {
		mini, box, clientConfig, serverConfig := exampleNodes()
		p := pair(t, mini, box, clientConfig, serverConfig)
		me, file := p.client, "server.bin"
		if server {
			me, file = p.server, "client.bin"
		}
		data, err := os.ReadFile(filepath.Join(recorded, file))
		if err != nil {
			t.Fatal(err)
		}
		src := bufio.NewReader(bytes.NewReader(data))
		if !server {
			nonce, _, err := syncproto.ReadPreamble(src)
			if err != nil {
				t.Fatal(err)
			}
			me.s.Greet(nonce, "")
		}
		frames := syncproto.NewFrameReader(src)
		for ear := (&side{s: me.s}); ; {
			for me.write(t.Context(), ear) {
			}
			f, err := frames.Next(me.s.Limit)
			if err == io.EOF {
				break
			}
			if err == nil {
				err = me.s.Receive(t.Context(), f)
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		if !me.s.Done() || len(me.n.live()) != 2 || me.s.Report().Sent.Records+me.s.Report().Received.Records != 2 {
			t.Errorf("%s: done %v, report %+v", file, me.s.Done(), me.s.Report())
		}
	}
}

// The example in PROTOCOL.md is an exchange that really takes place.
func TestProtocolExample(t *testing.T) {
	mini, box, clientConfig, serverConfig := exampleNodes()
	p := pair(t, mini, box, clientConfig, serverConfig)

	var out strings.Builder
	fmt.Fprintf(&out, "```\nS> %q\n", p.server.s.Preamble())
	p.client.s.Greet(serverConfig.Nonce, "")
	wire := map[string][]byte{"client.bin": nil, "server.bin": syncproto.AppendPreamble(nil, serverConfig.Nonce)}
	ctx := t.Context()
	for moved := true; moved; {
		moved = false
		for _, side := range []struct {
			name, file string
			a, b       *side
		}{{"C>", "client.bin", p.client, p.server}, {"S>", "server.bin", p.server, p.client}} {
			for side.a.read(ctx) {
				moved = true
			}
			for side.a.write(ctx, side.b) {
				moved = true
				f := side.b.in[len(side.b.in)-1]
				fmt.Fprintf(&out, "%s %s\n", side.name, show(f))
				wire[side.file] = syncproto.AppendFrame(wire[side.file], f)
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
		for name, data := range wire {
			if err := os.WriteFile(filepath.Join(recorded, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if diff := cmp.Diff(out.String(), example); diff != "" {
		t.Errorf("the example in PROTOCOL.md is not what happens (run with -update):\n%s", diff)
	}
}

// show prints a frame on one line. How well a batch is compressed depends on the
// library, so its size is left out.
func show(f syncproto.Frame) string {
	if f.Type == syncproto.TypeBatch {
		h, _, err := batch.PeekHeader(f.Payload)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%-5s (%d to %d of %s)", f.Type, h.First, h.Last(), h.Stream)
	}
	if utf8.Valid(f.Payload) && (len(f.Payload) == 0 || f.Payload[0] == '{') {
		return fmt.Sprintf("%-5s %s", f.Type, f.Payload)
	}
	return fmt.Sprintf("%-5s (%d bytes)", f.Type, len(f.Payload))
}
