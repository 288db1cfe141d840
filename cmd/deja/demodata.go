package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The demo's sample history is invented: two machines, a few sessions each, in
// the on-disk forms of Claude Code and Codex.

type sampleTurn struct {
	role string // user, assistant, run (command and its output)
	text string
	out  string
	exit int
}

type sampleSession struct {
	id, project, title string
	daysAgo            int
	turns              []sampleTurn
}

// laptopHistory is what Claude Code left on the laptop.
var laptopHistory = []sampleSession{
	{id: "5a0f7c52-0000-4000-8000-0000000000a1", project: "harbor", title: "Ferry timetable import", daysAgo: 12, turns: []sampleTurn{
		{role: "user", text: "the ferry timetable import skips every sailing after midnight, why?"},
		{role: "run", text: "go test ./timetable -run Midnight", out: "--- FAIL: TestMidnightSailing\n    import_test.go:41: got 14 sailings, want 17", exit: 1},
		{role: "assistant", text: "Service days run past midnight: a departure of 25:10 belongs to the day before. The parser rejected hours above 23. I now keep service time as seconds since the service day began, and only fold it when a clock time is shown."},
		{role: "run", text: "go test ./timetable", out: "ok  	harbor/timetable	0.41s"},
	}},
	{id: "5a0f7c52-0000-4000-8000-0000000000a2", project: "harbor", title: "Berth cache key", daysAgo: 3, turns: []sampleTurn{
		{role: "user", text: "berth lookups return another tenant's berth now and then"},
		{role: "assistant", text: "The cache key was the berth number alone. It needs the tenant: two harbors may both have a berth 7. I decided to key by tenant and berth, and to flush once on deploy."},
	}},
}

// desktopHistory is what Codex left on the desktop.
var desktopHistory = []sampleSession{
	{id: "019e0000-4444-7000-8000-0000000000d1", project: "harbor", daysAgo: 5, turns: []sampleTurn{
		{role: "user", text: "deploys hang at 'waiting for connection pool' since the upgrade, find out why"},
		{role: "run", text: "kubectl logs deploy/api --tail 20", out: "pool: 0 idle, 40 in use, waiting for connection pool\npq: sorry, too many clients already\nusing " + "password=" + "Quay-7721-lantern", exit: 0},
		{role: "assistant", text: "The connection pool deadlock comes from the migration job: it opens a transaction per table and each one takes a second connection for its advisory lock, so forty workers wait for each other. Fix: the lock is taken on the transaction's own connection, and the pool limit stays at 20. Raising the limit only hides it."},
		{role: "run", text: "go test ./migrate -race -count=20", out: "ok  	harbor/migrate	9.80s"},
	}},
	{id: "019e0000-4444-7000-8000-0000000000d2", project: "tide-charts", daysAgo: 40, turns: []sampleTurn{
		{role: "user", text: "tide charts are an hour off in October only"},
		{role: "assistant", text: "The chart library formats in local time but the station offset is fixed. Use the station's time zone by name instead of an offset; the clock change is what moved it."},
	}},
}

// writeClaude writes sessions as Claude Code does, under home.
func writeClaude(home string, sessions []sampleSession, now time.Time) error {
	for _, s := range sessions {
		cwd := filepath.Join(home, "src", s.project)
		slug := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, cwd)
		w := newSample(filepath.Join(home, ".claude", "projects", slug, s.id+".jsonl"), s, now)
		w.line(object{"type": "custom-title", "customTitle": s.title, "sessionId": s.id})
		say := func(kind string, message object) {
			w.line(object{
				"type": kind, "uuid": w.id("m"), "sessionId": s.id, "cwd": cwd, "gitBranch": "main",
				"timestamp": w.tick(), "message": message,
			})
		}
		for _, t := range s.turns {
			if t.role != "run" {
				say(t.role, object{"role": t.role, "model": "claude-example-1", "content": []object{{"type": "text", "text": t.text}}})
				continue
			}
			call, out := w.id("t"), t.out
			if t.exit != 0 {
				out = "Exit code 1\n" + out
			}
			say("assistant", object{"role": "assistant", "model": "claude-example-1", "content": []object{
				{"type": "tool_use", "id": call, "name": "Bash", "input": object{"command": t.text}},
			}})
			say("user", object{"role": "user", "content": []object{
				{"type": "tool_result", "tool_use_id": call, "content": out, "is_error": t.exit != 0},
			}})
		}
		if err := w.close(); err != nil {
			return err
		}
	}
	return nil
}

// writeCodex writes sessions as Codex does, under home.
func writeCodex(home string, sessions []sampleSession, now time.Time) error {
	for _, s := range sessions {
		start := now.AddDate(0, 0, -s.daysAgo).UTC()
		name := "rollout-" + start.Format("2006-01-02T15-04-05") + "-" + s.id + ".jsonl"
		w := newSample(filepath.Join(home, ".codex", "sessions", start.Format("2006/01/02"), name), s, now)
		record := func(kind string, payload object) {
			w.line(object{"timestamp": w.tick(), "type": kind, "payload": payload})
		}
		record("session_meta", object{
			"id": s.id, "timestamp": start.Format(time.RFC3339), "cwd": filepath.Join(home, "src", s.project),
			"originator": "codex_cli_rs", "source": "cli", "git": object{"branch": "main"},
		})
		record("turn_context", object{"model": "gpt-example"})
		for _, t := range s.turns {
			switch t.role {
			case "user":
				record("response_item", object{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": t.text}}})
			case "assistant":
				record("response_item", object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": t.text}}})
			case "run":
				call := w.id("c")
				arguments, err := json.Marshal(object{"cmd": t.text})
				if err != nil {
					return err
				}
				record("response_item", object{"type": "function_call", "name": "exec_command", "arguments": string(arguments), "call_id": call})
				record("response_item", object{
					"type": "function_call_output", "call_id": call,
					"output": "Process exited with code 0\nOutput:\n" + t.out,
				})
			}
		}
		if err := w.close(); err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

// sampleFile collects the lines of one transcript; the first error sticks.
type sampleFile struct {
	path  string
	lines strings.Builder
	at    time.Time
	ids   int
	key   string
	err   error
}

func newSample(path string, s sampleSession, now time.Time) *sampleFile {
	return &sampleFile{path: path, at: now.AddDate(0, 0, -s.daysAgo).UTC(), key: s.id}
}

func (w *sampleFile) tick() string {
	w.at = w.at.Add(20 * time.Second)
	return w.at.Format("2006-01-02T15:04:05.000Z")
}

func (w *sampleFile) id(prefix string) string {
	w.ids++
	return prefix + "-" + w.key[len(w.key)-2:] + "-" + string(rune('a'+w.ids))
}

func (w *sampleFile) line(v object) {
	b, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}
	w.lines.Write(b)
	w.lines.WriteByte('\n')
}

func (w *sampleFile) close() error {
	if w.err != nil {
		return w.err
	}
	if err := os.MkdirAll(filepath.Dir(w.path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(w.path, []byte(w.lines.String()), 0o600)
}
