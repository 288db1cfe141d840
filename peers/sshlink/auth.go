package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const (
	maxOffers    = 5 // servers hang up after six tries
	agentConnect = 2 * time.Second
	agentSign    = time.Minute // for a touch
	maxKeySize   = 64 << 10
)

// AuthError says that the server accepted none of the keys.
type AuthError struct {
	User, Host string
	Offered    []string // fingerprints and where the keys are from
	Notes      []string // keys that were not offered, and agents that did not answer
	Err        error
}

// Error implements error.
func (e *AuthError) Error() string {
	text := fmt.Sprintf("%s@%s accepts none of the keys offered (%s)", e.User, e.Host, strings.Join(e.Offered, ", "))
	if len(e.Offered) == 0 {
		text = fmt.Sprintf("no key to offer to %s@%s", e.User, e.Host)
	}
	if len(e.Notes) > 0 {
		text += "; " + strings.Join(e.Notes, "; ")
	}
	return text
}

// Unwrap returns the error of the handshake.
func (e *AuthError) Unwrap() error { return e.Err }

// offer is a key and where it is from.
type offer struct {
	ssh.Signer
	from string
}

// keyring collects the keys for one connection.
type keyring struct {
	target *target
	prompt func(question string, secret bool) (string, error)
	pause  func() (resume func())
	agent  io.Closer
	notes  []string
	shown  []string
}

func (k *keyring) note(format string, args ...any) {
	k.notes = append(k.notes, fmt.Sprintf(format, args...))
}

// close gives the agent's connection back.
func (k *keyring) close() error {
	if k.agent == nil {
		return nil
	}
	return k.agent.Close()
}

// signers returns the keys in the order they are offered: those of the agent
// that an identity names, identities of the user's choice, others of the agent,
// default files. Two default files keep a place beside a full agent.
func (k *keyring) signers(ctx context.Context) ([]ssh.Signer, error) {
	inAgent := k.agentKeys(ctx)
	var named, files []offer
	for _, name := range k.target.identities {
		pub, signer := k.identity(name)
		if pub == nil {
			continue
		}
		if i := indexKey(inAgent, pub); i >= 0 {
			named = append(named, inAgent[i])
			inAgent = append(inAgent[:i:i], inAgent[i+1:]...)
		} else if signer != nil {
			files = append(files, offer{signer, name})
		}
	}
	if k.target.identitiesOnly {
		inAgent = nil
	}
	order := named
	if k.target.named {
		order = append(append(order, files...), inAgent...)
	} else {
		room := max(maxOffers-len(named)-min(len(files), 2), 0)
		if len(inAgent) > room {
			k.note("%d more keys in the agent were not offered: name the right one with IdentityFile", len(inAgent)-room)
			inAgent = inAgent[:room]
		}
		order = append(append(order, inAgent...), files...)
	}
	if len(order) > maxOffers {
		k.note("%d more keys were not offered: name the right one with IdentityFile", len(order)-maxOffers)
		order = order[:maxOffers]
	}
	var list []ssh.Signer
	for _, o := range order {
		k.shown = append(k.shown, ssh.FingerprintSHA256(o.PublicKey())+" from "+o.from)
		list = append(list, o.Signer)
	}
	return list, nil
}

// agentKeys asks the agent. One that does not answer is named in the error of
// a connection that fails, and is no error of its own.
func (k *keyring) agentKeys(whole context.Context) []offer {
	if k.target.agent == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(whole, agentConnect)
	defer cancel()
	conn, err := dialAgent(ctx, k.target.agent)
	if err != nil {
		if k.target.agent != defaultAgent || !errors.Is(err, fs.ErrNotExist) {
			k.note("the agent at %s does not answer (%v)", k.target.agent, err)
		}
		return nil
	}
	k.agent = conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a hung agent; List then fails
	signers, err := agent.NewClient(conn).Signers()
	if !stop() || err != nil {
		k.note("the agent at %s does not list its keys (%v)", k.target.agent, err)
		return nil
	}
	var list []offer
	for _, s := range signers {
		list = append(list, offer{&slowSigner{s, k.pause, whole, conn}, "agent"})
	}
	return list
}

func indexKey(list []offer, pub ssh.PublicKey) int {
	for i, o := range list {
		if bytes.Equal(o.PublicKey().Marshal(), pub.Marshal()) {
			return i
		}
	}
	return -1
}

// identity reads a key file. The public key alone finds a key in the agent;
// the signer is nil when the file cannot sign.
func (k *keyring) identity(name string) (ssh.PublicKey, ssh.Signer) {
	pub := readPublic(name + ".pub")
	data, err := readKeyFile(name)
	if err != nil {
		if k.target.named && pub == nil {
			k.note("%v", err)
		}
		return pub, nil
	}
	if key, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		return key, nil // IdentityFile names a public key
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer.PublicKey(), signer
	case !errors.As(err, &locked):
		k.note("%s cannot be read (%v): add it to your agent, or re-encrypt it with ssh-keygen -p", name, err)
		return pub, nil
	}
	if locked.PublicKey != nil {
		pub = locked.PublicKey
	}
	if pub == nil || k.prompt == nil {
		k.note("%s is encrypted: add it to your agent", name)
		return pub, nil
	}
	return pub, &lockedSigner{pub: pub, unlock: sync.OnceValues(func() (ssh.Signer, error) { return k.unlock(name, data) })}
}

// unlock asks for a passphrase up to three times.
func (k *keyring) unlock(name string, data []byte) (ssh.Signer, error) {
	defer k.pause()()
	var err error
	for range 3 {
		phrase, promptErr := k.prompt("Passphrase for "+name+": ", true)
		if promptErr != nil {
			return nil, promptErr
		}
		var signer ssh.Signer
		if signer, err = ssh.ParsePrivateKeyWithPassphrase(data, []byte(phrase)); err == nil {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

// readPublic returns the key of a .pub file, or nil when there is none.
func readPublic(name string) ssh.PublicKey {
	data, err := readKeyFile(name)
	if err != nil {
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil
	}
	return key
}

func readKeyFile(name string) (data []byte, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeySize {
		return nil, fmt.Errorf("%s: not a key file", name)
	}
	return os.ReadFile(name)
}

// lockedSigner asks for the passphrase only when a server wants the key.
type lockedSigner struct {
	pub    ssh.PublicKey
	unlock func() (ssh.Signer, error)
}

// PublicKey implements ssh.Signer.
func (s *lockedSigner) PublicKey() ssh.PublicKey { return s.pub }

// Sign implements ssh.Signer.
func (s *lockedSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (s *lockedSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	signer, err := s.unlock()
	if err != nil {
		return nil, err
	}
	return signWith(signer, rand, data, algorithm)
}

// slowSigner is a key of an agent, which may wait for a touch.
type slowSigner struct {
	ssh.Signer
	pause func() (resume func())
	ctx   context.Context // of the connection
	agent io.Closer
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (s *slowSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	defer s.pause()()
	ctx, cancel := context.WithTimeout(s.ctx, agentSign)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.agent.Close() }) // the signing then fails
	defer stop()
	return signWith(s.Signer, rand, data, algorithm)
}

func signWith(signer ssh.Signer, rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if flexible, ok := signer.(ssh.AlgorithmSigner); ok && algorithm != "" {
		return flexible.SignWithAlgorithm(rand, data, algorithm)
	}
	return signer.Sign(rand, data)
}
