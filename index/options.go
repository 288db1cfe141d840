package index

import (
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
)

// Options say where a memory lies and who it belongs to.
type Options struct {
	FS       vfs.FS
	LogDir   string
	IndexDir string
	SpoolDir string

	Key    ed25519.PrivateKey
	Stream record.StreamID // the stream this node appends to
	Origin string          // the node's name for itself

	NoRedact bool
	Policy   *policy.Policy
	Now      func() time.Time
	Random   io.Reader
	Log      *slog.Logger

	// Budgets of the views in memory, for tests; zero takes the defaults.
	FlushBytes int
	PID        int
}

// ErrBusy says that another process writes to this memory.
var ErrBusy = errors.New("another deja process is writing; try again in a moment")

// ErrNoSession says that a selector names no session.
var ErrNoSession = errors.New("no such session")

// NoteMeta is what a note carries beside its text, raw.
type NoteMeta struct {
	State   string
	Tags    []string
	Of      string
	Title   string
	Evident time.Time
}

func (m NoteMeta) scrubbed(s *redact.Scrubber) *record.NoteMeta {
	out := &record.NoteMeta{State: m.State, Of: name(m.Of), Title: s.Scrub(flatten(m.Title)), Evident: m.Evident}
	for _, t := range m.Tags {
		out.Tags = append(out.Tags, s.Scrub(flatten(t)).String())
	}
	return out
}
