package sources

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources/jsonl"
)

// historyDecoder reads the prompt history, for threads whose rollout is gone
// before it was ever read.
type historyDecoder struct {
	h        *Handle
	out      *yield
	rollouts map[string]bool // threads with a rollout; nil until it is asked for
	historyState
}

// historyState is what a mark carries.
type historyState struct {
	Mine []string `json:"m,omitempty"` // threads that were taken from here before, sorted
}

func newHistoryDecoder(h *Handle, out *yield) *historyDecoder {
	return &historyDecoder{h: h, out: out}
}

func (d *historyDecoder) restore(state json.RawMessage) error {
	return json.Unmarshal(state, &d.historyState)
}
func (d *historyDecoder) state(func(string) string) (any, bool) { return d.historyState, false }
func (d *historyDecoder) finish(bool) error                     { return nil }

func (d *historyDecoder) line(v *fastjson.Value) (int, error) {
	id, text := str(get(v, "session_id")), str(get(v, "text"))
	if id == "" {
		d.out.skip(Malformed, d.out.offset)
		return 0, nil
	}
	t := record.Turn{Session: id, Role: record.RoleUser, Time: timeOf(get(v, "ts")), Text: text}
	ok, err := d.mine(t)
	if err != nil || !ok {
		return 0, err
	}
	d.out.session(id).Project = "history"
	return 0, d.out.turn(t)
}

// mine reports whether the prompts of a thread are taken from the history.
// What the log holds of it came from a rollout, unless it is this very prompt:
// rollouts tell the time in milliseconds.
func (d *historyDecoder) mine(t record.Turn) (bool, error) {
	id := t.Session
	i, mine := slices.BinarySearch(d.Mine, id)
	if mine {
		return true, nil
	}
	if d.rollouts == nil {
		if err := d.findRollouts(); err != nil {
			return false, err
		}
	}
	known := d.out.memory.Session(id) && !d.out.memory.Turn(id, t.Role, t.Time, presentable(t.Role, t.Text))
	if d.rollouts[id] || known {
		return false, nil
	}
	d.Mine = slices.Insert(d.Mine, i, id)
	return true, nil
}

// findRollouts lists the threads that have a rollout now, which may be more
// than when the store was walked.
func (d *historyDecoder) findRollouts() error {
	d.rollouts = map[string]bool{}
	for _, top := range [...]string{codexSessions, codexArchive} {
		err := fs.WalkDir(d.h.root.FS(), top, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
					return fs.SkipDir // reported where the store is walked
				}
				return err
			}
			if !e.IsDir() && strings.HasPrefix(path.Base(name), "rollout-") {
				d.rollouts[codexThread(name)] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// titleDecoder reads the names of threads, of which the last one counts.
type titleDecoder struct {
	out    *yield
	titles []threadName
}

type threadName struct{ id, name string }

func (d *titleDecoder) restore(json.RawMessage) error         { return nil }
func (d *titleDecoder) state(func(string) string) (any, bool) { return nil, false }

func (d *titleDecoder) line(v *fastjson.Value) (int, error) {
	name := threadName{id: str(get(v, "id")), name: str(get(v, "thread_name"))}
	if name.id == "" {
		d.out.skip(Malformed, d.out.offset)
		return 0, nil
	}
	d.titles = append(d.titles, name)
	return 0, nil
}

func (d *titleDecoder) finish(bool) error {
	last := map[string]string{}
	for _, t := range d.titles {
		last[t.id] = t.name
	}
	slices.SortStableFunc(d.titles, func(a, b threadName) int { return cmp.Compare(a.id, b.id) })
	for _, t := range slices.CompactFunc(d.titles, func(a, b threadName) bool { return a.id == b.id }) {
		if err := d.out.retitle(t.id, last[t.id]); err != nil {
			return err
		}
	}
	return nil
}

// threadNames returns the names of threads. What keeps them from being read is
// reported where the file itself is decoded.
func (h *Handle) threadNames() map[string]string {
	h.titlesOnce.Do(func() {
		h.titles = map[string]string{}
		f, err := h.open(File{Rel: codexIndex})
		if err != nil {
			return
		}
		defer f.Close() //nolint:errcheck // nothing was written
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, bigLine)
		var p lineParser
		for lines.Scan() {
			if v, err := p.parse(jsonl.Trim(lines.Bytes())); err == nil {
				h.titles[str(get(v, "id"))] = str(get(v, "thread_name"))
			}
		}
	})
	return h.titles
}
