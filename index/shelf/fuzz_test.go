package shelf_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// FuzzFile opens arbitrary bytes, as they are and with checksums that let the
// parser see them. Every section it finds lies in the file.
func FuzzFile(f *testing.F) {
	fsys := vfs.NewMem()
	s := open(f, fsys)
	for _, sections := range [][]section{
		nil,
		{{"a", nil}},
		{{"first", []byte("bytes")}, {"second", make([]byte, 100)}},
		{{"long", make([]byte, 2*shelf.PageSize)}},
	} {
		ref := write(f, s, "v", sections...)
		b, err := vfs.ReadFile(fsys, dir+"/"+ref.Name, 1<<20)
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, shelf.SealFile(append([]byte(nil), b...))} {
			file, err := shelf.OpenBytes(b)
			if err != nil {
				if !errors.Is(err, shelf.ErrCorrupt) && !errors.Is(err, shelf.ErrNewer) {
					t.Fatal(err)
				}
				continue
			}
			size := 0
			for sec := range file.Sections() {
				size += sec.Len()
				if _, ok := file.Section(sec.Tag()); !ok {
					t.Errorf("section %q is not found by its tag", sec.Tag())
				}
				if b, err := sec.All(); err == nil && len(b) != sec.Len() {
					t.Errorf("section %q gives %d of %d bytes", sec.Tag(), len(b), sec.Len())
				}
			}
			if size > len(b) {
				t.Errorf("%d bytes of sections in a file of %d", size, len(b))
			}
			if err := file.Verify(); err != nil && !errors.Is(err, shelf.ErrCorrupt) {
				t.Error(err)
			}
		}
	})
}

// FuzzManifest parses arbitrary bytes behind a good checksum. What it accepts
// is written back and read again alike.
func FuzzManifest(f *testing.F) {
	good := shelf.EncodeManifest(7, exampleViews())
	f.Add(good[8 : len(good)-4])
	f.Add([]byte{1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		generation, views, err := shelf.ParseManifest(shelf.SealManifest(b))
		if err != nil {
			if !errors.Is(err, shelf.ErrCorrupt) && !errors.Is(err, shelf.ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		g, again, err := shelf.ParseManifest(shelf.EncodeManifest(generation, views))
		must(t, err)
		if d := cmp.Diff(views, again, cmpopts.EquateEmpty()); d != "" || g != generation {
			t.Errorf("generation %d, then %d: %s", generation, g, d)
		}
	})
}
