package sources

import (
	"bytes"
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
)

var claude = Source{
	Harness: "claude",
	Name:    "Claude Code",
	Aliases: []string{"claude-code"},
	Version: 1,
	Where:   "`~/.claude/projects` (`CLAUDE_CONFIG_DIR`, `DEJA_CLAUDE_ROOT`)",
	What:    "sessions and sub-agents",
	Stores: func(e Env) []Store {
		standard := e.in(".claude", "projects")
		if dir := e.path("CLAUDE_CONFIG_DIR"); dir != "" {
			standard = filepath.Join(dir, "projects")
		}
		return e.stores(e.roots("CLAUDE", standard))
	},
	admits: func(st Store, rel string, dir bool) bool {
		base := path.Base(rel)
		if dir {
			return base != "tool-results" && base != "memory" && (st.Subagents || base != "subagents")
		}
		return strings.HasSuffix(base, ".jsonl")
	},
	head:   claudeHead,
	decode: newClaudeDecoder,
}

// claudeDecoder reads the lines of one transcript of Claude Code.
type claudeDecoder struct {
	out    *yield
	agents bool   // sessions of sub-agents are read
	stem   string // of the file: the session where no line names one
	slug   string // of the project directory: a guess where no line has a cwd
	parent string // session that a sub-agent's file lies under
	claudeState
}

// claudeState is what a mark carries.
type claudeState struct {
	Prev   time.Time     `json:"p,omitzero"`  // time of the turn before
	Last   string        `json:"l,omitempty"` // uuid of the line before
	Calls  calls         `json:"c,omitempty"`
	Digest []claudeTitle `json:"d,omitempty"` // summaries whose leaf has not come yet
	Probed int           `json:"n,omitempty"` // lines that were checked for being copies
	Copies bool          `json:"f,omitempty"` // some line was one
}

// claudeTitle is the title that a summary line gives to the session of a leaf.
type claudeTitle struct {
	Leaf  string `json:"l"`
	Title string `json:"t"`
}

// Bounds of what a mark carries.
const (
	maxDigests = 16
	maxProbes  = 8
)

func newClaudeDecoder(h *Handle, job Job, out *yield) lineDecoder {
	d := &claudeDecoder{out: out, agents: h.store.Subagents, stem: stem(job.File.Rel)}
	if slug, _, ok := strings.Cut(job.File.Rel, "/"); ok {
		d.slug = valid(slug)
	}
	if dir := path.Dir(job.File.Rel); path.Base(dir) == "subagents" {
		d.parent = valid(path.Base(path.Dir(dir)))
	}
	return d
}

func (d *claudeDecoder) restore(state json.RawMessage) error {
	return json.Unmarshal(state, &d.claudeState)
}

func (d *claudeDecoder) state(carry func(string) string) (any, bool) {
	kept := d.claudeState
	kept.Calls, kept.Digest = kept.Calls.carried(carry), nil
	for _, t := range d.Digest {
		kept.Digest = append(kept.Digest, claudeTitle{Leaf: t.Leaf, Title: carry(t.Title)})
	}
	return kept, len(kept.Calls) > 0
}

func (d *claudeDecoder) finish(settled bool) error {
	if !settled {
		return nil
	}
	return d.Calls.flush(d.out)
}

// claudeLine is one line taken apart.
type claudeLine struct {
	typ, uuid, session, agent         []byte
	time, cwd, branch, message        *fastjson.Value
	forked, title, leaf, attribution  *fastjson.Value
	sidechain, meta, digest, apiError bool
}

func (d *claudeDecoder) parse(v *fastjson.Value) (l claudeLine) {
	o, _ := v.Object() //nolint:errcheck // lines are objects
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "type":
			l.typ = raw(v)
		case "uuid":
			l.uuid = raw(v)
		case "sessionId":
			l.session = raw(v)
		case "agentId":
			l.agent = raw(v)
		case "timestamp":
			l.time = v
		case "cwd":
			l.cwd = v
		case "gitBranch":
			l.branch = v
		case "message":
			l.message = v
		case "forkedFrom":
			l.forked = v
		case "summary", "customTitle", "aiTitle":
			l.title = v
		case "leafUuid":
			l.leaf = v
		case "attributionAgent":
			l.attribution = v
		case "isSidechain":
			l.sidechain = isTrue(v)
		case "isMeta":
			l.meta = isTrue(v)
		case "isCompactSummary":
			l.digest = isTrue(v)
		case "isApiErrorMessage":
			l.apiError = isTrue(v)
		}
	})
	return l
}

func (d *claudeDecoder) line(v *fastjson.Value) (int, error) {
	l := d.parse(v)
	switch string(l.typ) {
	case "user", "assistant":
		return 0, d.message(&l)
	case "summary":
		return 0, d.digestTitle(str(l.leaf), str(l.title))
	case "custom-title":
		d.out.session(d.native(&l)).title(str(l.title), titleUser)
	case "ai-title":
		d.out.session(d.native(&l)).title(str(l.title), titleHarness)
	}
	return 0, nil
}

// native is the id of the session that a line belongs to. A sub-agent's lines
// carry the id of their parent.
func (d *claudeDecoder) native(l *claudeLine) string {
	if c := d.out.current; c != nil && !l.sidechain && c.Native == string(l.session) {
		return c.Native
	}
	session := string(l.session)
	switch {
	case !l.sidechain && session != "":
		return session
	case l.sidechain && len(l.agent) > 0:
		return string(l.agent)
	case l.sidechain && d.parent == "" && !strings.HasPrefix(d.stem, "agent-"):
		return first(session, d.stem) + "/sidechain" // builds that wrote the child into its parent's file
	}
	return strings.TrimPrefix(d.stem, "agent-")
}

// message takes a line of the conversation.
func (d *claudeDecoder) message(l *claudeLine) error {
	if l.sidechain && !d.agents {
		return nil
	}
	s := d.out.session(d.native(l))
	d.describe(s, l)
	d.leafCame(l.uuid, s)
	t := record.Turn{Session: s.Native, Native: string(l.uuid)}
	if t.Native != "" {
		d.Last = t.Native
	}
	if l.meta && !l.digest {
		return nil
	}
	if at := timeOf(l.time); !at.IsZero() {
		d.Prev = at
	}
	t.Time = d.Prev
	if string(l.typ) == "user" {
		return d.user(s, l, t)
	}
	return d.assistant(s, l, t)
}

// describe takes the metadata of a line.
func (d *claudeDecoder) describe(s *sessionState, l *claudeLine) {
	switch {
	case s.Cwd != "":
	case len(raw(l.cwd)) > 0:
		s.Cwd, s.Project, s.Guessed = str(l.cwd), "", false
	case s.Project == "":
		s.Project, s.Guessed = d.slug, true
	}
	if b := raw(l.branch); string(b) != "HEAD" {
		set(&s.Branch, l.branch)
	}
	if l.sidechain {
		s.Kind = "subagent"
		s.Parent = first(string(l.session), d.parent)
		set(&s.Agent, l.attribution)
	}
}

// copied reports whether a line is a copy of one that another session holds:
// resumed and branched sessions begin with the history of their original. The
// first lines of a file tell whether it may hold copies.
func (d *claudeDecoder) copied(s *sessionState, l *claudeLine) bool {
	if forked := str(get(l.forked, "messageUuid")); forked != "" {
		if s.Parent == "" {
			s.Parent, s.Kind = str(get(l.forked, "sessionId")), "fork"
		}
		if owner, ok := d.out.memory.Message(forked); ok && owner != s.Native {
			return true
		}
	}
	if len(l.uuid) == 0 || !d.Copies && d.Probed >= maxProbes {
		return false
	}
	d.Probed++
	owner, ok := d.out.memory.Message(string(l.uuid))
	if !ok || owner == s.Native {
		return false
	}
	d.Copies = true
	if s.Parent == "" {
		s.Parent, s.Kind = owner, "fork"
	}
	return true
}

// digestTitle takes a summary line: the title of the session of its leaf,
// which may be a line of another file, the one just read, or one to come.
func (d *claudeDecoder) digestTitle(leaf, title string) error {
	if leaf == "" || title == "" {
		return nil
	}
	if leaf == d.Last && d.out.current != nil {
		d.out.current.title(title, titleDigest)
		return nil
	}
	if owner, ok := d.out.memory.Message(leaf); ok {
		if s := d.out.sessions[owner]; s != nil {
			s.title(title, titleDigest)
			return nil
		}
		return d.out.retitle(owner, title)
	}
	if len(d.Digest) < maxDigests {
		d.Digest = append(d.Digest, claudeTitle{Leaf: leaf, Title: headline(title)})
	}
	return nil
}

// leafCame gives a session the titles that waited for one of its lines.
func (d *claudeDecoder) leafCame(uuid []byte, s *sessionState) {
	d.Digest = slices.DeleteFunc(d.Digest, func(t claudeTitle) bool {
		if t.Leaf != string(uuid) {
			return false
		}
		s.title(t.Title, titleDigest)
		return true
	})
}

// claudeExit reads the exit status that begins the result of a failed command.
func claudeExit(text []byte) *int {
	rest, ok := bytes.CutPrefix(text, []byte("Exit code "))
	if !ok {
		return nil
	}
	digits, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(bytes.TrimSpace(digits)))
	if err != nil {
		return nil
	}
	return &n
}
