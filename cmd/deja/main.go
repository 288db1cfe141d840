// Command deja is a peer-to-peer memory node for a developer's machines.
//
// Each command is one file: flags in, text out. The work is done by package node.
package main

func main() {}
