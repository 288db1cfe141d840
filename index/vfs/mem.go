package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows which of its bytes and names
// would survive a loss of power; see [Mem.AfterCrash]. Times of modification
// count the changes, so that they are the same in every run.
type Mem struct {
	mu      sync.Mutex // guards everything below, and every node
	root    *node
	pending []dirOp // changes of directories that no SyncDir has made durable, oldest first
	quota   int64   // 0: none
	changes int64
	locked  map[*node]bool
}

var _ FS = (*Mem)(nil)

// NewMem returns an empty file system that holds the root directory alone.
func NewMem() *Mem { return &Mem{root: newDir(), locked: map[*node]bool{}} }

// SetQuota limits the bytes that all files hold together; 0 lifts the limit.
// A write beyond it stores what fits and returns ENOSPC.
func (m *Mem) SetQuota(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quota = bytes
}

// Used returns the bytes that all files hold together.
func (m *Mem) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.root.used()
}

// node is a file or a directory.
type node struct {
	mod time.Time

	kids    map[string]*node // of a directory; nil says file
	durable map[string]*node // the names that survive a crash

	data   []byte
	synced []byte // the contents that survive a crash; may share the array of data
	edits  []edit // what was done to data since, oldest first
}

func newDir() *node { return &node{kids: map[string]*node{}, durable: map[string]*node{}} }

func (n *node) isDir() bool { return n.kids != nil }

func (n *node) used() int64 {
	sum := int64(len(n.data))
	for _, kid := range n.kids {
		sum += kid.used()
	}
	return sum
}

// edit is a write of data at off, or a cut to off bytes.
type edit struct {
	off  int
	data []byte
	cut  bool
}

// apply carries the edit out on b. It never changes the bytes below shared,
// which somebody else may hold.
func (e edit) apply(b []byte, shared int) []byte {
	end := e.off
	if !e.cut {
		end += len(e.data)
	}
	if min(e.off, len(b)) < shared {
		b = slices.Clone(b)
	}
	if end > len(b) {
		b = append(b, make([]byte, end-len(b))...)
	}
	if e.cut {
		return b[:end:end]
	}
	copy(b[e.off:], e.data)
	return b
}

// entry is one name in one directory.
type entry struct {
	dir  *node
	name string
}

// dirOp says that at leads to node now; a nil node removes the name, and from,
// if set, is the name that a rename gave up.
type dirOp struct {
	at   entry
	node *node
	from entry
}

func (op dirOp) apply(kids func(*node) map[string]*node) {
	if op.from.dir != nil {
		delete(kids(op.from.dir), op.from.name)
	}
	if op.node == nil {
		delete(kids(op.at.dir), op.at.name)
		return
	}
	kids(op.at.dir)[op.at.name] = op.node
}

func current(n *node) map[string]*node { return n.kids }

func durable(n *node) map[string]*node { return n.durable }

// change applies a change of directories, which is not durable yet.
func (m *Mem) change(op dirOp) {
	op.apply(current)
	m.pending = append(m.pending, op)
	m.touch(op.at.dir)
}

func (m *Mem) touch(n *node) {
	m.changes++
	n.mod = time.Unix(m.changes, 0).UTC()
}

// find walks to a node.
func (m *Mem) find(name string) (*node, error) {
	n := m.root
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			break
		}
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.kids[part]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// at finds the directory that has, or would have, the name.
func (m *Mem) at(name string) (entry, error) {
	dir, base := path.Split(path.Clean("/" + name))
	n, err := m.find(dir)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err == nil && base == "" {
		err = fs.ErrInvalid
	}
	return entry{n, base}, err
}

// file finds a file, and makes it if it is missing and may be made.
func (m *Mem) file(name string, make bool) (*node, error) {
	n, err := m.find(name)
	switch {
	case err == nil && n.isDir():
		return nil, ErrNotRegular
	case err == nil:
		return n, nil
	case !make || !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	at, err := m.at(name)
	if err != nil {
		return nil, err
	}
	n = &node{}
	m.change(dirOp{at: at, node: n})
	m.touch(n)
	return n, nil
}

// Open implements [FS].
func (m *Mem) Open(name string) (File, error) { return m.open("open", name, memFile{}) }

// Create implements [FS].
func (m *Mem) Create(name string) (File, error) {
	f, err := m.open("create", name, memFile{write: true})
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(0)
}

// Append implements [FS].
func (m *Mem) Append(name string) (File, error) {
	return m.open("append", name, memFile{write: true, atEnd: true})
}

func (m *Mem) open(op, name string, f memFile) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file(name, f.write)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	f.fs, f.name, f.node = m, name, n
	return &f, nil
}

// Rename implements [FS].
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(oldname)
	if err != nil {
		return &fs.PathError{Op: "rename", Path: oldname, Err: err}
	}
	from, err := m.at(oldname)
	if err != nil {
		return &fs.PathError{Op: "rename", Path: oldname, Err: err}
	}
	to, err := m.at(newname)
	if err == nil {
		err = mayReplace(n, to)
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: newname, Err: err}
	}
	if from != to {
		m.change(dirOp{at: to, node: n, from: from})
		m.touch(from.dir)
	}
	return nil
}

// mayReplace says whether n may take the place of what is at to.
func mayReplace(n *node, to entry) error {
	if n.holds(to.dir) {
		return fs.ErrInvalid
	}
	switch old := to.dir.kids[to.name]; {
	case old == nil || old == n:
		return nil
	case old.isDir() && !n.isDir():
		return fs.ErrExist
	case !old.isDir() && n.isDir():
		return syscall.ENOTDIR
	case len(old.kids) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// holds reports whether o is n or lies below it.
func (n *node) holds(o *node) bool {
	if n == o {
		return true
	}
	for _, kid := range n.kids {
		if kid.holds(o) {
			return true
		}
	}
	return false
}

// Remove implements [FS].
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && len(n.kids) > 0 {
		err = syscall.ENOTEMPTY
	}
	at, aerr := m.at(name)
	if err == nil {
		err = aerr
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	m.change(dirOp{at: at})
	return nil
}

// MkdirAll implements [FS].
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			break
		}
		kid := n.kids[part]
		if kid == nil {
			kid = newDir()
			m.change(dirOp{at: entry{n, part}, node: kid})
			m.touch(kid)
			m.settle(n)
		}
		if !kid.isDir() {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		n = kid
	}
	return nil
}

// ReadDir implements [FS].
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	list := make([]fs.DirEntry, 0, len(n.kids))
	for _, kid := range sortedNames(n.kids) {
		list = append(list, fs.FileInfoToDirEntry(n.kids[kid].info(kid)))
	}
	return list, nil
}

func sortedNames(kids map[string]*node) []string { return slices.Sorted(maps.Keys(kids)) }

// Stat implements [FS].
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return n.info(path.Base(name)), nil
}

// SyncDir implements [FS].
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return &fs.PathError{Op: "syncdir", Path: name, Err: err}
	}
	m.settle(n)
	return nil
}

// Map implements [FS].
func (m *Mem) Map(name string) (Mapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file(name, false)
	if err != nil {
		return nil, &fs.PathError{Op: "map", Path: name, Err: err}
	}
	return heapMapping(n.data[:len(n.data):len(n.data)]), nil
}

// Lock implements [FS].
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file(name, true)
	if err == nil && m.locked[n] {
		err = ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	m.locked[n] = true
	return &memLock{fs: m, node: n}, nil
}

// memLock is a lock held on a node.
type memLock struct {
	fs   *Mem
	node *node
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		defer l.fs.mu.Unlock()
		delete(l.fs.locked, l.node)
	})
	return nil
}
