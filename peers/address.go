package peers

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Address is where a peer is, as a user writes it.
type Address struct {
	Via  string // ViaSSH, ViaDial, ViaSFTP or ViaDir
	User string // empty: left to ssh_config
	Host string // without brackets; empty for a folder
	Port int    // 0: the default
	Path string // of a folder
}

// HostPort returns host:port with brackets where they are due.
func (a Address) HostPort(standard int) string {
	port := a.Port
	if port == 0 {
		port = standard
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(port))
}

// ParseHost reads an address: an SSH destination ([user@]host, host:port,
// [v6]:port or ssh://user@host:port), the listener of a node
// (deja://host:port), a folder on a server (sftp://[user@]host[:port]/path) or
// a folder here (/x, ./x, ../x, ~/x or C:\x).
func ParseHost(s string) (Address, error) {
	a, err := parseHost(s)
	if err != nil {
		return Address{}, fmt.Errorf("host %.200q: %w", s, err)
	}
	return a, nil
}

func parseHost(s string) (Address, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return Address{}, fmt.Errorf("control character at %d", i)
	}
	if isFolder(s) {
		return Address{Via: ViaDir, Path: s}, nil
	}
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return destination(ViaSSH, s)
	}
	authority, folder, hasPath := strings.Cut(rest, "/")
	switch strings.ToLower(scheme) {
	case "ssh":
		if folder != "" {
			return Address{}, fmt.Errorf("an ssh address has no path")
		}
		return destination(ViaSSH, authority)
	case "deja":
		a, err := destination(ViaDial, authority)
		if err == nil && (a.User != "" || folder != "" || a.Port == 0) {
			err = fmt.Errorf("a listener is written deja://host:port")
		}
		return a, err
	case "sftp":
		a, err := destination(ViaSFTP, authority)
		if err == nil && (!hasPath || folder == "") {
			err = fmt.Errorf("an sftp address needs a path")
		}
		a.Path = "/" + folder
		return a, err
	}
	return Address{}, fmt.Errorf("unknown scheme %q (ssh, deja and sftp are known)", scheme)
}

// isFolder tells a path by its beginning. A single letter before a colon and a
// slash is a drive.
func isFolder(s string) bool {
	for _, start := range []string{"/", "./", "../", "~/", `.\`, `..\`, `~\`, `\\`} {
		if strings.HasPrefix(s, start) {
			return true
		}
	}
	drive := len(s) >= 3 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
	return drive || s == "." || s == ".." || s == "~"
}

// destination reads [user@]host[:port].
func destination(via, s string) (Address, error) {
	a := Address{Via: via}
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		if a.User, s = s[:at], s[at+1:]; a.User == "" || a.User[0] == '-' {
			return Address{}, fmt.Errorf("bad user %q", a.User)
		}
	}
	host, port, err := splitPort(s)
	if err != nil {
		return Address{}, err
	}
	a.Host = host
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Address{}, fmt.Errorf("bad port %q", port)
		}
		a.Port = int(n)
	}
	if a.Host == "" || a.Host[0] == '-' || strings.ContainsAny(a.Host, " /\\\"'`$;&|<>()[]{}*?!") {
		return Address{}, fmt.Errorf("bad host name %q", a.Host)
	}
	return a, nil
}

// splitPort takes the port off. A bare IPv6 address has none.
func splitPort(s string) (host, port string, err error) {
	switch {
	case strings.HasPrefix(s, "["):
		host, rest, ok := strings.Cut(s[1:], "]")
		port, hasPort := strings.CutPrefix(rest, ":")
		if !ok || rest != "" && (!hasPort || port == "") {
			return "", "", fmt.Errorf("write [address] or [address]:port")
		}
		return host, port, nil
	case strings.Count(s, ":") != 1:
		return s, "", nil
	}
	host, port, _ = strings.Cut(s, ":")
	if port == "" {
		return "", "", fmt.Errorf("no port after the colon")
	}
	return host, port, nil
}
