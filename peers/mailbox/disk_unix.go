//go:build unix

package mailbox

import (
	"errors"
	"os"
	"syscall"
)

// noWait keeps opening from waiting for the other end of a pipe that somebody
// has put in a file's place.
const noWait = syscall.O_NONBLOCK

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// syncDir makes renames durable. File systems that cannot say so; what they
// hold is as durable as they make it.
func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
