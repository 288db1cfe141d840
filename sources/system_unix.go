//go:build unix

package sources

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// noWait keeps an open from waiting for the other end of a pipe that took the
// place of a file.
const noWait = os.O_RDONLY | syscall.O_NONBLOCK

// noFollow refuses to open through a link.
const noFollow = syscall.O_NOFOLLOW

// syncDir makes a renamed file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// inode tells when the inode changed last, which no program can set, and what
// identifies it.
func inode(info fs.FileInfo) (time.Time, FileID) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}, FileID{}
	}
	return changed(st), FileID{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}
}
