package batch_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto/batch"
)

const wire = "../../testdata/wire"

// wireCase is a golden batch: a few lines of text that end with an empty one,
// and the bytes.
type wireCase struct {
	name   string
	pub    ed25519.PublicKey
	want   string // ok, or what is wrong
	counts [2]int // of entries and stubs, when ok
	raw    []byte
}

var outcomes = map[string]error{
	"ok": nil, "malformed": batch.ErrMalformed, "signature": batch.ErrSignature, "version": batch.ErrVersion,
}

func (c wireCase) write(t *testing.T) {
	t.Helper()
	text := fmt.Sprintf("batch: %s\nkey: %s\nexpect: %s\n", c.name, base64.StdEncoding.EncodeToString(c.pub), c.want)
	if c.want == "ok" {
		text += fmt.Sprintf("entries: %d\nstubs: %d\n", c.counts[0], c.counts[1])
	}
	file := "batch-" + strings.ReplaceAll(c.name, " ", "-") + ".golden"
	must(t, os.WriteFile(filepath.Join(wire, file), append([]byte(text+"\n"), c.raw...), 0o644))
}

func wireCases(t testing.TB) []wireCase {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(wire, "batch-*.golden"))
	must(t, err)
	var all []wireCase
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(t, err)
		text, raw, ok := bytes.Cut(data, []byte("\n\n"))
		if !ok {
			t.Fatalf("%s has no header", name)
		}
		c := wireCase{raw: raw}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch key {
			case "batch":
				c.name = value
			case "expect":
				c.want = value
			case "key":
				c.pub, err = base64.StdEncoding.DecodeString(value)
			case "entries":
				c.counts[0], err = strconv.Atoi(value)
			case "stubs":
				c.counts[1], err = strconv.Atoi(value)
			default:
				t.Fatalf("%s: %q", name, line)
			}
			must(t, err)
		}
		all = append(all, c)
	}
	return all
}

// TestWire holds this program to batches that were written before.
func TestWire(t *testing.T) {
	if *update {
		writeWire(t)
	}
	cases := wireCases(t)
	if len(cases) < 40 {
		t.Errorf("only %d golden batches", len(cases))
	}
	var c batch.Codec
	for _, w := range cases {
		want, known := outcomes[w.want]
		if !known {
			t.Fatalf("%s: outcome %q", w.name, w.want)
		}
		b, err := batch.Open(w.raw)
		if err == nil {
			err = c.Verify(b, w.pub)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %s", w.name, err, w.want)
			continue
		}
		if want != nil {
			continue
		}
		entries, err := c.Entries(nil, b)
		must(t, err)
		stubs := 0
		for _, e := range entries {
			if e.Kind == record.KindStub {
				stubs++
			}
		}
		if [2]int{len(entries), stubs} != w.counts {
			t.Errorf("%s: %d entries, %d stubs, want %v", w.name, len(entries), stubs, w.counts)
		}
	}
}

func writeWire(t *testing.T) {
	t.Helper()
	must(t, os.MkdirAll(wire, 0o755))
	key := keyOf(1)
	forged := forgedCases(t)
	for _, name := range slices.Sorted(maps.Keys(forged)) {
		c := wireCase{name: name, pub: pubOf(key), raw: forged[name].raw, counts: [2]int{1, 0}}
		for outcome, err := range outcomes {
			if errors.Is(forged[name].want, err) {
				c.want = outcome
			}
		}
		if len(c.raw) < 32<<10 {
			c.write(t)
		}
	}
	raw, entries := sealed(t, rand.New(rand.NewPCG(1, 1)), key, 40)
	wireCase{"every kind", pubOf(key), "ok", [2]int{len(entries), 0}, raw}.write(t)
	var cod batch.Codec
	out, n, err := cod.Stub(nil, opened(t, raw), func(seq record.Seq, _ []byte) string {
		return []string{"", record.Withheld, record.Forgotten}[seq%3]
	})
	must(t, err)
	wireCase{"stubs", pubOf(key), "ok", [2]int{len(entries), n}, out}.write(t)
	wireCase{"cut", pubOf(key), "malformed", [2]int{}, raw[:len(raw)-1]}.write(t)
	flipped := slices.Clone(raw)
	flipped[len(flipped)/2] ^= 1
	wireCase{"spoilt", pubOf(key), "malformed", [2]int{}, flipped}.write(t)
	wireCase{"of another key", pubOf(keyOf(2)), "signature", [2]int{}, raw}.write(t)
}
