package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
)

var codex = Source{
	Harness: "codex",
	Name:    "Codex CLI",
	Aliases: []string{"codex-cli", "openai-codex"},
	Version: 1,
	Where:   "`~/.codex` (`CODEX_HOME`, `DEJA_CODEX_ROOT`)",
	What:    "sessions, archived and compressed ones, sub-agents, prompt history",
	Stores: func(e Env) []Store {
		return e.stores(e.roots("CODEX", first(e.path("CODEX_HOME"), e.in(".codex"))))
	},
	admits: codexAdmits,
	tidy:   codexTidy,
	key:    codexKey,
	head:   codexHead,
	decode: func(h *Handle, job Job, out *yield) lineDecoder {
		switch job.File.Rel {
		case codexHistory:
			return newHistoryDecoder(h, out)
		case codexIndex:
			return &titleDecoder{out: out}
		}
		return newCodexDecoder(h, job, out)
	},
}

// The files of a store beside its rollouts.
const (
	codexHistory  = "history.jsonl"
	codexIndex    = "session_index.jsonl"
	codexSessions = "sessions"
	codexArchive  = "archived_sessions"
)

func codexAdmits(_ Store, rel string, dir bool) bool {
	top, _, nested := strings.Cut(rel, "/")
	switch {
	case dir:
		return top == codexSessions || rel == codexArchive
	case !nested:
		return rel == codexHistory || rel == codexIndex
	}
	base := strings.TrimSuffix(path.Base(rel), ".zst")
	return strings.HasPrefix(base, "rollout-") && strings.HasSuffix(base, ".jsonl")
}

// codexKey names a rollout by its file name alone: archiving moves the file
// and compressing renames it, and neither makes it another.
func codexKey(rel string) string {
	return strings.TrimSuffix(path.Base(rel), ".zst")
}

// codexTidy keeps one file of each rollout: the plain one before its
// compressed twin, the live one before the archived. Rollouts come before the
// two files that speak about them.
func codexTidy(files []File) []File {
	rank := func(f File) (n int) {
		if compressed(f) {
			n += 2
		}
		if strings.HasPrefix(f.Rel, codexArchive+"/") {
			n++
		}
		return n
	}
	best := make(map[string]File, len(files))
	for _, f := range files {
		if other, ok := best[f.Key]; !ok || rank(f) < rank(other) {
			best[f.Key] = f
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b File) int {
		return cmp.Or(cmp.Compare(codexBeside(a), codexBeside(b)), strings.Compare(a.Key, b.Key))
	})
}

func codexBeside(f File) int {
	switch f.Rel {
	case codexHistory:
		return 1
	case codexIndex:
		return 2
	}
	return 0
}

// codexHead finds the threads that a rollout is related to.
func codexHead(ctx context.Context, h *Handle, f File) (head, error) {
	if codexBeside(f) > 0 {
		return head{kin: []string{f.Rel}, born: latest}, nil
	}
	found := head{kin: []string{codexThread(f.Rel)}}
	err := h.headLines(ctx, f, func(v *fastjson.Value) bool {
		meta := get(v, "payload")
		if meta == nil {
			meta = v
		}
		for _, key := range [...]string{"id", "session_id", "forked_from_id", "parent_thread_id"} {
			if id := str(get(meta, key)); id != "" {
				found.kin = append(found.kin, id)
			}
		}
		found.born = timeOf(get(meta, "timestamp"))
		return true
	})
	return found, err
}

// codexThread is the id in the name of a rollout:
// rollout-2006-01-02T15-04-05-<uuid>.jsonl.
func codexThread(rel string) string {
	name := stem(rel)
	if at := len("rollout-2006-01-02T15-04-05-"); len(name) > at {
		return name[at:]
	}
	return strings.TrimPrefix(name, "rollout-")
}

// codexDecoder reads the lines of one rollout.
//
// A rollout says everything twice: once as items with a role, once as events.
// Which of the two is speech shows only when both have come, so the first of a
// pair is held: nothing else is yielded, and no mark goes past it, until a
// later line settles what it was. See [codexDecoder.settle].
type codexDecoder struct {
	out     *yield
	agents  bool
	titles  map[string]string
	stem    string
	session *sessionState
	pending []utterance // one side's, oldest first
	held    *codexState // the state before the first line that is pending
	holds   int         // how many times something was held
	args    lineParser  // of arguments and outputs, which are JSON in a string
	codexState
}

// codexState is what a mark carries.
type codexState struct {
	Thread  string    `json:"i,omitempty"` // id of the session
	Born    time.Time `json:"b,omitzero"`  // of the thread: older turns of a fork are replayed
	Kin     []string  `json:"k,omitempty"` // threads whose turns it may replay
	Child   bool      `json:"c,omitempty"` // it is a sub-agent's
	Prev    time.Time `json:"p,omitzero"`  // time of the turn before
	Asked   side      `json:"a,omitzero"`
	Said    side      `json:"s,omitzero"`
	Prompts []int64   `json:"u,omitempty"` // times of the user's turns, which a rollback counts
	Calls   calls     `json:"w,omitempty"`
}

// Bounds of what a mark carries: how far a rollback is followed, and how many
// threads a fork may come from.
const (
	maxPrompts = 512
	maxKin     = 128
)

func newCodexDecoder(h *Handle, job Job, out *yield) lineDecoder {
	return &codexDecoder{out: out, agents: h.store.Subagents, titles: h.threadNames(), stem: codexThread(job.File.Rel)}
}

func (d *codexDecoder) restore(state json.RawMessage) error {
	if err := json.Unmarshal(state, &d.codexState); err != nil {
		return err
	}
	if d.Thread != "" {
		d.session = d.out.session(d.Thread)
		d.session.title(d.titles[d.Thread], titleHarness)
	}
	return nil
}

func (d *codexDecoder) state(carry func(string) string) (any, bool) {
	kept := d.codexState
	if d.held != nil {
		kept = *d.held
	}
	kept.Calls = kept.Calls.carried(carry)
	return kept, d.held != nil || len(kept.Calls) > 0
}

func (d *codexDecoder) finish(settled bool) error {
	if !settled {
		return nil
	}
	if err := d.settle(); err != nil {
		return err
	}
	return d.Calls.flush(d.out)
}

// line takes one line: a record in its envelope, or, in rollouts from before
// the envelope, an item or the metadata by itself.
func (d *codexDecoder) line(v *fastjson.Value) (int, error) {
	payload, kind := get(v, "payload"), string(raw(get(v, "type")))
	if payload == nil {
		payload = v
		switch {
		case kind != "":
			kind = "response_item"
		case get(v, "id") != nil:
			kind = "session_meta"
		}
	}
	at := timeOf(get(v, "timestamp"))
	var err error
	switch kind {
	case "session_meta":
		d.meta(payload)
	case "turn_context":
		set(&d.thread().Model, get(payload, "model"))
	case "response_item":
		err = d.item(payload, at)
	case "event_msg":
		err = d.event(payload, at)
	case "compacted":
		err = d.say(record.RoleSummary, str(get(payload, "message")), at)
	}
	if d.held == nil {
		return 0, err
	}
	return d.holds, err
}

// thread returns the session of the rollout, named by its file when no line
// has named it.
func (d *codexDecoder) thread() *sessionState {
	if d.session == nil {
		d.Thread = first(d.Thread, d.stem)
		d.session = d.out.session(d.Thread)
		d.session.title(d.titles[d.Thread], titleHarness)
	}
	return d.session
}

// meta takes a session_meta line. Only the first describes this thread; a fork
// copies those of the threads it comes from.
func (d *codexDecoder) meta(p *fastjson.Value) {
	id := first(str(get(p, "id")), str(get(p, "session_id")))
	if d.session != nil && (id != d.Thread || !d.Born.IsZero()) {
		d.kin(id)
		return
	}
	d.Thread = first(id, d.stem)
	d.Born = timeOf(get(p, "timestamp"))
	s := d.thread()
	spawned := get(get(get(p, "source"), "subagent"), "thread_spawn")
	forked := str(get(p, "forked_from_id"))
	parent := first(str(get(p, "parent_thread_id")), str(get(spawned, "parent_thread_id")))
	d.Child = parent != "" || get(get(p, "source"), "subagent") != nil
	s.Parent = first(parent, forked)
	switch {
	case d.Child:
		s.Kind = "subagent"
	case forked != "":
		s.Kind = "fork"
	}
	for _, id := range [...]string{forked, parent, str(get(p, "session_id"))} {
		d.kin(id)
	}
	set(&s.Cwd, get(p, "cwd"))
	s.Agent = first(str(get(p, "agent_nickname")), str(get(p, "agent_role")))
	set(&s.Branch, get(get(p, "git"), "branch"))
	s.Remote = remoteName(str(get(get(p, "git"), "repository_url")))
}

// kin adds a thread whose turns this one may replay.
func (d *codexDecoder) kin(id string) {
	if id != "" && id != d.Thread && len(d.Kin) < maxKin && !slices.Contains(d.Kin, id) {
		d.Kin = append(d.Kin, id)
	}
}

// say settles what is held and yields one turn.
func (d *codexDecoder) say(role record.Role, text string, at time.Time) error {
	if err := d.settle(); err != nil {
		return err
	}
	return d.turn(role, text, at)
}

// turn yields one turn, unless it repeats one of the threads that this one
// comes from.
func (d *codexDecoder) turn(role record.Role, text string, at time.Time) error {
	s := d.thread()
	if d.Child && !d.agents {
		return nil
	}
	t := record.Turn{Session: s.Native, Role: role, Time: d.at(at), Text: text}
	if d.replayed(t) {
		return nil
	}
	return d.out.turn(t)
}

// at is the time of a record, or that of the turn before it.
func (d *codexDecoder) at(at time.Time) time.Time {
	if !at.IsZero() {
		d.Prev = at
	} else if d.Prev.IsZero() {
		d.Prev = d.Born
	}
	return d.Prev
}

func (d *codexDecoder) replayed(t record.Turn) bool {
	if d.Born.IsZero() || !t.Time.Before(d.Born) {
		return false
	}
	return slices.ContainsFunc(d.Kin, func(kin string) bool {
		return d.out.memory.Turn(kin, t.Role, t.Time, presentable(t.Role, t.Text))
	})
}

// rollback takes back the last turns of the user and what followed them.
func (d *codexDecoder) rollback(n int) error {
	if err := d.settle(); err != nil {
		return err
	}
	if n <= 0 || len(d.Prompts) == 0 {
		return nil
	}
	kept := max(0, len(d.Prompts)-n)
	from := d.Prompts[kept]
	d.Prompts = slices.Clone(d.Prompts[:kept])
	undo := Undo{Session: d.thread().Native}
	if from != 0 {
		undo.From = time.Unix(0, from).UTC()
	}
	d.Calls = slices.DeleteFunc(d.Calls, func(c call) bool { return !c.Turn.Time.Before(undo.From) })
	return d.out.undo(undo)
}
