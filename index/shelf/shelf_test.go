package shelf_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the randomised tests; 0 draws one")
	update   = flag.Bool("update", false, "rewrite the examples in FORMAT.md")
)

func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

const dir = "/index"

// counted watches how many mappings are open.
type counted struct {
	vfs.FS
	open atomic.Int64
}

type countedMapping struct {
	vfs.Mapping
	fs *counted
}

func (c *counted) Map(name string) (vfs.Mapping, error) {
	m, err := c.FS.Map(name)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return countedMapping{m, c}, nil
}

func (m countedMapping) Close() error {
	m.fs.open.Add(-1)
	return m.Mapping.Close()
}

func open(t testing.TB, fsys vfs.FS) *shelf.Shelf {
	t.Helper()
	s, err := shelf.Open(fsys, dir)
	must(t, err)
	return s
}

// section is what a test writes into a file.
type section struct {
	tag  string
	data []byte
}

func write(t testing.TB, s *shelf.Shelf, view string, sections ...section) shelf.FileRef {
	t.Helper()
	ref, err := tryWrite(s, view, sections...)
	must(t, err)
	return ref
}

func tryWrite(s *shelf.Shelf, view string, sections ...section) (shelf.FileRef, error) {
	w, err := s.Create(view)
	if err != nil {
		return shelf.FileRef{}, err
	}
	for _, sec := range sections {
		w.Section(sec.tag)
		if _, err := w.Write(sec.data); err != nil {
			return shelf.FileRef{}, errors.Join(err, w.Abort())
		}
	}
	return w.Finish()
}

// text writes a file that holds one section, "text".
func text(t testing.TB, s *shelf.Shelf, view, data string) shelf.FileRef {
	t.Helper()
	return write(t, s, view, section{"text", []byte(data)})
}

func publish(t testing.TB, s *shelf.Shelf, view string, files ...shelf.FileRef) {
	t.Helper()
	must(t, s.Publish(map[string]shelf.State{view: {Version: 1, Files: files}}))
}

// texts reads what text has written, of all files of a view.
func texts(snap *shelf.Snapshot, view string) ([]string, error) {
	files, err := snap.Files(view)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range files {
		sec, ok := f.Section("text")
		if !ok {
			return nil, fmt.Errorf("%s has no text", f.Ref().Name)
		}
		b, err := sec.All()
		if err != nil {
			return nil, err
		}
		all = append(all, string(b))
	}
	return all, nil
}

func wantTexts(t testing.TB, snap *shelf.Snapshot, view string, want ...string) {
	t.Helper()
	got, err := texts(snap, view)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("view %s holds %q, want %q", view, got, want)
	}
}

func snapshot(t testing.TB, s *shelf.Shelf, views ...string) *shelf.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(views...)
	must(t, err)
	t.Cleanup(func() { must(t, snap.Close()) })
	return snap
}

// listed returns the names in the shelf's directory.
func listed(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	must(t, err)
	var names []string
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func overwrite(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.Write(data)
	must(t, errors.Join(err, f.Close()))
}

func randomState(rng *rand.Rand, files ...shelf.FileRef) shelf.State {
	st := shelf.State{Version: 1 + rng.IntN(1000), Files: files, Known: record.Frontier{}, Aux: randomBytes(rng, rng.IntN(50))}
	for range rng.IntN(20) {
		var id record.StreamID
		var head record.Head
		copy(id.Node[:], randomBytes(rng, 20))
		copy(id.Nonce[:], randomBytes(rng, 8))
		head.Seq = record.Seq(rng.Uint64N(1 << 40))
		copy(head.Hash[:], randomBytes(rng, rng.IntN(2)*32))
		st.Known[id] = head
	}
	return st
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestPublishLaw: a snapshot has, of every view, what was published of it
// last, whatever was published of others.
func TestPublishLaw(t *testing.T) {
	rng := random(t)
	fsys := vfs.NewMem()
	s := open(t, fsys)
	want := map[string]shelf.State{}
	for round := range uint64(60) {
		states := map[string]shelf.State{}
		for _, view := range []string{"catalog", "postings", "mine_2", "x"} {
			switch rng.IntN(4) {
			case 0:
				states[view] = shelf.State{}
				delete(want, view)
			case 1:
				files := slices.Clone(want[view].Files)
				if len(files) > 3 {
					files = files[2:]
				}
				ref := text(t, s, view, "of round "+fmt.Sprint(round))
				ref.Weight = rng.Uint64()
				states[view] = randomState(rng, append(files, ref)...)
				want[view] = states[view]
			}
		}
		must(t, s.Publish(states))
		if rng.IntN(2) == 0 {
			s = open(t, fsys)
		}
		snap, err := s.Snapshot()
		must(t, err)
		if snap.Generation() != round+1 {
			t.Errorf("generation %d after %d publishes", snap.Generation(), round+1)
		}
		got := map[string]shelf.State{}
		for _, view := range snap.Views() {
			got[view] = snap.State(view)
			_, err := texts(snap, view)
			must(t, err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		must(t, snap.Close())
	}
}

func TestEmptyShelf(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys)
	snap := snapshot(t, s, "catalog")
	if snap.Generation() != 0 || len(snap.Views()) != 0 || snap.State("catalog").Version != 0 {
		t.Errorf("an empty shelf has generation %d, views %q", snap.Generation(), snap.Views())
	}
	snap.State("catalog").Known[record.StreamID{}] = record.Head{} // never nil
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the directory: %v", err)
	}
	must(t, s.Publish(nil))
	if gen, err := s.Generation(); err != nil || gen != 1 {
		t.Errorf("generation %d, %v", gen, err)
	}
	overwrite(t, fsys, "/file", nil)
	if _, err := shelf.Open(fsys, "/file"); err == nil {
		t.Error("a file was opened as a shelf")
	}
}

func TestPublishRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys)
	good := text(t, s, "v", "good")
	publish(t, s, "v", good)
	missing, short, outside, other := good, text(t, s, "v", "short"), good, good
	missing.Name = "v-missing.shelf"
	short.Size++
	outside.Name = "../index/" + good.Name
	other.Name = "MANIFEST"
	for what, st := range map[string]shelf.State{
		"a missing file":         {Version: 1, Files: []shelf.FileRef{missing}},
		"a file of another size": {Version: 1, Files: []shelf.FileRef{short}},
		"a file twice":           {Version: 1, Files: []shelf.FileRef{good, good}},
		"a path":                 {Version: 1, Files: []shelf.FileRef{outside}},
		"a name of the shelf's":  {Version: 1, Files: []shelf.FileRef{other}},
		"a negative version":     {Version: -1},
		"a huge manifest":        {Version: 1, Aux: make([]byte, 17<<20)},
	} {
		if s.Publish(map[string]shelf.State{"v": st}) == nil {
			t.Errorf("published: %s", what)
		}
	}
	for _, view := range []string{"", "a/b", "..", ".hidden", "Catalog", "a b", strings.Repeat("x", 33)} {
		if s.Publish(map[string]shelf.State{view: {Version: 1}}) == nil {
			t.Errorf("published: view %q", view)
		}
		if w, err := s.Create(view); err == nil {
			t.Errorf("created a file of view %q: %v", view, w.Abort())
		}
	}
	if s.Publish(map[string]shelf.State{"other": {Version: 1, Files: []shelf.FileRef{good}}}) == nil {
		t.Error("two views share a file")
	}
	wantTexts(t, snapshot(t, s), "v", "good")
}

// TestSweep: a publish removes what nothing lists, and nothing else.
func TestSweep(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys)
	first, second := text(t, s, "v", "first"), text(t, s, "v", "second")
	publish(t, s, "v", first)
	abandoned := text(t, open(t, fsys), "v", "of a writer that died")
	overwrite(t, fsys, vfs.TempName(dir+"/MANIFEST"), nil)
	overwrite(t, fsys, dir+"/lock", nil)
	unfinished, err := s.Create("w")
	must(t, err)

	publish(t, s, "v", second)
	names := listed(t, fsys)
	if slices.Contains(names, first.Name) || slices.Contains(names, abandoned.Name) {
		t.Errorf("files that nothing lists are left: %q", names)
	}
	if len(names) != 4 || !slices.Contains(names, "lock") || !slices.Contains(names, second.Name) {
		t.Errorf("left are %q; want the manifest, the lock, the file and the unfinished one", names)
	}
	must(t, unfinished.Abort())
	must(t, unfinished.Abort())
	if names := listed(t, fsys); len(names) != 3 {
		t.Errorf("left after an abort: %q", names)
	}
}

// TestSnapshotOutlivesItsFiles on a real disk, where a mapping has a lifetime.
func TestSnapshotOutlivesItsFiles(t *testing.T) {
	fsys := &counted{FS: vfs.OS{}}
	root := path.Join(strings.ReplaceAll(t.TempDir(), "\\", "/"), "index")
	s, err := shelf.Open(fsys, root)
	must(t, err)
	old, kept := text(t, s, "v", "old"), text(t, s, "v", "kept")
	publish(t, s, "v", old, kept)
	before, err := s.Snapshot()
	must(t, err)
	publish(t, s, "v", kept, text(t, s, "v", "new"))
	after, err := s.Snapshot()
	must(t, err)
	wantTexts(t, before, "v", "old", "kept")
	wantTexts(t, after, "v", "kept", "new")
	if got := fsys.open.Load(); got != 3 {
		t.Errorf("%d files are mapped, want 3: snapshots share", got)
	}
	must(t, before.Close())
	must(t, before.Close())
	wantTexts(t, after, "v", "kept", "new")
	must(t, after.Close())
	if got := fsys.open.Load(); got != 0 {
		t.Errorf("%d files stay mapped", got)
	}
}

func TestSnapshotOfSomeViews(t *testing.T) {
	fsys := &counted{FS: vfs.NewMem()}
	s := open(t, fsys)
	publish(t, s, "a", text(t, s, "a", "A"))
	publish(t, s, "b", text(t, s, "b", "B"))
	snap := snapshot(t, s, "a", "none")
	wantTexts(t, snap, "a", "A")
	wantTexts(t, snap, "none")
	if _, err := snap.Files("b"); err == nil {
		t.Error("a view that was not asked for has files")
	}
	if snap.State("b").Version != 1 || fsys.open.Load() != 1 {
		t.Errorf("state %v, %d files mapped", snap.State("b"), fsys.open.Load())
	}
}

func TestMissingOrShortFile(t *testing.T) {
	for what, damage := range map[string]func(fsys vfs.FS, name string) error{
		"missing": func(fsys vfs.FS, name string) error { return fsys.Remove(name) },
		"short": func(fsys vfs.FS, name string) error {
			f, err := fsys.Append(name)
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(50), f.Close())
		},
		"swapped": func(fsys vfs.FS, name string) error {
			other, err := vfs.ReadFile(fsys, dir+"/"+listed(t, fsys)[1], 1<<20)
			if err != nil {
				return err
			}
			return vfs.WriteFile(fsys, name, other)
		},
	} {
		fsys := &counted{FS: vfs.NewMem()}
		s := open(t, fsys)
		a, b := text(t, s, "v", "aaaa"), text(t, s, "v", "bbbb")
		if a.Name > b.Name {
			a, b = b, a
		}
		publish(t, s, "v", a, b)
		must(t, damage(fsys, dir+"/"+b.Name))
		_, err := s.Snapshot()
		wantErr(t, what, err, shelf.ErrCorrupt)
		if err == nil || !strings.Contains(err.Error(), b.Name) {
			t.Errorf("%s: no file is named: %v", what, err)
		}
		if got := fsys.open.Load(); got != 0 {
			t.Errorf("%s: %d files stay mapped", what, got)
		}
		text(t, s, "v", "finished and not published")
		must(t, s.Reset())
		if snap := snapshot(t, s); len(snap.Views()) != 0 || snap.Generation() != 2 {
			t.Errorf("%s: after a reset: generation %d, views %q", what, snap.Generation(), snap.Views())
		}
		if names := listed(t, fsys); !slices.Equal(names, []string{"MANIFEST"}) {
			t.Errorf("%s: a reset leaves %q", what, names)
		}
	}
}

// TestManifestFlips: no flipped byte and no cut of the manifest goes unnoticed.
func TestManifestFlips(t *testing.T) {
	rng := random(t)
	fsys := vfs.NewMem()
	s := open(t, fsys)
	must(t, s.Publish(map[string]shelf.State{
		"v": randomState(rng, text(t, s, "v", "text")),
		"w": randomState(rng),
	}))
	name := dir + "/MANIFEST"
	good, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	check := func(what string, bad []byte) {
		t.Helper()
		overwrite(t, fsys, name, bad)
		_, err := s.Snapshot()
		wantErr(t, what, err, shelf.ErrCorrupt)
		wantErr(t, what, s.Publish(nil), shelf.ErrCorrupt)
	}
	for i := range good {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(good)
			bad[i] ^= flip
			check(fmt.Sprintf("flip %#x at %d", flip, i), bad)
		}
		check(fmt.Sprintf("cut at %d", i), good[:i])
	}
	check("too long", append(bytes.Clone(good), 0))
	check("far too long", make([]byte, 17<<20))
	must(t, s.Reset())
	if snap := snapshot(t, s); len(snap.Views()) != 0 || snap.Generation() < 2 {
		t.Errorf("after a reset: generation %d, views %q", snap.Generation(), snap.Views())
	}
}

// TestHostileManifests: a right sum does not make a manifest true, and no
// count in it makes the reader allocate or loop for more than it has.
func TestHostileManifests(t *testing.T) {
	cat := func(parts ...string) string { return strings.Join(parts, "") }
	const (
		format = "\x01\x00\x00\x00"
		huge   = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
		empty  = "\x01\x00\x00\x00" // a state of version 1 without anything
	)
	stream := strings.Repeat("s", 28) + "\x05" + strings.Repeat("h", 32)
	file := func(name string) string { return cat(string(rune(len(name))), name, "\x09sums\x01") }
	for what, c := range map[string]struct {
		body string
		want error
	}{
		"nothing wrong":           {cat(format, "\x07\x01\x01v\x01\x01", stream, "\x01", file("v-1.shelf"), "\x00"), nil},
		"no views":                {cat(format, "\x07\x00"), nil},
		"nothing":                 {"", shelf.ErrCorrupt},
		"no count":                {cat(format, "\x07"), shelf.ErrCorrupt},
		"bytes at the end":        {cat(format, "\x07\x00\x00"), shelf.ErrCorrupt},
		"one view twice":          {cat(format, "\x07\x02\x01v", empty, "\x01v", empty), shelf.ErrCorrupt},
		"too many views":          {cat(format, "\x07", huge), shelf.ErrCorrupt},
		"many streams":            {cat(format, "\x07\x01\x01v\x01\xff\xff\x7f", stream), shelf.ErrCorrupt},
		"many files":              {cat(format, "\x07\x01\x01v\x01\x00\xff\xff\x7f", file("v-1.shelf")), shelf.ErrCorrupt},
		"too many streams":        {cat(format, "\x07\x01\x01v\x01", huge), shelf.ErrCorrupt},
		"too many files":          {cat(format, "\x07\x01\x01v\x01\x00", huge), shelf.ErrCorrupt},
		"too much beside":         {cat(format, "\x07\x01\x01v\x01\x00\x00", huge), shelf.ErrCorrupt},
		"one stream twice":        {cat(format, "\x07\x01\x01v\x01\x02", stream, stream, "\x00\x00"), shelf.ErrCorrupt},
		"a name that is too long": {cat(format, "\x07\x01\x21", strings.Repeat("v", 33), empty), shelf.ErrCorrupt},
		"a name cut short":        {cat(format, "\x07\x01\x09view"), shelf.ErrCorrupt},
		"a number without an end": {cat(format, strings.Repeat("\xff", 11)), shelf.ErrCorrupt},
		"version 0":               {cat(format, "\x07\x01\x01v\x00\x00\x00\x00"), shelf.ErrCorrupt},
		"a huge version":          {cat(format, "\x07\x01\x01v\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00"), shelf.ErrCorrupt},
		"a path":                  {cat(format, "\x07\x01\x01v\x01\x00\x01", file("../1.shelf"), "\x00"), shelf.ErrCorrupt},
		"the manifest as a file":  {cat(format, "\x07\x01\x01v\x01\x00\x01", file("MANIFEST"), "\x00"), shelf.ErrCorrupt},
		"one file twice":          {cat(format, "\x07\x01\x01v\x01\x00\x02", file("v-1.shelf"), file("v-1.shelf"), "\x00"), shelf.ErrCorrupt},
		"a stream cut short":      {cat(format, "\x07\x01\x01v\x01\x01", stream[:50]), shelf.ErrCorrupt},
	} {
		raw := shelf.SealManifest([]byte(c.body))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := shelf.ParseManifest(raw)
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<10 {
			t.Errorf("%s: %d bytes were allocated for %d", what, spent, len(raw))
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
}

func TestNewer(t *testing.T) {
	st := shelf.State{Version: 7}
	must(t, st.Newer("catalog", 7))
	err := st.Newer("catalog", 6)
	wantErr(t, "a newer view", err, shelf.ErrNewer)
	if err == nil || !strings.Contains(err.Error(), "catalog format 7") {
		t.Errorf("the version is not named: %v", err)
	}

	fsys := vfs.NewMem()
	s := open(t, fsys)
	must(t, fsys.MkdirAll(dir))
	overwrite(t, fsys, dir+"/MANIFEST", shelf.NewerManifest())
	_, err = s.Snapshot()
	wantErr(t, "a newer manifest", err, shelf.ErrNewer)
	if err == nil || !strings.Contains(err.Error(), "shelf format 2") {
		t.Errorf("the version is not named: %v", err)
	}
	wantErr(t, "publishing over a newer manifest", s.Publish(nil), shelf.ErrNewer)
	must(t, s.Reset())
	snapshot(t, s)
}
