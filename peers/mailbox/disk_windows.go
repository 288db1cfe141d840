package mailbox

import (
	"errors"
	"os"
	"syscall"
)

const noWait = 0

// Error numbers of Windows that the standard library has no names for.
const (
	errHandleDiskFull syscall.Errno = 39
	errDiskFull       syscall.Errno = 112
)

func noSpace(err error) bool {
	return errors.Is(err, errDiskFull) || errors.Is(err, errHandleDiskFull)
}

// syncDir does nothing: Windows has no such call.
func syncDir(*os.File) error { return nil }
