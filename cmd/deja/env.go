package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/user"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
)

// environ is everything that a command may know of the process it runs in.
type environ struct {
	args           []string // without the program's name
	exe            string   // path of this program, for what is to be run again
	stdin          io.Reader
	stdout, stderr io.Writer
	config         config.Env
	dir            string // working directory, empty when it is gone
	machine        node.Machine
	now            func() time.Time
	random         io.Reader
	pid            int
	user           string                                             // login name
	prompt         func(question string, secret bool) (string, error) // nil when nobody is there
	terminal       bool                                               // stdout is a terminal
	progress       bool                                               // stderr is a terminal that may be redrawn
	width          int                                                // columns of the terminal, 0 when stdout is none
}

func processEnv() environ {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // config.Load says what to set when it needs one
	}
	hostname, err := os.Hostname()
	if err != nil {
		hostname = ""
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	dumb := os.Getenv("TERM") == "dumb"
	e := environ{
		args: os.Args[1:], exe: exe,
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		config:   config.Env{Getenv: os.Getenv, Home: home, GOOS: runtime.GOOS},
		dir:      dir,
		machine:  node.Machine{Hostname: hostname, ID: machineID()},
		now:      time.Now,
		random:   rand.Reader,
		pid:      os.Getpid(),
		user:     userName(),
		terminal: term.IsTerminal(int(os.Stdout.Fd())) && !dumb,
		progress: term.IsTerminal(int(os.Stderr.Fd())) && !dumb,
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		e.prompt = promptUser
	}
	if e.terminal {
		e.width = columns(os.Getenv("COLUMNS"), int(os.Stdout.Fd()))
	}
	return e
}

// userName is the login name, empty when the system does not tell.
func userName() string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// promptUser asks on the terminal; a secret is not echoed.
func promptUser(question string, secret bool) (string, error) {
	fmt.Fprintf(os.Stderr, "%s ", question)
	if secret {
		b, err := term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
		return string(b), err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return strings.TrimSpace(line), err
}
