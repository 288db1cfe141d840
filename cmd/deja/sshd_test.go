package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fleet is two machines for a test: one that dials, and one behind a real
// sshd, each with a home and a deja state of its own.
type fleet struct {
	t    *testing.T
	dir  string
	deja string
	addr string // of the sshd
	port string
	in   []string // what runs a command on the near machine
}

// newFleet builds the program, makes keys and starts sshd with its own
// configuration. far runs a command on the far machine.
func newFleet(t *testing.T, addr string, near, far []string) *fleet {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		if sshd = "/usr/sbin/sshd"; !exists(sshd) {
			t.Skip("sshd is not installed")
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skip("sshd needs /run/sshd: ", err)
		}
	}
	f := &fleet{t: t, dir: t.TempDir(), addr: addr, in: near}
	f.deja = filepath.Join(f.dir, "deja")
	f.must(exec.Command("go", "build", "-o", f.deja, "."))
	f.port = freePort(t, addr, far)
	for _, name := range []string{"host", "id"} {
		f.must(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.path(name)))
	}
	f.write("authorized", "restrict,command=\""+f.path("serve.sh")+"\" "+f.read("id.pub"))
	f.write("serve.sh", fmt.Sprintf("#!/bin/sh\necho 'Welcome, the rc file is noisy.'\nHOME=%s DEJA_HOME=%s exec %s sync serve --stdio\n",
		f.path("far"), f.path("far/state"), f.deja))
	f.must(exec.Command("chmod", "700", f.path("serve.sh"), f.dir))
	f.write("sshd_config", fmt.Sprintf("Port %s\nListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n",
		f.port, addr, f.path("host"), f.path("authorized")))
	f.start(append(far, sshd, "-D", "-e", "-f", f.path("sshd_config")))
	f.write("near/.ssh/config", fmt.Sprintf("Host far\n  HostName %s\n  Port %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  ServerAliveInterval 1\n  ServerAliveCountMax 3\n",
		addr, f.port, f.path("id")))
	return f
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// freePort asks the system for a port. In a namespace of its own any will do.
func freePort(t *testing.T, addr string, far []string) string {
	t.Helper()
	if len(far) > 0 {
		return "2222"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

func (f *fleet) must(cmd *exec.Cmd) string {
	f.t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// start runs a server until the test ends.
func (f *fleet) start(args []string) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		cancel()
		cmd.Wait() // it was ended
		if f.t.Failed() {
			f.t.Logf("sshd: %s", log.String())
		}
	})
}

// run runs deja on the near or the far machine.
func (f *fleet) run(machine string, args ...string) (string, error) {
	words := append([]string{f.deja}, args...)
	if machine == "near" {
		words = append(append([]string{}, f.in...), words...)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+f.path(machine), "DEJA_HOME="+f.path(machine+"/state"), "DEJA_MACHINE="+machine, "SSH_AUTH_SOCK=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (f *fleet) ok(machine string, args ...string) string {
	f.t.Helper()
	out, err := f.run(machine, args...)
	if err != nil {
		f.t.Fatalf("%s: deja %s: %v\n%s", machine, strings.Join(args, " "), err, out)
	}
	return out
}

// pair adds the far machine, by the fingerprint of its host key. The server
// may not listen yet.
func (f *fleet) pair() {
	f.t.Helper()
	fingerprint := strings.Fields(f.must(exec.Command("ssh-keygen", "-lf", f.path("host.pub"))))[1]
	deadline := time.Now().Add(20 * time.Second)
	for {
		out, err := f.run("near", "peer", "add", "far", "--fingerprint", fingerprint)
		if err == nil {
			return
		}
		if time.Now().After(deadline) || !strings.Contains(out, "refused") {
			f.t.Fatalf("peer add: %v\n%s", err, out)
		}
	}
}

// Two nodes exchange through a stock sshd with a forced command and a noisy
// start-up file, both ways, and the second exchange has nothing to do.
func TestSyncOverSSHD(t *testing.T) {
	f := newFleet(t, "127.0.0.1", nil, nil)
	if err := writeClaude(f.path("near"), laptopHistory, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := writeCodex(f.path("far"), desktopHistory, time.Now()); err != nil {
		t.Fatal(err)
	}
	f.ok("near", "index")
	f.ok("far", "index")
	f.pair()
	if out := f.ok("near", "sync"); !strings.Contains(out, "sent 10 records") || !strings.Contains(out, "received 10 records") {
		t.Errorf("first exchange: %s", out)
	}
	if out := f.ok("near", "sync", "--json"); !json.Valid([]byte(out)) || !strings.Contains(out, `"records": 0`) {
		t.Errorf("second exchange: %s", out)
	}
	if out := f.ok("near", "search", "connection", "pool", "deadlock"); !strings.Contains(out, "from far") {
		t.Errorf("near does not find what far solved: %s", out)
	}
	// The far side goes on indexing after it has said goodbye.
	var out string
	for deadline := time.Now().Add(20 * time.Second); ; {
		var err error
		if out, err = f.run("far", "search", "ferry", "timetable", "midnight"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if !strings.Contains(out, "from near") {
		t.Errorf("far does not find what near solved: %s", out)
	}
	if out := f.ok("near", "doctor", "--deep"); !strings.Contains(out, "every batch verifies") {
		t.Errorf("doctor: %s", out)
	}
}

// Two nodes in two network namespaces: the link is cut in the middle of an
// exchange, the near side notices, and the next exchange goes on where this
// one stopped.
func TestLinkCutBetweenNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("iproute2 is not installed")
	}
	near, far := namespaces(t)
	f := newFleet(t, "10.231.7.2", []string{"ip", "netns", "exec", near}, []string{"ip", "netns", "exec", far})
	f.write("near/.codex/sessions/rollout-2026-11-30T09-00-00-019e0000-7777-7000-8000-0000000000f1.jsonl", bulk(t, 24))
	f.ok("near", "index")
	f.pair()

	done := make(chan error, 1)
	go func() {
		_, err := f.run("near", "sync")
		done <- err
	}()
	waitFor(t, func() bool { return treeBytes(f.path("far/state/data")) > 1<<20 })
	f.must(exec.Command("ip", "-n", near, "link", "set", "dejan", "down"))
	// The near side must notice by itself; then the link comes back.
	select {
	case <-time.After(90 * time.Second):
		t.Fatal("the near side hangs on a dead link")
	case err := <-retryOrEnd(f, done):
		if err != nil {
			t.Fatalf("sync after the cut: %v", err)
		}
	}
	want := f.ok("near", "last", "--json")
	waitFor(t, func() bool {
		out, err := f.run("far", "last", "--json")
		return err == nil && strings.Contains(out, `"messages": 24`) && strings.Contains(want, `"messages": 24`)
	})
	f.ok("near", "doctor", "--deep")
	f.ok("far", "doctor", "--deep")
}

// retryOrEnd brings the link back after a while and returns how a sync ended,
// the one that was cut or the next one.
func retryOrEnd(f *fleet, done chan error) chan error {
	out := make(chan error, 1)
	go func() {
		time.AfterFunc(6*time.Second, func() {
			exec.Command("ip", "-n", strings.TrimSpace(f.in[3]), "link", "set", "dejan", "up").Run()
		})
		if err := <-done; err == nil {
			out <- nil
			return
		}
		_, err := f.run("near", "sync")
		out <- err
	}()
	return out
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(60 * time.Second); !ok(); {
		select {
		case <-deadline:
			t.Fatal("waited for a minute")
		case <-tick.C:
		}
	}
}

func treeBytes(dir string) (total int64) {
	filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			total += info.Size()
		}
		return nil
	})
	return total
}

// namespaces makes two namespaces with a slow link between them.
func namespaces(t *testing.T) (near, far string) {
	t.Helper()
	near, far = fmt.Sprintf("deja-near-%d", os.Getpid()), fmt.Sprintf("deja-far-%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("network namespaces cannot be made here: ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	for _, ns := range []string{near, far} {
		ip("netns", "add", ns)
		t.Cleanup(func() { exec.Command("ip", "netns", "delete", ns).Run() })
		ip("-n", ns, "link", "set", "lo", "up")
	}
	ip("-n", near, "link", "add", "dejan", "type", "veth", "peer", "name", "dejaf", "netns", far)
	ip("-n", near, "addr", "add", "10.231.7.1/24", "dev", "dejan")
	ip("-n", far, "addr", "add", "10.231.7.2/24", "dev", "dejaf")
	ip("-n", near, "link", "set", "dejan", "up")
	ip("-n", far, "link", "set", "dejaf", "up")
	if out, err := exec.Command("ip", "netns", "exec", near, "tc", "qdisc", "add", "dev", "dejan", "root", "tbf", "rate", "16mbit", "burst", "64kb", "latency", "400ms").CombinedOutput(); err != nil {
		t.Skipf("the link cannot be slowed down: %v: %s", err, out)
	}
	return near, far
}

// bulk is a transcript whose turns do not compress: about 300 KB each.
func bulk(t *testing.T, turns int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"timestamp":"2026-11-30T09:00:00.000Z","type":"session_meta","payload":{"id":"019e0000-7777-7000-8000-0000000000f1","timestamp":"2026-11-30T09:00:00Z","cwd":"/srv/demo/bulk","source":"cli"}}` + "\n")
	for i := range turns {
		noise := make([]byte, 220<<10)
		if _, err := rand.Read(noise); err != nil {
			t.Fatal(err)
		}
		text := base64.StdEncoding.EncodeToString(noise)
		line, err := json.Marshal(object{
			"timestamp": time.Date(2026, 11, 30, 9, 1, i, 0, time.UTC).Format("2006-01-02T15:04:05.000Z"), "type": "response_item",
			"payload": object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": "bulk " + spaced(text)}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// spaced breaks a long run, so that it is text and not a secret.
func spaced(s string) string {
	var b strings.Builder
	for len(s) > 9 {
		b.WriteString(s[:9])
		b.WriteByte(' ')
		s = s[9:]
	}
	return b.String()
}
