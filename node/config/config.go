// Package config holds the paths, environment and settings of one node as one
// value. Start at [Load]: it reads nothing but what it is handed, so that a
// test cannot reach the real home by accident.
package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Env is the part of the process's surroundings that the settings depend on.
type Env struct {
	Getenv func(string) string
	Home   string // home directory, empty when there is none
	GOOS   string
}

// Config says where everything of one node lies and how it behaves.
type Config struct {
	// ConfigDir holds what the user edits: peers.json, policy.json, exclude, known_hosts.
	ConfigDir string
	// DataDir holds primary data: node/, log/, state/, spool/ and the notes.
	DataDir string
	// IndexDir holds the views, which can be rebuilt from the log.
	IndexDir string
	// NotesFile holds the explicit notes, one JSON object a line.
	NotesFile string
	// Home is the user's home directory, where the harnesses keep their stores.
	Home string
	GOOS string

	// Sources limits which harnesses are read; empty means all.
	Sources []string
	// NoRedact turns the scrubber off. Such a store never syncs.
	NoRedact bool
	// Machine is the origin's name for itself where the user chose one.
	Machine string
	// Offline forbids every outgoing connection.
	Offline bool

	getenv func(string) string
}

// ErrNoHome says that no directory for the node's data can be told.
var ErrNoHome = errors.New("no home directory: set HOME or DEJA_HOME")

// Load derives the configuration from the environment: DEJA_HOME puts all
// state under one directory, else each of the three directories follows its
// XDG variable or the platform's habit; DEJA_INDEX_DIR and DEJA_NOTES_FILE
// move the views and the notes alone.
func Load(env Env) (Config, error) {
	c := Config{Home: env.Home, GOOS: env.GOOS, getenv: env.Getenv}
	if err := c.place(env); err != nil {
		return Config{}, err
	}
	if v := env.Getenv("DEJA_INDEX_DIR"); v != "" {
		c.IndexDir = v
	}
	if v := env.Getenv("DEJA_NOTES_FILE"); v != "" {
		c.NotesFile = v
	}
	for name := range strings.SplitSeq(env.Getenv("DEJA_SOURCES"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.Sources = append(c.Sources, name)
		}
	}
	c.NoRedact = env.Getenv("DEJA_NO_REDACT") == "1"
	c.Offline = env.Getenv("DEJA_OFFLINE") == "1"
	c.Machine = env.Getenv("DEJA_MACHINE")
	for what, dir := range map[string]*string{"configuration": &c.ConfigDir, "data": &c.DataDir, "index": &c.IndexDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return Config{}, fmt.Errorf("%s directory %s: %w", what, *dir, err)
		}
		*dir = abs
	}
	return c, nil
}

func (c *Config) place(env Env) error {
	if root := env.Getenv("DEJA_HOME"); root != "" {
		c.ConfigDir = filepath.Join(root, "config")
		c.DataDir = filepath.Join(root, "data")
		c.IndexDir = filepath.Join(root, "cache", "index.db")
		c.NotesFile = filepath.Join(c.DataDir, "notes.jsonl")
		return nil
	}
	defaults, err := platformDirs(env)
	if err != nil {
		return err
	}
	c.ConfigDir = first(xdg(env, "XDG_CONFIG_HOME", "deja"), defaults.config)
	c.DataDir = first(xdg(env, "XDG_DATA_HOME", "deja"), defaults.data)
	c.IndexDir = first(xdg(env, "XDG_CACHE_HOME", "deja", "index.db"), filepath.Join(defaults.cache, "index.db"))
	c.NotesFile = first(xdg(env, "XDG_DATA_HOME", "deja", "notes.jsonl"), defaults.notes)
	return nil
}

type dirs struct{ config, data, cache, notes string }

// platformDirs gives the directories of the platform. Without a home only a
// full set of XDG variables (or DEJA_HOME) can place the node.
func platformDirs(env Env) (dirs, error) {
	in := func(elem ...string) string { return filepath.Join(append([]string{env.Home}, elem...)...) }
	placed := xdg(env, "XDG_CONFIG_HOME") != "" && xdg(env, "XDG_DATA_HOME") != "" && xdg(env, "XDG_CACHE_HOME") != ""
	if env.Home == "" && !placed {
		return dirs{}, ErrNoHome
	}
	switch env.GOOS {
	case "darwin":
		support := in("Library", "Application Support", "deja")
		return dirs{
			config: filepath.Join(support, "config"),
			data:   filepath.Join(support, "data"),
			cache:  in("Library", "Caches", "deja"),
			notes:  in(".local", "share", "deja", "notes.jsonl"),
		}, nil
	case "windows":
		roaming := first(env.Getenv("APPDATA"), in("AppData", "Roaming"))
		local := first(env.Getenv("LOCALAPPDATA"), in("AppData", "Local"))
		return dirs{
			config: filepath.Join(roaming, "deja"),
			data:   filepath.Join(local, "deja", "data"),
			cache:  filepath.Join(local, "deja", "cache"),
			notes:  filepath.Join(roaming, "deja", "notes.jsonl"),
		}, nil
	}
	return dirs{
		config: in(".config", "deja"),
		data:   in(".local", "share", "deja"),
		cache:  in(".cache", "deja"),
		notes:  in(".local", "share", "deja", "notes.jsonl"),
	}, nil
}

// xdg returns a path under the variable's directory. The XDG rules say that a
// relative value is to be ignored.
func xdg(env Env, name string, elem ...string) string {
	v := env.Getenv(name)
	if v == "" || !filepath.IsAbs(v) {
		return ""
	}
	return filepath.Join(append([]string{v}, elem...)...)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Getenv looks up a variable of the environment the configuration was loaded from.
func (c Config) Getenv(name string) string {
	if c.getenv == nil {
		return ""
	}
	return c.getenv(name)
}

// The places inside the directories.

// NodeDir holds the node's key and description.
func (c Config) NodeDir() string { return filepath.Join(c.DataDir, "node") }

// LogDir holds the logs, one directory a stream.
func (c Config) LogDir() string { return filepath.Join(c.DataDir, "log") }

// StateDir holds source cursors, per-peer state and locks.
func (c Config) StateDir() string { return filepath.Join(c.DataDir, "state") }

// SpoolDir holds files being received and the quarantine.
func (c Config) SpoolDir() string { return filepath.Join(c.DataDir, "spool") }

// PeersFile is the book of peers.
func (c Config) PeersFile() string { return filepath.Join(c.ConfigDir, "peers.json") }

// PolicyFile says what is served, accepted and injected.
func (c Config) PolicyFile() string { return filepath.Join(c.ConfigDir, "policy.json") }

// ExcludeFile lists what is never read into the log.
func (c Config) ExcludeFile() string { return filepath.Join(c.ConfigDir, "exclude") }

// KnownHostsFile records the host keys that the user let deja keep.
func (c Config) KnownHostsFile() string { return filepath.Join(c.ConfigDir, "known_hosts") }

// Tilde writes a path with the home shortened to "~", for messages and for
// what is stored: no absolute home ever enters a log.
func (c Config) Tilde(path string) string {
	if c.Home == "" {
		return path
	}
	rel, err := filepath.Rel(c.Home, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	if rel == "." {
		return "~"
	}
	return "~/" + filepath.ToSlash(rel)
}
