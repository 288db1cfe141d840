//go:build !windows

package sshlink

import (
	"context"
	"net"
)

// defaultAgent is where an agent is looked for without SSH_AUTH_SOCK.
const defaultAgent = ""

func dialAgent(ctx context.Context, name string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", name)
}
