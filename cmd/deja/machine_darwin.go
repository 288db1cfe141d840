package main

import "golang.org/x/sys/unix"

// machineID is the platform UUID; empty when the system does not tell it.
func machineID() string {
	id, err := unix.Sysctl("kern.uuid")
	if err != nil {
		return ""
	}
	return id
}
