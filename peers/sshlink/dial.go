package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	handshakeLimit = 20 * time.Second
	humanLimit     = 90 * time.Second // for an answer, a touch or a passphrase
	maxJumps       = 8
	clientVersion  = "SSH-2.0-deja"
)

// Options say whom to reach and how.
type Options struct {
	Host     string // as typed: an alias of ssh_config or a name
	User     string // empty: ssh_config, else UserName
	Port     int    // 0: ssh_config, else 22
	Identity string // key file offered first
	Strict   string // instead of ssh_config's StrictHostKeyChecking

	Home     string
	UserName string // of the local user
	Getenv   func(string) string
	// ConfigFiles replaces ~/.ssh/config and the system's file.
	ConfigFiles []string
	// KnownHosts begins with deja's own file, which accepted keys are added
	// to. The files that ssh_config names are read besides.
	KnownHosts []string
	// Pin is the fingerprint the host's key must have.
	Pin string

	// Decide is asked about an unknown host key; nil refuses it.
	Decide func(HostKey) (bool, error)
	// Prompt asks the user; nil leaves encrypted keys out.
	Prompt func(question string, secret bool) (string, error)
	// Run starts a ProxyCommand and returns its streams; closing ends it. Nil
	// makes ProxyCommand an error.
	Run func(ctx context.Context, command string) (io.ReadWriteCloser, error)
	Log *slog.Logger
}

// Dial connects to an SSH server and authenticates. The end of ctx closes the
// connection at any time.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Log == nil {
		o.Log = discardLog
	}
	return dialThrough(ctx, &o, nil, 0)
}

// dialThrough connects, through the host via if it is not nil.
func dialThrough(ctx context.Context, o *Options, via *Conn, depth int) (*Conn, error) {
	t, err := resolve(o)
	if err != nil {
		return nil, err
	}
	if depth > maxJumps {
		return nil, fmt.Errorf("%s: more than %d jumps", o.Host, maxJumps)
	}
	c := &Conn{target: t, log: o.Log, warnings: t.warnings}
	raw, err := c.transport(ctx, o, via, depth)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.handshake(ctx, o, raw); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	o.Log.Debug("connected", "host", t.address(), "user", t.user, "key", c.fingerprint, "server", c.ServerVersion())
	return c, nil
}

// transport opens the stream that SSH runs over. A given via wins over what
// ssh_config says, as it does for the hops of a chain.
func (c *Conn) transport(ctx context.Context, o *Options, via *Conn, depth int) (net.Conn, error) {
	t := c.target
	if via == nil && t.jump != "" && !strings.EqualFold(t.jump, "none") && !t.jumpsToItself() {
		last, err := dialJumps(ctx, o, t.jump, depth)
		if err != nil {
			return nil, err
		}
		c.via, via = last, last
	}
	ctx, cancel := context.WithTimeout(ctx, max(t.connectTimeout, time.Second))
	defer cancel()
	switch {
	case via != nil:
		conn, err := via.client.DialContext(ctx, "tcp", t.address())
		if err != nil {
			return nil, fmt.Errorf("%s through %s: %w", t.address(), via.target.address(), err)
		}
		return conn, nil
	case t.command != "" && !strings.EqualFold(t.command, "none"):
		return c.proxy(context.WithoutCancel(ctx), o)
	}
	return (&net.Dialer{}).DialContext(ctx, t.network, t.address())
}

// dialJumps connects to the hosts of a ProxyJump one through another, and
// returns the last. Host keys of hops are checked like any other; pin,
// identity and name of the destination are not theirs.
func dialJumps(ctx context.Context, o *Options, chain string, depth int) (*Conn, error) {
	var via *Conn
	for i, hop := range strings.Split(chain, ",") {
		ho := *o
		ho.Pin, ho.Identity = "", ""
		var err error
		if ho.User, ho.Host, ho.Port, err = splitHop(hop); err != nil {
			return nil, errors.Join(err, via.Close())
		}
		next, err := dialThrough(ctx, &ho, via, depth+i+1)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("jump host %s: %w", ho.Host, err), via.Close())
		}
		if via != nil {
			next.via = via
		}
		via = next
	}
	return via, nil
}

// jumpsToItself reports whether a jump host's own settings, such as those of
// Host *, send it through itself.
func (t *target) jumpsToItself() bool {
	first, _, _ := strings.Cut(t.jump, ",")
	_, host, _, err := splitHop(first)
	return err == nil && (host == t.typed || strings.EqualFold(host, t.host))
}

// splitHop reads [ssh://][user@]host[:port].
func splitHop(hop string) (user, host string, port int, err error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(hop), "ssh://"), "/")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, rest = rest[:at], rest[at+1:]
	}
	host = rest
	if strings.HasPrefix(rest, "[") || strings.Count(rest, ":") == 1 {
		if inner, ok := strings.CutSuffix(rest, "]"); ok {
			host = strings.TrimPrefix(inner, "[")
		} else {
			var text string
			if host, text, err = net.SplitHostPort(rest); err == nil {
				port, err = parsePort(text)
			}
		}
	}
	if err == nil && host == "" {
		err = errors.New("no host")
	}
	if err != nil {
		err = fmt.Errorf("ProxyJump %q: %w", hop, err)
	}
	return user, host, port, err
}

// handshake speaks SSH over raw and leaves a connection that is watched.
func (c *Conn) handshake(ctx context.Context, o *Options, raw net.Conn) error {
	c.wire = watch(raw, handshakeLimit)
	stop := context.AfterFunc(ctx, func() { _ = c.wire.cut(context.Cause(ctx)) }) // reads report the cause
	c.stop = stop
	pause := func() func() { return c.wire.pause(humanLimit, handshakeLimit) }
	keys, err := newHostKeys(ctx, c.target, o)
	if err != nil {
		return err
	}
	keys.pause = pause
	ring := &keyring{target: c.target, prompt: o.Prompt, pause: pause}
	config := &ssh.ClientConfig{
		User: c.target.user, ClientVersion: clientVersion,
		HostKeyCallback: keys.check, HostKeyAlgorithms: keys.algorithms(),
		Auth:           []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return ring.signers(ctx) })},
		BannerCallback: func(text string) error { c.banner = cleanText(text); return nil },
	}
	conn, channels, requests, err := ssh.NewClientConn(c.wire, c.target.address(), config)
	if closeErr := ring.close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
		o.Log.Debug("agent", "error", closeErr)
	}
	if err != nil {
		return c.explain(err, keys, ring)
	}
	c.client, c.fingerprint = ssh.NewClient(conn, channels, requests), keys.accepted
	c.warnings = append(c.warnings, ring.notes...)
	c.wire.relax(c.target.alive * time.Duration(c.target.aliveMost))
	if c.target.alive > 0 {
		c.beat(c.target.alive)
	}
	return nil
}

// explain finds the cause behind a failed handshake.
func (c *Conn) explain(err error, keys *hostKeys, ring *keyring) error {
	if why := c.wire.reason(); why != nil && !errors.Is(why, net.ErrClosed) {
		return fmt.Errorf("%s: %w", c.target.address(), why)
	}
	var hostKey *HostKeyError
	if errors.As(err, &hostKey) {
		return hostKey
	}
	text := err.Error()
	if keys.accepted != "" && (strings.Contains(text, "unable to authenticate") || strings.Contains(strings.ToLower(text), "too many authentication")) {
		return &AuthError{User: c.target.user, Host: c.target.typed, Offered: ring.shown, Notes: ring.notes, Err: err}
	}
	return fmt.Errorf("%s: %w", c.target.address(), err)
}

var discardLog = slog.New(slog.DiscardHandler)
