package batch_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto/batch"
)

// FuzzEntry compares the reader of lines with encoding/json, and holds what it
// reads to coming back from its own line.
func FuzzEntry(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		e := anyEntry(rng)
		batch.Normalize(&e)
		f.Add(batch.AppendEntry(nil, &e))
	}
	f.Add([]byte(`{"text":"\ud83d\ud83d\ude00","n":1e2,"a":[{"b":null}],"text":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var p batch.Parser
		var e record.Entry
		err := p.Entry(line, &e)
		if batch.IsStub(line) {
			return
		}
		if err != nil {
			if json.Valid(line) && bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("{")) && nesting(line) <= 32 && !bytes.Contains(line, []byte("stub")) && !bytes.Contains(line, []byte(`\u`)) {
				t.Fatalf("%q is refused: %v", line, err)
			}
			return
		}
		if !json.Valid(line) {
			t.Fatalf("%q is no JSON and is taken", line)
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			return // no line of a body
		}
		asJSON(t, line, &e)
		again := batch.AppendEntry(nil, &e)
		var back record.Entry
		if err := p.Entry(again, &back); err != nil {
			t.Fatalf("%q became %q: %v", line, again, err)
		}
		if e.Raw == nil && (back.CID() != e.CID() || string(batch.AppendEntry(nil, &back)) != string(again)) {
			t.Fatalf("%q became %q", line, again)
		}
	})
}

// nesting is how deep a valid value nests.
func nesting(line []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(line))
	depth := 0
	for {
		tok, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// asJSON compares texts with what encoding/json reads, which replaces every
// wrong byte by itself.
func asJSON(t *testing.T, line []byte, e *record.Entry) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	fold := func(s string) string {
		for strings.Contains(s, "\ufffd\ufffd") {
			s = strings.ReplaceAll(s, "\ufffd\ufffd", "\ufffd")
		}
		return s
	}
	want, _ := m["session_id"].(string)
	if fold(want) != fold(e.Session) {
		t.Fatalf("%q: session %q, encoding/json says %q", line, e.Session, want)
	}
	if e.Kind == record.KindMsg || e.Kind == record.KindNote {
		if want, _ := m["text"].(string); fold(want) != fold(e.Text.String()) {
			t.Fatalf("%q: text %q, encoding/json says %q", line, e.Text.String(), want)
		}
	}
}

func FuzzStub(f *testing.F) {
	f.Add(batch.AppendStub(nil, record.Stub{Reason: record.Withheld, Leaf: record.Hash{1}}))
	f.Add(batch.AppendStub(nil, record.Stub{Reason: record.Forgotten, Leaf: record.Hash{31: 255}}))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := batch.ParseStub(line)
		if err == nil && string(batch.AppendStub(nil, s)) != string(line) {
			t.Fatalf("%q is a second form of a stub", line)
		}
	})
}

// FuzzBatch opens and verifies anything. What verifies can be stubbed and
// verifies again.
func FuzzBatch(f *testing.F) {
	for _, c := range wireCases(f) {
		f.Add(c.raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := batch.Open(raw)
		if err != nil {
			return
		}
		var c batch.Codec
		pub := pubOf(keyOf(1))
		if err := c.Verify(b, pub); err != nil {
			return
		}
		out, _, err := c.Stub(nil, b, func(record.Seq, []byte) string { return record.Forgotten })
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Verify(opened(t, out), pub); err != nil {
			t.Fatalf("stubbed: %v", err)
		}
	})
}

// FuzzHeader reads anything as the beginning of a batch.
func FuzzHeader(f *testing.F) {
	for _, c := range wireCases(f) {
		f.Add(c.raw[:min(len(c.raw), 600)])
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		h, _, err := batch.PeekHeader(p)
		if err != nil {
			return
		}
		if h.N < 1 || h.N > batch.MaxEntries || h.Ulen < h.N || h.Ulen > batch.MaxLines || h.First < 1 || h.Last() < h.First || h.Min > batch.Version {
			t.Fatalf("%+v", h)
		}
		n, err := batch.HeadLen(p)
		if err != nil || n > len(p) {
			t.Fatal(n, err)
		}
		if size, err := batch.Len(p); err == nil && (size < n || size > batch.MaxLen) {
			t.Fatalf("a batch of %d bytes", size)
		}
	})
}

func FuzzCard(f *testing.F) {
	raw, err := batch.SignCard(keyOf(1), batch.Card{Name: "mini", Number: 1, At: noon})
	must(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := batch.ParseCard(raw)
		if err == nil && c.Node != record.NodeOf(c.Pub) {
			t.Fatalf("%+v", c)
		}
	})
}
