package sources

import (
	"path"
	"slices"
	"strings"

	"github.com/deja-node/deja/index/record"
)

// commandText returns the text of a command record, and whether the shell line
// is worth one: a single line whose first program is on the list.
func commandText(line string) (string, bool) {
	line = strings.TrimSpace(line)
	if line == "" || strings.ContainsAny(line, "\n\r") || !kept(firstProgram(line)) {
		return "", false
	}
	return "$ " + line, true
}

// kept reports whether commands of a program are recorded.
func kept(program string) bool {
	_, ok := slices.BinarySearch(programs, program)
	return ok
}

// call is a command that waits for the result that says how it ended.
type call struct {
	ID   string      `json:"i"`
	Turn record.Turn `json:"t"`
}

// maxCalls bounds how many commands wait at once. The oldest are then yielded
// as they are.
const maxCalls = 128

// calls are commands without a result yet, oldest first.
type calls []call

// wait adds a command. It yields the oldest when too many wait.
func (c *calls) wait(y *yield, id string, t record.Turn) error {
	*c = append(*c, call{ID: id, Turn: t})
	if len(*c) <= maxCalls {
		return nil
	}
	oldest := (*c)[0].Turn
	*c = slices.Delete(*c, 0, 1)
	return y.turn(oldest)
}

// settle yields the command that a result belongs to, if it waits.
func (c *calls) settle(y *yield, id []byte, exit *int) error {
	i := slices.IndexFunc(*c, func(w call) bool { return w.ID == string(id) })
	if i < 0 {
		return nil
	}
	t := (*c)[i].Turn
	t.Exit = exit
	*c = slices.Delete(*c, i, i+1)
	return y.turn(t)
}

// carried returns the commands as a mark carries them.
func (c calls) carried(carry func(string) string) calls {
	var kept calls
	for _, w := range c {
		if w.Turn.Text = carry(w.Turn.Text); w.Turn.Text != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// flush yields all that wait.
func (c *calls) flush(y *yield) error {
	for _, w := range *c {
		if err := y.turn(w.Turn); err != nil {
			return err
		}
	}
	*c = nil
	return nil
}

// launcher is a program that runs the program named in its arguments.
type launcher struct {
	name   string
	valued []string // its options that take the next word
}

var launchers = []launcher{
	{"sudo", []string{"-u", "-g", "-h", "-p", "-C"}},
	{"doas", []string{"-u", "-C"}},
	{"time", nil},
	{"nice", []string{"-n"}},
	{"ionice", []string{"-c", "-n"}},
	{"env", []string{"-u", "-C"}},
	{"timeout", []string{"-s", "-k"}},
	{"stdbuf", []string{"-i", "-o", "-e"}},
	{"nohup", nil},
	{"command", nil},
	{"exec", nil},
}

// firstProgram returns the name of the program that a shell line runs first:
// without its directory, its extension and the version in its name, in lower
// case. Assignments, wrappers such as sudo and time, and steps that only
// prepare the shell are passed over.
func firstProgram(line string) string {
	for {
		word, rest := shellWord(line)
		name := programName(word)
		switch {
		case word == "":
			return ""
		case isAssignment(word):
			line = rest
		case prepares(name):
			_, after, ok := cutStep(rest)
			if !ok {
				return name
			}
			line = after
		default:
			i := slices.IndexFunc(launchers, func(l launcher) bool { return l.name == name })
			if i < 0 {
				return name
			}
			line = skipOptions(launchers[i], rest)
		}
	}
}

// prepares reports whether a program only sets the scene for what follows.
func prepares(name string) bool {
	switch name {
	case "cd", "pushd", "export", "set", "source", ".", "unset", "ulimit", "umask":
		return true
	}
	return false
}

// cutStep cuts a line behind its first "&&", ";" or newline outside quotes.
func cutStep(line string) (step, rest string, ok bool) {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ';':
			return line[:i], line[i+1:], true
		case c == '&' && strings.HasPrefix(line[i:], "&&"):
			return line[:i], line[i+2:], true
		}
	}
	return line, "", false
}

// skipOptions passes over the options of a launcher, their values, and the
// duration of a timeout.
func skipOptions(l launcher, line string) string {
	for {
		word, rest := shellWord(line)
		if len(word) < 2 || word[0] != '-' {
			break
		}
		line = rest
		if slices.Contains(l.valued, word) {
			_, line = shellWord(line)
		}
	}
	if l.name == "timeout" {
		_, line = shellWord(line)
	}
	return line
}

// shellWord cuts the first word of a shell line, without its quotes.
func shellWord(line string) (word, rest string) {
	line = strings.TrimLeft(line, " \t(")
	var b strings.Builder
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quote == 0 && i+1 < len(line) && strings.IndexByte(` "'\$`, line[i+1]) >= 0:
			i++
			b.WriteByte(line[i])
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ' ' || c == '\t':
			return b.String(), line[i:]
		case strings.IndexByte(";|&<>)", c) >= 0:
			return b.String(), line[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// programName is the name that the list of programs would hold.
func programName(word string) string {
	if word == "." || word == "" {
		return word
	}
	name := strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/")))
	for _, ext := range [...]string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ext)
	}
	if kept(name) {
		return name
	}
	// python3.12, clang-18, gcc-14: the version is no part of the name.
	if base := strings.TrimRight(name, "0123456789."); base != "" && base != name {
		return strings.TrimSuffix(base, "-")
	}
	return name
}
