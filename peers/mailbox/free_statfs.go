//go:build linux || darwin

package mailbox

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace returns how many bytes an ordinary user can still write.
func freeSpace(root *os.Root) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(root.Name(), &st); err != nil {
		return 0, false
	}
	return int64(min(st.Bavail*uint64(st.Bsize), math.MaxInt64)), true
}
