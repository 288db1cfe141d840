// Package sources reads what the harnesses wrote. It promises that a
// transcript read in pieces, each from the mark of the one before, yields what
// it yields when read whole; that reading never leaves the store's directory;
// and that a broken line costs that line alone.
//
// Start at [All], the registry: a harness is a row of data. [Source.Discover]
// finds its files, [Source.Open] opens one store, and [Handle.Decode] turns a
// file into sessions and turns. What is yielded is raw and may hold secrets.
//
// The package knows nothing of the log. Where a decision depends on what was
// read before, it asks a [Memory].
package sources

import (
	"context"
	"slices"
	"strings"
)

// Source says where one harness keeps its history and how to read it.
type Source struct {
	// Harness is the id on disk and on the wire.
	Harness string
	// Name is what people call it, and Aliases what they may type besides.
	Name    string
	Aliases []string
	// Version goes up when the same bytes give other turns, so that files
	// are read again.
	Version int
	// Where and What fill its line of [Table].
	Where, What string
	// Stores lists the places that the environment points at.
	Stores func(Env) []Store

	// admits says which directories are entered and which files are read. The
	// path is relative to the store and slash-separated.
	admits func(st Store, rel string, dir bool) bool
	// tidy drops files that stand for one another; nil keeps all.
	tidy func([]File) []File
	// key is the stable name of a file; nil takes its path.
	key func(rel string) string
	// head finds what a file may share with others; nil means nothing.
	head func(ctx context.Context, h *Handle, f File) (head, error)
	// decode returns the decoder of one file.
	decode func(h *Handle, job Job, out *yield) lineDecoder
}

// registry lists the sources in the order of the table in README.md.
var registry = []Source{claude, codex, notes}

// All returns the sources.
func All() []Source { return slices.Clone(registry) }

// Find returns the source with the given id or alias, in any case.
func Find(name string) (Source, bool) {
	for _, s := range registry {
		if strings.EqualFold(name, s.Harness) || slices.ContainsFunc(s.Aliases, func(a string) bool { return strings.EqualFold(name, a) }) {
			return s, true
		}
	}
	return Source{}, false
}

// Table renders the sources as the Markdown table of README.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| harness | id | read from | what |\n|---|---|---|---|\n")
	for _, s := range registry {
		b.WriteString("| " + s.Name + " | `" + s.Harness + "` | " + s.Where + " | " + s.What + " |\n")
	}
	return b.String()
}
