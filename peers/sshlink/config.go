package sshlink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxInclude    = 16 // depth
	maxConfigSize = 1 << 20
)

// ConfigQuery is what ssh_config is asked.
type ConfigQuery struct {
	Host      string // as typed
	User      string // given beside the host; empty if none
	LocalUser string
	Home      string
	Files     []string // in the order of precedence; missing ones are skipped
}

// Config is what ssh_config says of a host: raw values, before tokens, ~ and
// variables are expanded. Keywords are in lower case.
type Config struct {
	values   map[string][]string
	warnings map[string]bool
}

// Value returns the value of a keyword that has one, or "".
func (c Config) Value(keyword string) string {
	if list := c.values[keyword]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// Values returns all values of a keyword.
func (c Config) Values(keyword string) []string { return slices.Clone(c.values[keyword]) }

// Warnings names what the configuration asks for and sshlink does not do.
func (c Config) Warnings() []string { return slices.Sorted(maps.Keys(c.warnings)) }

// ReadConfig evaluates ssh_config for a host. The first value of a keyword
// wins; identity files add up.
func ReadConfig(q ConfigQuery) (Config, error) {
	e := &evaluation{ConfigQuery: q, host: q.Host, config: Config{values: map[string][]string{}, warnings: map[string]bool{}}}
	if err := e.run(); err != nil {
		return Config{}, err
	}
	host := strings.ToLower(e.hostName())
	if e.wantFinal {
		e.host, e.final = host, true
		e.config.values["hostname"] = []string{host}
		if err := e.run(); err != nil {
			return Config{}, err
		}
	}
	e.config.values["hostname"] = []string{host}
	return e.config, nil
}

// evaluation is one reading of the files for one host.
type evaluation struct {
	ConfigQuery
	host      string // that Host patterns are compared with
	final     bool   // this is the pass after "Match final"
	wantFinal bool
	config    Config
}

func (e *evaluation) run() error {
	for _, file := range e.Files {
		active := true
		if err := e.file(file, &active, 0, filepath.Dir(file)); err != nil {
			return err
		}
	}
	return nil
}

// hostName returns the name to connect to as far as it is known.
func (e *evaluation) hostName() string {
	if name := e.config.Value("hostname"); name != "" {
		return strings.NewReplacer("%%", "%", "%h", e.host).Replace(name)
	}
	return e.host
}

// file reads one file. Included names are relative to base.
func (e *evaluation) file(name string, active *bool, depth int, base string) error {
	text, err := readConfigFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	never := !*active // included by a block that does not match
	for number, line := range strings.Split(text, "\n") {
		keyword, rest := cutKeyword(line)
		if keyword == "" {
			continue
		}
		if err := e.line(keyword, rest, active, never, depth, base); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", name, number+1, keyword, err)
		}
	}
	return nil
}

func readConfigFile(name string) (text string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err == nil && len(data) > maxConfigSize {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxConfigSize)
	}
	return string(data), err
}

// cutKeyword splits a line. One = may stand between keyword and arguments.
func cutKeyword(line string) (keyword, rest string) {
	line = strings.Trim(line, " \t\r\f")
	if line == "" || line[0] == '#' {
		return "", ""
	}
	end := strings.IndexAny(line, " \t=")
	if end < 0 {
		return strings.ToLower(line), ""
	}
	rest = strings.TrimLeft(line[end:], " \t")
	if after, ok := strings.CutPrefix(rest, "="); ok {
		rest = strings.TrimLeft(after, " \t")
	}
	return strings.ToLower(strings.Trim(line[:end], `"`)), rest
}

// line obeys one line. A block that does not match is checked all the same.
func (e *evaluation) line(keyword, rest string, active *bool, never bool, depth int, base string) error {
	switch keyword {
	case "host", "match":
		args, err := splitArgs(rest)
		if err != nil {
			return err
		}
		matches := e.matchHosts
		if keyword == "match" {
			matches = e.matchCriteria
		}
		ok, err := matches(args)
		*active = ok && !never
		return err
	case "include":
		args, err := splitArgs(rest)
		if err != nil {
			return err
		}
		return e.include(args, *active, depth, base)
	}
	if *active {
		return e.set(keyword, rest)
	}
	return nil
}

// include reads files as if they stood here; blocks end with their file.
func (e *evaluation) include(patterns []string, active bool, depth int, base string) error {
	if depth >= maxInclude {
		return fmt.Errorf("more than %d levels", maxInclude)
	}
	for _, pattern := range patterns {
		pattern = expandHome(pattern, e.Home)
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(base, pattern)
		}
		names, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			inside := active
			if err := e.file(name, &inside, depth+1, base); err != nil {
				return err
			}
		}
	}
	return nil
}

func expandHome(name, home string) string {
	if name == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(filepath.ToSlash(name), "~/"); ok {
		return filepath.Join(home, rest)
	}
	return name
}

// splitArgs splits what follows a keyword: quotes hold words together, a
// backslash escapes a quote, a space or itself, # begins a comment.
func splitArgs(s string) ([]string, error) {
	var args []string
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" || s[0] == '#' {
			return args, nil
		}
		arg, rest, err := cutArg(s)
		if err != nil {
			return nil, err
		}
		args, s = append(args, arg), rest
	}
}

func cutArg(s string) (arg, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (strings.IndexByte(`"'\`, s[i+1]) >= 0 || quote == 0 && s[i+1] == ' '):
			i++
			b.WriteByte(s[i])
		case quote == 0 && (c == ' ' || c == '\t'):
			return b.String(), s[i:], nil
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", "", errors.New("a quote is not closed")
	}
	return b.String(), "", nil
}
