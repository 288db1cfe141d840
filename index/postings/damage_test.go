package postings_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/deja-node/deja/index/postings"
	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// answers are what an index says to everything, or the error it says it with.
func answers(t *testing.T, fsys vfs.FS) (string, error) {
	t.Helper()
	sh, err := shelf.Open(fsys, "/views")
	if err != nil {
		return "", err
	}
	snap, err := sh.Snapshot()
	if err != nil {
		return "", err
	}
	defer snap.Close()
	r, err := postings.NewReader(snap)
	if err != nil {
		return "", err
	}
	if _, err := r.Search(t.Context(), postings.Request{Terms: query.Parse("pool wait zebra").Terms, Roles: allRoles, Limit: 9}); err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = r.Dump(t.Context(), &b)
	return b.String(), err
}

// TestEveryFlip holds that a changed byte is noticed or harmless.
func TestEveryFlip(t *testing.T) {
	rng := newRand(t)
	x := newWorld(rng, 12, 3).build(t)
	want, err := answers(t, x.fs)
	if err != nil {
		t.Fatal(err)
	}
	name := "/views/" + x.files()[0].Name
	whole, err := vfs.ReadFile(x.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	noticed := 0
	for i, c := range whole {
		whole[i] = c ^ 1<<rng.IntN(8)
		overwrite(t, x.fs, name, whole)
		whole[i] = c
		got, err := answers(t, x.fs)
		switch {
		case err == nil && got != want:
			t.Fatalf("byte %d: another answer: %s", i, clip(got, want))
		case err != nil && !errors.Is(err, shelf.ErrCorrupt) && !errors.Is(err, shelf.ErrNewer):
			t.Fatalf("byte %d: %v", i, err)
		case err != nil:
			noticed++
		}
	}
	if 10*noticed < 9*len(whole) {
		t.Errorf("%d of %d flips were noticed", noticed, len(whole))
	}
}

func overwrite(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// sections takes the only file of an index apart.
func sections(t testing.TB, x *index) map[string][]byte {
	t.Helper()
	snap, err := x.sh.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	files, err := snap.Files(postings.Name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for s := range files[0].Sections() {
		b, err := s.All()
		if err != nil {
			t.Fatal(err)
		}
		out[s.Tag()] = bytes.Clone(b)
	}
	return out
}

// checkSections gives sections right sums, and holds that whatever is in them
// ends in answers or in ErrCorrupt.
func checkSections(t *testing.T, secs map[string][]byte, known record.Frontier) {
	t.Helper()
	mem := vfs.NewMem()
	sh, err := shelf.Open(mem, "/views")
	if err != nil {
		t.Fatal(err)
	}
	w, err := sh.Create(postings.Name)
	if err != nil {
		t.Fatal(err)
	}
	for tag, b := range secs {
		w.Section(tag)
		w.Write(b)
	}
	ref, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	st := shelf.State{Version: postings.Version, Known: known, Files: []shelf.FileRef{ref}}
	if err := sh.Publish(map[string]shelf.State{postings.Name: st}); err != nil {
		t.Fatal(err)
	}
	if _, err := answers(t, mem); err != nil && !errors.Is(err, shelf.ErrCorrupt) {
		t.Fatal(err)
	}
	// The same goes for a merge with a good file.
	v, err := postings.Open(sh, st)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if err := v.Apply(t.Context(), own, record.Seq(i+1), []record.Entry{msg("s", record.RoleUser, "pool")}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Flush(t.Context()); err != nil {
			if !errors.Is(err, shelf.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
	}
}

// TestRightSumsDoNotMakeAFileTrue changes what stands under the sums.
func TestRightSumsDoNotMakeAFileTrue(t *testing.T) {
	rng := newRand(t)
	w := newWorld(rng, 20, 3)
	x := w.build(t)
	good, known := sections(t, x), x.view.Known()
	checkSections(t, good, known)
	for range 1000 {
		bad := map[string][]byte{}
		for tag, b := range good {
			bad[tag] = bytes.Clone(b)
		}
		for range 1 + rng.IntN(3) {
			damage(rng, bad)
		}
		checkSections(t, bad, known)
	}
}

// damage changes one section somehow.
func damage(rng *rand.Rand, secs map[string][]byte) {
	tags := make([]string, 0, len(secs))
	for tag := range postings.Sections {
		if len(secs[tag]) > 0 {
			tags = append(tags, tag)
		}
	}
	if len(tags) == 0 {
		return
	}
	tag := tags[rng.IntN(len(tags))]
	b := secs[tag]
	row := postings.Sections[tag]
	at := rng.IntN(len(b))
	switch rng.IntN(6) {
	case 0:
		delete(secs, tag)
	case 1:
		secs[tag] = b[:at/row*row]
	case 2:
		secs[tag] = append(b, b[:row]...)
	case 3:
		b[at] = byte(rng.IntN(256))
	case 4:
		for i := at; i < min(at+8, len(b)); i++ {
			b[i] = 0xff
		}
	case 5:
		b[at] ^= 1 << rng.IntN(8)
	}
}

func FuzzSections(f *testing.F) {
	x := newWorld(newRand(f), 10, 3).build(f)
	good, known := sections(f, x), x.view.Known()
	f.Add(good["ranges"], good["threads"], good["docs"], good["lists"], good["terms"], good["blocks"])
	f.Fuzz(func(t *testing.T, ranges, threads, docs, lists, terms, blocks []byte) {
		checkSections(t, map[string][]byte{
			"streams": good["streams"], "ranges": ranges, "threads": threads, "docs": docs, "lists": lists, "terms": terms, "blocks": blocks,
		}, known)
	})
}
