package main

import (
	"errors"
	"fmt"
	"io"
)

// The exit codes of the contract.
const (
	exitDone    = 0
	exitNothing = 1 // nothing found
	exitUsage   = 2 // wrong usage
	exitFailed  = 3
	exitPartly  = 4 // some peers, sources or files failed, or something needs attention
)

// errNothing ends a command that looked and found nothing. It has been said already.
var errNothing = errors.New("nothing found")

// errPartly ends a command that did part of its work and has named the rest.
var errPartly = errors.New("partly done")

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hintError adds the command that helps. Every hint is run by a test.
type hintError struct {
	err  error
	hint string
}

func (e hintError) Error() string { return e.err.Error() }
func (e hintError) Unwrap() error { return e.err }

func withHint(err error, format string, args ...any) error {
	return hintError{err, fmt.Sprintf(format, args...)}
}

// report says what went wrong, in one form everywhere, and returns the exit code.
func report(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNothing):
		return exitNothing
	case errors.Is(err, errPartly):
		return exitPartly
	}
	fmt.Fprintf(stderr, "deja: %s\n", oneLine(err.Error()))
	if h, ok := errors.AsType[hintError](err); ok {
		fmt.Fprintf(stderr, "deja: hint: %s\n", h.hint)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}
