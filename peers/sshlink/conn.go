package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Conn is an authenticated connection to an SSH server.
type Conn struct {
	target      *target
	log         *slog.Logger
	wire        *watchedConn
	client      *ssh.Client
	via         *Conn // last jump host, closed behind this one
	stop        func() bool
	fingerprint string
	banner      string
	warnings    []string

	beating sync.WaitGroup
	once    sync.Once
	err     error
}

// Fingerprint returns the SHA256 fingerprint of the host key.
func (c *Conn) Fingerprint() string { return c.fingerprint }

// Banner returns what the server said before authentication, without control
// characters.
func (c *Conn) Banner() string { return c.banner }

// ServerVersion returns the identification of the server's software.
func (c *Conn) ServerVersion() string { return cleanText(string(c.client.ServerVersion())) }

// Warnings names keywords of ssh_config that were not obeyed and keys that
// were not offered.
func (c *Conn) Warnings() []string { return c.warnings }

// Close ends the connection and the jumps behind it. It may be called on nil.
func (c *Conn) Close() error {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		if c.stop != nil {
			c.stop()
		}
		if c.wire != nil {
			c.err = c.wire.Close()
		}
		c.beating.Wait()
		c.err = errors.Join(c.err, c.via.Close())
	})
	return c.err
}

// beat asks the server for an answer every so often, so that a connection
// without one is silent only when it is dead.
func (c *Conn) beat(every time.Duration) {
	ended := make(chan struct{})
	c.beating.Go(func() {
		defer close(ended)
		if err := c.client.Wait(); err != nil {
			c.log.Debug("connection ended", "host", c.target.typed, "error", err)
		}
	})
	c.beating.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if _, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil); err != nil {
				return
			}
		}
	})
}

// SFTP opens the file service of the server. The client is closed by the caller.
func (c *Conn) SFTP() (*sftp.Client, error) {
	client, err := sftp.NewClient(c.client)
	if err != nil {
		return nil, fmt.Errorf("%s: sftp: %w", c.target.typed, err)
	}
	return client, nil
}

// proxy starts a ProxyCommand.
func (c *Conn) proxy(ctx context.Context, o *Options) (net.Conn, error) {
	if o.Run == nil {
		return nil, fmt.Errorf("%s: ProxyCommand is not supported here", o.Host)
	}
	var b strings.Builder
	for i := 0; i < len(c.target.command); i++ {
		if c.target.command[i] == '%' && i+1 < len(c.target.command) {
			value, ok := c.target.token(c.target.command[i+1], o)
			if !ok {
				return nil, fmt.Errorf("%s: ProxyCommand: unknown token %q", o.Host, c.target.command[i:i+2])
			}
			if strings.ContainsAny(value, "'`\"$\\;&<>|(){}\n\r\t *?!#") {
				return nil, fmt.Errorf("%s: ProxyCommand: %q is not safe in a command", o.Host, value)
			}
			b.WriteString(value)
			i++
			continue
		}
		b.WriteByte(c.target.command[i])
	}
	stream, err := o.Run(ctx, b.String())
	if err != nil {
		return nil, fmt.Errorf("%s: ProxyCommand: %w", o.Host, err)
	}
	return &streamConn{stream}, nil
}

// streamConn gives a stream the shape of a net.Conn. Deadlines are not used:
// watchedConn closes instead.
type streamConn struct{ io.ReadWriteCloser }

func (*streamConn) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4zero} }
func (*streamConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4zero} }
func (*streamConn) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (*streamConn) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (*streamConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// cleanText drops control characters from remote text.
func cleanText(s string) string {
	if len(s) > 4096 {
		s = s[:4096]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
