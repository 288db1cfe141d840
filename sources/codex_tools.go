package sources

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
)

// item takes a record of the conversation that the model sees.
func (d *codexDecoder) item(p *fastjson.Value, at time.Time) error {
	id := str(get(p, "call_id"))
	switch string(raw(get(p, "type"))) {
	case "message":
		return d.message(p, at)
	case "function_call":
		arguments := raw(get(p, "arguments"))
		args, err := d.args.parse(arguments)
		if err != nil {
			d.out.skip(Arguments, d.out.offset)
			return d.settle()
		}
		return d.functionCall(str(get(p, "name")), args, id, at)
	case "custom_tool_call":
		if string(raw(get(p, "name"))) == "apply_patch" {
			return d.patch(str(get(p, "input")), "", at)
		}
	case "local_shell_call":
		action := get(p, "action")
		return d.shell(get(action, "command"), str(get(action, "working_directory")), id, at)
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		return d.result(id, get(p, "output"), at)
	}
	return nil
}

func (d *codexDecoder) functionCall(name string, args *fastjson.Value, id string, at time.Time) error {
	switch name {
	case "exec_command", "shell", "shell_command", "container.exec", "local_shell":
		line := get(args, "command")
		if line == nil {
			line = get(args, "cmd")
		}
		return d.shell(line, str(get(args, "workdir")), id, at)
	case "apply_patch":
		return d.patch(first(str(get(args, "input")), str(get(args, "patch"))), str(get(args, "workdir")), at)
	}
	return nil
}

// shell takes a call of the shell: a line, or the words of one. A patch may be
// applied this way too.
func (d *codexDecoder) shell(line *fastjson.Value, dir, id string, at time.Time) error {
	if err := d.settle(); err != nil {
		return err
	}
	text := str(line)
	if words := list(line); len(words) > 0 {
		argv := make([]string, len(words))
		for i, w := range words {
			argv[i] = str(w)
		}
		text = shellLine(argv)
	} else {
		text = unwrapShell(text)
	}
	if program := firstProgram(text); program == "apply_patch" || program == "applypatch" {
		return d.patch(text, dir, at)
	}
	command, ok := commandText(text)
	if !ok {
		return nil
	}
	t := record.Turn{Role: record.RoleCommand, Text: command}
	if id == "" {
		return d.command(t, at)
	}
	t.Session, t.Time = d.thread().Native, d.at(at)
	if d.Child && !d.agents || d.replayed(t) {
		return nil
	}
	return d.Calls.wait(d.out, id, t)
}

// command yields a command whose result is known, or never will be.
func (d *codexDecoder) command(t record.Turn, at time.Time) error {
	t.Session, t.Time = d.thread().Native, d.at(at)
	if d.Child && !d.agents || d.replayed(t) {
		return nil
	}
	return d.out.turn(t)
}

// result takes what a call printed, and how it ended.
func (d *codexDecoder) result(id string, output *fastjson.Value, at time.Time) error {
	if err := d.settle(); err != nil {
		return err
	}
	text, exit, ok := d.oldOutput(raw(output))
	if !ok {
		text, exit = codexOutput(textOf(output))
	}
	if err := d.Calls.settle(d.out, []byte(id), exit); err != nil {
		return err
	}
	return d.turn(record.RoleToolOutput, text, at)
}

// oldOutput reads the output of older shells: an object with the output and
// its metadata, as JSON in a string.
func (d *codexDecoder) oldOutput(b []byte) (text string, exit *int, ok bool) {
	if len(b) == 0 || b[0] != '{' {
		return "", nil, false
	}
	v, err := d.args.parse(b)
	if err != nil || get(v, "output") == nil {
		return "", nil, false
	}
	if n, ok := whole(get(get(v, "metadata"), "exit_code")); ok {
		exit = &n
	}
	return textOf(get(v, "output")), exit, true
}

// codexHeader bounds what may stand above the output of a command.
const codexHeader = 1 << 10

// codexOutput cuts the header off an output, and reads the exit status in it.
func codexOutput(text string) (body string, exit *int) {
	const label = "Output:\n"
	end := strings.Index(text[:min(len(text), codexHeader)], "\n"+label)
	switch {
	case strings.HasPrefix(text, label):
		return text[len(label):], nil
	case end < 0:
		return text, nil
	}
	for line := range strings.Lines(text[:end+1]) {
		line = strings.TrimSpace(line)
		for _, label := range [...]string{"Process exited with code ", "Exit code: "} {
			if digits, ok := strings.CutPrefix(line, label); ok {
				if n, err := strconv.Atoi(digits); err == nil {
					exit = &n
				}
			}
		}
	}
	return text[end+1+len(label):], exit
}

// patch yields the files that a patch touches and the lines it removes.
func (d *codexDecoder) patch(text, dir string, at time.Time) error {
	if err := d.settle(); err != nil {
		return err
	}
	s := d.thread()
	w := readPatch(text, within(s.Cwd, dir))
	t := record.Turn{Session: s.Native, Time: d.at(at), Role: record.RoleFiles, Text: strings.Join(w.files, "\n")}
	if d.Child && !d.agents || d.replayed(t) {
		return nil
	}
	return w.yield(d.out, t)
}

// readPatch reads a patch in the format of apply_patch. Removed lines are
// grouped by file and hunk.
func readPatch(text, dir string) work {
	var w work
	var file string
	var removed []string
	hunk := func() {
		w.edit(file, strings.Join(removed, "\n"))
		removed = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "*** End of File"):
		case strings.HasPrefix(line, "*** "):
			hunk()
			file = ""
			for _, label := range [...]string{"*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "} {
				if name, ok := strings.CutPrefix(line, label); ok {
					file = within(dir, strings.TrimSpace(name))
					w.file(file)
				}
			}
		case strings.HasPrefix(line, "@@"):
			hunk()
		case strings.HasPrefix(line, "-") && file != "":
			removed = append(removed, line[1:])
		}
	}
	hunk()
	return w
}

// within resolves a path against a directory, whatever system both are from.
func within(dir, name string) string {
	switch {
	case name == "":
		return dir
	case dir == "" || isAbs(name):
		return name
	case isWindows(dir):
		return strings.TrimRight(dir, `\/`) + `\` + strings.TrimPrefix(name, `.\`)
	}
	return path.Join(dir, name)
}

// isWindows reports whether a path is one of Windows: a drive or a share.
func isWindows(p string) bool {
	return len(p) >= 3 && p[1] == ':' && (p[2] == '\\' || p[2] == '/') && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z') || strings.HasPrefix(p, `\\`)
}

func isAbs(p string) bool { return strings.HasPrefix(p, "/") || isWindows(p) }

// shellLine is the line that the words of a shell call stand for.
func shellLine(argv []string) string {
	if len(argv) == 3 && isShell(argv[0]) && isCommandFlag(argv[1]) {
		return argv[2]
	}
	words := make([]string, len(argv))
	for i, arg := range argv {
		if words[i] = arg; arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`;&|<>()*?") && !isWindows(arg) {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// unwrapShell takes the shell off a line like: bash -lc "make test".
func unwrapShell(line string) string {
	program, rest := shellWord(line)
	if !isShell(program) {
		return line
	}
	flag, rest := shellWord(rest)
	inner, rest := shellWord(rest)
	if !isCommandFlag(flag) || inner == "" || strings.TrimSpace(rest) != "" {
		return line
	}
	return inner
}

func isCommandFlag(flag string) bool {
	return flag == "-lc" || flag == "-c" || flag == "-Command"
}

func isShell(program string) bool {
	switch programName(program) {
	case "bash", "sh", "zsh", "fish", "pwsh", "powershell":
		return true
	}
	return false
}

// textOf joins the text parts of a content list; a string stands for itself.
func textOf(content *fastjson.Value) string {
	if b := raw(content); b != nil {
		return string(b)
	}
	var text joiner
	for _, part := range list(content) {
		text.add(str(get(part, "text")))
	}
	return text.String()
}
