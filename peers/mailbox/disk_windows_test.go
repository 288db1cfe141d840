package mailbox_test

import (
	"syscall"
	"testing"
)

const noSpace = syscall.Errno(112)

func makeFifo(*testing.T, string) bool { return false }
