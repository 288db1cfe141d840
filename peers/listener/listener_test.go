package listener_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"github.com/deja-node/deja/peers/listener"
	"github.com/deja-node/deja/peers/sshlink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(letter string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(letter, ed25519.SeedSize)))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// serve runs a listener that echoes, and knows the client "c".
func serve(t *testing.T, handle func(context.Context, ed25519.PublicKey, io.ReadWriteCloser) error) (addr string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &listener.Server{Key: key("s"), Allow: func(pub ed25519.PublicKey) bool { return pub.Equal(public(key("c"))) }, Handle: handle}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	stop = func() error {
		cancel()
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(2 * time.Second):
			return errors.New("Serve went on for two seconds")
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), stop
}

func echo(_ context.Context, _ ed25519.PublicKey, link io.ReadWriteCloser) error {
	_, err := io.Copy(link, link)
	return err
}

func anyKey(ed25519.PublicKey) error { return nil }

func TestExchange(t *testing.T) {
	var seen atomic.Value
	addr, _ := serve(t, func(ctx context.Context, pub ed25519.PublicKey, link io.ReadWriteCloser) error {
		seen.Store(pub)
		return echo(ctx, pub, link)
	})
	link, pub, err := sshlink.DialNode(t.Context(), addr, key("c"), anyKey)
	if err != nil || !pub.Equal(public(key("s"))) {
		t.Fatal(pub, err)
	}
	text := strings.Repeat("x", 3<<20) // more than a window
	go func() {
		if _, err := io.WriteString(link, text); err != nil {
			t.Error(err)
		}
	}()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(link, got); err != nil || string(got) != text {
		t.Fatal(err)
	}
	if !seen.Load().(ed25519.PublicKey).Equal(public(key("c"))) {
		t.Fatal("wrong key")
	}
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRefused(t *testing.T) {
	addr, _ := serve(t, func(context.Context, ed25519.PublicKey, io.ReadWriteCloser) error {
		t.Error("a stranger was served")
		return nil
	})
	if _, _, err := sshlink.DialNode(t.Context(), addr, key("x"), anyKey); err == nil || !strings.Contains(err.Error(), "authenticate") {
		t.Fatal(err)
	}
	wrong := errors.New("wrong node")
	if _, _, err := sshlink.DialNode(t.Context(), addr, key("c"), func(ed25519.PublicKey) error { return wrong }); !errors.Is(err, wrong) {
		t.Fatal(err)
	}
}

func TestOnlyTheSubsystem(t *testing.T) {
	addr, _ := serve(t, echo)
	signer, err := ssh.NewSignerFromKey(key("c"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{User: "x", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Dial("tcp", "127.0.0.1:22"); err == nil {
		t.Fatal("forwarded")
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RequestSubsystem("sftp"); err == nil {
		t.Fatal("sftp was served")
	}
	if err := session.Start("id"); err == nil {
		t.Fatal("a command was run")
	}
	if _, err := client.NewSession(); err == nil {
		t.Fatal("a second session")
	}
}

// A client or server that ends unblocks the other side and itself.
func TestCancel(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		addr, _ := serve(t, echo)
		ctx, cancel := context.WithCancel(t.Context())
		link, _, err := sshlink.DialNode(ctx, addr, key("c"), anyKey)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := link.Read(make([]byte, 1)); err == nil {
			t.Fatal("read on")
		}
		if err := link.Close(); err != nil {
			t.Log(err)
		}
	})
	t.Run("server", testStop)
	t.Run("close", func(t *testing.T) {
		addr, _ := serve(t, echo)
		link, _, err := sshlink.DialNode(t.Context(), addr, key("c"), anyKey)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		time.AfterFunc(20*time.Millisecond, func() { closed <- link.Close() })
		if _, err := link.Read(make([]byte, 1)); err == nil {
			t.Fatal("read on")
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
	})
}

func TestPerAddressLimit(t *testing.T) {
	addr, _ := serve(t, echo)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range 9 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	last := conns[8]
	if err := last.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := last.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the ninth connection was let in")
	}
}

func testStop(t *testing.T) {
	addr, stop := serve(t, echo) // the handler does not look at ctx
	link, _, err := sshlink.DialNode(t.Context(), addr, key("c"), anyKey)
	if err != nil {
		t.Fatal(err)
	}
	mute, err := net.Dial("tcp", addr) // in its handshake for ever
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := link.Read(make([]byte, 1)); err == nil {
		t.Fatal("read on")
	}
	if err := link.Close(); err != nil {
		t.Log(err)
	}
}
