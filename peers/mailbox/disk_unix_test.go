//go:build unix

package mailbox_test

import (
	"syscall"
	"testing"
)

const noSpace = syscall.ENOSPC

func makeFifo(t *testing.T, name string) bool {
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Logf("no pipe is tried: %v", err)
		return false
	}
	return true
}
