package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/node/config"
)

// Host is what a node is handed by the process it runs in.
type Host struct {
	Machine Machine
	Now     func() time.Time
	Random  io.Reader
	Log     *slog.Logger // narration for debugging; never the text of a session
	Version string       // of the program, told to peers
	PID     int          // of the process, told to whoever finds the lock held
}

// Node is one machine's memory. It holds no lock and no open file between
// calls, so any number of processes may have one.
type Node struct {
	cfg  config.Config
	host Host
	fs   vfs.FS
	id   Identity

	policy *policy.Policy
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

// groupOf is the policy group that the book of peers has a node in.
func (n *Node) groupOf(record.NodeID) string { return "" }

// nameOf is what this node calls another.
func (n *Node) nameOf(record.NodeID) string { return "" }

// HasPeers reports whether any peer is known.
func (n *Node) HasPeers() bool { return false }

// machine is the node that a name on the command line means.
func (n *Node) machine(name string) (record.NodeID, error) {
	if name == "local" || name == n.id.Name {
		return n.id.Node, nil
	}
	return record.NodeID{}, fmt.Errorf("no machine is called %.60q", name)
}
