// Command deja is a peer-to-peer memory node for a developer's machines.
//
// Each command is one file: flags in, text out; package node does the work.
// env.go is the only place that touches the real process, exit.go the only one
// that turns errors into words and exit codes. Start at newRoot.
package main

import "os"

func main() {
	os.Exit(run(processEnv()))
}
