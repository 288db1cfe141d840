package batch_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/syncproto/batch"
)

// keyOf makes a key of one byte.
func keyOf(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func pubOf(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func streamOf(key ed25519.PrivateKey) record.StreamID {
	return record.StreamID{Node: record.NodeOf(pubOf(key)), Nonce: [8]byte{7: 1}}
}

// sealed makes a batch of n entries.
func sealed(t testing.TB, rng *rand.Rand, key ed25519.PrivateKey, n int) ([]byte, []record.Entry) {
	t.Helper()
	var b batch.Builder
	var entries []record.Entry
	for range n {
		e := anyEntry(rng)
		batch.Normalize(&e)
		must(t, b.Add(&e))
		entries = append(entries, e)
	}
	raw, _, err := b.Seal(nil, key, n, batch.Header{Stream: streamOf(key), First: 101, Prev: record.Hash{1}, At: noon})
	must(t, err)
	return raw, entries
}

func opened(t testing.TB, raw []byte) *batch.Batch {
	t.Helper()
	b, err := batch.Open(raw)
	must(t, err)
	return b
}

// TestBatchRoundTrip holds that a sealed batch verifies under its key alone,
// and yields its entries at their positions.
func TestBatchRoundTrip(t *testing.T) {
	rng := dice(t)
	key := keyOf(1)
	var c batch.Codec
	for range 100 {
		raw, entries := sealed(t, rng, key, 1+rng.IntN(40))
		b := opened(t, raw)
		must(t, c.Verify(b, pubOf(key)))
		if err := c.Verify(b, pubOf(keyOf(2))); !errors.Is(err, batch.ErrSignature) {
			t.Fatalf("another key: %v", err)
		}
		for i := range entries {
			entries[i].Source, entries[i].Seq = streamOf(key), record.Seq(101+i)
		}
		got, err := c.Entries(nil, b)
		must(t, err)
		if diff := cmp.Diff(entries, got, texts); diff != "" {
			t.Fatal(diff)
		}
		if b.First != 101 || b.Last() != record.Seq(100+len(entries)) || b.Stream != streamOf(key) || !b.At.Equal(noon) {
			t.Fatalf("header %+v", b.Header)
		}
		checkFraming(t, raw, b)
	}
}

func checkFraming(t *testing.T, raw []byte, b *batch.Batch) {
	t.Helper()
	n, err := batch.HeadLen(raw[:batch.PrefixLen])
	must(t, err)
	h, hash, err := batch.PeekHeader(raw[:n])
	must(t, err)
	if diff := cmp.Diff(b.Header, h); diff != "" || hash != b.Hash {
		t.Fatal(diff, hash)
	}
	if size, err := batch.Len(raw[:n]); err != nil || size != len(raw) {
		t.Fatal(size, err)
	}
	if h, hash, err := batch.VerifySigned(b.Signed(), pubOf(keyOf(1))); err != nil || hash != b.Hash || h.First != b.First {
		t.Fatal(err)
	}
	var plain struct {
		V    int
		S    record.StreamID
		Root record.Hash
	}
	signed := b.Signed()
	must(t, json.Unmarshal(signed[:len(signed)-ed25519.SignatureSize], &plain))
	if plain.V != 2 || plain.S != b.Stream || plain.Root != b.Root {
		t.Fatalf("the header as others read it: %+v", plain)
	}
}

// TestEveryFlip holds that no changed bit of a batch goes unnoticed, also when
// the checksum is made to fit again.
func TestEveryFlip(t *testing.T) {
	rng := dice(t)
	key := keyOf(1)
	raw, _ := sealed(t, rng, key, 5)
	var c batch.Codec
	want := linesOf(t, &c, raw)
	for i := range len(raw) * 8 {
		bad := slices.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := batch.Open(bad); err == nil {
			t.Fatalf("bit %d: opened", i)
		}
		binary.BigEndian.PutUint32(bad[len(bad)-4:], crc32.Checksum(bad[:len(bad)-4], crc32.MakeTable(crc32.Castagnoli)))
		b, err := batch.Open(bad)
		if err == nil {
			err = c.Verify(b, pubOf(key))
		}
		// Unsigned bytes of the frame may change as long as the lines do not.
		if err == nil && !slices.EqualFunc(want, linesOf(t, &c, bad), bytes.Equal) {
			t.Fatalf("bit %d: other lines verify", i)
		}
	}
	for n := range raw {
		if _, err := batch.Open(raw[:n]); !errors.Is(err, batch.ErrMalformed) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if _, err := batch.Open(append(slices.Clone(raw), 0)); !errors.Is(err, batch.ErrMalformed) {
		t.Fatalf("a byte too many: %v", err)
	}
}

func linesOf(t testing.TB, c *batch.Codec, raw []byte) [][]byte {
	t.Helper()
	lines, err := c.Lines(opened(t, raw))
	must(t, err)
	var out [][]byte
	for _, l := range lines {
		out = append(out, slices.Clone(l))
	}
	return out
}

// TestStubbed holds that any choice of stubs keeps the signature, that stubs
// merge back, and that forgotten ones do not.
func TestStubbed(t *testing.T) {
	rng := dice(t)
	key := keyOf(1)
	var c batch.Codec
	for range 60 {
		raw, _ := sealed(t, rng, key, 1+rng.IntN(30))
		whole := opened(t, raw)
		fate := map[record.Seq]string{}
		for seq := whole.First; seq <= whole.Last(); seq++ {
			fate[seq] = []string{"", record.Withheld, record.Forgotten}[rng.IntN(3)]
		}
		out, n, err := c.Stub(nil, whole, func(seq record.Seq, _ []byte) string { return fate[seq] })
		must(t, err)
		stubbed := opened(t, out)
		must(t, c.Verify(stubbed, pubOf(key)))
		if stubbed.Hash != whole.Hash {
			t.Fatal("stubbing changed the header")
		}
		count := map[string]int{}
		for i, line := range linesOf(t, &c, out) {
			s, err := batch.ParseStub(line)
			if err != nil {
				s = record.Stub{}
			}
			if s.Reason != fate[whole.First+record.Seq(i)] {
				t.Fatalf("entry %d is %q, want %q", i, s.Reason, fate[whole.First+record.Seq(i)])
			}
			count[s.Reason]++
		}
		if n != count[record.Withheld]+count[record.Forgotten] {
			t.Fatalf("%d changed, %v", n, count)
		}
		merged, filled, err := c.Merge(nil, stubbed, whole)
		must(t, err)
		must(t, c.Verify(opened(t, merged), pubOf(key)))
		if filled != count[record.Withheld] {
			t.Fatalf("%d filled, %v", filled, count)
		}
		again, n, err := c.Stub(nil, opened(t, merged), func(seq record.Seq, _ []byte) string { return fate[seq] })
		must(t, err)
		if n != count[record.Withheld] || !slices.EqualFunc(linesOf(t, &c, again), linesOf(t, &c, out), bytes.Equal) {
			t.Fatal("stubbing is not the same the second time")
		}
		all, _, err := c.Stub(nil, stubbed, func(record.Seq, []byte) string { return record.Forgotten })
		must(t, err)
		gone, _, err := c.Merge(nil, opened(t, all), whole)
		must(t, err)
		for _, line := range linesOf(t, &c, gone) {
			if s, err := batch.ParseStub(line); err != nil || s.Reason != record.Forgotten {
				t.Fatalf("a forgotten entry came back: %s", line)
			}
		}
	}
}

// TestBuilderBounds holds that batches close where they should, for lines of
// any length, and that their lines are the lines that were added.
func TestBuilderBounds(t *testing.T) {
	rng := dice(t)
	key := keyOf(1)
	for range 10 {
		var b batch.Builder
		var c batch.Codec
		var want, got []string
		h := batch.Header{Stream: streamOf(key), First: 1, At: noon}
		seal := func(n int) {
			raw, s, err := b.Seal(nil, key, n, h)
			must(t, err)
			if s.Ulen > batch.CloseAt && s.N > 1 || s.N > batch.MaxEntries {
				t.Fatalf("%d lines of %d bytes in one batch", s.N, s.Ulen)
			}
			for _, l := range linesOf(t, &c, raw) {
				got = append(got, string(l))
			}
			h.First, h.Prev = s.Last()+1, s.Hash
		}
		small := rng.IntN(2) == 0
		for range 5000 {
			size := rng.IntN(20)
			if !small && rng.IntN(100) == 0 {
				size = rng.IntN(300_000)
			}
			line := fmt.Sprintf(`{"kind":"k","a":"%s"}`, strings.Repeat("x", size))
			must(t, b.AddLine([]byte(line)))
			want = append(want, line)
			for n := b.Ready(); n > 0; n = b.Ready() {
				seal(n)
			}
			if b.Size() > batch.CloseAt || b.Len() > batch.MaxEntries {
				t.Fatalf("%d lines of %d bytes are still open", b.Len(), b.Size())
			}
		}
		if b.Len() > 0 {
			seal(b.Len())
		}
		if !slices.Equal(want, got) {
			t.Fatal("the batches do not hold the lines")
		}
	}
}

// forge signs any header over any body, as a hostile origin can.
func forge(key ed25519.PrivateKey, header string, body []byte) []byte {
	raw := binary.BigEndian.AppendUint32([]byte("DJB2"), uint32(len(header)))
	raw = append(raw, header...)
	raw = append(raw, ed25519.Sign(key, []byte("deja-batch-2\n"+header))...)
	raw = append(binary.BigEndian.AppendUint32(raw, uint32(len(body))), body...)
	return binary.BigEndian.AppendUint32(raw, crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)))
}

func header(key ed25519.PrivateKey, lines ...string) string {
	root, ulen := sha256.New(), 0
	for _, l := range lines {
		leaf := sha256.Sum256([]byte("deja-leaf-2\n" + l))
		root.Write(leaf[:])
		ulen += len(l) + 1
	}
	return fmt.Sprintf(`{"v":2,"s":"%s","first":1,"n":%d,"prev":"%s","root":"%x","ulen":%d,"at":"2026-09-01T12:00:00Z","min":2}`,
		streamOf(key), len(lines), record.Hash{}, root.Sum(nil), ulen)
}

func packed(t testing.TB, body string, opts ...zstd.EOption) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, append(opts, zstd.WithEncoderConcurrency(1))...)
	must(t, err)
	return enc.EncodeAll([]byte(body), nil)
}

// forged is a batch and what it is to be taken for.
type forged struct {
	raw  []byte
	want error
}

// forgedCases are batches that a hostile origin signed.
func forgedCases(t testing.TB) map[string]forged {
	t.Helper()
	key := keyOf(1)
	line := `{"kind":"msg","text":"x"}`
	good := header(key, line)
	body := packed(t, line+"\n")
	edit := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("%q is not in the header", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	bomb := header(key, line)
	huge := packed(t, strings.Repeat(line+"\n", 1<<20))
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, "junk"...)
	return map[string]forged{
		"good":               {forge(key, good, body), nil},
		"unknown field":      {forge(key, edit(`"min":2`, `"min":2,"new":[1]`), body), nil},
		"newer but read":     {forge(key, edit(`"v":2`, `"v":3`), body), nil},
		"newer":              {forge(key, edit(`"min":2`, `"min":3`), body), batch.ErrVersion},
		"older":              {forge(key, edit(`"v":2`, `"v":1`), body), batch.ErrMalformed},
		"key twice":          {forge(key, edit(`"n":1`, `"n":1,"n":1`), body), batch.ErrMalformed},
		"other key twice":    {forge(key, edit(`"n":1`, `"n":1,"a":1,"a":1`), body), batch.ErrMalformed},
		"escaped key twice":  {forge(key, edit(`"n":1`, `"n":1,"\u006e":1`), body), batch.ErrMalformed},
		"no root":            {forge(key, edit(`"root"`, `"toor"`), body), batch.ErrMalformed},
		"upper case hash":    {forge(key, edit(`"prev":"0`, `"prev":"A`), body), batch.ErrMalformed},
		"trailing":           {forge(key, good+" {}", body), batch.ErrMalformed},
		"no entries":         {forge(key, edit(`"n":1`, `"n":0`), body), batch.ErrMalformed},
		"too many entries":   {forge(key, edit(`"n":1`, `"n":4097`), body), batch.ErrMalformed},
		"seq 0":              {forge(key, edit(`"first":1`, `"first":0`), body), batch.ErrMalformed},
		"seq too large":      {forge(key, edit(`"first":1`, `"first":9007199254740991`), body), batch.ErrMalformed},
		"first with a prev":  {forge(key, edit(`"prev":"0`, `"prev":"1`), body), batch.ErrMalformed},
		"second without":     {forge(key, edit(`"first":1`, `"first":2`), body), batch.ErrMalformed},
		"fraction":           {forge(key, edit(`"n":1`, `"n":1.0`), body), batch.ErrMalformed},
		"text for a number":  {forge(key, edit(`"n":1`, `"n":"1"`), body), batch.ErrMalformed},
		"another stream":     {forge(key, edit(streamOf(key).String(), streamOf(keyOf(2)).String()), body), batch.ErrSignature},
		"other lines":        {forge(key, good, packed(t, `{"kind":"msg","text":"y"}`+"\n")), batch.ErrSignature},
		"more lines":         {forge(key, good, packed(t, line+"\n"+line+"\n")), batch.ErrMalformed},
		"no line end":        {forge(key, good, packed(t, line)), batch.ErrMalformed},
		"shorter than said":  {forge(key, edit(`"ulen":26`, `"ulen":27`), body), batch.ErrMalformed},
		"longer than said":   {forge(key, edit(`"ulen":26`, `"ulen":25`), body), batch.ErrMalformed},
		"bad line":           {forge(key, header(key, `{"text":`), packed(t, `{"text":`+"\n")), batch.ErrMalformed},
		"bad stub":           {forge(key, good, packed(t, `{"x":"withheld","h":"?"}`+"\n")), batch.ErrMalformed},
		"bomb":               {forge(key, bomb, huge), batch.ErrMalformed},
		"no zstd":            {forge(key, good, []byte(line+"\n")), batch.ErrMalformed},
		"empty body":         {forge(key, good, nil), batch.ErrMalformed},
		"two frames":         {forge(key, good, append(slices.Clone(body), packed(t, "")...)), batch.ErrMalformed},
		"junk behind":        {forge(key, good, append(slices.Clone(body), "junk"...)), batch.ErrMalformed},
		"skippable in front": {forge(key, good, append(skippable, body...)), batch.ErrMalformed},
		"large window":       {forge(key, good, windowed(line+"\n")), batch.ErrMalformed},
		"huge header":        {forge(key, edit(`"min":2`, `"min":2,"a":"`+strings.Repeat("x", batch.MaxHeader)+`"`), body), batch.ErrMalformed},
	}
}

// TestForged holds them to the format.
func TestForged(t *testing.T) {
	key := keyOf(1)
	for name, c := range forgedCases(t) {
		b, err := batch.Open(c.raw)
		if err == nil {
			err = new(batch.Codec).Verify(b, pubOf(key))
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// windowed makes a frame of one plain block that asks for a window of 8 MiB.
func windowed(body string) []byte {
	block := uint32(len(body))<<3 | 1
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3, byte(block), byte(block >> 8), byte(block >> 16)}
	return append(frame, body...)
}

func TestCard(t *testing.T) {
	key := keyOf(1)
	card := batch.Card{
		Name: "mini <&>", Names: []string{"old"}, Number: 3, At: noon,
		Extra: map[string]json.RawMessage{"later": json.RawMessage(`{"a":["<",1]}`), "zone": json.RawMessage(`"x"`), "name": json.RawMessage(`"no"`)},
	}
	raw, err := batch.SignCard(key, card)
	must(t, err)
	got, err := batch.ParseCard(raw)
	must(t, err)
	if got.Name != card.Name || got.Number != 3 || got.Node != record.NodeOf(pubOf(key)) || len(got.Extra) != 2 {
		t.Fatalf("%+v", got)
	}
	again, err := batch.SignCard(key, got)
	must(t, err)
	if !bytes.Equal(raw, again) {
		t.Fatalf("a card signed again differs:\n%s\n%s", raw, again)
	}
	var outer map[string]json.RawMessage
	must(t, json.Unmarshal(raw, &outer))
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"another name":  {strings.Replace(string(raw), "old", "odd", 1), batch.ErrSignature},
		"another node":  {strings.Replace(string(raw), got.Node.String(), record.NodeOf(pubOf(keyOf(2))).String(), 1), batch.ErrSignature},
		"no JSON":       {string(raw[:len(raw)-1]), batch.ErrMalformed},
		"two cards":     {strings.Replace(string(raw), `{"card"`, `{"Card":{},"card"`, 1), batch.ErrMalformed},
		"no signature":  {`{"card":` + string(outer["card"]) + `}`, batch.ErrSignature},
		"enormous":      {string(raw) + strings.Repeat(" ", batch.MaxCard), batch.ErrMalformed},
		"another value": {`[]`, batch.ErrMalformed},
	} {
		if _, err := batch.ParseCard([]byte(c.raw)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := batch.SignCard(key, batch.Card{Name: strings.Repeat("x", batch.MaxCard)}); !errors.Is(err, batch.ErrTooLong) {
		t.Errorf("an enormous name: %v", err)
	}
}

// transcript makes lines as a harness leaves them.
func transcript(rng *rand.Rand, n int) []record.Entry {
	words := strings.Fields("the build fails because func return err nil test server request config value index entry batch log open close read write error context")
	var all []record.Entry
	for i := range n {
		var text strings.Builder
		for range 20 + rng.IntN(200) {
			text.WriteString(words[rng.IntN(len(words))])
			text.WriteByte(" \n"[rng.IntN(9)/8])
		}
		e := typicalEntry()
		e.Text, e.Mid = redact.Trusted(text.String()), fmt.Sprintf("%016x-%016x", rng.Uint64(), rng.Uint64())
		binary.BigEndian.PutUint64(e.Salt[:], rng.Uint64())
		e.N = i % 2
		all = append(all, e)
	}
	return all
}

// BenchmarkSeal encodes and seals, and reports how small the result is.
func BenchmarkSeal(b *testing.B) {
	all := transcript(rand.New(rand.NewPCG(1, 1)), 500)
	key := keyOf(1)
	var bld batch.Builder
	var raw []byte
	lines, size := 0, 0
	for b.Loop() {
		h := batch.Header{Stream: streamOf(key), First: 1, At: noon}
		lines, size = 0, 0
		seal := func(n int) {
			var s *batch.Batch
			var err error
			if raw, s, err = bld.Seal(raw[:0], key, n, h); err != nil {
				b.Fatal(err)
			}
			h.First, h.Prev = s.Last()+1, s.Hash
			lines += s.Ulen
			size += len(raw)
		}
		for i := range all {
			if err := bld.Add(&all[i]); err != nil {
				b.Fatal(err)
			}
			for n := bld.Ready(); n > 0; n = bld.Ready() {
				seal(n)
			}
		}
		seal(bld.Len())
	}
	b.SetBytes(int64(lines))
	b.ReportMetric(float64(size)/float64(lines), "compressed/line")
}

func BenchmarkVerify(b *testing.B) {
	all := transcript(rand.New(rand.NewPCG(1, 1)), 100)
	key := keyOf(1)
	var bld batch.Builder
	for i := range all {
		must(b, bld.Add(&all[i]))
	}
	raw, s, err := bld.Seal(nil, key, bld.Len(), batch.Header{Stream: streamOf(key), First: 1, At: noon})
	must(b, err)
	b.SetBytes(int64(s.Ulen))
	var c batch.Codec
	for b.Loop() {
		if err := c.Verify(opened(b, raw), pubOf(key)); err != nil {
			b.Fatal(err)
		}
	}
}
