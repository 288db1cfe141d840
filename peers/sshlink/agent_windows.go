package sshlink

import (
	"context"
	"net"
	"strings"

	"github.com/Microsoft/go-winio"
)

// defaultAgent is where an agent is looked for without SSH_AUTH_SOCK.
const defaultAgent = `\\.\pipe\openssh-ssh-agent`

func dialAgent(ctx context.Context, name string) (net.Conn, error) {
	if strings.HasPrefix(strings.ReplaceAll(name, "/", `\`), `\\.\pipe\`) {
		return winio.DialPipeContext(ctx, name)
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", name)
}
