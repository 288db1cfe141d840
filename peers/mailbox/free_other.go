//go:build !linux && !darwin

package mailbox

import "os"

// freeSpace is not known here.
func freeSpace(*os.Root) (int64, bool) { return 0, false }
