package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/node/config"
	"github.com/deja-node/deja/peers"
)

// Host is what a node is handed by the process it runs in.
type Host struct {
	Machine Machine
	Now     func() time.Time
	Random  io.Reader
	Log     *slog.Logger // narration for debugging; never the text of a session
	Version string       // of the program, told to peers
	User    string       // login name, for ssh
	// Prompt asks the user for a passphrase; nil when nobody is there.
	Prompt func(question string, secret bool) (string, error)
	// Run starts a program that the user's own ssh configuration names.
	Run func(ctx context.Context, command string) (io.ReadWriteCloser, error)
	PID int // of the process, told to whoever finds the lock held
}

// Node is one machine's memory. It holds no lock and no open file between
// calls, so any number of processes may have one.
type Node struct {
	cfg  config.Config
	host Host
	fs   vfs.FS
	id   Identity

	policy *policy.Policy

	mu     sync.Mutex // guards cached
	cached *peers.Book
}

// Open reads the node's identity and makes one at the first time.
func Open(cfg config.Config, host Host) (*Node, error) {
	if host.Log == nil {
		host.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{cfg: cfg, host: host, fs: vfs.OS{}}
	id, err := LoadIdentity(n.fs, filepath.ToSlash(cfg.NodeDir()), host.Machine, cfg.Machine, host.Now(), host.Random)
	if err != nil {
		return nil, fmt.Errorf("node identity: %w", err)
	}
	n.id = id
	n.policy = policy.Load(n.fs, filepath.ToSlash(cfg.PolicyFile()), filepath.ToSlash(cfg.ExcludeFile()), id.Node, n.groupOf)
	return n, nil
}

// Identity says who the node is.
func (n *Node) Identity() Identity { return n.id }

// Config returns the node's configuration.
func (n *Node) Config() config.Config { return n.cfg }

// ErrNoRedact says why a store without redaction never leaves the machine.
var ErrNoRedact = errors.New("DEJA_NO_REDACT is set: an unredacted store never syncs")

func (n *Node) stateDir() string { return filepath.ToSlash(n.cfg.StateDir()) }
