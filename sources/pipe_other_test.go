//go:build !unix

package sources_test

import "testing"

func makePipe(t *testing.T, _ string) {
	t.Helper()
	t.Skip("needs pipes")
}
