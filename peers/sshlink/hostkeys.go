package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/deja-node/deja/index/vfs"
)

// HostKey is a key that a host showed and nobody knows yet.
type HostKey struct {
	Host        string // host:port, or the HostKeyAlias
	Type        string
	Fingerprint string // SHA256:...
}

// Kinds of HostKeyError.
const (
	KeyUnknown = "unknown"
	KeyChanged = "changed"
	KeyRevoked = "revoked"
)

// HostKeyError says that a host's key was not accepted. It is permanent.
type HostKeyError struct {
	Host        string
	Kind        string
	Fingerprint string   // of the key that the host showed
	Want        []string // what is known of it: "SHA256:... (file:line)" or the pin
}

// Error implements error.
func (e *HostKeyError) Error() string {
	switch e.Kind {
	case KeyUnknown:
		return fmt.Sprintf("host key of %s is unknown (%s): run deja peer add %s to check and accept it", e.Host, e.Fingerprint, e.Host)
	case KeyRevoked:
		return fmt.Sprintf("host key of %s is revoked (%s)", e.Host, e.Fingerprint)
	}
	return fmt.Sprintf("host key of %s changed: it is %s, expected %s; someone may be in between, or the host was reinstalled",
		e.Host, e.Fingerprint, strings.Join(e.Want, " or "))
}

// plainAlgorithms are accepted from a host nobody knows, best first. SHA-1 is
// not among them.
var plainAlgorithms = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// hostKeys decides about the key of one host.
type hostKeys struct {
	target   *target
	db       *knownhosts.HostKeyDB
	own      string // file that accepted keys go to
	pin      string
	decide   func(HostKey) (bool, error)
	pause    func() (resume func()) // stops the clock while the user thinks
	ctx      context.Context
	accepted string // fingerprint
}

func newHostKeys(ctx context.Context, t *target, o *Options) (*hostKeys, error) {
	var files []string
	for _, name := range t.knownHosts {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	h := &hostKeys{target: t, db: db, pin: o.Pin, decide: o.Decide, ctx: ctx}
	if len(o.KnownHosts) > 0 {
		h.own = o.KnownHosts[0]
	}
	return h, nil
}

// algorithms lists those of the keys known for this host first, so that the
// server shows a key that can be compared.
func (h *hostKeys) algorithms() []string {
	list := slices.DeleteFunc(h.db.HostKeyAlgorithms(h.target.keyName), func(name string) bool {
		return name == ssh.KeyAlgoRSA || name == ssh.CertAlgoRSAv01
	})
	for _, name := range plainAlgorithms {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// check is the ssh.HostKeyCallback.
func (h *hostKeys) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	fingerprint := fingerprintOf(key)
	refuse := func(kind string, want []string) error {
		return &HostKeyError{Host: h.shown(), Kind: kind, Fingerprint: fingerprint, Want: want}
	}
	err := h.db.HostKeyCallback()(h.target.keyName, &net.TCPAddr{IP: net.IPv4zero, Port: 22}, key)
	var revoked *xknownhosts.RevokedError
	var mismatch *xknownhosts.KeyError
	switch {
	case errors.As(err, &revoked):
		return refuse(KeyRevoked, nil)
	case h.pin != "" && fingerprint != h.pin:
		return refuse(KeyChanged, []string{h.pin + " (pinned)"})
	case err == nil:
		h.accepted = fingerprint
		return nil
	case !errors.As(err, &mismatch):
		return fmt.Errorf("host key of %s: %w", h.shown(), err)
	case len(mismatch.Want) > 0 && !h.onlyAuthorities():
		return refuse(KeyChanged, wanted(mismatch.Want))
	}
	ok, err := h.mayAdd(HostKey{Host: h.shown(), Type: key.Type(), Fingerprint: fingerprint})
	if err != nil {
		return err
	}
	if !ok {
		return refuse(KeyUnknown, nil)
	}
	if err := h.add(key); err != nil {
		return err
	}
	h.accepted = fingerprint
	return nil
}

// onlyAuthorities reports whether all that is known of the host is who may
// sign its certificates: a plain key is unknown then, not changed.
func (h *hostKeys) onlyAuthorities() bool {
	for _, key := range h.db.HostKeys(h.target.keyName) {
		if !key.Cert {
			return false
		}
	}
	return true
}

// mayAdd decides about an unknown key. A pin was confirmed by the user before.
func (h *hostKeys) mayAdd(key HostKey) (bool, error) {
	switch {
	case h.pin != "" || h.target.strict == strictAcceptNew || h.target.strict == strictNo:
		return true, nil
	case h.target.strict == strictYes || h.decide == nil:
		return false, nil
	}
	defer h.pause()()
	return h.decide(key)
}

// add appends the key to deja's own file.
func (h *hostKeys) add(key ssh.PublicKey) (err error) {
	if h.own == "" {
		return nil
	}
	name, disk := filepath.ToSlash(h.own), vfs.OS{}
	if err := disk.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	lock, err := waitLock(h.ctx, disk, name+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return appendLine(disk, name, knownhosts.Line([]string{knownhosts.Normalize(h.target.keyName)}, key))
}

// appendLine adds a line to a file whose last line may be cut short.
func appendLine(disk vfs.FS, name, line string) (err error) {
	f, err := disk.Append(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			out.WriteByte('\n')
		}
	}
	out.WriteString(line + "\n")
	if _, err := f.Write(out.Bytes()); err != nil {
		return err
	}
	return f.Sync()
}

// waitLock waits for another process up to five seconds.
func waitLock(ctx context.Context, disk vfs.FS, name string) (interface{ Close() error }, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		lock, err := disk.Lock(name)
		if !errors.Is(err, vfs.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// shown is the host as a message names it.
func (h *hostKeys) shown() string { return knownhosts.Normalize(h.target.keyName) }

func wanted(known []xknownhosts.KnownKey) []string {
	var list []string
	for _, k := range known {
		list = append(list, fmt.Sprintf("%s (%s:%d)", fingerprintOf(k.Key), k.Filename, k.Line))
	}
	return list
}

// fingerprintOf names a key; a certificate by the key in it.
func fingerprintOf(key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	return ssh.FingerprintSHA256(key)
}
