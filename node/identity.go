package node

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// Machine is what a node is told about the computer it runs on.
type Machine struct {
	Hostname string
	ID       string // machine id or platform UUID, empty when unknown
}

// Identity is who a node is: its key, and the stream it appends to.
type Identity struct {
	Key    ed25519.PrivateKey
	Node   record.NodeID
	Stream record.StreamID
	Name   string   // what the node calls itself, a label
	Names  []string // what it called itself before
	Card   int      // grows with every change of the labels
	// Moved says that this load found the state on another machine than the
	// one it was bound to, and began a new stream.
	Moved bool
}

// Public returns the node's public key.
func (id Identity) Public() ed25519.PublicKey {
	return ed25519.PublicKey(slices.Clone(id.Key[ed25519.SeedSize:]))
}

// SSHKey returns the public key as OpenSSH writes it, and its SHA256 fingerprint.
func (id Identity) SSHKey() (line, fingerprint string, err error) {
	pub, err := ssh.NewPublicKey(id.Public())
	if err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub))), ssh.FingerprintSHA256(pub), nil
}

const (
	keyMagic  = "DEJA-NODE-KEY-1"
	keyFile   = "node.key"
	nodeFile  = "node.json"
	nodeForm  = 2
	maxNode   = 64 << 10 // bytes of node.json or node.key
	maxLabels = 16       // former names that are remembered
)

// nodeJSON is node/node.json. The node id and the public key in it are there
// for people; the key file decides.
type nodeJSON struct {
	V       int           `json:"v"`
	Node    record.NodeID `json:"node"`
	Pub     string        `json:"pub"`
	Name    string        `json:"name"`
	Names   []string      `json:"names,omitempty"`
	Card    int           `json:"card"`
	Stream  string        `json:"stream"` // 16 hex digits
	Bound   string        `json:"bound"`  // HMAC of the machine under the key
	Created time.Time     `json:"created"`
}

// LoadIdentity reads the identity in dir, or makes one. A changed host name
// becomes a new label. A changed machine begins a new stream under the same
// key, because the original of this copy may go on appending to the old one.
func LoadIdentity(fsys vfs.FS, dir string, m Machine, chosen string, now time.Time, random io.Reader) (Identity, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return Identity{}, err
	}
	key, err := loadKey(fsys, path.Join(dir, keyFile), random)
	if err != nil {
		return Identity{}, err
	}
	name := path.Join(dir, nodeFile)
	state, err := readNodeJSON(fsys, name)
	if err != nil {
		return Identity{}, err
	}
	id := Identity{Key: key}
	id.Node = record.NodeOf(id.Public())

	changed := state.Stream == ""
	if changed {
		state = nodeJSON{V: nodeForm, Bound: bound(key, m), Created: now.UTC()}
	}
	if state.Bound != bound(key, m) {
		id.Moved, changed = true, true
		state.Bound, state.Stream = bound(key, m), ""
	}
	if state.Stream == "" {
		if state.Stream, err = newStream(random); err != nil {
			return Identity{}, err
		}
	}
	if own := label(chosen, m.Hostname); state.Name != own {
		state.rename(own)
		changed = true
	}
	if changed {
		state.Node, state.Pub = id.Node, base64.StdEncoding.EncodeToString(id.Public())
		data, err := json.MarshalIndent(state, "", "  ")
		if err != nil {
			return Identity{}, err
		}
		if err := vfs.WriteFile(fsys, name, append(data, '\n')); err != nil {
			return Identity{}, err
		}
	}
	id.Name, id.Names, id.Card = state.Name, state.Names, state.Card
	id.Stream.Node = id.Node
	if _, err := hex.Decode(id.Stream.Nonce[:], []byte(state.Stream)); err != nil || len(state.Stream) != 16 {
		return Identity{}, fmt.Errorf("%s: stream %.40q: %w", name, state.Stream, record.ErrBadID)
	}
	return id, nil
}

// rename makes own the current label and remembers the one before.
func (s *nodeJSON) rename(own string) {
	if s.Name != "" && !slices.Contains(s.Names, s.Name) {
		s.Names = append(s.Names, s.Name)
		if extra := len(s.Names) - maxLabels; extra > 0 {
			s.Names = s.Names[extra:]
		}
	}
	s.Name = own
	s.Card++
}

func loadKey(fsys vfs.FS, path string, random io.Reader) (ed25519.PrivateKey, error) {
	data, err := vfs.ReadFile(fsys, path, maxNode)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(fsys, path, random)
	}
	if err != nil {
		return nil, err
	}
	magic, rest, _ := strings.Cut(string(data), "\n")
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if magic != keyMagic || err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s: not a node key (%s and 32 bytes in base64): restore it from a backup, or move it away to become a new node", path, keyMagic)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func newKey(fsys vfs.FS, path string, random io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("new node key: %w", err)
	}
	text := keyMagic + "\n" + base64.StdEncoding.EncodeToString(seed) + "\n"
	if err := vfs.WriteFile(fsys, path, []byte(text)); err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// readNodeJSON returns the zero value when there is none yet. A damaged file
// is no reason to lose the stream silently: it is an error with a remedy.
func readNodeJSON(fsys vfs.FS, path string) (nodeJSON, error) {
	data, err := vfs.ReadFile(fsys, path, maxNode)
	if errors.Is(err, fs.ErrNotExist) {
		return nodeJSON{}, nil
	}
	if err != nil {
		return nodeJSON{}, err
	}
	var s nodeJSON
	if err := json.Unmarshal(data, &s); err != nil {
		return nodeJSON{}, fmt.Errorf("%s: %w: remove it to begin a new stream under the same key", path, err)
	}
	if s.V > nodeForm {
		return nodeJSON{}, fmt.Errorf("%s: written by a newer deja (format %d, this one knows %d): upgrade deja", path, s.V, nodeForm)
	}
	return s, nil
}

// bound ties the state to a machine. The host name stands in only where the
// platform gives no id: a laptop whose name follows the network stays itself.
func bound(key ed25519.PrivateKey, m Machine) string {
	what := m.ID
	if what == "" {
		what = m.Hostname
	}
	mac := hmac.New(sha256.New, key.Seed())
	mac.Write([]byte(what))
	return hex.EncodeToString(mac.Sum(nil))
}

func newStream(random io.Reader) (string, error) {
	var nonce [8]byte
	if _, err := io.ReadFull(random, nonce[:]); err != nil {
		return "", fmt.Errorf("new stream: %w", err)
	}
	return hex.EncodeToString(nonce[:]), nil
}

// label is the node's name for itself: what the user chose, else the first
// part of the host name.
func label(chosen, hostname string) string {
	name := chosen
	if name == "" {
		name, _, _ = strings.Cut(hostname, ".")
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if name == "" {
		return "unnamed"
	}
	if len(name) > 120 {
		name = strings.ToValidUTF8(name[:120], "")
	}
	return name
}
