package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	serveCommand = " sync serve --stdio"
	magic        = "DEJA-SYNC/"     // how the greeting of a serving deja begins
	maxNoise     = 64 << 10         // bytes of a login's talk before it
	greetLimit   = 10 * time.Second // for the greeting
)

var safeBin = regexp.MustCompile(`^[A-Za-z0-9_./~][A-Za-z0-9_./~-]*$`)

// Candidates lists where deja is looked for on a peer, in order. The first is
// found through PATH, which a login without a terminal often has a short one of.
func (*Conn) Candidates() []string {
	return []string{"deja", "~/.local/bin/deja", "~/go/bin/deja", "/usr/local/bin/deja", "/opt/homebrew/bin/deja"}
}

// NoBinError says that no deja answered on the peer.
type NoBinError struct {
	Host   string
	Tried  []string
	Stderr string // of the last try
}

// Error implements error.
func (e *NoBinError) Error() string {
	text := fmt.Sprintf("%s has no deja at %s", e.Host, strings.Join(e.Tried, ", "))
	if e.Stderr != "" {
		text += ": " + strings.TrimSpace(e.Stderr)
	}
	return text
}

// Exchange starts deja on the peer and returns the stream to it, and where it
// was found. An empty bin tries the candidates; another one is tried alone. ctx
// bounds the start only.
func (c *Conn) Exchange(ctx context.Context, bin string) (*Link, string, error) {
	bins := []string{bin}
	if bin == "" {
		bins = c.Candidates()
	}
	missing := &NoBinError{Host: c.target.typed}
	for _, bin := range bins {
		if !safeBin.MatchString(bin) {
			return nil, "", fmt.Errorf("%.200q is no path of a program that is run on a peer", bin)
		}
		link, err := c.start(ctx, bin)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %s: %w", c.target.typed, bin, err)
		}
		err = link.greet(ctx)
		if err == nil {
			return link, bin, nil
		}
		stderr := link.Stderr()
		if closeErr := link.Close(); closeErr != nil {
			return nil, "", errors.Join(err, closeErr)
		}
		if !errors.Is(err, errNotFound) {
			return nil, "", fmt.Errorf("%s: %s: %w%s", c.target.typed, bin, err, said(stderr))
		}
		missing.Tried, missing.Stderr = append(missing.Tried, bin), stderr
	}
	return nil, "", missing
}

func said(stderr string) string {
	if stderr = strings.TrimSpace(stderr); stderr == "" {
		return ""
	}
	return " (it said: " + stderr + ")"
}

// start runs the command in a channel of its own. A server that does not
// answer in time loses the connection, as nothing else ends the wait.
func (c *Conn) start(ctx context.Context, bin string) (*Link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, greetLimit, errSilent)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.wire.cut(context.Cause(ctx)) }) // the calls below report it
	defer stop()
	channel, requests, err := c.client.OpenChannel("session", nil)
	if err != nil {
		return nil, c.because(err)
	}
	link := newLink(channel, requests, c.wire)
	ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{bin + serveCommand}))
	if err == nil && !ok {
		err = errors.New("the server runs no commands for this login")
	}
	if err != nil {
		return nil, errors.Join(c.because(err), link.Close())
	}
	return link, nil
}

// because prefers why the connection was cut to what followed from it.
func (c *Conn) because(err error) error {
	if why := c.wire.reason(); why != nil {
		return why
	}
	return err
}

// errNotFound says that a command does not exist on the peer.
var errNotFound = errors.New("not found")

// greet waits until the greeting is there, and leaves everything that was read
// for Read.
func (l *Link) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, greetLimit, errors.New("no greeting in time"))
	defer cancel()
	cut := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { cut <- l.Close() })
	err := l.readGreeting()
	if !stop() {
		return errors.Join(context.Cause(ctx), <-cut)
	}
	return err
}

func (l *Link) readGreeting() error {
	buf := make([]byte, 4096)
	for !bytes.Contains(l.head, []byte(magic)) {
		if len(l.head) > maxNoise {
			return fmt.Errorf("more than %d bytes of other output before the greeting", maxNoise)
		}
		n, err := l.channel.Read(buf)
		l.head = append(l.head, buf[:n]...)
		if n > 0 || err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		return l.endedEarly()
	}
	return nil
}

// endedEarly tells a command that is missing from one that failed. 127 and 126
// are of Unix shells, 9009 and 1 with its text of those of Windows.
func (l *Link) endedEarly() error {
	<-l.gone
	<-l.drained
	status, ok := l.ExitStatus()
	text := strings.ToLower(l.Stderr())
	switch {
	case ok && (status == 127 || status == 126 || status == 9009),
		strings.Contains(text, "not recognized"), strings.Contains(text, "command not found"):
		return errNotFound
	case ok:
		return fmt.Errorf("ended with status %d before the greeting", status)
	}
	return errors.New("ended before the greeting")
}
