package sshlink_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshd is a real server on the loopback with host keys of three types, which
// lets the key "client" in and runs a fake deja for every command.
type sshd struct {
	dir, addr string
	port      int
	user      string
}

func startSSHD(t *testing.T) *sshd {
	t.Helper()
	const bin = "/usr/sbin/sshd"
	if _, err := os.Stat(bin); err != nil || runtime.GOOS == "windows" {
		t.Skip("no sshd")
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &sshd{dir: t.TempDir(), user: me.Username}
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		s.keygen(t, "host_"+kind, kind, "")
	}
	s.keygen(t, "client", "ed25519", "")
	s.keygen(t, "locked", "ed25519", "secret")
	for i := range 7 {
		s.keygen(t, fmt.Sprint("other", i), "ed25519", "")
	}
	s.write(t, "authorized", s.read(t, "client.pub")+s.read(t, "locked.pub"))
	s.write(t, "deja", "#!/bin/sh\necho warning >&2\nprintf 'DEJA-SYNC/2 00\\n'\nexec cat\n")
	if err := os.Chmod(s.path("deja"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.run(t, bin)
	return s
}

// run starts the program on a free port and waits until it listens.
func (s *sshd) run(t *testing.T, bin string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr, s.port = ln.Addr().String(), ln.Addr().(*net.TCPAddr).Port
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	s.write(t, "sshd_config", strings.NewReplacer("DIR", s.dir, "PORT", fmt.Sprint(s.port)).Replace(
		"Port PORT\nListenAddress 127.0.0.1\nHostKey DIR/host_ed25519\nHostKey DIR/host_rsa\nHostKey DIR/host_ecdsa\nPidFile none\n"+
			"AuthorizedKeysFile DIR/authorized\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"+
			"PermitRootLogin yes\nSubsystem sftp internal-sftp\nMaxAuthTries 6\n"))
	cmd := exec.Command(bin, "-D", "-e", "-f", s.path("sshd_config"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	for range 100 {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			c.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("sshd does not listen")
}

func (s *sshd) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sshd) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s *sshd) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *sshd) keygen(t *testing.T, name, kind, phrase string) {
	t.Helper()
	args := []string{"-q", "-a", "1", "-t", kind, "-N", phrase, "-f", s.path(name)}
	if kind == "rsa" {
		args = append(args, "-b", "2048")
	}
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// known returns a line of known_hosts with the key in a .pub file.
func (s *sshd) known(t *testing.T, pub string) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s", s.port, s.read(t, pub))
}

func (s *sshd) fingerprint(t *testing.T, pub string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.read(t, pub)))
	if err != nil {
		t.Fatal(err)
	}
	return ssh.FingerprintSHA256(key)
}
