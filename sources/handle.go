package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/deja-node/deja/sources/jsonl"
)

// Handle is an open store. It is safe for concurrent use.
type Handle struct {
	source Source
	store  Store
	root   *os.Root

	titlesOnce sync.Once
	titles     map[string]string // Codex: names of threads, read once
}

// Open opens a store. Nothing outside its directory can be reached through it.
func (s Source) Open(st Store) (*Handle, error) {
	root, err := os.OpenRoot(st.Root)
	if err != nil {
		return nil, fmt.Errorf("%s store: %w", s.Harness, err)
	}
	return &Handle{source: s, store: st, root: root}, nil
}

// Store returns the store that is open.
func (h *Handle) Store() Store { return h.store }

// Close releases the store.
func (h *Handle) Close() error { return h.root.Close() }

// Depth says how much of a file a check compares.
type Depth int

// The depths of a check.
const (
	// Glance trusts an unchanged stat, and otherwise compares the window
	// before the mark.
	Glance Depth = iota
	// Whole trusts a stat only where it holds the inode's change time, and
	// otherwise compares everything before the mark.
	Whole
	// Deep always compares everything before the mark.
	Deep
)

// Change says how a file compares with a mark.
type Change string

// The changes.
const (
	Same    Change = "same"
	Grew    Change = "grew"    // what was read is still there, and there may be more
	Rewound Change = "rewound" // what was read is no longer there
	Unknown Change = "unknown" // the mark says nothing about this file
)

// Check compares a file with the mark of its last reading. Content decides:
// times are trusted when nothing moved, never when something did.
func (h *Handle) Check(ctx context.Context, f File, m Mark, depth Depth) (Change, error) {
	p, ok := parseMark(m)
	if !ok || !h.current(p) {
		return Unknown, nil
	}
	if depth != Deep && sameStat(p.stat, f) && (depth == Glance || !f.Changed.IsZero()) {
		return Same, nil
	}
	kept, err := h.continues(ctx, f, p, depth)
	switch {
	case err != nil:
		return Unknown, err
	case !kept:
		return Rewound, nil
	case !compressed(f) && f.Size == p.size && p.size == p.at.Offset:
		return Same, nil
	}
	return Grew, nil
}

// current reports whether a mark was made by this version under the settings
// of this store.
func (h *Handle) current(p mark) bool {
	return int(p.version) == h.source.Version && p.flags&flagsOfReader == h.flags()
}

func (h *Handle) flags() byte {
	if h.store.Subagents {
		return 0
	}
	return flagNoAgents
}

func sameStat(a, b File) bool {
	return a.Size == b.Size && a.Modified.Equal(b.Modified) && a.Changed.Equal(b.Changed) && a.ID == b.ID
}

// continues reports whether a file still begins with what a mark covers.
func (h *Handle) continues(ctx context.Context, f File, p mark, depth Depth) (kept bool, err error) {
	if !compressed(f) && f.Size < p.at.Offset {
		return false, nil
	}
	file, err := h.open(f)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if depth == Glance && !compressed(f) {
		tail, err := jsonl.TailAt(file, p.at.Offset)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return tail == p.at.Tail, err
	}
	content, done, err := expand(f, file)
	if err != nil {
		return false, err
	}
	defer done()
	return jsonl.Begins(&cancelReader{ctx, content}, p.at)
}

// open opens a regular file of the store for reading, and nothing else.
func (h *Handle) open(f File) (*os.File, error) {
	file, err := h.root.OpenFile(filepath.FromSlash(f.Rel), noWait, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Rel, Err: errors.New(kindOf(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func compressed(f File) bool { return strings.HasSuffix(f.Rel, ".zst") }

// Bounds of compressed transcripts. The window is memory; the size only stops
// a file that expands for ever.
const (
	maxWindow   = 32 << 20
	maxExpanded = 8 << 30
)

var errExpands = fmt.Errorf("expands to more than %d bytes", int64(maxExpanded))

// expand returns the content of a file, and what releases the decompressor.
func expand(f File, file io.Reader) (io.Reader, func(), error) {
	if !compressed(f) {
		return file, func() {}, nil
	}
	z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Rel, err)
	}
	return &boundedReader{z, maxExpanded}, z.Close, nil
}

// boundedReader fails, rather than ends, at its limit.
type boundedReader struct {
	io.Reader
	left int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, errExpands
	}
	return n, err
}

// cancelReader stops reading when its context ends.
type cancelReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	io.Reader
}

func (r *cancelReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
