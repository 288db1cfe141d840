package sshlink_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/deja-node/deja/peers/sshlink"
)

// options are hermetic: an empty home, and a known_hosts with the given text.
func (s *sshd) options(t *testing.T, known string) sshlink.Options {
	t.Helper()
	home := t.TempDir()
	own := filepath.Join(home, "deja", "known_hosts")
	if known != "" {
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(own, []byte(known), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sshlink.Options{
		Host: "127.0.0.1", Port: s.port, User: s.user, UserName: s.user, Identity: s.path("client"),
		Home: home, ConfigFiles: []string{}, KnownHosts: []string{own}, Getenv: func(string) string { return "" },
	}
}

func dialOK(t *testing.T, o sshlink.Options) *sshlink.Conn {
	t.Helper()
	// The test's context ends before its clean-up, and would close the connection first.
	c, err := sshlink.Dial(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func wantHostKey(t *testing.T, o sshlink.Options, kind string) *sshlink.HostKeyError {
	t.Helper()
	_, err := sshlink.Dial(t.Context(), o)
	var hostKey *sshlink.HostKeyError
	if !errors.As(err, &hostKey) || hostKey.Kind != kind {
		t.Fatalf("got %v, want a host key that is %s", err, kind)
	}
	return hostKey
}

func TestSSHD(t *testing.T) {
	s := startSSHD(t)
	t.Run("known types", func(t *testing.T) {
		for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
			c := dialOK(t, s.options(t, s.known(t, "host_"+kind+".pub")))
			if c.Fingerprint() != s.fingerprint(t, "host_"+kind+".pub") || !strings.HasPrefix(c.ServerVersion(), "SSH-2.0-OpenSSH") {
				t.Fatal(kind, c.Fingerprint(), c.ServerVersion())
			}
		}
		stale := s.known(t, "client.pub") + s.known(t, "host_ed25519.pub")
		dialOK(t, s.options(t, stale))
	})
	t.Run("unknown", func(t *testing.T) { testUnknownKey(t, s) })
	t.Run("changed", func(t *testing.T) {
		o := s.options(t, s.known(t, "client.pub"))
		o.Decide = func(sshlink.HostKey) (bool, error) { t.Error("asked about a changed key"); return true, nil }
		o.Strict = "no"
		if e := wantHostKey(t, o, sshlink.KeyChanged); e.Fingerprint != s.fingerprint(t, "host_ed25519.pub") || len(e.Want) != 1 {
			t.Fatalf("%+v", e)
		}
		wantHostKey(t, s.options(t, "@revoked * "+s.read(t, "host_ed25519.pub")+s.known(t, "host_ed25519.pub")), sshlink.KeyRevoked)
		o = s.options(t, s.known(t, "host_ed25519.pub"))
		o.Pin = s.fingerprint(t, "host_rsa.pub")
		wantHostKey(t, o, sshlink.KeyChanged)
	})
	t.Run("authority alone", func(t *testing.T) {
		wantHostKey(t, s.options(t, "@cert-authority * "+s.read(t, "client.pub")), sshlink.KeyUnknown)
	})
	t.Run("agent", func(t *testing.T) { testAgent(t, s) })
	t.Run("passphrase", func(t *testing.T) { testPassphrase(t, s) })
	t.Run("exchange", func(t *testing.T) { testExchange(t, s) })
	t.Run("jump", func(t *testing.T) { testJump(t, s) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, s) })
}

func testUnknownKey(t *testing.T, s *sshd) {
	o := s.options(t, "")
	wantHostKey(t, o, sshlink.KeyUnknown)
	var asked sshlink.HostKey
	answer := false
	o.Decide = func(k sshlink.HostKey) (bool, error) { asked = k; return answer, nil }
	wantHostKey(t, o, sshlink.KeyUnknown)
	if asked.Fingerprint != s.fingerprint(t, "host_ed25519.pub") || asked.Type != ssh.KeyAlgoED25519 {
		t.Fatal(asked)
	}
	answer = true
	o.Strict = "yes"
	wantHostKey(t, o, sshlink.KeyUnknown)
	o.Strict = ""
	dialOK(t, o)
	o.Decide = nil
	dialOK(t, o)
	info, err := os.Stat(o.KnownHosts[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	o = s.options(t, "other.test "+strings.TrimSpace(s.read(t, "client.pub"))) // no newline at the end
	o.Strict = "accept-new"
	dialOK(t, o)
	o.Strict = "yes"
	dialOK(t, o)
}

// testAgent has the right key behind seven others, of which a server takes six.
func testAgent(t *testing.T, s *sshd) {
	ring := agent.NewKeyring()
	for _, name := range []string{"other0", "other1", "other2", "other3", "other4", "other5", "other6", "client"} {
		key, err := ssh.ParseRawPrivateKey([]byte(s.read(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") // a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sock := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }() // ends with io.EOF
		}
	}()
	o := s.options(t, s.known(t, "host_ed25519.pub"))
	o.Identity, o.Getenv = "", func(name string) string { return map[string]string{"SSH_AUTH_SOCK": sock}[name] }
	var auth *sshlink.AuthError
	if _, err := sshlink.Dial(t.Context(), o); !errors.As(err, &auth) || len(auth.Offered) != 5 || len(auth.Notes) == 0 {
		t.Fatal(err)
	}
	o.Identity = s.path("client.pub")
	dialOK(t, o)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sshlink.Dial(t.Context(), o); !errors.As(err, &auth) || !strings.Contains(err.Error(), sock) {
		t.Fatal("a stale agent is not named:", err)
	}
	o.Identity = s.path("client")
	dialOK(t, o)
}

func testPassphrase(t *testing.T, s *sshd) {
	o := s.options(t, s.known(t, "host_ed25519.pub"))
	o.Identity = s.path("locked")
	if _, err := sshlink.Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), "encrypted") {
		t.Fatal(err)
	}
	answers := []string{"wrong", "secret"}
	o.Prompt = func(string, bool) (string, error) {
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
	dialOK(t, o)
}

func testExchange(t *testing.T, s *sshd) {
	c := dialOK(t, s.options(t, s.known(t, "host_ed25519.pub")))
	if _, _, err := c.Exchange(t.Context(), "deja; id"); err == nil {
		t.Fatal("an unsafe path was run")
	}
	var missing *sshlink.NoBinError
	if _, _, err := c.Exchange(t.Context(), "/no/such/deja"); !errors.As(err, &missing) {
		t.Fatal(err)
	}
	if _, _, err := c.Exchange(t.Context(), "/bin/false"); err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Fatal(err)
	}
	link, bin, err := c.Exchange(t.Context(), s.path("deja"))
	if err != nil || bin != s.path("deja") {
		t.Fatal(bin, err)
	}
	if _, err := io.WriteString(link, "hello\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(link)
	for _, want := range []string{"DEJA-SYNC/2 00\n", "hello\n"} {
		if line, err := r.ReadString('\n'); line != want {
			t.Fatalf("%q %v", line, err)
		}
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = link.Close() }) // reported below
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("read on")
	}
	if err := link.Close(); err != nil || link.Stderr() != "warning\n" {
		t.Fatalf("%q %v", link.Stderr(), err)
	}
	files, err := c.SFTP()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Stat(s.path("client")); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
}

func testJump(t *testing.T, s *sshd) {
	o := s.options(t, s.known(t, "host_ed25519.pub"))
	config := filepath.Join(o.Home, "config")
	text := fmt.Sprintf("Host hop end\n HostName 127.0.0.1\n Port %d\n IdentityFile %s\nHost *\n ProxyJump hop\n", s.port, s.path("client"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.ConfigFiles, o.Host, o.Port, o.Identity = []string{config}, "end", 0, ""
	c := dialOK(t, o)
	if c.Fingerprint() == "" {
		t.Fatal("no fingerprint")
	}
	text = strings.ReplaceAll(text, "ProxyJump hop", "ProxyCommand tcp %h:%p")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sshlink.Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), "ProxyCommand") {
		t.Fatal(err)
	}
	o.Run = func(ctx context.Context, command string) (io.ReadWriteCloser, error) {
		return net.Dial("tcp", strings.TrimPrefix(command, "tcp "))
	}
	dialOK(t, o)
}

func testCancel(t *testing.T, s *sshd) {
	ctx, cancel := context.WithCancel(t.Context())
	o := s.options(t, s.known(t, "host_ed25519.pub"))
	c, err := sshlink.Dial(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	link, _, err := c.Exchange(ctx, s.path("deja"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, link); err != nil {
		t.Log(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o.Port = mute.Addr().(*net.TCPAddr).Port
	if _, err := sshlink.Dial(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
