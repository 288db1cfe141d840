package host_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/deja-node/deja/hooks/host"
)

func TestReadClaude(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     host.Event
		bad      bool
	}{
		{
			name: "session start", in: `{"session_id":"s","cwd":"/w","hook_event_name":"SessionStart","source":"startup","extra":[1]}`,
			want: host.Event{Name: "SessionStart", Session: "s", Cwd: "/w", Source: "startup"},
		},
		{
			name: "prompt", in: `{"hook_event_name":"UserPromptSubmit","prompt":"why?"}`,
			want: host.Event{Name: "UserPromptSubmit", Prompt: "why?"},
		},
		{
			name: "prompt as blocks", in: `{"hook_event_name":"UserPromptSubmit","prompt":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`,
			want: host.Event{Name: "UserPromptSubmit", Prompt: "a\nb"},
		},
		{name: "odd prompt", in: `{"prompt":{"x":1}}`},
		{name: "empty", in: "", bad: true},
		{name: "torn", in: `{"prompt":"a`, bad: true},
		{name: "not an object", in: `[]`, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := host.ReadClaude(strings.NewReader(c.in))
			if (err != nil) != c.bad || got != c.want {
				t.Errorf("got %+v, %v; want %+v, error %v", got, err, c.want, c.bad)
			}
		})
	}
}

// A host that keeps the pipe open must not hold the hook.
func TestReadStopsAtTheObject(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go io.WriteString(w, `{"hook_event_name":"SessionStart"}`)
	got, err := host.ReadClaude(r)
	if err != nil || got.Name != "SessionStart" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHugeEventIsRefused(t *testing.T) {
	if _, err := host.ReadClaude(strings.NewReader(`{"prompt":"` + strings.Repeat("a", 2<<20) + `"}`)); err == nil {
		t.Error("an event of 2 MiB was read")
	}
}

func TestReply(t *testing.T) {
	var out strings.Builder
	if err := host.Reply(&out, "SessionStart", ""); err != nil || out.Len() != 0 {
		t.Errorf("no context wrote %q, %v", out.String(), err)
	}
	const context = "line\n<b> \u202e \x1b[31m"
	if err := host.Reply(&out, "UserPromptSubmit", context); err != nil {
		t.Fatal(err)
	}
	var got struct {
		HookSpecificOutput struct{ HookEventName, AdditionalContext string }
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.HookSpecificOutput.HookEventName != "UserPromptSubmit" || got.HookSpecificOutput.AdditionalContext != context {
		t.Errorf("got %+v", got)
	}
}
