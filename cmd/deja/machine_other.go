//go:build !linux && !darwin && !windows

package main

// machineID is unknown here; the host name stands in.
func machineID() string { return "" }
