package sources

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
)

// claudeWrappers are the tags that Claude Code puts into what the user typed.
var claudeWrappers = []wrapper{
	{"system-reminder", nil},
	{"local-command-caveat", nil},
	{"local-command-stdout", nil},
	{"local-command-stderr", nil},
	{"command-name", nil},
	{"command-message", nil},
	{"command-args", keepSpeech},
	{"task-notification", nil},
	{"user-prompt-submit-hook", nil},
	{"bash-input", keepCommand},
	{"bash-stdout", keepOutput},
	{"bash-stderr", keepOutput},
}

// claudeReminders are the tags that it puts into what tools printed.
var claudeReminders = []wrapper{{"system-reminder", nil}}

const (
	claudeContinued = "This session is being continued from a previous conversation"
	claudeCaveat    = "Caveat: The messages below were generated"
	claudeInterrupt = "[Request interrupted by user"
)

// user takes a line of the user's side: what was typed, and what tools answered.
func (d *claudeDecoder) user(s *sessionState, l *claudeLine, t record.Turn) error {
	content := get(l.message, "content")
	var text joiner
	var results []*fastjson.Value
	if content != nil && content.Type() == fastjson.TypeString {
		text.add(str(content))
	}
	for _, block := range list(content) {
		switch string(raw(get(block, "type"))) {
		case "text":
			text.add(str(get(block, "text")))
		case "tool_result":
			results = append(results, block)
		}
	}
	if text.n == 0 && len(results) == 0 || d.copied(s, l) {
		return nil
	}
	if typed := text.String(); typed != "" {
		if l.digest || strings.HasPrefix(typed, claudeContinued) {
			t.Role, t.Text = record.RoleSummary, typed
			if err := d.out.turn(t); err != nil {
				return err
			}
		} else if err := d.typed(typed, t); err != nil {
			return err
		}
	}
	for _, block := range results {
		if err := d.toolResult(block, t); err != nil {
			return err
		}
	}
	return nil
}

// typed yields what is left of a prompt without its wrappers, and what the
// user ran in the shell of the harness.
func (d *claudeDecoder) typed(text string, t record.Turn) error {
	var p prompt
	if strings.Contains(text, "<") {
		unwrap(text, claudeWrappers, &p)
		text = p.speech.String()
	}
	t.Role, t.Text = record.RoleUser, withoutNotices(text)
	if err := d.out.turn(t); err != nil {
		return err
	}
	for _, line := range p.commands {
		if command, ok := commandText(line); ok {
			t.Role, t.Text = record.RoleCommand, command
			if err := d.out.turn(t); err != nil {
				return err
			}
		}
	}
	for _, output := range p.outputs {
		t.Role, t.Text = record.RoleToolOutput, output
		if err := d.out.turn(t); err != nil {
			return err
		}
	}
	return nil
}

// withoutNotices drops the lines that the harness writes in the user's name.
func withoutNotices(text string) string {
	if !strings.Contains(text, claudeCaveat) && !strings.Contains(text, claudeInterrupt) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, claudeCaveat) {
			continue
		}
		before, after, ok := strings.Cut(line, claudeInterrupt)
		if ok {
			_, after, ok = strings.Cut(after, "]")
		}
		if ok {
			line = before + after
		}
		b.WriteString(line)
	}
	return b.String()
}

// toolResult yields what a tool printed, after the command that it was if that
// waited for it.
func (d *claudeDecoder) toolResult(block *fastjson.Value, t record.Turn) error {
	text := resultText(get(block, "content"))
	if id := raw(get(block, "tool_use_id")); len(id) > 0 {
		if err := d.Calls.settle(d.out, id, claudeExit(text)); err != nil {
			return err
		}
	}
	t.Role, t.Text = record.RoleToolOutput, string(text)
	if bytes.Contains(text, []byte("<system-reminder>")) {
		var p prompt
		unwrap(t.Text, claudeReminders, &p)
		t.Text = p.speech.String()
	}
	return d.out.turn(t)
}

// resultText joins the text blocks of a result, which some tools nest once
// more. It is valid until the next line.
func resultText(content *fastjson.Value) []byte {
	if b := raw(content); b != nil {
		return b
	}
	var texts [][]byte
	for _, block := range list(content) {
		switch string(raw(get(block, "type"))) {
		case "text":
			texts = append(texts, raw(get(block, "text")))
		case "tool_result":
			for _, inner := range list(get(block, "content")) {
				texts = append(texts, raw(get(inner, "text")))
			}
		}
	}
	texts = slices.DeleteFunc(texts, func(b []byte) bool { return len(b) == 0 })
	if len(texts) == 1 {
		return texts[0]
	}
	return bytes.Join(texts, []byte("\n"))
}

// assistant takes a line of the model's side: what it said and what it called.
func (d *claudeDecoder) assistant(s *sessionState, l *claudeLine, t record.Turn) error {
	model := raw(get(l.message, "model"))
	if l.apiError || string(model) == "<synthetic>" {
		return nil
	}
	set(&s.Model, get(l.message, "model"))
	content := get(l.message, "content")
	var text joiner
	var tools []*fastjson.Value
	if content != nil && content.Type() == fastjson.TypeString {
		text.add(str(content))
	}
	for _, block := range list(content) {
		switch string(raw(get(block, "type"))) {
		case "text":
			text.add(str(get(block, "text")))
		case "tool_use":
			tools = append(tools, block)
		}
	}
	if text.n == 0 && len(tools) == 0 || d.copied(s, l) {
		return nil
	}
	t.Role, t.Text = record.RoleAssistant, text.String()
	if err := d.out.turn(t); err != nil {
		return err
	}
	return d.toolUses(tools, t)
}

// toolUses yields the files, edits and commands of the calls of one line.
// Commands wait for their results, which say how they ended.
func (d *claudeDecoder) toolUses(tools []*fastjson.Value, t record.Turn) error {
	var work work
	for _, block := range tools {
		input := get(block, "input")
		switch string(raw(get(block, "name"))) {
		case "Read", "Write":
			work.file(str(get(input, "file_path")))
		case "Edit", "MultiEdit":
			file := str(get(input, "file_path"))
			work.file(file)
			work.edit(file, str(get(input, "old_string")))
			for _, edit := range list(get(input, "edits")) {
				work.edit(file, str(get(edit, "old_string")))
			}
		case "NotebookEdit":
			work.file(str(get(input, "notebook_path")))
		}
	}
	if err := work.yield(d.out, t); err != nil {
		return err
	}
	for _, block := range tools {
		if string(raw(get(block, "name"))) != "Bash" {
			continue
		}
		command, ok := commandText(str(get(get(block, "input"), "command")))
		if !ok {
			continue
		}
		t.Role, t.Text = record.RoleCommand, command
		if err := d.Calls.wait(d.out, str(get(block, "id")), t); err != nil {
			return err
		}
	}
	return nil
}

// work collects the files and edits of one record.
type work struct {
	files []string
	edits []string
}

func (w *work) file(name string) {
	if name != "" && !slices.Contains(w.files, name) {
		w.files = append(w.files, name)
	}
}

// edit adds the bytes that an edit removed. A pure creation removes none.
func (w *work) edit(name, removed string) {
	if name != "" && removed != "" {
		w.edits = append(w.edits, name+"\n"+removed)
	}
}

func (w *work) yield(out *yield, t record.Turn) error {
	if len(w.files) > 0 {
		t.Role, t.Text = record.RoleFiles, strings.Join(w.files, "\n")
		if err := out.turn(t); err != nil {
			return err
		}
	}
	for _, edit := range w.edits {
		t.Role, t.Text = record.RoleEdit, edit
		if err := out.turn(t); err != nil {
			return err
		}
	}
	return nil
}
