package sources

import (
	"path/filepath"
	"strings"
)

// Env is what a source may know of its surroundings. Nothing in this package
// reads the real environment.
type Env struct {
	Home   string // home directory
	GOOS   string
	Getenv func(string) string
}

func (e Env) get(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// in returns a path under the home directory, empty when there is none.
func (e Env) in(elem ...string) string {
	if e.Home == "" {
		return ""
	}
	return filepath.Join(append([]string{e.Home}, elem...)...)
}

// path reads a variable that names a file or directory. A leading "~/" is the
// home: unit files and editors pass it on unexpanded.
func (e Env) path(name string) string { return e.expand(e.get(name)) }

func (e Env) expand(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok && e.Home != "" {
		p = filepath.Join(e.Home, rest)
	}
	if p == "" {
		return ""
	}
	abs, err := filepath.Abs(p)
	if err != nil { // only without a working directory
		return p
	}
	return abs
}

// roots lists the directories of a source: those that DEJA_<NAME>_ROOT (one)
// and DEJA_<NAME>_ROOTS (a path list) name, else the given default.
func (e Env) roots(name, standard string) []string {
	list := append([]string{e.get("DEJA_" + name + "_ROOT")}, filepath.SplitList(e.get("DEJA_"+name+"_ROOTS"))...)
	var roots []string
	for _, p := range list {
		if p != "" {
			roots = append(roots, e.expand(p))
		}
	}
	if len(roots) == 0 && standard != "" {
		roots = append(roots, standard)
	}
	return roots
}

// subagents reports whether the sessions of sub-agents are read.
func (e Env) subagents() bool { return e.get("DEJA_INCLUDE_SUBAGENTS") != "0" }

// stores makes one store of each directory.
func (e Env) stores(roots []string) []Store {
	stores := make([]Store, 0, len(roots))
	for _, root := range roots {
		stores = append(stores, Store{Root: root, Subagents: e.subagents(), Home: e.Home})
	}
	return stores
}

// first returns the first value that is not empty.
func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
