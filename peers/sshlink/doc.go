// Package sshlink reaches peers over SSH without running ssh: it reads
// ssh_config, checks host keys, offers keys from the agent and from files, and
// opens the stream that an exchange runs over.
//
// Start at [Dial], which connects to an SSH server, and at [Conn.Exchange],
// which starts deja there. [DialNode] connects to the listener of another
// deja. [ReadConfig] is the part that answers what ssh_config says of a host.
package sshlink
