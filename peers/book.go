package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

const (
	bookForm = 2
	maxBook  = 4 << 20 // bytes of peers.json
	lockWait = 20 * time.Millisecond
	lockMost = 5 * time.Second // that an Update waits for another process
)

// Ways to a peer.
const (
	ViaSSH    = "ssh"    // an SSH server of the peer's system
	ViaDial   = "dial"   // the SSH listener of the peer's own deja
	ViaDir    = "dir"    // a folder that both see
	ViaSFTP   = "sftp"   // a folder on an SFTP server
	ViaListen = "listen" // the peer dials this node
)

// Directions of an exchange.
const (
	DirBoth = "both"
	DirPush = "push"
	DirPull = "pull"
)

// Book is peers.json.
type Book struct {
	V     int    `json:"v"`
	Peers []Peer `json:"peers"`

	extra extra
}

// Peer is a row of the book: a machine this node syncs with.
type Peer struct {
	Host    string        `json:"host"`              // as the user typed it, the first spelling
	Node    record.NodeID `json:"node,omitzero"`     // zero until a HELLO was authenticated
	Pub     string        `json:"pub,omitempty"`     // the node's public key, base64
	Machine string        `json:"machine,omitempty"` // what the node calls itself
	Names   []string      `json:"names,omitempty"`   // what it called itself before
	Aliases []string      `json:"aliases,omitempty"` // other spellings of the host
	Nick    string        `json:"nick,omitempty"`    // what the user calls it
	Group   string        `json:"group,omitempty"`
	Via     string        `json:"via"`
	Dir     string        `json:"dir"`
	Enabled bool          `json:"enabled"`
	SSH     SSH           `json:"ssh,omitzero"`
	Path    string        `json:"path,omitempty"` // the folder of a dir or sftp peer

	extra extra
}

// SSH is how a peer is reached over SSH. Empty fields are left to ssh_config.
type SSH struct {
	User     string `json:"user,omitempty"`
	Port     int    `json:"port,omitempty"`
	Identity string `json:"identity,omitempty"`
	HostKey  string `json:"host_key,omitempty"` // pinned SHA256 fingerprint
	Strict   string `json:"strict,omitempty"`
	Bin      string `json:"bin,omitempty"` // the deja that answered last

	extra extra
}

// IsZero reports whether nothing is set.
func (s SSH) IsZero() bool {
	return s.User == "" && s.Port == 0 && s.Identity == "" && s.HostKey == "" && s.Strict == "" && s.Bin == "" && len(s.extra) == 0
}

// Display returns the name to show: nickname, typed host, own name, short id.
func (p Peer) Display() string {
	for _, name := range []string{p.Nick, p.Host, p.Machine} {
		if name != "" {
			return name
		}
	}
	return p.Node.Short()
}

// UnmarshalJSON implements json.Unmarshaler. Rows of v1 have a host and its
// times alone: they are enabled, both ways, over SSH.
func (p *Peer) UnmarshalJSON(data []byte) error {
	type plain Peer
	row := struct {
		plain
		Node string `json:"node"`
	}{plain: plain{Via: ViaSSH, Dir: DirBoth, Enabled: true}}
	if err := json.Unmarshal(data, &row); err != nil {
		return err
	}
	*p = Peer(row.plain)
	if row.Node != "" {
		node, err := record.ParseNode(row.Node)
		if err != nil {
			return fmt.Errorf("peer %.80q: %w", p.Host, err)
		}
		p.Node = node
	}
	if p.Host == "" && p.Node.IsZero() {
		return errors.New("a peer has neither host nor node")
	}
	rest, err := unknownFields(data, *p)
	p.extra = rest
	return err
}

// MarshalJSON implements json.Marshaler.
func (p Peer) MarshalJSON() ([]byte, error) {
	type plain Peer
	return marshalWith(plain(p), p.extra)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *SSH) UnmarshalJSON(data []byte) error {
	type plain SSH
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	rest, err := unknownFields(data, *s)
	s.extra = rest
	return err
}

// MarshalJSON implements json.Marshaler.
func (s SSH) MarshalJSON() ([]byte, error) {
	type plain SSH
	return marshalWith(plain(s), s.extra)
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Book) UnmarshalJSON(data []byte) error {
	type plain Book
	if err := json.Unmarshal(data, (*plain)(b)); err != nil {
		return err
	}
	rest, err := unknownFields(data, *b)
	b.extra = rest
	return err
}

// MarshalJSON implements json.Marshaler.
func (b Book) MarshalJSON() ([]byte, error) {
	type plain Book
	b.V = max(b.V, bookForm)
	if b.Peers == nil {
		b.Peers = []Peer{}
	}
	return marshalWith(plain(b), b.extra)
}

// Load reads the book; a missing file is an empty one. A file that is no book
// is an error: it stays as it is, and peers.json.bad keeps a copy of it.
func Load(fsys vfs.FS, name string) (Book, error) {
	data, err := vfs.ReadFile(fsys, name, maxBook)
	if errors.Is(err, fs.ErrNotExist) {
		return Book{V: bookForm}, nil
	}
	if err != nil {
		return Book{}, err
	}
	var b Book
	if err := json.Unmarshal(data, &b); err != nil {
		err = fmt.Errorf("%s: %w: repair it or move it away", name, err)
		return Book{}, errors.Join(err, keepBad(fsys, name+".bad", data))
	}
	if b.V > bookForm {
		return Book{}, fmt.Errorf("%s: written by a newer deja (format %d, this one knows %d): upgrade deja", name, b.V, bookForm)
	}
	b.V = bookForm
	return b, nil
}

// keepBad copies a broken book, unless an earlier one is kept already.
func keepBad(fsys vfs.FS, name string, data []byte) error {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return vfs.WriteFile(fsys, name, data)
	}
	return err
}

// Update changes the book: it reads it again under a lock, calls change and
// writes the result whole. An error of change leaves the file as it is.
func Update(ctx context.Context, fsys vfs.FS, name string, change func(*Book) error) (b Book, err error) {
	if err := fsys.MkdirAll(path.Dir(name)); err != nil {
		return Book{}, err
	}
	lock, err := lockFile(ctx, fsys, name+".lock")
	if err != nil {
		return Book{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if b, err = Load(fsys, name); err != nil {
		return Book{}, err
	}
	if err := change(&b); err != nil {
		return Book{}, err
	}
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return Book{}, err
	}
	return b, vfs.WriteFile(fsys, name, append(data, '\n'))
}

// lockFile waits for a lock that another process holds.
func lockFile(ctx context.Context, fsys vfs.FS, name string) (io.Closer, error) {
	give := time.NewTimer(lockMost)
	defer give.Stop()
	tick := time.NewTicker(lockWait)
	defer tick.Stop()
	for {
		lock, err := fsys.Lock(name)
		if !errors.Is(err, vfs.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-give.C:
			return nil, fmt.Errorf("%s: %w", name, err)
		case <-tick.C:
		}
	}
}

// Add appends a row. The host must be new to the book.
func (b *Book) Add(p Peer) error {
	if i := b.byHost(p.Host); i >= 0 {
		return fmt.Errorf("%s is already in the book as %s", p.Host, b.Peers[i].Display())
	}
	b.Peers = append(b.Peers, p)
	return nil
}

// Remove takes the row of a host out and reports whether there was one.
func (b *Book) Remove(host string) bool {
	i := b.byHost(host)
	if i >= 0 {
		b.Peers = slices.Delete(b.Peers, i, i+1)
	}
	return i >= 0
}

// byHost returns the row whose typed host is host, else the one with that
// alias, else -1.
func (b *Book) byHost(host string) int {
	key := foldHost(host)
	if key == "" {
		return -1
	}
	if i := slices.IndexFunc(b.Peers, func(p Peer) bool { return foldHost(p.Host) == key }); i >= 0 {
		return i
	}
	return slices.IndexFunc(b.Peers, func(p Peer) bool { return containsHost(p.Aliases, host) })
}

// foldHost lower-cases what follows the last @: logins are case-sensitive.
func foldHost(host string) string {
	at := strings.LastIndexByte(host, '@') + 1
	return host[:at] + strings.ToLower(host[at:])
}

func containsHost(list []string, host string) bool {
	key := foldHost(host)
	return slices.ContainsFunc(list, func(s string) bool { return foldHost(s) == key })
}
