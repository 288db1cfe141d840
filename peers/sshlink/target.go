package sshlink

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Defaults that ssh_config changes.
const (
	defaultConnect   = 10 * time.Second
	defaultAlive     = 15 * time.Second
	defaultAliveMost = 3
)

// Values of StrictHostKeyChecking.
const (
	strictYes       = "yes"
	strictNo        = "no"
	strictAsk       = "ask"
	strictAcceptNew = "accept-new"
)

// target is a host with everything that decides how it is reached.
type target struct {
	typed, host, user string
	port              int
	network           string // tcp, tcp4 or tcp6
	identities        []string
	named             bool // identities come from the user, not from the defaults
	identitiesOnly    bool
	agent             string // empty: none
	keyName           string // host:port that known_hosts is asked for
	knownHosts        []string
	strict            string
	connectTimeout    time.Duration
	alive             time.Duration // 0: no keepalive
	aliveMost         int
	jump, command     string
	warnings          []string
}

func (t *target) address() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// resolve asks ssh_config about the host of the options.
func resolve(o *Options) (*target, error) {
	files := o.ConfigFiles
	if files == nil {
		files = []string{filepath.Join(o.Home, ".ssh", "config"), systemSSH(o, "ssh_config")}
	}
	c, err := ReadConfig(ConfigQuery{Host: o.Host, User: o.User, LocalUser: o.UserName, Home: o.Home, Files: files})
	if err != nil {
		return nil, err
	}
	t := &target{
		typed: o.Host, host: c.Value("hostname"), port: 22, network: "tcp",
		user: firstOf(o.User, c.Value("user"), o.UserName), strict: firstOf(o.Strict, c.Value("stricthostkeychecking"), strictAsk),
		identitiesOnly: c.Value("identitiesonly") == "yes", jump: c.Value("proxyjump"), command: c.Value("proxycommand"),
		connectTimeout: defaultConnect, alive: defaultAlive, aliveMost: defaultAliveMost, warnings: c.Warnings(),
	}
	if strings.HasPrefix(t.host, "-") || strings.ContainsAny(t.host, " \t\r\n\x00") || t.host == "" {
		return nil, fmt.Errorf("bad host name %q", t.host)
	}
	if err := t.numbers(o, c); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Host, err)
	}
	switch c.Value("addressfamily") {
	case "inet":
		t.network = "tcp4"
	case "inet6":
		t.network = "tcp6"
	}
	t.keyName = t.address()
	if alias := c.Value("hostkeyalias"); alias != "" {
		t.keyName = net.JoinHostPort(alias, "22")
	}
	t.setKeys(o, c)
	t.setKnownHosts(o, c)
	return t, nil
}

func (t *target) numbers(o *Options, c Config) (err error) {
	if v := c.Value("port"); v != "" {
		if t.port, err = parsePort(v); err != nil {
			return err
		}
	}
	if o.Port != 0 {
		t.port = o.Port
	}
	if v := c.Value("connecttimeout"); v != "" && v != "none" {
		if t.connectTimeout, err = parseSeconds(v); err != nil {
			return err
		}
	}
	if v := c.Value("serveraliveinterval"); v != "" {
		if t.alive, err = parseSeconds(v); err != nil {
			return err
		}
	}
	if v := c.Value("serveralivecountmax"); v != "" {
		if t.aliveMost, err = parseCount(v); err != nil {
			return err
		}
		t.aliveMost = max(t.aliveMost, 1)
	}
	return nil
}

func (t *target) setKeys(o *Options, c Config) {
	if o.Identity != "" {
		t.identities = append(t.identities, expandHome(o.Identity, o.Home))
	}
	for _, name := range c.Values("identityfile") {
		if !strings.EqualFold(name, "none") {
			t.identities = append(t.identities, t.expand(name, o))
		}
	}
	t.named = len(t.identities) > 0
	if !t.named && len(c.Values("identityfile")) == 0 {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			t.identities = append(t.identities, filepath.Join(o.Home, ".ssh", name))
		}
	}
	switch name := c.Value("identityagent"); {
	case strings.EqualFold(name, "none"):
	case name == "" || name == "SSH_AUTH_SOCK":
		t.agent = firstOf(o.Getenv("SSH_AUTH_SOCK"), defaultAgent)
	case strings.HasPrefix(name, "$") && !strings.HasPrefix(name, "${"):
		t.agent = o.Getenv(name[1:])
	default:
		t.agent = t.expand(name, o)
	}
}

// setKnownHosts puts deja's own file first; the user's are only read.
func (t *target) setKnownHosts(o *Options, c Config) {
	t.knownHosts = append(t.knownHosts, o.KnownHosts...)
	for keyword, standard := range map[string][]string{
		"userknownhostsfile":   {"~/.ssh/known_hosts", "~/.ssh/known_hosts2"},
		"globalknownhostsfile": {systemSSH(o, "ssh_known_hosts"), systemSSH(o, "ssh_known_hosts2")},
	} {
		files := c.Values(keyword)
		if files == nil {
			files = standard
		}
		for _, name := range files {
			if !strings.EqualFold(name, "none") {
				t.knownHosts = append(t.knownHosts, t.expand(name, o))
			}
		}
	}
}

// expand resolves ~, tokens and ${VARIABLES} of a file name.
func (t *target) expand(name string, o *Options) string {
	name = expandHome(name, o.Home)
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if end := strings.IndexByte(name[i:], '}'); strings.HasPrefix(name[i:], "${") && end > 0 {
			b.WriteString(o.Getenv(name[i+2 : i+end]))
			i += end
			continue
		}
		if name[i] == '%' && i+1 < len(name) {
			if value, ok := t.token(name[i+1], o); ok {
				b.WriteString(value)
				i++
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// token returns the value of a % token.
func (t *target) token(letter byte, o *Options) (string, bool) {
	switch letter {
	case '%':
		return "%", true
	case 'd':
		return o.Home, true
	case 'h':
		return t.host, true
	case 'n':
		return t.typed, true
	case 'p':
		return strconv.Itoa(t.port), true
	case 'r':
		return t.user, true
	case 'u':
		return o.UserName, true
	}
	return "", false
}

// systemSSH names a file of the system's OpenSSH.
func systemSSH(o *Options, name string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(firstOf(o.Getenv("ProgramData"), `C:\ProgramData`), "ssh", name)
	}
	return "/etc/ssh/" + name
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("bad port %q", s)
	}
	return int(n), nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("bad number %q", s)
	}
	return int(n), nil
}

// parseSeconds reads a time as ssh_config writes it: 90, 1m30s, 2h, none.
func parseSeconds(s string) (time.Duration, error) {
	if strings.EqualFold(s, "none") {
		return 0, nil
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	total, rest := time.Duration(0), strings.ToLower(s)
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseUint(rest[:digits], 10, 24)
		if err != nil {
			return 0, fmt.Errorf("bad time %q", s)
		}
		unit := time.Second
		if rest = rest[digits:]; rest != "" {
			if unit = units[rest[0]]; unit == 0 {
				return 0, fmt.Errorf("bad time %q", s)
			}
			rest = rest[1:]
		}
		total += time.Duration(n) * unit
	}
	if s == "" {
		return 0, fmt.Errorf("bad time %q", s)
	}
	return total, nil
}
