// Package host knows how each agent hands an event to a hook and how it takes
// the reply. Start at [ReadClaude] and [Reply]: other agents are further pairs.
//
// A hook must never be in the agent's way: input is bounded, and what cannot
// be understood is an event without a name, which the caller answers with
// nothing.
package host

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Event is what an agent says has happened.
type Event struct {
	Name    string // the agent's own name for it, such as "SessionStart"
	Session string // native id of the running session
	Cwd     string
	Source  string // SessionStart: startup, resume, clear or compact
	Prompt  string // UserPromptSubmit: what the user typed
}

// maxEvent bounds an event: 1 MiB of JSON.
const maxEvent = 1 << 20

// ReadClaude reads one event as Claude Code writes it on a hook's standard
// input: one JSON object. It stops at the end of the object, since some hosts
// keep the pipe open.
func ReadClaude(r io.Reader) (Event, error) {
	var in struct {
		Name    string          `json:"hook_event_name"`
		Session string          `json:"session_id"`
		Cwd     string          `json:"cwd"`
		Source  string          `json:"source"`
		Prompt  json.RawMessage `json:"prompt"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxEvent)).Decode(&in); err != nil {
		return Event{}, fmt.Errorf("hook event: %w", err)
	}
	return Event{Name: in.Name, Session: in.Session, Cwd: in.Cwd, Source: in.Source, Prompt: promptText(in.Prompt)}, nil
}

// promptText takes a prompt as a string or as a list of text blocks.
func promptText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Reply writes the context that a hook adds, in Claude Code's envelope. No
// context is no output at all, which every host accepts.
func Reply(w io.Writer, event, context string) error {
	if context == "" {
		return nil
	}
	type output struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	line, err := json.Marshal(struct {
		Output output `json:"hookSpecificOutput"`
	}{output{event, context}})
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
