package syncproto_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/deja-node/deja/syncproto"
)

// FuzzFrames reads arbitrary bytes as frames: whatever is read is written back
// to the same bytes, and nothing above the limit is.
func FuzzFrames(f *testing.F) {
	f.Add(syncproto.AppendFrame(nil, syncproto.Frame{Type: syncproto.TypeWant, Payload: []byte(`{"bytes":1}`)}))
	f.Add([]byte("\x00\x00\x00\x00\x08\x00\x00\x00\x00\x09"))
	f.Add([]byte("\xff\xff\xff\xff\x05"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1000
		r := syncproto.NewFrameReader(bufio.NewReader(bytes.NewReader(in)))
		var out []byte
		for {
			frame, err := r.Next(func(syncproto.Type) int { return limit })
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syncproto.ErrFrame) {
					t.Error(err)
				}
				break
			}
			if len(frame.Payload) > limit {
				t.Errorf("a payload of %d bytes", len(frame.Payload))
			}
			out = syncproto.AppendFrame(out, frame)
		}
		if !bytes.HasPrefix(in, out) {
			t.Error("what was read is not what was there")
		}
	})
}

// FuzzPreamble looks for the magic line in arbitrary bytes.
func FuzzPreamble(f *testing.F) {
	f.Add([]byte("motd\n" + line))
	f.Add([]byte("\nDEJA-SYNC/3 00\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, noise, err := syncproto.ReadPreamble(bufio.NewReader(bytes.NewReader(in)))
		if err == nil && !bytes.Contains(in, []byte("DEJA-SYNC/2 ")) {
			t.Error("a magic line was seen where there is none")
		}
		for _, r := range noise {
			if r < ' ' {
				t.Errorf("noise %q", noise)
			}
		}
	})
}

// FuzzHello gives a server an arbitrary first frame.
func FuzzHello(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, victim := newNode(rng, "a"), newNode(rng, "victim")
	f.Add([]byte(helloOf(a.key)))
	f.Add([]byte(`{"v":[1,2,3],"pub":null}`))
	f.Fuzz(func(t *testing.T, hello []byte) {
		p := newPuppet(t, a.key, victim, syncproto.Config{})
		p.hear()
		if err := p.say(syncproto.TypeHello, string(hello)); err != nil {
			return
		}
		if err := p.say(syncproto.TypeAuth, string(make([]byte, 64))); err == nil {
			t.Error("nobody has this key")
		}
	})
}

// FuzzOpen gives a server arbitrary frames after the handshake, beginning with
// its HAVE.
func FuzzOpen(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, victim := newNode(rng, "a"), newNode(rng, "victim")
	victim.write(msg("v1", "x"))
	a.write(msg("a1", "x"))
	have := `{"policy":"p","streams":{"` + a.own.String() + `":[1,"0123456789abcdef",1,[[1,1]]]}}`
	f.Add([]byte(have), uint8(syncproto.TypeWant), []byte(`{"s":"`+victim.own.String()+`","from":1,"to":1,"bytes":100}`))
	f.Add([]byte(have), uint8(syncproto.TypeBatch), a.streams[a.own].batches[0].full.Raw)
	f.Add([]byte(have), uint8(syncproto.TypeErr), []byte(`{"code":"E_FORK","s":"`+victim.own.String()+`","headers":["AAAA"]}`))
	f.Add([]byte(`{"streams":{}}`), uint8(syncproto.TypeAck), []byte(`{"s":"`+victim.own.String()+`","head":1}`))
	f.Add([]byte(`{"streams":{}}`), uint8(syncproto.TypeBye), []byte(`{"records":1}`))
	f.Fuzz(func(t *testing.T, have []byte, typ uint8, payload []byte) {
		n := newNode(rand.New(rand.NewPCG(9, 9)), "n")
		n.write(msg("n1", "x"))
		p := newPuppet(t, a.key, n, syncproto.Config{})
		if err := p.open(string(have)); err != nil {
			return
		}
		p.say(syncproto.Type(typ), string(payload)) //nolint:errcheck // any outcome but a panic will do
		if len(n.live()) > 2 {
			t.Error("more was taken than was given")
		}
	})
}

// FuzzHeads gives a mirror an arbitrary heads file.
func FuzzHeads(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	box, a := newBox(f), newUser(rng, "a")
	a.n.write(msg("a1", "x"))
	a.mirror(f, box)
	name := "heads/" + a.n.id.String() + ".json"
	f.Add(box.files[name])
	f.Add([]byte(`{"heads":{"v":2},"sig":"AAAA"}`))
	f.Fuzz(func(t *testing.T, heads []byte) {
		box.files[name] = heads
		b := &user{newNode(rand.New(rand.NewPCG(3, 3)), "b"), new(syncproto.BoxState)}
		if _, err := b.try(t, box, syncproto.Both); err != nil {
			t.Error(err)
		}
	})
}
