package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources"
	"github.com/deja-node/deja/sources/jsonl"
)

// RefreshOptions say how thoroughly the stores are read.
type RefreshOptions struct {
	Only    []string // harness ids; empty means all that the configuration allows
	Reread  bool     // decode every file from its start again
	Depth   sources.Depth
	Budget  int64 // bytes to read at the most, 0 for all; what is left over is counted as behind
	Publish time.Duration
	// Inline says that an answer waits: nothing is done when nothing changed,
	// and the run gives way to another writer at once.
	Inline bool
	// Progress is called after every file, and at least once before the first.
	Progress func(Progress)
}

// Progress says how far a refresh is.
type Progress struct {
	Source     string
	Files      int
	OfFiles    int
	Bytes      int64
	OfBytes    int64
	Turns      int
	Searchable bool // something new can be searched since the last call
}

// SourceReport says how reading one store went.
type SourceReport struct {
	Harness string
	Name    string
	Root    string // home shortened to "~"
	State   SourceState
	Reason  string // why the state is not ok
	Files   int
	Read    int // files read in this run
	Behind  int // files with something unread left over
	Failed  []FileFailure
	index.Counts
	Broken   int // malformed lines skipped
	Redacted int // secrets replaced
}

// FileFailure names a transcript that could not be read.
type FileFailure struct {
	Path   string
	Reason string
}

// SourceState says how a store is.
type SourceState string

// The states of a store.
const (
	StateOK        SourceState = "ok"
	StateEmpty     SourceState = "empty"     // it holds no transcript
	StateMissing   SourceState = "missing"   // never seen
	StateUnplugged SourceState = "unplugged" // was there and is gone; everything is kept
	StateDenied    SourceState = "denied"
	StateFailed    SourceState = "failed"
	StatePartly    SourceState = "partly" // some files or lines could not be read
)

// Report says how a refresh went.
type Report struct {
	Sources []SourceReport
	Total   index.Counts
}

// Failed reports whether anything could not be read.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Sources, func(s SourceReport) bool {
		return s.State == StateDenied || s.State == StateFailed || len(s.Failed) > 0
	})
}

// Refresh reads what changed in the harnesses' stores into the log, and makes
// it searchable. It returns [index.ErrBusy] when another process writes.
func (n *Node) Refresh(ctx context.Context, opt RefreshOptions) (rep Report, err error) {
	if opt.Inline {
		if rep, idle, err := n.idle(ctx); err != nil || idle {
			return rep, err
		}
	}
	w, err := index.OpenWriter(ctx, n.indexOptions())
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return n.refresh(ctx, w, opt)
}

func (n *Node) refresh(ctx context.Context, w *index.Writer, opt RefreshOptions) (Report, error) {
	marks, err := loadCursors(n.fs, filepath.ToSlash(n.cfg.StateDir()))
	if err != nil {
		return Report{}, err
	}
	r := &refresh{
		node: n, opt: opt, w: w, marks: marks,
		projects: sources.NewProjects(n.sourceEnv()), left: opt.Budget, published: n.host.Now(),
		met: map[string]int{},
	}
	if err := r.all(ctx); err != nil {
		// What was read so far is whole: keep it, and say what stopped the rest.
		return r.report, errors.Join(err, r.commit(context.WithoutCancel(ctx)))
	}
	return r.report, r.commit(ctx)
}

// idle reports whether there is nothing to do: no transcript has changed and
// the views cover the log. It takes no lock.
func (n *Node) idle(ctx context.Context) (Report, bool, error) {
	m, err := index.Open(n.indexOptions(), n.nameOf)
	if err != nil {
		return Report{}, false, nil //nolint:nilerr // the writer meets it again, and mends what it can
	}
	behind, err := m.Behind()
	if err = errors.Join(err, m.Close()); err != nil || behind {
		return Report{}, false, err
	}
	marks, err := loadCursors(n.fs, n.stateDir())
	if err != nil {
		return Report{}, false, err
	}
	r := &refresh{node: n, marks: marks}
	jobs, closeAll, err := r.plan(ctx)
	closeAll()
	return r.report, len(jobs) == 0 && len(marks.dirty) == 0, err
}

// refresh is one run over the stores.
type refresh struct {
	node      *Node
	opt       RefreshOptions
	w         *index.Writer
	marks     *cursors
	projects  *sources.Projects
	report    Report
	progress  Progress
	left      int64 // of the budget
	published time.Time
	met       map[string]int // files of this run that hold turns of a session
}

// job is one file that has something new.
type job struct {
	source sources.Source
	handle *sources.Handle
	store  sources.Store
	file   sources.File
	key    cursorKey
	mark   sources.Mark
	whole  bool
	report int // index of the store's report
}

func (r *refresh) all(ctx context.Context) error {
	jobs, closeAll, err := r.plan(ctx)
	defer closeAll()
	if err != nil {
		return err
	}
	for _, j := range jobs {
		r.progress.OfBytes += j.unread()
	}
	r.progress.OfFiles = len(jobs)
	r.tell()
	for _, j := range jobs {
		if r.opt.Budget > 0 && j.unread() > r.left {
			r.report.Sources[j.report].Behind++
			continue
		}
		r.left -= j.unread()
		if err := r.read(ctx, j); err != nil {
			return err
		}
		r.progress.Source = r.report.Sources[j.report].Name
		r.progress.Files++
		r.progress.Bytes += j.unread()
		r.progress.Turns = r.report.Total.Turns
		if err := r.checkpoint(ctx); err != nil {
			return err
		}
		r.tell()
	}
	return nil
}

// unread is about how many bytes a job will read.
func (j job) unread() int64 {
	if j.whole {
		return j.file.Size
	}
	return max(j.file.Size-j.mark.Size(), 0)
}

// plan finds what changed, newest first, originals before their copies.
func (r *refresh) plan(ctx context.Context) (jobs []job, closeAll func(), err error) {
	var handles []*sources.Handle
	closeAll = func() {
		for _, h := range handles {
			h.Close() //nolint:errcheck // a directory handle that was only read through
		}
	}
	for _, src := range sources.All() {
		if !r.node.reads(src.Harness, r.opt.Only) {
			continue
		}
		for _, d := range src.Discover(ctx, r.node.sourceEnv()) {
			at := len(r.report.Sources)
			r.report.Sources = append(r.report.Sources, r.storeReport(src, d))
			if d.Outcome != sources.Ready {
				continue
			}
			h, err := src.Open(d.Store)
			if err != nil {
				r.report.Sources[at].State, r.report.Sources[at].Reason = StateFailed, err.Error()
				continue
			}
			handles = append(handles, h)
			found, err := r.changed(ctx, src, h, d, at)
			if err != nil {
				return nil, closeAll, err
			}
			jobs = append(jobs, found...)
			r.vanished(src, d)
		}
	}
	return jobs, closeAll, ctx.Err()
}

// storeReport begins the report of a store with what discovery found.
func (r *refresh) storeReport(src sources.Source, d sources.Discovery) SourceReport {
	s := SourceReport{
		Harness: src.Harness, Name: src.Name, Root: r.node.cfg.Tilde(d.Store.Root),
		Files: len(d.Files), Reason: d.Reason, State: StateOK,
	}
	switch d.Outcome {
	case sources.Ready:
		if len(d.Files) == 0 {
			s.State = StateEmpty
		}
	case sources.Missing:
		s.State = StateMissing
		if r.marks.knows(src.Harness, d.Store.Root) {
			s.State = StateUnplugged
		}
	case sources.Denied:
		s.State = StateDenied
	default:
		s.State = StateFailed
	}
	for _, p := range d.Problems {
		s.Failed = append(s.Failed, FileFailure{Path: p.Path, Reason: p.Reason})
		s.State = StatePartly
	}
	return s
}

// changed picks the files of a store that have something new, and arranges them.
func (r *refresh) changed(ctx context.Context, src sources.Source, h *sources.Handle, d sources.Discovery, at int) ([]job, error) {
	picked := map[string]job{}
	var files []sources.File
	for _, f := range d.Files {
		key := cursorKey{src.Harness, d.Store.Root, f.Key}
		cur, known := r.marks.get(key)
		if known && cur.failure != "" && r.node.host.Now().Unix() < cur.retry && !r.opt.Reread {
			r.report.Sources[at].fail(f.Rel, cur.failure)
			continue
		}
		j := job{source: src, handle: h, store: d.Store, file: f, key: key, mark: cur.mark, report: at}
		todo, err := r.todo(ctx, &j, cur)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			r.fail(j, err)
			continue
		}
		if todo {
			picked[f.Key] = j
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	files, err := h.Arrange(ctx, files)
	if err != nil {
		return nil, err
	}
	jobs := make([]job, 0, len(files))
	for _, f := range files {
		j := picked[f.Key]
		j.file = f
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// todo decides whether a file is read, and from where.
func (r *refresh) todo(ctx context.Context, j *job, cur cursor) (bool, error) {
	if r.opt.Reread {
		j.mark, j.whole = nil, true
		return true, nil
	}
	change, err := j.handle.Check(ctx, j.file, j.mark, r.opt.Depth)
	if err != nil {
		return false, err
	}
	switch change {
	case sources.Same:
		if r.opt.Depth != sources.Glance {
			if touched := j.mark.Touched(j.file); string(touched) != string(j.mark) {
				cur.mark = touched
				r.marks.set(j.key, cur)
			}
		}
		return j.mark.Pending() && r.settled(*j), nil
	case sources.Grew:
		return true, nil
	}
	j.mark, j.whole = nil, true
	return true, nil
}

// settled reports whether a call without a result is not going to get one: at
// the first reading of a transcript and in an explicit run, unless somebody is
// writing to it right now; in passing only after an hour.
func (r *refresh) settled(j job) bool {
	quiet := time.Hour
	if j.mark == nil || r.opt.Depth != sources.Glance {
		quiet = 10 * time.Second
	}
	return elapsed(r.node.host.Now(), j.file.Modified, quiet)
}

func elapsed(now, t time.Time, d time.Duration) bool { return now.Sub(t) >= d }

// read decodes one file into the log. A file that cannot be read fails alone.
func (r *refresh) read(ctx context.Context, j job) error {
	res, counts, err, fatal := r.decode(ctx, j)
	if errors.Is(err, jsonl.ErrMoved) && fatal == nil {
		// It was rewritten between the check and the reading.
		j.mark, j.whole = nil, true
		res, counts, err, fatal = r.decode(ctx, j)
	}
	if fatal != nil {
		return fatal
	}
	rep := &r.report.Sources[j.report]
	rep.Read++
	rep.Add(counts)
	r.report.Total.Add(counts)
	r.store(j, res)
	if err != nil && ctx.Err() == nil {
		r.fail(j, err)
	}
	return ctx.Err()
}

// decode runs one file through the source and into the write gate. err is the
// transcript's, fatal the log's.
func (r *refresh) decode(ctx context.Context, j job) (res sources.Result, counts index.Counts, err, fatal error) {
	in := r.w.Begin(index.ReadingOptions{
		Harness: j.source.Harness, Source: r.shown(j), Whole: j.whole,
		Shared: func(native string) bool { return r.met[j.source.Harness+":"+native] > 1 },
	})
	keep := func(err error) error {
		if err != nil {
			fatal = err
		}
		return err
	}
	met := map[string]bool{}
	res, err = j.handle.Decode(ctx, sources.Job{
		File: j.file, Mark: j.mark, Memory: r.w.Holds(j.source.Harness), Settled: r.settled(j), Scrub: r.w.Scrub,
	}, sources.Sink{
		Session: func(s record.Session) error {
			if !met[s.Native] {
				met[s.Native] = true
				r.met[j.source.Harness+":"+s.Native]++
			}
			r.projects.Fill(&s)
			in.Session(s)
			return nil
		},
		Turn: func(t record.Turn) error { return keep(in.Turn(ctx, t)) },
		Note: func(n sources.Note) error { return keep(in.Note(ctx, noteTurn(n), n.Project, noteMeta(n))) },
		Undo: func(u sources.Undo) error { return keep(in.Undo(ctx, u.Session, u.From)) },
	})
	if fatal != nil || errors.Is(err, jsonl.ErrMoved) {
		return res, counts, err, fatal
	}
	counts, fatal = in.End(ctx, err == nil)
	return res, counts, err, fatal
}

func (r *refresh) shown(j job) string {
	return r.node.cfg.Tilde(filepath.Join(j.store.Root, filepath.FromSlash(j.file.Rel)))
}

// store remembers how far a file has been read.
func (r *refresh) store(j job, res sources.Result) {
	redacted := r.w.TakeRedactions()
	rep := &r.report.Sources[j.report]
	rep.Redacted += redacted
	cur, _ := r.marks.get(j.key)
	if j.whole {
		cur = cursor{}
	}
	cur.version, cur.redacted = j.source.Version, cur.redacted+redacted
	for _, skip := range res.Skipped {
		if skip.Reason.Broken() {
			cur.broken += skip.Lines
			rep.Broken += skip.Lines
		}
	}
	if res.Mark != nil {
		cur.mark = res.Mark
	}
	cur.failure, cur.failures, cur.retry, cur.gone = "", 0, 0, false
	r.marks.set(j.key, cur)
}

// fail records that a file could not be read, and when to try again: after a
// minute, doubling up to a day.
func (r *refresh) fail(j job, err error) {
	cur, _ := r.marks.get(j.key)
	cur.failure = err.Error()
	cur.failures++
	wait := min(time.Minute<<min(cur.failures-1, 11), 24*time.Hour)
	cur.retry = r.node.host.Now().Add(wait).Unix()
	r.marks.set(j.key, cur)
	r.report.Sources[j.report].fail(j.file.Rel, cur.failure)
}

func (s *SourceReport) fail(path, reason string) {
	s.Failed = append(s.Failed, FileFailure{Path: path, Reason: reason})
	s.State = StatePartly
}

// vanished flags the cursors of transcripts that are no longer there. Only a
// store that was read to the last directory can prove that; the log keeps
// every turn either way.
func (r *refresh) vanished(src sources.Source, d sources.Discovery) {
	if !d.Complete {
		return
	}
	there := make(map[string]bool, len(d.Files))
	for _, f := range d.Files {
		there[f.Key] = true
	}
	for key, cur := range r.marks.all {
		if key.harness == src.Harness && key.root == d.Store.Root && cur.gone == there[key.file] {
			cur.gone = !there[key.file]
			r.marks.set(key, cur)
		}
	}
}

// checkpoint makes what was read durable from time to time, and searchable
// every few seconds of a long run.
func (r *refresh) checkpoint(ctx context.Context) error {
	every := cmp.Or(r.opt.Publish, 3*time.Second)
	now := r.node.host.Now()
	if !elapsed(now, r.published, every) && !r.w.Full() {
		return nil
	}
	r.published = now
	r.progress.Searchable = true
	return r.commit(ctx)
}

// commit makes the log durable first, then the marks, then the views.
func (r *refresh) commit(ctx context.Context) error {
	if err := r.w.Commit(ctx); err != nil {
		return err
	}
	if err := r.marks.save(); err != nil {
		return err
	}
	return r.w.Publish(ctx)
}

func (r *refresh) tell() {
	if r.opt.Progress != nil {
		r.opt.Progress(r.progress)
	}
	r.progress.Searchable = false
}

// knows reports whether anything was ever read from a store.
func (c *cursors) knows(harness, root string) bool {
	for key := range c.all {
		if key.harness == harness && key.root == root {
			return true
		}
	}
	return false
}

// reads reports whether a harness is to be read.
func (n *Node) reads(harness string, only []string) bool {
	for _, list := range [][]string{n.cfg.Sources, only} {
		if len(list) > 0 && !slices.ContainsFunc(list, func(name string) bool { return sameHarness(name, harness) }) {
			return false
		}
	}
	return true
}

func sameHarness(name, harness string) bool {
	src, ok := sources.Find(name)
	return ok && src.Harness == harness
}

// sourceEnv is the part of the configuration that the sources look at.
func (n *Node) sourceEnv() sources.Env {
	return sources.Env{Home: n.cfg.Home, GOOS: n.cfg.GOOS, Getenv: n.cfg.Getenv}
}

// CheckSources returns an error that names the harnesses when one of the names is none.
func CheckSources(names []string) error {
	for _, name := range names {
		if _, ok := sources.Find(name); !ok {
			var all []string
			for _, s := range sources.All() {
				all = append(all, s.Harness)
			}
			return fmt.Errorf("no harness is called %q: known are %v", name, all)
		}
	}
	return nil
}
