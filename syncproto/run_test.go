package syncproto_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto"
)

// both runs an exchange over two ends of a link.
func both(t *testing.T, a, b *modelNode, client, server syncproto.Link, ca, cb syncproto.Config) (ra, rb syncproto.Report, ea, eb error) {
	t.Helper()
	cb.Server = true
	var wg sync.WaitGroup
	wg.Go(func() { ra, ea = syncproto.Run(t.Context(), client, newSide(t, a, ca).s, syncproto.Timing{}) })
	wg.Go(func() { rb, eb = syncproto.Run(t.Context(), server, newSide(t, b, cb).s, syncproto.Timing{}) })
	wg.Wait()
	return ra, rb, ea, eb
}

// Both sides have more to give than any buffer between them holds.
func TestRun(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	text := noise(rng, 300<<10)
	for i := range 15 {
		a.write(msg(fmt.Sprint("a", i), text))
		b.write(msg(fmt.Sprint("b", i), text))
	}
	synctest.Test(t, func(t *testing.T) {
		client, server := syncproto.Pipe()
		ra, rb, ea, eb := both(t, a, b, client, server, syncproto.Config{}, syncproto.Config{})
		if ea != nil || eb != nil || !ra.Complete || !rb.Complete {
			t.Fatalf("%v, %v, complete %v and %v", ea, eb, ra.Complete, rb.Complete)
		}
		equalNodes(t, a, b)
		if ra.BytesIn != rb.BytesOut || ra.BytesOut != rb.BytesIn || ra.Received.Records != 15 || ra.Sent.Records != 15 {
			t.Errorf("a %+v\nb %+v", ra, rb)
		}
	})
}

// script is a link whose far side a test plays.
type script struct {
	syncproto.Link
	far syncproto.Link
}

func newScript() *script {
	a, b := syncproto.Pipe()
	return &script{a, b}
}

func (s *script) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(s.far, text); err != nil {
		t.Error(err)
	}
}

// pause lets the time of the bubble pass.
func pause(d time.Duration) { <-time.After(d) }

// drop reads and forgets what comes.
func (s *script) drop() { io.Copy(io.Discard, s.far) }

const line = "\nDEJA-SYNC/2 000102030405060708090a0b0c0d0e0f\n"

func TestPreamble(t *testing.T) {
	noise := "Last login: today\r\n\x1b[1mWelcome\x1b[0m\nDEJA-SYNC/2 short\nDEJA-SYNC/x 00\nunfinished"
	for _, tt := range []struct{ name, in, noise, err string }{
		{"bare", line, "", ""},
		{"at the very start", line[1:], "", ""},
		{"carriage return", strings.Replace(line, "f\n", "f\r\n", 1), "", ""},
		{"noise", noise + line, "Last login: today [1mWelcome [0m DEJA-SYNC/2 short DEJA-SYNC/x 00 unfinished", ""},
		{"a lot of noise", strings.Repeat("=", 60<<10) + line, strings.Repeat("=", 300), ""},
		{"too much noise", strings.Repeat("=", 70<<10) + line, "", "no magic line in the first 65536 bytes"},
		{"nothing", "", "", "unexpected EOF"},
		{"a shell's answer", "bash: deja: command not found\n", "", "command not found"},
		{"another version", strings.Replace(line, "/2", "/3", 1), "", "DEJA-SYNC/2, the other one DEJA-SYNC/3 (E_VERSION)"},
		{"hidden in a line", "x" + line[1:], "", "no deja node answered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nonce, got, err := syncproto.ReadPreamble(bufio.NewReader(strings.NewReader(tt.in)))
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
			case err != nil || got != tt.noise || nonce[15] != 15:
				t.Errorf("nonce %x, noise %q, %v; want noise %q", nonce, got, err, tt.noise)
			}
		})
	}
}

func TestNoPreamble(t *testing.T) {
	rng := newRand(t)
	a := newNode(rng, "a")
	for _, tt := range []struct {
		name  string
		play  func(t *testing.T, s *script)
		after time.Duration
		noise string
	}{
		{"silence", func(t *testing.T, s *script) { s.drop() }, 10 * time.Second, ""},
		{"noise for ever", func(t *testing.T, s *script) {
			go s.drop()
			for i := range 100 {
				if _, err := fmt.Fprintf(s.far, "motd %d\n", i); err != nil {
					return
				}
				pause(time.Second)
			}
		}, 10 * time.Second, "motd 8"},
		{"not found", func(t *testing.T, s *script) {
			s.say(t, "sh: deja: not found\n")
			s.far.Close()
		}, 0, "sh: deja: not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := newScript(), time.Now()
				var wg sync.WaitGroup
				wg.Go(func() { tt.play(t, s) })
				_, err := syncproto.Run(t.Context(), s, newSide(t, a, syncproto.Config{}).s, syncproto.Timing{})
				took := time.Since(start)
				wg.Wait()
				pe, ok := errors.AsType[*syncproto.PreambleError](err)
				if !ok || !strings.Contains(pe.Noise, tt.noise) {
					t.Fatalf("got %v", err)
				}
				if took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// The client says hello before it has heard anything.
func TestHelloDoesNotWait(t *testing.T) {
	rng := newRand(t)
	a := newNode(rng, "a")
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var wg sync.WaitGroup
		wg.Go(func() {
			f, err := syncproto.NewFrameReader(bufio.NewReader(s.far)).Next(func(syncproto.Type) int { return 16 << 10 })
			if err != nil || f.Type != syncproto.TypeHello {
				t.Errorf("first came %v, %v", f.Type, err)
			}
			s.far.Close()
		})
		_, err := syncproto.Run(t.Context(), s, newSide(t, a, syncproto.Config{}).s, syncproto.Timing{})
		wg.Wait()
		if _, ok := errors.AsType[*syncproto.PreambleError](err); !ok {
			t.Errorf("got %v", err)
		}
	})
}

// handshake plays the server's part of an exchange up to its HAVE, with the
// frames of a real session, and returns that session.
func (s *script) handshake(t *testing.T, server *side) {
	t.Helper()
	if _, err := s.far.Write(server.s.Preamble()); err != nil {
		t.Error(err)
	}
	r := syncproto.NewFrameReader(bufio.NewReader(s.far))
	for {
		ear := &side{s: server.s}
		for server.write(t.Context(), ear) {
		}
		for _, f := range ear.in {
			if f.Type == syncproto.TypeBye {
				return // the test goes on from here
			}
			if _, err := s.far.Write(syncproto.AppendFrame(nil, f)); err != nil {
				t.Error(err)
			}
		}
		f, err := r.Next(server.s.Limit)
		if err != nil {
			t.Error(err)
			return
		}
		if err := server.s.Receive(t.Context(), f); err != nil {
			t.Error(err)
			return
		}
	}
}

func TestDeadlines(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	ping := string(syncproto.AppendFrame(nil, syncproto.Frame{Type: syncproto.TypePing}))
	for _, tt := range []struct {
		name  string
		play  func(t *testing.T, s *script, server *side)
		after time.Duration
		want  string
	}{
		{"magic and nothing more", func(t *testing.T, s *script, _ *side) {
			s.say(t, line)
			s.drop()
		}, 30 * time.Second, "no answer came in time"},
		{"hello byte by byte", func(t *testing.T, s *script, _ *side) {
			s.say(t, line+"\x00\x00\x10\x00\x01")
			go s.drop()
			for {
				if _, err := io.WriteString(s.far, "{"); err != nil {
					return
				}
				pause(7 * time.Second)
			}
		}, 30 * time.Second, "no answer came in time"},
		{"silent in the middle", func(t *testing.T, s *script, server *side) {
			s.handshake(t, server)
			s.drop()
		}, 2 * time.Minute, "no answer came in time"},
		{"alive and idle for ever", func(t *testing.T, s *script, server *side) {
			s.handshake(t, server)
			go s.drop()
			for {
				pause(time.Minute)
				if _, err := io.WriteString(s.far, ping); err != nil {
					return
				}
			}
		}, 10 * time.Minute, "nothing was exchanged in time"},
		{"a frame in drops", func(t *testing.T, s *script, server *side) {
			s.handshake(t, server)
			go s.drop()
			s.say(t, "\x00\x0f\x00\x00\x90")
			for {
				pause(time.Minute)
				if _, err := io.WriteString(s.far, "x"); err != nil {
					return
				}
			}
		}, 2 * time.Minute, "no answer came in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := newScript(), time.Now()
				server := newSide(t, b, syncproto.Config{Server: true, Nonce: syncproto.Nonce{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}})
				var wg sync.WaitGroup
				wg.Go(func() { tt.play(t, s, server) })
				_, err := syncproto.Run(t.Context(), s, newSide(t, a, syncproto.Config{}).s, syncproto.Timing{})
				took := time.Since(start)
				wg.Wait()
				if !errors.Is(err, syncproto.ErrCut) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// A slow link is no dead one: a frame may take long as long as it progresses.
func TestSlowLink(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	b.write(msg("b1", noise(rng, 4<<20)))
	synctest.Test(t, func(t *testing.T) {
		client, server := syncproto.Pipe()
		start := time.Now()
		_, _, ea, eb := both(t, a, b, &slow{client, 16 << 10}, server, syncproto.Config{}, syncproto.Config{})
		if ea != nil || eb != nil || a.live()["b1"].ID == "" {
			t.Fatalf("%v, %v", ea, eb)
		}
		if d := time.Since(start); d < 4*time.Minute {
			t.Errorf("4 MiB at 16 KiB a second took %v", d)
		}
	})
}

// A store that takes its time is no dead peer: the other side gets a PING.
func TestSlowStore(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	b.write(msg("b1", "x"))
	synctest.Test(t, func(t *testing.T) {
		a.busy = func() { pause(9 * time.Minute) }
		client, server := syncproto.Pipe()
		start := time.Now()
		ra, rb, ea, eb := both(t, a, b, client, server, syncproto.Config{}, syncproto.Config{})
		if ea != nil || eb != nil || a.live()["b1"].ID == "" {
			t.Fatalf("%v, %v", ea, eb)
		}
		if d := time.Since(start); d != 9*time.Minute {
			t.Errorf("it took %v", d)
		}
		if ra.BytesOut != rb.BytesIn {
			t.Errorf("a wrote %d bytes, b read %d", ra.BytesOut, rb.BytesIn)
		}
	})
}

// What a store takes is not the peer's delay, however long.
func TestSlowStores(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	b.write(msg("b1", "x"))
	a.pubs[b.id] = b.pubs[b.id]
	synctest.Test(t, func(t *testing.T) {
		a.busy = func() { pause(time.Hour) }
		s := newScript()
		server := newSide(t, b, syncproto.Config{Server: true})
		var wg sync.WaitGroup
		wg.Go(func() {
			s.handshake(t, server)
			r := syncproto.NewFrameReader(bufio.NewReader(s.far))
			raw := b.streams[b.own].batches[0].full.Raw
			s.say(t, string(syncproto.AppendFrame(nil, syncproto.Frame{Type: syncproto.TypeBatch, Payload: raw})))
			for {
				f, err := r.Next(server.s.Limit)
				if err != nil {
					t.Error(err)
					return
				}
				if f.Type == syncproto.TypeBye {
					s.say(t, string(syncproto.AppendFrame(nil, syncproto.Frame{Type: syncproto.TypeBye, Payload: []byte("{}")})))
					return
				}
			}
		})
		_, err := syncproto.Run(t.Context(), s, newSide(t, a, syncproto.Config{}).s, syncproto.Timing{})
		wg.Wait()
		if err != nil || a.live()["b1"].ID == "" {
			t.Errorf("got %v", err)
		}
	})
}

// slow is a link that delivers so many bytes a second.
type slow struct {
	syncproto.Link
	rate int
}

func (s *slow) Read(b []byte) (int, error) {
	n, err := s.Link.Read(b[:min(len(b), s.rate/10)])
	pause(time.Duration(n) * time.Second / time.Duration(s.rate))
	return n, err
}

// A link that is cut after so many bytes: what was accepted is kept, and the
// next exchange completes.
func TestRunCut(t *testing.T) {
	rng := newRand(t)
	for range 15 * *rounds {
		a, b := newNode(rng, "a"), newNode(rng, "b")
		for i := range 8 {
			a.write(msg(fmt.Sprint("a", i), noise(rng, 500)))
			b.write(msg(fmt.Sprint("b", i), noise(rng, 500)))
		}
		synctest.Test(t, func(t *testing.T) {
			client, server := syncproto.Pipe()
			_, _, ea, eb := both(t, a, b, &cut{Link: client, left: rng.IntN(7000)}, server, syncproto.Config{}, syncproto.Config{})
			for _, err := range []error{ea, eb} {
				_, early := errors.AsType[*syncproto.PreambleError](err)
				if err != nil && !errors.Is(err, syncproto.ErrCut) && !early {
					t.Errorf("got %v", err)
				}
			}
			client, server = syncproto.Pipe()
			if _, _, ea, eb = both(t, a, b, client, server, syncproto.Config{}, syncproto.Config{}); ea != nil || eb != nil {
				t.Fatal(ea, eb)
			}
			equalNodes(t, a, b)
		})
	}
}

type cut struct {
	syncproto.Link
	left int
}

func (c *cut) Read(b []byte) (int, error) {
	n, err := c.Link.Read(b[:min(len(b), max(c.left, 1))])
	if c.left -= n; c.left < 0 {
		c.Close()
		return 0, errors.New("link is down")
	}
	return n, err
}

func TestRunCancel(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		server := newSide(t, b, syncproto.Config{Server: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		var wg sync.WaitGroup
		wg.Go(func() {
			s.handshake(t, server)
			pause(5 * time.Second)
			cancel(interrupted)
			s.drop()
		})
		start := time.Now()
		_, err := syncproto.Run(ctx, s, newSide(t, a, syncproto.Config{}).s, syncproto.Timing{})
		wg.Wait()
		if !errors.Is(err, interrupted) || time.Since(start) != 5*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

// Whoever refuses, both sides learn why, at once.
func TestRunRefusal(t *testing.T) {
	rng := newRand(t)
	nobody := func(record.NodeID) *rule { return nil }
	for _, server := range []bool{true, false} {
		a, b := newNode(rng, "a"), newNode(rng, "b")
		if server {
			b.rules = nobody
		} else {
			a.rules = nobody
		}
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			client, srv := syncproto.Pipe()
			_, _, ea, eb := both(t, a, b, client, srv, syncproto.Config{}, syncproto.Config{})
			wantRefusal(t, ea, syncproto.CodePolicy, server)
			wantRefusal(t, eb, syncproto.CodePolicy, !server)
			if d := time.Since(start); d != 0 {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// A peer that sends nonsense is told so.
func TestRunNonsense(t *testing.T) {
	rng := newRand(t)
	b := newNode(rng, "b")
	for _, nonsense := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x00\x02", "\xff\xff\xff\xff\x05"} {
		synctest.Test(t, func(t *testing.T) {
			client, server := syncproto.Pipe()
			var wg sync.WaitGroup
			var heard []byte
			wg.Go(func() {
				io.WriteString(client, nonsense)
				heard, _ = io.ReadAll(client)
			})
			_, err := syncproto.Run(t.Context(), server, newSide(t, b, syncproto.Config{Server: true}).s, syncproto.Timing{})
			wg.Wait()
			if !errors.Is(err, syncproto.ErrFrame) || !bytes.Contains(heard, []byte(`"E_FRAME"`)) {
				t.Errorf("%q: got %v, the peer heard %q", nonsense, err, heard)
			}
		})
	}
}

// A Run that is given a peer which never reads comes to an end as well.
func TestRunDeafPeer(t *testing.T) {
	rng := newRand(t)
	a, b := newNode(rng, "a"), newNode(rng, "b")
	a.write(msg("a1", noise(rng, 1<<20)))
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		server := newSide(t, b, syncproto.Config{Server: true})
		var wg sync.WaitGroup
		wg.Go(func() {
			s.handshake(t, server)
			s.say(t, string(syncproto.AppendFrame(nil, syncproto.Frame{
				Type:    syncproto.TypeWant,
				Payload: fmt.Appendf(nil, `{"s":%q,"from":1,"to":1,"bytes":9000000}`, a.own),
			})))
		})
		_, err := syncproto.Run(t.Context(), s, newSide(t, a, syncproto.Config{}).s, syncproto.Timing{})
		wg.Wait()
		if !errors.Is(err, syncproto.ErrCut) {
			t.Errorf("got %v", err)
		}
	})
}

func TestFrameReader(t *testing.T) {
	frame := syncproto.AppendFrame(nil, syncproto.Frame{Type: syncproto.TypeWant, Payload: []byte("payload")})
	limit := func(syncproto.Type) int { return 7 }
	for n := range len(frame) + 1 {
		r := syncproto.NewFrameReader(bufio.NewReader(bytes.NewReader(frame[:n])))
		f, err := r.Next(limit)
		switch {
		case n == 0 && err == io.EOF:
		case n > 0 && n < len(frame) && errors.Is(err, io.ErrUnexpectedEOF):
		case n == len(frame) && err == nil && string(f.Payload) == "payload" && f.Type == syncproto.TypeWant:
		default:
			t.Errorf("cut at %d: %v, %v", n, f, err)
		}
	}
	r := syncproto.NewFrameReader(bufio.NewReader(bytes.NewReader(frame)))
	if _, err := r.Next(func(syncproto.Type) int { return 6 }); !errors.Is(err, syncproto.ErrFrame) {
		t.Errorf("a frame above the limit: %v", err)
	}
}
