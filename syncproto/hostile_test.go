package syncproto_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/batch"
)

// puppet is a client that holds a node key and says whatever a test wants. It
// is written from PROTOCOL.md, not from the package.
type puppet struct {
	t      *testing.T
	key    ed25519.PrivateKey
	victim *side
	hello  []byte
	got    []syncproto.Frame // what the victim has written
}

func newPuppet(t *testing.T, key ed25519.PrivateKey, victim *modelNode, cfg syncproto.Config) *puppet {
	cfg.Server = true
	return &puppet{t: t, key: key, victim: newSide(t, victim, cfg)}
}

// say hands a frame to the victim and reads its answers. It returns the error
// of the victim's session.
func (p *puppet) say(typ syncproto.Type, payload string) error {
	p.t.Helper()
	err := p.victim.s.Receive(p.t.Context(), syncproto.Frame{Type: typ, Payload: []byte(payload)})
	p.hear()
	return err
}

func (p *puppet) hear() {
	ear := &side{s: p.victim.s}
	for p.victim.write(p.t.Context(), ear) {
	}
	p.got = append(p.got, ear.in...)
}

func (p *puppet) heard(typ syncproto.Type) (payloads []string) {
	for _, f := range p.got {
		if f.Type == typ {
			payloads = append(payloads, string(f.Payload))
		}
	}
	return payloads
}

var puppetNonce = strings.Repeat("5a", 16)

func helloOf(key ed25519.PrivateKey) string {
	pub, _ := json.Marshal([]byte(key.Public().(ed25519.PublicKey)))
	return fmt.Sprintf(`{"v":[2],"pub":%s,"nonce":%q}`, pub, puppetNonce)
}

// greet says hello.
func (p *puppet) greet() error {
	p.hear()
	p.hello = []byte(helloOf(p.key))
	return p.say(syncproto.TypeHello, string(p.hello))
}

// transcript is what an AUTH of the given side signs.
func (p *puppet) transcript(side string) []byte {
	p.t.Helper()
	server := p.heard(syncproto.TypeHello)[0]
	m := []byte("deja-auth-2\n" + side + "\n")
	for _, payload := range []string{string(p.hello), server} {
		var h struct {
			Pub   []byte
			Nonce string
		}
		if err := json.Unmarshal([]byte(payload), &h); err != nil {
			p.t.Fatal(err)
		}
		nonce, err := hex.DecodeString(h.Nonce)
		if err != nil {
			p.t.Fatal(err)
		}
		id := record.NodeOf(h.Pub)
		sum := sha256.Sum256([]byte(payload))
		m = append(append(append(m, nonce...), id[:]...), sum[:]...)
	}
	return m
}

func (p *puppet) auth() error {
	return p.say(syncproto.TypeAuth, string(ed25519.Sign(p.key, p.transcript("client"))))
}

// open goes through the handshake and says what it has.
func (p *puppet) open(have string) error {
	p.t.Helper()
	if err := p.greet(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.auth(); err != nil {
		p.t.Fatal(err)
	}
	return p.say(syncproto.TypeHave, have)
}

func TestServerProvesItself(t *testing.T) {
	rng := newRand(t)
	victim, thief := newNode(rng, "victim"), newNode(rng, "thief")
	p := newPuppet(t, thief.key, victim, syncproto.Config{})
	if err := p.open(`{"streams":{}}`); err != nil {
		t.Fatal(err)
	}
	if sig := p.heard(syncproto.TypeAuth)[0]; !ed25519.Verify(victim.key.Public().(ed25519.PublicKey), p.transcript("server"), []byte(sig)) {
		t.Error("the server's AUTH is not what PROTOCOL.md says")
	}
	if p.victim.s.Report().Peer.Node != thief.id {
		t.Error("the puppet was not recognised")
	}
}

func TestHostileHandshake(t *testing.T) {
	rng := newRand(t)
	a, other := newNode(rng, "a"), newNode(rng, "other")
	victim := newNode(rng, "victim")
	victim.write(msg("v1", "x"))
	good := helloOf(a.key)
	for _, tt := range []struct {
		name string
		do   func(p *puppet) error
		want string
	}{
		{"no common version", func(p *puppet) error { return p.say(syncproto.TypeHello, `{"v":[3,4]}`) }, "version 2 of the exchange, the other one 3, 4 (E_VERSION)"},
		{"no version at all", func(p *puppet) error { return p.say(syncproto.TypeHello, `{}`) }, "malformed"},
		{"no JSON", func(p *puppet) error { return p.say(syncproto.TypeHello, `hello`) }, "malformed"},
		{"a key twice", func(p *puppet) error { return p.say(syncproto.TypeHello, `{"v":[2],"v":[2]}`) }, "twice"},
		{"nested deep", func(p *puppet) error { return p.say(syncproto.TypeHello, strings.Repeat("[", 40)) }, "nested"},
		{"short key", func(p *puppet) error {
			return p.say(syncproto.TypeHello, `{"v":[2],"pub":"AAAA","nonce":"`+puppetNonce+`"}`)
		}, "public key of 3 bytes"},
		{"odd nonce", func(p *puppet) error {
			return p.say(syncproto.TypeHello, strings.Replace(good, puppetNonce, strings.Repeat("zz", 16), 1))
		}, "nonce"},
		{"auth before hello", func(p *puppet) error { return p.say(syncproto.TypeAuth, "x") }, "out of place"},
		{"have before hello", func(p *puppet) error { return p.say(syncproto.TypeHave, "{}") }, "out of place"},
		{"ping before hello", func(p *puppet) error { return p.say(syncproto.TypePing, "") }, "out of place"},
		{"batch before auth", func(p *puppet) error { p.greet(); return p.say(syncproto.TypeBatch, "x") }, "out of place"},
		{"have before auth", func(p *puppet) error { p.greet(); return p.say(syncproto.TypeHave, `{"streams":{}}`) }, "out of place"},
		{"hello twice", func(p *puppet) error { p.greet(); return p.greet() }, "out of place"},
		{"another's key", func(p *puppet) error {
			p.greet()
			return p.say(syncproto.TypeAuth, string(ed25519.Sign(other.key, p.transcript("client"))))
		}, "does not hold the key"},
		{"signed as the server", func(p *puppet) error {
			p.greet()
			return p.say(syncproto.TypeAuth, string(ed25519.Sign(p.key, p.transcript("server"))))
		}, "does not hold the key"},
		{"the victim's own AUTH sent back", func(p *puppet) error {
			p.greet()
			return p.say(syncproto.TypeAuth, p.heard(syncproto.TypeAuth)[0])
		}, "does not hold the key"},
		{"an AUTH of another exchange", func(p *puppet) error {
			q := newPuppet(p.t, p.key, victim, syncproto.Config{})
			q.greet()
			p.greet()
			return p.say(syncproto.TypeAuth, string(ed25519.Sign(p.key, q.transcript("client"))))
		}, "does not hold the key"},
		{"empty AUTH", func(p *puppet) error { p.greet(); return p.say(syncproto.TypeAuth, "") }, "does not hold the key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPuppet(t, a.key, victim, syncproto.Config{})
			p.hear()
			err := tt.do(p)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if n := len(p.heard(syncproto.TypeErr)); n != 1 || !p.victim.s.Done() {
				t.Errorf("%d ERR frames, done %v", n, p.victim.s.Done())
			}
			if len(p.heard(syncproto.TypeHave)) != 0 {
				t.Error("the victim told what it has")
			}
			if p.say(syncproto.TypePing, ""); p.victim.s.Limit(syncproto.TypeBatch) > 16<<10 {
				t.Error("a stranger may send large frames")
			}
		})
	}
}

func TestHostileHave(t *testing.T) {
	rng := newRand(t)
	a, victim := newNode(rng, "a"), newNode(rng, "victim")
	id := a.own.String()
	const h = `"0123456789abcdef"`
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%s.%016x":[1,%s,0]`, a.id, i, h)
		}
		return `{"streams":{` + b.String()[1:] + `}}`
	}
	holes := strings.Repeat("[1,1],", 65)
	for _, tt := range []struct{ name, have, want string }{
		{"a stream twice", fmt.Sprintf(`{"streams":{%q:[1,%s,0],%q:[2,%s,0]}}`, id, h, id, h), "twice"},
		{"501 streams", many(501), "501 streams, at most 500"},
		{"head 0", fmt.Sprintf(`{"streams":{%q:[0,%s,0]}}`, id, h), "head 0"},
		{"a negative head", fmt.Sprintf(`{"streams":{%q:[-1,%s,0]}}`, id, h), "malformed"},
		{"a head out of this world", fmt.Sprintf(`{"streams":{%q:[18446744073709551615,%s,0]}}`, id, h), "head"},
		{"a short hash", fmt.Sprintf(`{"streams":{%q:[1,"ab",0]}}`, id), "hash"},
		{"too few fields", fmt.Sprintf(`{"streams":{%q:[1]}}`, id), "3 are needed"},
		{"no stream id", `{"streams":{"../../etc/passwd":[1,` + h + `,0]}}`, "malformed"},
		{"upper case id", fmt.Sprintf(`{"streams":{%q:[1,%s,0]}}`, strings.ToUpper(id), h), "malformed"},
		{"a hole beyond the head", fmt.Sprintf(`{"streams":{%q:[5,%s,0,[[4,6]]]}}`, id, h), "hole"},
		{"a hole backwards", fmt.Sprintf(`{"streams":{%q:[5,%s,0,[[4,3]]]}}`, id, h), "hole"},
		{"many holes", fmt.Sprintf(`{"streams":{%q:[5,%s,0,[%s]]}}`, id, h, holes[:len(holes)-1]), "65 holes"},
		{"deep", `{"streams":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 41), "nested"},
		{"followed by more", `{"streams":{}} {}`, "malformed"},
		{"not at all", ``, "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPuppet(t, a.key, victim, syncproto.Config{})
			if err := p.open(tt.have); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	p := newPuppet(t, a.key, victim, syncproto.Config{})
	if err := p.open(many(500)); err != nil {
		t.Error(err)
	}
	if n := len(p.heard(syncproto.TypeWant)); n != 8+1 {
		t.Errorf("%d WANT frames for 500 streams of one origin, want 8 and the credit", n)
	}
}

func TestHostileWant(t *testing.T) {
	rng := newRand(t)
	a, victim, third := newNode(rng, "a"), newNode(rng, "victim"), newNode(rng, "third")
	victim.write(msg("v1", "x"))
	a.write(msg("a1", "x"))
	third.write(msg("t1", "x"))
	exchange(t, rng, a, victim)
	exchange(t, rng, third, victim)
	victim.rules = func(record.NodeID) *rule {
		return &rule{accept: anything, serve: func(s record.StreamID) bool { return s.Node != third.id }}
	}
	want := func(s record.StreamID, rest string) string { return fmt.Sprintf(`{"s":%q,%s}`, s, rest) }
	const all = `"from":1,"to":1,"bytes":1000`
	for _, tt := range []struct {
		name, want string
		passes     bool // the exchange goes on
		err        string
	}{
		{"not on offer", want(third.own, all), true, "not on offer"},
		{"unheard of", want(record.StreamID{Node: a.id}, all), true, "not on offer"},
		{"the asker's own", want(a.own, all), true, "not on offer"},
		{"recovery of another's", want(victim.own, all+`,"recover":true`), true, "not on offer"},
		{"above the head", want(victim.own, `"from":2,"to":9,"bytes":1000`), true, "not on offer"},
		{"from 0", want(victim.own, `"from":0,"to":1,"bytes":1000`), false, "malformed"},
		{"backwards", want(victim.own, `"from":3,"to":1,"bytes":1000`), false, "malformed"},
		{"negative credit", want(victim.own, `"from":1,"to":1,"bytes":-1`), false, "credit"},
		{"a path", `{"s":"../log","from":1,"to":1}`, false, "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPuppet(t, a.key, victim, syncproto.Config{})
			if err := p.open(`{"streams":{}}`); err != nil {
				t.Fatal(err)
			}
			err := p.say(syncproto.TypeWant, tt.want)
			errs := p.heard(syncproto.TypeErr)
			if len(errs) != 1 || (err == nil) != tt.passes || !strings.Contains(errs[0], tt.err) {
				t.Fatalf("got %v and told %v, want %q", err, errs, tt.err)
			}
			if n := len(p.heard(syncproto.TypeBatch)); n != 0 {
				t.Errorf("%d batches were served", n)
			}
			if !tt.passes {
				return
			}
			if err := p.say(syncproto.TypeWant, want(victim.own, all)); err != nil || len(p.heard(syncproto.TypeBatch)) != 1 {
				t.Errorf("what is on offer was not served afterwards: %v", err)
			}
		})
	}
	t.Run("recovery of the asker's own", func(t *testing.T) {
		p := newPuppet(t, a.key, victim, syncproto.Config{})
		if err := p.open(`{"streams":{}}`); err != nil {
			t.Fatal(err)
		}
		if err := p.say(syncproto.TypeWant, want(a.own, all+`,"recover":true`)); err != nil || len(p.heard(syncproto.TypeBatch)) != 1 {
			t.Errorf("not served: %v", err)
		}
	})
	t.Run("without credit", func(t *testing.T) {
		p := newPuppet(t, a.key, victim, syncproto.Config{})
		if err := p.open(`{"streams":{}}`); err != nil {
			t.Fatal(err)
		}
		if err := p.say(syncproto.TypeWant, want(victim.own, `"from":1,"to":1`)); err != nil || len(p.heard(syncproto.TypeBatch)) != 0 {
			t.Errorf("a batch without credit, or %v", err)
		}
	})
}

func TestHostileFlood(t *testing.T) {
	rng := newRand(t)
	a, victim := newNode(rng, "a"), newNode(rng, "victim")
	victim.write(msg("v1", "x"))
	open := func(t *testing.T) *puppet {
		p := newPuppet(t, a.key, victim, syncproto.Config{})
		if err := p.open(`{"streams":{}}`); err != nil {
			t.Fatal(err)
		}
		return p
	}
	receive := func(p *puppet, typ syncproto.Type, payload string) error {
		return p.victim.s.Receive(p.t.Context(), syncproto.Frame{Type: typ, Payload: []byte(payload)})
	}
	t.Run("asks and never reads", func(t *testing.T) {
		p := open(t)
		bad := fmt.Sprintf(`{"s":"%s.%016x","from":1,"to":1}`, a.id, 1)
		sent := 0
		for p.victim.s.Err() == nil && sent < 1e6 {
			receive(p, syncproto.TypeWant, bad)
			sent++
		}
		wantRefusal(t, p.victim.s.Err(), syncproto.CodeLimit, false)
		p.hear()
		if n := len(p.heard(syncproto.TypeErr)); n != 1 {
			t.Errorf("%d answers were kept", n)
		}
	})
	t.Run("asks without end", func(t *testing.T) {
		p := open(t)
		var err error
		for i := 0; err == nil && i < 1e5; i++ {
			err = receive(p, syncproto.TypeWant, fmt.Sprintf(`{"s":%q,"from":1,"to":1}`, victim.own))
		}
		if err == nil || !strings.Contains(err.Error(), "1525th") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("asks and says goodbye", func(t *testing.T) {
		p := open(t)
		receive(p, syncproto.TypeWant, fmt.Sprintf(`{"s":%q,"from":1,"to":1,"bytes":1000}`, victim.own))
		receive(p, syncproto.TypeBye, `{"records":0}`)
		p.hear()
		if n := len(p.heard(syncproto.TypeBatch)); n != 0 || !p.victim.s.Done() {
			t.Errorf("%d batches were sent after BYE, done %v", n, p.victim.s.Done())
		}
		for _, typ := range []syncproto.Type{syncproto.TypeBye, syncproto.TypeWant} {
			q := newPuppet(t, a.key, victim, syncproto.Config{})
			if err := q.open(fmt.Sprintf(`{"streams":{%q:[1,"0123456789abcdef",0]}}`, a.own)); err != nil {
				t.Fatal(err)
			}
			if err := q.say(syncproto.TypeBye, `{}`); err != nil {
				t.Fatal(err)
			}
			if err := q.say(typ, `{"bytes":1}`); !errors.Is(err, syncproto.ErrFrame) {
				t.Errorf("%s after BYE: %v", typ, err)
			}
		}
	})
	t.Run("pings", func(t *testing.T) {
		p := open(t)
		for range 1000 {
			if err := p.say(syncproto.TypePing, ""); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.heard(syncproto.TypePing); len(got) != 0 {
			t.Error("pings are answered")
		}
	})
	t.Run("errors", func(t *testing.T) {
		p := open(t)
		for i := range 1000 {
			if err := p.say(syncproto.TypeErr, fmt.Sprintf(`{"code":"E_FORK","s":"%s.%016x","msg":"x"}`, a.id, i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.victim.s.Report().Refused); n != 100 || len(victim.forked) != 0 {
			t.Errorf("%d refusals are listed, %d forks believed", n, len(victim.forked))
		}
	})
}

func TestHostileFrames(t *testing.T) {
	rng := newRand(t)
	a := newNode(rng, "a")
	a.write(msg("a1", "x"))
	a.write(msg("a2", "x"))
	a.write(msg("a3", "x"))
	st := a.streams[a.own]
	card, _ := a.store().Card(t.Context(), a.id)
	raw := func(i int) string { return string(st.batches[i].full.Raw) }
	offer := fmt.Sprintf(`{"streams":{%q:[2,%q,0]}}`, a.own, hex.EncodeToString(make([]byte, 8)))
	signed := st.batches[0].full.Signed()
	forged := append(bytes.Clone(signed[:len(signed)-ed25519.SignatureSize]), make([]byte, ed25519.SignatureSize)...)
	evil := seal(a.key, a.own, 1, record.Hash{}, [][]byte{[]byte(`{"kind":"msg","id":"evil"}`)}).full.Raw
	for _, tt := range []struct {
		name    string
		typ     syncproto.Type
		payload string
		want    string // error of the exchange, or
		refused syncproto.Code
	}{
		{name: "a batch", typ: syncproto.TypeBatch, payload: raw(0)},
		{name: "a jump", typ: syncproto.TypeBatch, payload: raw(1), want: "not asked for"},
		{name: "above what was offered", typ: syncproto.TypeBatch, payload: raw(2), want: "not asked for"},
		{name: "no batch", typ: syncproto.TypeBatch, payload: "hello", want: "malformed"},
		{name: "an empty batch", typ: syncproto.TypeBatch, payload: "", want: "malformed"},
		{name: "a forged one", typ: syncproto.TypeBatch, payload: reframe(forged, raw(0)), refused: syncproto.CodeBatch},
		{name: "a body that is not the signed one", typ: syncproto.TypeBatch, payload: reframe(signed, string(evil)), refused: syncproto.CodeBatch},
		{name: "one of a newer format", typ: syncproto.TypeBatch, payload: strings.Replace(raw(0), `"min":2`, `"min":3`, 1), refused: syncproto.CodeVersion},
		{name: "an odd card", typ: syncproto.TypeCard, payload: "x", want: "card"},
		{name: "HAVE twice", typ: syncproto.TypeHave, payload: `{"streams":{}}`, want: "out of place"},
		{name: "AUTH again", typ: syncproto.TypeAuth, payload: "", want: "out of place"},
		{name: "unknown and needed", typ: 0x40, payload: "", want: "out of place"},
		{name: "unknown and not", typ: 0x90, payload: "anything"},
		{name: "an ACK of nothing", typ: syncproto.TypeAck, payload: `{"s":"` + a.own.String() + `","head":99}`},
		{name: "an odd ACK", typ: syncproto.TypeAck, payload: `{"s":"x"}`, want: "malformed"},
		{name: "an odd ERR", typ: syncproto.TypeErr, payload: `[]`, want: "malformed"},
		{name: "an odd BYE", typ: syncproto.TypeBye, payload: `{"records":-1}`, want: "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newNode(rng, "v")
			p := newPuppet(t, a.key, v, syncproto.Config{})
			if err := p.open(offer); err != nil {
				t.Fatal(err)
			}
			if err := p.say(syncproto.TypeCard, string(card)); err != nil {
				t.Fatal(err)
			}
			err := p.say(tt.typ, tt.payload)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if refused := p.victim.s.Report().Refused; tt.refused != "" && (len(refused) != 1 || refused[0].Code != tt.refused) {
				t.Errorf("refused %v, want %s", refused, tt.refused)
			}
			if p.victim.s.Report().Acked[a.own] > 2 {
				t.Error("an ACK above the head was believed")
			}
		})
	}
}

// reframe makes a batch of a signed header and the body of another batch.
func reframe(signed []byte, other string) string {
	n, err := batch.HeadLen([]byte(other))
	if err != nil {
		panic(err)
	}
	out := binary.BigEndian.AppendUint32([]byte("DJB2"), uint32(len(signed)-ed25519.SignatureSize))
	out = append(append(out, signed...), other[n-4:len(other)-4]...)
	return string(binary.BigEndian.AppendUint32(out, crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli))))
}

// A peer's words are shown to people: they come without controls and in bounds.
func TestWordsOfAPeer(t *testing.T) {
	rng := newRand(t)
	a, victim := newNode(rng, "a"), newNode(rng, "victim")
	p := newPuppet(t, a.key, victim, syncproto.Config{})
	p.hear()
	name, _ := json.Marshal("box\x1b[31m\u202ered\n" + strings.Repeat("n", 500))
	p.hello = []byte(strings.TrimSuffix(helloOf(a.key), "}") + `,"name":` + string(name) + `,"app":7,"clock":"yesterday","more":[1]}`)
	if err := p.say(syncproto.TypeHello, string(p.hello)); err != nil {
		t.Fatal(err)
	}
	if err := p.auth(); err != nil {
		t.Fatal(err)
	}
	peer := p.victim.s.Report().Peer
	if !strings.HasPrefix(peer.Name, "box [31m red nnn") || len(peer.Name) != 120 || peer.App != "" || !peer.Clock.IsZero() {
		t.Errorf("peer %+v", peer)
	}
	msg, _ := json.Marshal("no\x00\x1b]0;space\u2066" + strings.Repeat("!", 1000))
	err := p.say(syncproto.TypeErr, `{"code":"E_WHATEVER","msg":`+string(msg)+`,"retry":60}`)
	r := wantRefusal(t, err, "E_WHATEVER", true)
	if !strings.HasPrefix(r.Msg, "no ]0;space !!!") || len(r.Msg) > 300 || r.Retry.Seconds() != 60 || r.Permanent() {
		t.Errorf("refusal %+v", r)
	}
	if n := len(p.heard(syncproto.TypeErr)); n != 0 {
		t.Error("a refusal is answered")
	}
}
