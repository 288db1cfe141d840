package mailbox_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/deja-node/deja/peers/mailbox"
)

// findProgram returns the first of some programs that is installed.
func findProgram(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	t.Skipf("none of %v is installed", names)
	return ""
}

// dialProgram connects a client to OpenSSH's own SFTP server, without sshd.
func dialProgram(t testing.TB, program string) *sftp.Client {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client, err := sftp.NewClientPipe(out, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close() //nolint:errcheck // the program's end is what is waited for
		cmd.Wait()     //nolint:errcheck // it may have been ended by the context
	})
	return client
}

func TestOpenSSHServer(t *testing.T) {
	program := findProgram(t, "/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server")
	conform(t, func(t *testing.T) carrier {
		path := t.TempDir()
		open := func(tag string) *mailbox.Box {
			return mailbox.SFTP(dialProgram(t, program), path, mailbox.Options{Name: "nas", Tag: tag})
		}
		return carrier{box: open("first"), path: path, open: open}
	})
}

// TestSSHD goes through a whole sshd: its own configuration, a port of the
// loopback interface, a key of its own.
func TestSSHD(t *testing.T) {
	client := dialSSHD(t)
	path := t.TempDir()
	conform(t, func(t *testing.T) carrier {
		root := filepath.Join(path, strings.ReplaceAll(t.Name(), "/", "_")+rand.Text())
		if err := os.Mkdir(root, 0o700); err != nil {
			t.Fatal(err)
		}
		open := func(tag string) *mailbox.Box {
			c, err := sftp.NewClient(client)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			return mailbox.SFTP(c, root, mailbox.Options{Name: "nas", Tag: tag})
		}
		return carrier{box: open("first"), path: root, open: open}
	})
}

// newKey writes a private key where sshd wants one, and returns it.
func newKey(t testing.TB, file string) (ssh.Signer, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

func dialSSHD(t testing.TB) *ssh.Client {
	t.Helper()
	sshd := findProgram(t, "/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd")
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	home := t.TempDir()
	host, _ := newKey(t, filepath.Join(home, "host"))
	login, line := newKey(t, filepath.Join(home, "login"))
	if err := os.WriteFile(filepath.Join(home, "authorized"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/authorized\nPidFile none\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nPermitRootLogin yes\nMaxSessions 1000\nSubsystem sftp internal-sftp\n", home)
	if err := os.WriteFile(filepath.Join(home, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	conn := startSSHD(t, sshd, filepath.Join(home, "config"))
	c, chans, reqs, err := ssh.NewClientConn(conn, "sshd", &ssh.ClientConfig{
		User: me.Username, Auth: []ssh.AuthMethod{ssh.PublicKeys(login)}, HostKeyCallback: ssh.FixedHostKey(host.PublicKey()),
	})
	if err != nil {
		t.Skipf("sshd does not let us in: %v", err)
	}
	client := ssh.NewClient(c, chans, reqs)
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // sshd's end is what is waited for
	return client
}

// startSSHD starts an sshd that serves one connection of the loopback
// interface, which it gets as its standard input and output (-i). An sshd that
// runs as root wants a directory that only a booted system has; it gets one in
// a mount namespace of its own.
func startSSHD(t testing.TB, sshd, config string) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	file, err := far.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	args := []string{sshd, "-i", "-e", "-f", config}
	if _, err := os.Stat("/run/sshd"); err != nil && os.Getuid() == 0 {
		unshare := findProgram(t, "/usr/bin/unshare", "/bin/unshare")
		args = append([]string{unshare, "-m", "sh", "-c", `mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec "$@"`, "sh"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout = file, file
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), "fatal") || strings.Contains(lines.Text(), "error") {
				fmt.Fprintln(t.Output(), "sshd:", lines.Text())
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close() //nolint:errcheck // sshd's end is what is waited for
		<-said
		cmd.Wait() //nolint:errcheck // it may have been ended by the context
	})
	return conn
}
