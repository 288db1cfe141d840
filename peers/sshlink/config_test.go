package sshlink

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// configCases are read by ssh -G as well. DIR stands for the test's directory.
var configCases = []struct{ name, host, user, text string }{
	{"empty", "Box", "", ""},
	{"first wins", "a", "", "Host a\n Port 1\nHost *\n Port 2\n User u\n"},
	{"before any host", "a", "", "User early\nHost a\n User late\n"},
	{"case of patterns", "Box", "", "Host box\n Port 7\nHost B?x\n Port 8\n"},
	{"negation", "a.in", "", "Host *.in !a.*\n Port 3\nHost !b *\n User x\n"},
	{"negation alone", "a", "", "Host !b\n Port 3\n"},
	{"quotes", "a", "", "Host \"a\" b\n IdentityFile \"/x y/id\"\n User 'u v'\n"},
	{"equals", "a", "", "Host=a\nPort = 5\nUser=me\n  HostName\t=\tExample.COM\n"},
	{"comments", "a", "", "# one\nHost a # two\n Port 9 # three\n"},
	{"hostname token", "a", "", "HostName %h.Example.com\n"},
	{"match host sees hostname", "a", "", "HostName b.test\nMatch host b.test\n Port 4\nMatch originalhost a\n User o\n"},
	{"match lists", "a", "", "Match originalhost \"!b,a*\"\n Port 4\nMatch host x,y,!a\n User o\n"},
	{"match all", "a", "", "Match host nope\n Port 1\nMatch all\n Port 2\n"},
	{"match user", "a", "eve", "Match user eve\n Port 4\nMatch !user eve\n Port 5\n"},
	{"match user from file", "a", "", "User bob\nMatch user b*\n Port 4\n"},
	{"match localuser", "a", "", "Match localuser ME host a\n Port 6\nMatch localuser nobody-else\n User q\n"},
	{"match final", "Abc", "", "Host abc\n Port 11\nHost Abc\n User first\nMatch final all\n ConnectTimeout 9\n"},
	{"match negated host", "a", "", "Match !host b\n Port 4\nMatch !originalhost a\n User q\n"},
	{"identities add up", "a", "", "IdentityFile ~/one\nHost a\n IdentityFile ~/two\n IdentityFile ~/one\nIdentitiesOnly yes\n"},
	{"known hosts", "a", "", "UserKnownHostsFile /k1 \"/k 2\"\nHostKeyAlias other\nStrictHostKeyChecking accept-new\n"},
	{"strict off", "a", "", "StrictHostKeyChecking off\n"},
	{"alive", "a", "", "ServerAliveInterval 1m30s\nServerAliveCountMax 7\nConnectTimeout 2m\n"},
	{"jump first", "a", "", "ProxyJump u@one:23,two\nProxyCommand nc %h %p\n"},
	{"command first", "a", "", "ProxyCommand nc -X \"5\" %h %p\nProxyJump one\n"},
	{"jump none", "a", "", "Host a\n ProxyJump none\nHost *\n ProxyJump one\n"},
	{"include", "a", "", "Include DIR/inc-*.conf\nPort 99\n"},
	{"include in a block", "a", "", "Host zzz\n Include DIR/inc-*.conf\nHost a\n Port 98\n"},
	{"include does not leak", "a", "", "Host a\n Include DIR/inc-b.conf\n HashKnownHosts yes\n ConnectTimeout 3\n"},
	{"agent", "a", "", "IdentityAgent ~/agent.sock\nAddressFamily inet6\n"},
	{"crlf", "a", "", "Host a\r\n Port 44\r\n User w\r\n"},
}

func TestConfigLikeSSH(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no ssh to compare with")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "inc-a.conf"), "Host a\n User inc\nHost other\n Port 1\n")
	write(t, filepath.Join(dir, "inc-b.conf"), "Host other\n ConnectTimeout 77\n")
	for _, c := range configCases {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			write(t, file, strings.NewReplacer("DIR", dir, "ME", me.Username).Replace(c.text))
			args := []string{"-G", "-F", file}
			if c.user != "" {
				args = append(args, "-l", c.user)
			}
			out, err := exec.Command(ssh, append(args, c.host)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			config, err := ReadConfig(ConfigQuery{Host: c.host, User: c.user, LocalUser: me.Username, Home: me.HomeDir, Files: []string{file}})
			if err != nil {
				t.Fatal(err)
			}
			compareConfig(t, config, c.user, me.Username, parseG(out))
		})
	}
}

// parseG reads the output of ssh -G.
func parseG(out []byte) map[string]string {
	want := map[string]string{}
	for line := range strings.SplitSeq(string(out), "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if want[key] != "" {
			value = want[key] + "|" + value
		}
		want[key] = value
	}
	return want
}

func compareConfig(t *testing.T, c Config, given, local string, want map[string]string) {
	t.Helper()
	is := func(keyword, got string) {
		t.Helper()
		if got != want[keyword] {
			t.Errorf("%s is %q, ssh says %q", keyword, got, want[keyword])
		}
	}
	is("hostname", c.Value("hostname"))
	is("user", firstOf(given, c.Value("user"), local))
	is("port", firstOf(c.Value("port"), "22"))
	is("identitiesonly", firstOf(c.Value("identitiesonly"), "no"))
	is("hostkeyalias", c.Value("hostkeyalias"))
	is("identityagent", expandHome(c.Value("identityagent"), homeOf(t)))
	is("addressfamily", firstOf(c.Value("addressfamily"), "any"))
	is("serveralivecountmax", firstOf(c.Value("serveralivecountmax"), "3"))
	is("stricthostkeychecking", map[string]string{"": "ask", "ask": "ask", "yes": "true", "no": "false", "accept-new": "accept-new"}[c.Value("stricthostkeychecking")])
	if files := c.Values("identityfile"); len(files) > 0 {
		is("identityfile", strings.Join(files, "|"))
	}
	if files := c.Values("userknownhostsfile"); len(files) > 0 {
		is("userknownhostsfile", strings.Join(files, " "))
	}
	for keyword, standard := range map[string]string{"connecttimeout": "none", "serveraliveinterval": "0"} {
		got := standard
		if v := c.Value(keyword); v != "" {
			d, err := parseSeconds(v)
			if err != nil {
				t.Error(err)
			}
			got = fmt.Sprint(int(d / time.Second))
		}
		is(keyword, got)
	}
	for _, keyword := range []string{"proxyjump", "proxycommand"} {
		got := c.Value(keyword)
		if got == "none" {
			got = ""
		}
		is(keyword, got)
	}
}

func TestConfigWarningsAndErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	read := func(text string) (Config, error) {
		write(t, file, text)
		return ReadConfig(ConfigQuery{Host: "a", LocalUser: "me", Home: "/h", Files: []string{file, file + ".missing"}})
	}
	c, err := read("ControlMaster auto\nCiphers x\nCanonicalizeHostname no\nFrobnicate 1\nHost b\nMACs y\nMatch exec \"true\"\n Port 3\n")
	if err != nil || strings.Join(c.Warnings(), ",") != "Match exec,ciphers,frobnicate" || c.Value("port") != "" {
		t.Fatal(c.Warnings(), c.Value("port"), err)
	}
	for _, text := range []string{"Port x\n", "Port\n", "Port 1 2\n", "Host\n", "Match\n", "Match host\n", "User \"open\n", "StrictHostKeyChecking maybe\n", "ConnectTimeout 3y\n", "Include " + file + "\n"} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), file+":1: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, c := range configCases {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToLower(text), "include") {
			return
		}
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, text)
		c, err := ReadConfig(ConfigQuery{Host: "a", LocalUser: "me", Home: "/h", Files: []string{file}})
		if err == nil && c.Value("hostname") == "" {
			t.Error("no host name")
		}
	})
}

func TestResolve(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".ssh", "config")
	write(t, file, "Host a\n HostName %h.test\n Port 7\n IdentityFile %d/k-%r-%%\n IdentityAgent $SOCK\n UserKnownHostsFile ${KH}/x none-such\n HostKeyAlias al\n ServerAliveInterval 0\n")
	env := map[string]string{"SOCK": "/s", "KH": "/kh"}
	got, err := resolve(&Options{Host: "a", UserName: "me", Home: home, Getenv: func(k string) string { return env[k] }, KnownHosts: []string{"/own"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.address() != "a.test:7" || got.user != "me" || got.identities[0] != home+"/k-me-%" || got.agent != "/s" || got.keyName != "al:22" || got.alive != 0 || got.knownHosts[0] != "/own" {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(strings.Join(got.knownHosts, " "), "/kh/x") {
		t.Fatal(got.knownHosts)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Clone([]byte(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func homeOf(t *testing.T) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return me.HomeDir
}
