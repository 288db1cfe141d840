// Package policy decides what may be read into the log, what a peer may be
// given, what is taken from whom, and how far foreign history may surface.
//
// Start at [Load]. Decisions about foreign history go by its origin, proved by
// signature, never by the peer that carried it. A policy file that cannot be
// read fails closed: nothing leaves, nothing foreign surfaces unasked, and
// [Policy.Problem] says why.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

// Level is the highest surface that history of an origin reaches.
type Level int

// The levels, each including those before it.
const (
	Never  Level = 0
	Search Level = 1 // what a person looks up
	MCP    Level = 2 // what an agent asks for
	Auto   Level = 3 // what is put before an agent unasked
)

var levels = map[string]Level{"never": Never, "search": Search, "mcp": MCP, "auto": Auto}

// Group is a set of nodes that are treated alike.
type Group struct {
	Nodes   []string `json:"nodes,omitempty"`
	Serve   []string `json:"serve"`   // projects they may read from here
	Accept  []string `json:"accept"`  // projects taken from them
	Relay   string   `json:"relay"`   // all, own or none: whose streams they are given
	Inject  string   `json:"inject"`  // never, search, mcp or auto
	Retract string   `json:"retract"` // all, own or none: what their tombs may remove
}

// File is policy.json.
type File struct {
	V       int                 `json:"v"`
	Groups  map[string]Group    `json:"groups"`
	Unknown *Group              `json:"unknown,omitempty"`
	V1      *Group              `json:"v1,omitempty"`
	Private []string            `json:"private,omitempty"` // logged, and given to nobody
	Roles   map[string][]string `json:"roles,omitempty"`   // roles that a group is given
}

// Mine is the group of the user's own machines, and the default of `peer add`.
const Mine = "mine"

const maxFile = 1 << 20

var defaults = map[string]Group{
	Mine: {Serve: []string{"*"}, Accept: []string{"*"}, Relay: "all", Inject: "auto", Retract: "all"},
}

// foreignRoles is what a group other than mine is given unless the file says.
var foreignRoles = []string{"user", "assistant", "note", "summary", "command", "files"}

// Policy is a policy in force.
type Policy struct {
	file    File
	exclude []string
	group   func(record.NodeID) string // what the book of peers says
	self    record.NodeID
	problem error
}

// Load reads policy.json and the exclude file. Either may be missing. self is
// this node, and group says in which group the book of peers has a node, ""
// for none.
func Load(fsys vfs.FS, policyPath, excludePath string, self record.NodeID, group func(record.NodeID) string) *Policy {
	p := &Policy{self: self, group: group}
	data, err := vfs.ReadFile(fsys, policyPath, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		p.problem = err
	default:
		p.problem = p.parse(data, policyPath)
	}
	p.problem = errors.Join(p.problem, p.loadExclude(fsys, excludePath))
	return p
}

func (p *Policy) parse(data []byte, name string) error {
	if err := json.Unmarshal(data, &p.file); err != nil {
		return fmt.Errorf("%s: %w: nothing is shared until it is mended", name, err)
	}
	for group, g := range p.file.Groups {
		if _, ok := levels[g.Inject]; !ok && g.Inject != "" {
			return fmt.Errorf("%s: group %s: inject %q: known are never, search, mcp, auto", name, group, g.Inject)
		}
		for _, word := range []string{g.Relay, g.Retract} {
			if !slices.Contains([]string{"", "all", "own", "none"}, word) {
				return fmt.Errorf("%s: group %s: %q: known are all, own, none", name, group, word)
			}
		}
	}
	return nil
}

// loadExclude reads one pattern a line; # begins a comment.
func (p *Policy) loadExclude(fsys vfs.FS, name string) error {
	data, err := vfs.ReadFile(fsys, name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			p.exclude = append(p.exclude, strings.ToLower(line))
		}
	}
	return nil
}

// Problem is why the policy fails closed, nil when it does not.
func (p *Policy) Problem() error { return p.problem }

// MayIngest reports whether history of a project may be read into the log.
func (p *Policy) MayIngest(project, cwd string) bool {
	for _, pattern := range p.exclude {
		for _, name := range []string{strings.ToLower(project), strings.ToLower(cwd)} {
			if name != "" && matches(pattern, name) {
				return false
			}
		}
	}
	return true
}

// matches takes a glob, or a part of the name.
func matches(pattern, name string) bool {
	if strings.ContainsAny(pattern, "*?[") {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	}
	return strings.Contains(name, pattern)
}

// groupOf names the group of a node; this node itself is mine.
func (p *Policy) groupOf(n record.NodeID) string {
	if n == p.self {
		return Mine
	}
	for name, g := range p.file.Groups {
		for _, id := range g.Nodes {
			if len(id) >= 8 && strings.HasPrefix(n.String(), id) {
				return name
			}
		}
	}
	if p.group == nil {
		return ""
	}
	return p.group(n)
}

// rules are the rules for a node; ok is false for a node without any.
func (p *Policy) rules(n record.NodeID) (Group, string, bool) {
	name := p.groupOf(n)
	if g, ok := p.file.Groups[name]; ok {
		return g, name, true
	}
	if g, ok := defaults[name]; ok {
		return g, name, true
	}
	if p.file.Unknown != nil {
		return *p.file.Unknown, "unknown", true
	}
	return Group{}, "", false
}

// Knows reports whether there are rules for a node.
func (p *Policy) Knows(n record.NodeID) bool {
	_, _, ok := p.rules(n)
	return ok && p.problem == nil
}

// ServesStream reports whether a peer is given anything of an origin's streams.
func (p *Policy) ServesStream(peer, origin record.NodeID) bool {
	g, _, ok := p.rules(peer)
	if !ok || p.problem != nil || len(g.Serve) == 0 {
		return false
	}
	return g.Relay == "all" || g.Relay == "own" && origin == p.self
}

// Serves reports whether a peer is given one entry.
func (p *Policy) Serves(peer record.NodeID, e *record.Entry) bool {
	g, name, ok := p.rules(peer)
	if !ok || p.problem != nil {
		return false
	}
	project := e.Project.String()
	if project != "" && (!anyMatches(g.Serve, project) || anyMatches(p.file.Private, project) || !p.MayIngest(project, "")) {
		return false
	}
	roles := p.file.Roles[name]
	if roles == nil && name != Mine {
		roles = foreignRoles
	}
	if roles == nil || e.Kind != record.KindMsg && e.Kind != record.KindNote {
		return true
	}
	role := string(e.Role)
	if e.Kind == record.KindNote {
		role = "note"
	}
	return slices.Contains(roles, role)
}

// WithholdsFrom reports whether a peer can get stubs at all, so that batches
// can be served as they are when it cannot.
func (p *Policy) WithholdsFrom(peer record.NodeID) bool {
	g, name, ok := p.rules(peer)
	all := slices.Contains(g.Serve, "*")
	return !ok || !all || len(p.file.Private) > 0 || len(p.exclude) > 0 || name != Mine || p.file.Roles[name] != nil
}

// Accepts reports whether anything of an origin is taken.
func (p *Policy) Accepts(origin record.NodeID) bool {
	g, _, ok := p.rules(origin)
	return ok && p.problem == nil && len(g.Accept) > 0
}

// Inject is how far history of an origin may surface.
func (p *Policy) Inject(origin record.NodeID) Level {
	if origin == p.self {
		return Auto
	}
	if p.problem != nil {
		return Search
	}
	g, _, ok := p.rules(origin)
	if !ok {
		return Search
	}
	return levels[g.Inject]
}

// Tag names what a peer may receive: it changes when the rules for it do.
func (p *Policy) Tag(peer record.NodeID) string {
	g, name, _ := p.rules(peer)
	b, err := json.Marshal(struct {
		G    Group
		Name string
		P    []string
		X    []string
		R    []string
		Bad  bool
	}{Group{Serve: g.Serve, Relay: g.Relay}, name, p.file.Private, p.exclude, p.file.Roles[name], p.problem != nil})
	if err != nil {
		panic(err) // the types above always marshal
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

// anyMatches takes globs of project names; "!" in front excludes.
func anyMatches(patterns []string, project string) bool {
	on := false
	for _, pattern := range patterns {
		not := strings.HasPrefix(pattern, "!")
		pattern = strings.TrimPrefix(pattern, "!")
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(project)); ok && err == nil || pattern == "*" {
			on = !not
		}
	}
	return on
}
