package sources

import (
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
)

// side is what a rollout has shown of how one side of it, the user's or the
// assistant's, is written down.
type side struct {
	Items  bool     `json:"i,omitempty"` // items with the role carry speech
	Events bool     `json:"e,omitempty"` // there are events of this side
	Bare   bool     `json:"b,omitempty"` // an event was speech by itself
	Recent []uint64 `json:"r,omitempty"` // hashes of what was taken from bare events
	Passed []uint64 `json:"p,omitempty"` // hashes of items that were taken for injected text
}

// maxRecent bounds the memory of a side.
const maxRecent = 16

// utterance is one half of a pair that may be speech.
type utterance struct {
	role    record.Role
	event   bool
	text    string
	at      time.Time
	matched bool // its other half has come
}

func (d *codexDecoder) side(role record.Role) *side {
	if role == record.RoleUser {
		return &d.Asked
	}
	return &d.Said
}

// utter takes an item or an event that may be speech.
//
// An item of the assistant is speech. One of the user is, unless the rollout
// has events and none says the same: then the harness put it there. An event
// is speech where no items are.
func (d *codexDecoder) utter(u utterance) error {
	if u.text = strings.TrimSpace(u.text); u.text == "" {
		return nil
	}
	if len(d.pending) > 0 && d.pending[0].role != u.role {
		if err := d.settle(); err != nil {
			return err
		}
	}
	s := d.side(u.role)
	if u.event {
		if at := slices.Index(s.Passed, hash(u.text)); at >= 0 {
			s.Passed = slices.Delete(slices.Clone(s.Passed), at, at+1)
			if err := d.settle(); err != nil {
				return err
			}
			return d.speak(u)
		}
	}
	decided := u.event && (s.Items && u.role == record.RoleAssistant || s.Bare && !s.Items) || !u.event && u.role == record.RoleAssistant
	for i := range d.pending {
		if p := &d.pending[i]; p.event != u.event && !p.matched && p.text == u.text {
			p.matched, u.matched, decided = true, true, true
			break
		}
	}
	if d.held == nil && !decided {
		before := d.codexState
		d.held, d.holds = &before, d.holds+1
	}
	d.pending = append(d.pending, u)
	if decided || len(d.pending) >= maxRecent {
		return d.settle()
	}
	return nil
}

// settle decides what is pending, and yields what is speech.
func (d *codexDecoder) settle() error {
	pending := d.pending
	d.pending, d.held = nil, nil
	if len(pending) == 0 {
		return nil
	}
	s := d.side(pending[0].role)
	for _, u := range pending {
		s.Events = s.Events || u.event
		s.Items = s.Items || !u.event && (u.matched || u.role == record.RoleAssistant)
	}
	for _, u := range pending {
		if !s.speech(u) {
			continue
		}
		if err := d.speak(u); err != nil {
			return err
		}
	}
	return nil
}

// speech decides about one utterance, once the side knows all that is pending.
func (s *side) speech(u utterance) bool {
	twin := slices.Index(s.Recent, hash(u.text))
	switch {
	case u.event && (u.matched || s.Items):
		return false
	case u.event:
		s.Bare, s.Recent = true, remember(s.Recent, u.text)
		return true
	case u.matched:
		return true
	case twin >= 0:
		s.Recent = slices.Delete(slices.Clone(s.Recent), twin, twin+1)
		return false
	case u.role == record.RoleUser && s.Events:
		s.Passed = remember(s.Passed, u.text)
		return false
	}
	s.Items = true
	return true
}

// speak yields what somebody said.
func (d *codexDecoder) speak(u utterance) error {
	if u.role == record.RoleUser {
		d.prompt(u.at)
	}
	return d.turn(u.role, u.text, u.at)
}

// prompt remembers when the user spoke, for rollbacks.
func (d *codexDecoder) prompt(at time.Time) {
	if len(d.Prompts) >= maxPrompts {
		d.Prompts = slices.Clone(d.Prompts[1:])
	}
	d.Prompts = append(d.Prompts, int64(nanos(d.at(at))))
}

// remember adds a text to the hashes of the latest.
func remember(recent []uint64, text string) []uint64 {
	if len(recent) >= maxRecent {
		recent = slices.Clone(recent[1:])
	}
	return append(recent, hash(text))
}

// hash names a text in a mark: FNV-1a.
func hash(text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}

// event takes a record of the event stream.
func (d *codexDecoder) event(p *fastjson.Value, at time.Time) error {
	switch string(raw(get(p, "type"))) {
	case "user_message":
		return d.utter(utterance{role: record.RoleUser, event: true, text: str(get(p, "message")), at: at})
	case "agent_message":
		return d.utter(utterance{role: record.RoleAssistant, event: true, text: str(get(p, "message")), at: at})
	case "thread_rolled_back":
		n, ok := whole(get(p, "num_turns"))
		if !ok {
			d.out.skip(Malformed, d.out.offset)
			return nil
		}
		return d.rollback(n)
	}
	return nil
}

// codexInjected begins the parts of a user's message that the harness wrote.
var codexInjected = []string{
	"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>", "<permissions instructions>",
	"<turn_aborted>", "<skill>", "<subagent_notification>",
}

const codexUserShell = "<user_shell_command>"

// message takes an item with a role.
func (d *codexDecoder) message(p *fastjson.Value, at time.Time) error {
	switch string(raw(get(p, "role"))) {
	case "assistant":
		return d.utter(utterance{role: record.RoleAssistant, text: textOf(get(p, "content")), at: at})
	case "user":
	default:
		return nil // instructions, alike in every session
	}
	content := get(p, "content")
	parts := list(content)
	if raw(content) != nil {
		parts = append(parts, content)
	}
	var text joiner
	var ran bool
	for _, part := range parts {
		said := str(get(part, "text"))
		if b := raw(part); b != nil {
			said = string(b)
		}
		head := strings.TrimSpace(clip(said, 64))
		switch {
		case strings.HasPrefix(head, codexUserShell):
			ran = true
			if err := d.userShell(said, at); err != nil {
				return err
			}
		case strings.HasPrefix(head, codexInjected[0]):
			d.environment(said)
		case !slices.ContainsFunc(codexInjected, func(tag string) bool { return strings.HasPrefix(head, tag) }):
			text.add(said)
		}
	}
	if err := d.utter(utterance{role: record.RoleUser, text: text.String(), at: at}); err != nil || !ran {
		return err
	}
	return d.settle() // a line that has yielded something is not read again
}

// environment takes the working directory from what the harness tells the
// model, for rollouts whose metadata has none.
func (d *codexDecoder) environment(text string) {
	s := d.thread()
	if _, after, ok := strings.Cut(text, "<cwd>"); ok && s.Cwd == "" {
		cwd, _, _ := strings.Cut(after, "</cwd>")
		s.Cwd = strings.TrimSpace(cwd)
	}
}

// userShell takes a command that the user ran in the shell of the harness.
func (d *codexDecoder) userShell(text string, at time.Time) error {
	_, inner, _ := strings.Cut(text, codexUserShell)
	line := inner
	if _, after, ok := strings.Cut(inner, "<command>"); ok {
		line, _, _ = strings.Cut(after, "</command>")
	}
	line, _, _ = strings.Cut(line, "</user_shell_command>")
	command, ok := commandText(line)
	if !ok {
		return nil
	}
	if err := d.settle(); err != nil {
		return err
	}
	_, result, _ := strings.Cut(inner, "<result>")
	_, exit := codexOutput(result)
	return d.command(record.Turn{Role: record.RoleCommand, Text: command, Exit: exit}, at)
}
