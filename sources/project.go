package sources

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deja-node/deja/index/record"
)

// Projects tells which project a directory belongs to: the repository it lies
// in, else the directory itself. It reads the repository's own files, asks no
// program, and remembers every answer. It is safe for concurrent use.
//
// The root commit, which would name a repository without a remote alike
// everywhere, is not looked for: it lies in packed objects.
type Projects struct {
	home    string
	windows bool

	mu    sync.Mutex // guards known
	known map[string]project
}

// project is what is known of a directory.
type project struct {
	name   string
	remote string
}

// NewProjects returns the rule for one machine.
func NewProjects(env Env) *Projects {
	return &Projects{home: env.Home, windows: env.GOOS == "windows", known: map[string]project{}}
}

// Fill sets the project of a session and the remote of its repository. The
// folder of a session without a working directory is looked for on disk; what
// is found that way stays a guess.
func (p *Projects) Fill(s *record.Session) {
	cwd := s.Cwd
	if cwd == "" && s.Guessed {
		var ok bool
		if cwd, ok = p.decode(s.Project); !ok {
			s.Project = strings.Trim(s.Project, "-")
			return
		}
	}
	if cwd == "" {
		return
	}
	found := p.of(cwd)
	s.Project = found.name
	switch {
	case found.remote != "":
		s.Remote = found.remote
	case s.Remote != "" && found.name == lastPart(cwd):
		s.Project = lastPart(s.Remote) // the checkout is gone; the harness noted its remote
	}
}

func (p *Projects) of(cwd string) project {
	p.mu.Lock()
	found, ok := p.known[cwd]
	p.mu.Unlock()
	if ok {
		return found
	}
	found = p.look(cwd)
	p.mu.Lock()
	p.known[cwd] = found
	p.mu.Unlock()
	return found
}

// look finds the project of a directory. Paths of other systems and network
// shares are not looked up: they would mean another place here, or none that
// answers in time.
func (p *Projects) look(cwd string) project {
	if p.isHome(cwd) {
		return project{name: "~"}
	}
	own := filepath.IsAbs(cwd) && isWindows(cwd) == p.windows && !strings.HasPrefix(cwd, `\\`)
	if own {
		if repo, ok := p.repository(filepath.Clean(cwd)); ok {
			return repo
		}
	}
	return project{name: lastPart(cwd)}
}

func (p *Projects) isHome(dir string) bool {
	return p.home != "" && filepath.Clean(dir) == filepath.Clean(p.home)
}

// repository walks up to the repository that a directory lies in. The home
// directory may be one, for the user's settings; what lies in it is none of it.
func (p *Projects) repository(dir string) (project, bool) {
	for !p.isHome(dir) {
		if git, ok := gitDir(dir); ok {
			return describe(dir, git), true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return project{}, false
}

// gitDir returns the directory with the repository's own files, when dir is
// the top of a work tree: .git itself, or what a file of that name points to.
func gitDir(dir string) (string, bool) {
	dot := filepath.Join(dir, ".git")
	info, err := os.Stat(dot)
	if err != nil {
		return "", false
	}
	if info.IsDir() {
		_, err := os.Stat(filepath.Join(dot, "HEAD"))
		return dot, err == nil
	}
	target, ok := strings.CutPrefix(readSmall(dot), "gitdir:")
	if !ok {
		return "", false
	}
	return against(dir, strings.TrimSpace(target)), true
}

// describe names a repository: by its remote, else by its main work tree,
// which a linked one belongs to.
func describe(top, git string) project {
	common := git
	if dir := strings.TrimSpace(readSmall(filepath.Join(git, "commondir"))); dir != "" {
		common = against(git, dir)
		top = common // a bare repository with work trees, unless it is named .git
		if filepath.Base(common) == ".git" {
			top = filepath.Dir(common)
		}
	}
	url := withoutQuery(remoteURL(readSmall(filepath.Join(common, "config"))))
	name := strings.TrimSuffix(lastPart(strings.TrimRight(url, `/\`)), ".git")
	if _, after, ok := strings.Cut(name, ":"); ok { // host:name
		name = after
	}
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(top), ".git")
	}
	return project{name: name, remote: remoteName(url)}
}

func against(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, filepath.FromSlash(name))
}

// maxGitFile bounds what is read of a repository's files.
const maxGitFile = 1 << 20

// readSmall returns the contents of a regular file, empty when there is none
// that can be read: a repository in disorder is a directory like any other.
func readSmall(name string) string {
	f, err := os.OpenFile(name, noWait, 0)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, maxGitFile))
	if err != nil {
		return ""
	}
	return string(b)
}

// remoteURL returns the URL of the remote named origin in a repository's
// configuration, else of the first.
func remoteURL(config string) string {
	var firstURL, section string
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] ")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(key), "url") {
			continue
		}
		kind, name, _ := strings.Cut(section, " ")
		if !strings.EqualFold(kind, "remote") {
			continue
		}
		url := strings.Trim(strings.TrimSpace(value), `"`)
		if strings.Trim(name, `" `) == "origin" {
			return url
		}
		if firstURL == "" {
			firstURL = url
		}
	}
	return firstURL
}

// remoteName is what identifies a remote on every machine: host and path in
// lower case, without scheme, user, password, usual port and ".git". A remote
// that is a path of one machine has no such name.
func remoteName(url string) string {
	url = withoutQuery(url)
	scheme, rest, hasScheme := strings.Cut(url, "://")
	var host, name string
	switch {
	case hasScheme && !strings.EqualFold(scheme, "file"):
		host, name, _ = strings.Cut(rest, "/")
		host = cutPort(host[strings.LastIndexByte(host, '@')+1:])
	case !hasScheme && !isWindows(url): // user@host:path
		before, after, ok := strings.Cut(url, ":")
		if !ok || strings.Contains(before, "/") {
			return ""
		}
		host, name = before[strings.LastIndexByte(before, '@')+1:], after
	}
	name = strings.TrimSuffix(strings.Trim(name, "/"), ".git")
	if host == "" || name == "" {
		return ""
	}
	return strings.ToLower(host + "/" + strings.Trim(path.Clean("/"+name), "/"))
}

func withoutQuery(url string) string {
	url, _, _ = strings.Cut(url, "?")
	url, _, _ = strings.Cut(url, "#")
	return strings.TrimSpace(url)
}

func cutPort(host string) string {
	for _, port := range [...]string{":22", ":80", ":443", ":9418"} {
		if h, ok := strings.CutSuffix(host, port); ok {
			return h
		}
	}
	return host
}

// lastPart is the last part of a path of any system.
func lastPart(p string) string {
	p = strings.TrimRight(p, "/")
	if isWindows(p) {
		p = strings.TrimRight(p, `\/`)
		return p[strings.LastIndexAny(p, `\/`)+1:]
	}
	return p[strings.LastIndexByte(p, '/')+1:]
}

// Bounds of the search for the directory that a folder's name stands for.
const (
	maxListed  = 4096
	maxLookups = 64
)

// decode finds the directory that a folder's name was made from. Every
// character that is not a letter or digit has become "-", so it is looked for
// among the directories that exist.
func (p *Projects) decode(slug string) (string, bool) {
	start, rest := "/", strings.TrimPrefix(slug, "-")
	if p.windows {
		drive, after, ok := strings.Cut(slug, "--")
		if !ok || len(drive) != 1 {
			return "", false
		}
		start, rest = drive+`:\`, after
	} else if rest == slug {
		return "", false
	}
	lookups := maxLookups
	return descend(start, rest, &lookups)
}

func descend(dir, rest string, lookups *int) (string, bool) {
	if *lookups--; *lookups < 0 {
		return "", false
	}
	entries, err := listSome(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		after, ok := strings.CutPrefix(rest, encodeSlug(e.Name()))
		if !ok || !e.IsDir() {
			continue
		}
		if after == "" {
			return filepath.Join(dir, e.Name()), true
		}
		if after[0] != '-' {
			continue
		}
		if found, ok := descend(filepath.Join(dir, e.Name()), after[1:], lookups); ok {
			return found, true
		}
	}
	return "", false
}

func listSome(dir string) (entries []fs.DirEntry, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err = f.ReadDir(maxListed)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, errors.Join(err, f.Close())
}

// encodeSlug writes a name as Claude Code does in the names of its folders.
func encodeSlug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
}
