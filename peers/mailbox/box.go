// Package mailbox carries batches as files: in a directory (a stick, a synced
// folder, a network disk) or on a plain SFTP server. No software of ours runs
// where the mailbox lies, and the nodes that use it need not reach each other.
//
// Start at [Dir] and [SFTP]; both make a [Box], which [syncproto.Mirror]
// exchanges with. A file is visible as a whole or not at all, names that are
// not of the layout are neither read nor written, and links, devices and the
// like count as absent.
package mailbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/deja-node/deja/syncproto"
)

// Options names a mailbox and its user.
type Options struct {
	Name string // of the mailbox, for people
	Tag  string // of this node, lower-case letters and digits: marks its unfinished files
}

// Box is a mailbox. It is used by one goroutine at a time.
type Box struct {
	folder folder
	opt    Options
}

var _ syncproto.Box = (*Box)(nil)

// folder is what a mailbox needs of a file system. Names are relative to the
// mailbox and slash-separated. Errors satisfy errors.Is with the fs sentinels.
type folder interface {
	// readDir returns what lies in a directory, without following links.
	readDir(ctx context.Context, dir string) ([]fs.FileInfo, error)
	lstat(name string) (fs.FileInfo, error)
	mkdir(name string) error
	// read returns the size bytes of a regular file.
	read(name string, size int64) ([]byte, error)
	// write makes a file that did not exist, durable where that can be had.
	write(name string, data []byte) error
	// rename gives a file its final name. What it does when that name is
	// taken differs from server to server.
	rename(from, to string) error
	// replace gives a file a name that may be taken.
	replace(from, to string) error
	remove(name string) error
	// settle makes renames in a directory durable where that can be had.
	settle(dir string) error
	// free returns how many bytes can still be written, if that is known.
	free() (int64, bool)
	// full reports whether an error says that there is no space.
	full(err error) bool
}

const (
	partPrefix = ".part-"
	maxEntries = 200_000 // of one listing
)

// List implements [syncproto.Box]. It also removes what an earlier run of this
// node left unfinished in the directory.
func (b *Box) List(ctx context.Context, dir string) ([]syncproto.Object, error) {
	if !syncproto.ValidBoxDir(dir) {
		return nil, fmt.Errorf("mailbox %s: no directory of a mailbox: %q", b.opt.Name, dir)
	}
	infos, err := b.folder.readDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) && dir != "" {
		_, rootErr := b.folder.lstat(".")
		if rootErr == nil {
			return nil, nil
		}
		err = rootErr
	}
	if err != nil {
		return nil, b.wrap(dir, err)
	}
	if len(infos) > maxEntries {
		return nil, fmt.Errorf("mailbox %s: %d files in %q, at most %d are read", b.opt.Name, len(infos), dir, maxEntries)
	}
	var objects []syncproto.Object
	for _, info := range infos {
		if !info.Mode().IsRegular() {
			continue
		}
		if b.mine(info.Name()) {
			if err := b.folder.remove(path.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, b.wrap(dir, err)
			}
			continue
		}
		objects = append(objects, syncproto.Object{Name: info.Name(), Size: info.Size(), Mod: info.ModTime()})
	}
	return objects, nil
}

// mine reports whether a base name is that of an unfinished file of this node.
func (b *Box) mine(base string) bool {
	random, ok := strings.CutPrefix(base, partPrefix+b.opt.Tag+"-")
	return ok && len(random) >= partRandom && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

const partRandom = 13

func (b *Box) partName(dir string) string {
	return path.Join(dir, partPrefix+b.opt.Tag+"-"+rand.Text()[:partRandom])
}

// Get implements [syncproto.Box].
func (b *Box) Get(ctx context.Context, name string, size int64) ([]byte, error) {
	if err := b.check(ctx, name); err != nil {
		return nil, err
	}
	info, err := b.folder.lstat(name)
	if err != nil {
		return nil, b.wrap(name, err)
	}
	if !info.Mode().IsRegular() || info.Size() != size {
		return nil, b.wrap(name, fmt.Errorf("no file of %d bytes: %w", size, fs.ErrNotExist))
	}
	data, err := b.folder.read(name, size)
	if err != nil {
		return nil, b.wrap(name, err)
	}
	return data, nil
}

// Put implements [syncproto.Box].
func (b *Box) Put(ctx context.Context, name string, data []byte, replace bool) error {
	if err := b.check(ctx, name); err != nil {
		return err
	}
	if !replace {
		done, err := b.has(name, int64(len(data)))
		if done || err != nil {
			return err
		}
	}
	dir := path.Dir(name)
	if err := b.makeDir(dir); err != nil {
		return b.wrap(dir, err)
	}
	part := b.partName(dir)
	if err := b.folder.write(part, data); err != nil {
		return errors.Join(b.explain(name, int64(len(data)), err), b.discard(part))
	}
	if err := b.publish(part, name, int64(len(data)), replace); err != nil {
		return errors.Join(b.wrap(name, err), b.discard(part))
	}
	if err := b.folder.settle(dir); err != nil {
		return b.wrap(dir, err)
	}
	return nil
}

// publish gives a finished file its name.
func (b *Box) publish(part, name string, size int64, replace bool) error {
	if replace {
		return b.folder.replace(part, name)
	}
	err := b.folder.rename(part, name)
	if err == nil {
		return nil
	}
	// Somebody else may have written the same file meanwhile. Names tell the
	// contents, so theirs is as good.
	done, statErr := b.has(name, size)
	switch {
	case done:
		return b.discard(part)
	case statErr == nil && b.taken(name):
		return b.folder.replace(part, name) // a torn file of some other program
	}
	return errors.Join(err, statErr)
}

// has reports whether a file of that name and size is there.
func (b *Box) has(name string, size int64) (bool, error) {
	info, err := b.folder.lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, b.wrap(name, err)
	}
	if !info.Mode().IsRegular() {
		return false, b.wrap(name, errors.New("something that is no file has this name"))
	}
	return info.Size() == size, nil
}

func (b *Box) taken(name string) bool {
	_, err := b.folder.lstat(name)
	return err == nil
}

// makeDir makes a directory of the layout and what is missing above it.
func (b *Box) makeDir(dir string) error {
	if dir == "." {
		return nil
	}
	_, err := b.folder.lstat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := b.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	if err := b.folder.mkdir(dir); err != nil {
		if info, statErr := b.folder.lstat(dir); statErr == nil && info.IsDir() {
			return nil // another node made it just now
		}
		return err
	}
	return b.folder.settle(path.Dir(dir))
}

// discard removes an unfinished file.
func (b *Box) discard(part string) error {
	if err := b.folder.remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b.wrap(part, err)
	}
	return nil
}

// Remove implements [syncproto.Box].
func (b *Box) Remove(ctx context.Context, name string) error {
	if err := b.check(ctx, name); err != nil {
		return err
	}
	if err := b.folder.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b.wrap(name, err)
	}
	return nil
}

// check refuses names that are not of the layout, and work after ctx has ended.
func (b *Box) check(ctx context.Context, name string) error {
	if !syncproto.ValidBoxName(name) {
		return fmt.Errorf("mailbox %s: no name of a mailbox: %q", b.opt.Name, name)
	}
	return context.Cause(ctx)
}

func (b *Box) wrap(name string, err error) error {
	return fmt.Errorf("mailbox %s: %s: %w", b.opt.Name, path.Clean("/" + name)[1:], err)
}

// FullError says that a mailbox has no space for a file.
type FullError struct {
	Box  string
	Path string
	Need int64
	Free int64 // -1 when it cannot be told
	Err  error
}

// Error implements error.
func (e *FullError) Error() string {
	free := "free space unknown"
	if e.Free >= 0 {
		free = fmt.Sprintf("%d bytes are free", e.Free)
	}
	return fmt.Sprintf("mailbox %s: no space for %s: %d bytes are needed, %s: %v", e.Box, e.Path, e.Need, free, e.Err)
}

// Unwrap returns what the carrier said.
func (e *FullError) Unwrap() error { return e.Err }

// explain tells a full mailbox from another failure of a write. SFTP has no
// code for it, so the free space has to say.
func (b *Box) explain(name string, need int64, err error) error {
	free, known := b.folder.free()
	if !known {
		free = -1
	}
	if b.folder.full(err) || known && free < need {
		return &FullError{Box: b.opt.Name, Path: name, Need: need, Free: free, Err: err}
	}
	return b.wrap(name, err)
}
