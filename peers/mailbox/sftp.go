package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"

	"github.com/pkg/sftp"
)

// SFTP is the mailbox under root on an SFTP server. The client stays its
// owner's; closing its connection is what ends a call that hangs.
func SFTP(client *sftp.Client, root string, opt Options) *Box {
	return &Box{folder: &remote{c: client, root: root}, opt: opt}
}

// remote is a folder on an SFTP server. It keeps one file open at a time and
// trusts neither a length that it did not ask for nor a write that it did not
// measure.
type remote struct {
	c    *sftp.Client
	root string
}

func (r *remote) at(name string) string { return path.Join(r.root, name) }

func (r *remote) readDir(ctx context.Context, dir string) ([]fs.FileInfo, error) {
	return r.c.ReadDirContext(ctx, r.at(dir))
}

func (r *remote) lstat(name string) (fs.FileInfo, error) { return r.c.Lstat(r.at(name)) }

func (r *remote) mkdir(name string) error { return r.c.Mkdir(r.at(name)) }

func (r *remote) read(name string, size int64) (data []byte, err error) {
	f, err := r.c.OpenFile(r.at(name), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data = make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("reading %d bytes: %w", size, err)
	}
	return data, nil
}

// write sends many packets at once. After an error that leaves holes, so the
// caller removes the file; after success the size must be the right one.
func (r *remote) write(name string, data []byte) error {
	f, err := r.c.OpenFile(r.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.ReadFromWithConcurrency(bytes.NewReader(data), 0)
	if err == nil && r.has("fsync@openssh.com") {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	info, err := r.lstat(name)
	if err != nil {
		return err
	}
	if info.Size() != int64(len(data)) {
		return fmt.Errorf("%d of %d bytes arrived: %w", info.Size(), len(data), io.ErrShortWrite)
	}
	return nil
}

func (r *remote) has(extension string) bool {
	_, ok := r.c.HasExtension(extension)
	return ok
}

func (r *remote) rename(from, to string) error { return r.c.Rename(r.at(from), r.at(to)) }

// replace is atomic where the server has the extension for it. Elsewhere the
// name is missing for a moment, which readers take for "not now", and the old
// file is put back when the new one cannot take its place.
func (r *remote) replace(from, to string) error {
	if r.has("posix-rename@openssh.com") {
		return r.c.PosixRename(r.at(from), r.at(to))
	}
	if _, err := r.lstat(to); errors.Is(err, fs.ErrNotExist) {
		return r.rename(from, to)
	}
	aside := from + "2"
	if err := r.rename(to, aside); err != nil {
		return err
	}
	if err := r.rename(from, to); err != nil {
		return errors.Join(err, r.rename(aside, to))
	}
	return r.remove(aside)
}

func (r *remote) remove(name string) error { return r.c.Remove(r.at(name)) }

// settle does nothing: SFTP has no such request.
func (r *remote) settle(string) error { return nil }

func (r *remote) free() (int64, bool) {
	if !r.has("statvfs@openssh.com") {
		return 0, false
	}
	st, err := r.c.StatVFS(r.root)
	if err != nil {
		return 0, false
	}
	return int64(min(st.Bavail*st.Frsize, math.MaxInt64)), true
}

// full never knows: the protocol has one code for all failures.
func (r *remote) full(error) bool { return false }
