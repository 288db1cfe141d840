package shelf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// randomSections draws sections whose sizes lie around those of pages and of
// the writer's buffer.
func randomSections(rng *rand.Rand) []section {
	var all []section
	for i := range rng.IntN(6) {
		size := []int{0, 1, 7, 8, 100, shelf.PageSize, 2 * shelf.PageSize, 16 * shelf.PageSize, 300_000}[rng.IntN(9)]
		size = max(0, size+rng.IntN(41)-20)
		all = append(all, section{fmt.Sprintf("section-%d", i), randomBytes(rng, size)})
	}
	return all
}

// writeInPieces writes the sections with writes of random lengths.
func writeInPieces(t *testing.T, rng *rand.Rand, s *shelf.Shelf, sections []section) shelf.FileRef {
	t.Helper()
	w, err := s.Create("v")
	must(t, err)
	for _, sec := range sections {
		w.Section(sec.tag)
		for done := 0; done < len(sec.data); {
			n := min(1+rng.IntN(100_000), len(sec.data)-done)
			_, err := w.Write(sec.data[done : done+n])
			must(t, err)
			done += n
			if w.Len() != int64(done) {
				t.Fatalf("length %d after %d bytes", w.Len(), done)
			}
		}
	}
	ref, err := w.Finish()
	must(t, err)
	return ref
}

// TestBytesLaw: every range of every section is what was written there.
func TestBytesLaw(t *testing.T) {
	rng := random(t)
	fsys := vfs.NewMem()
	s := open(t, fsys)
	for range 40 {
		want := randomSections(rng)
		ref := writeInPieces(t, rng, s, want)
		info, err := fsys.Stat(dir + "/" + ref.Name)
		must(t, err)
		if info.Size() != ref.Size {
			t.Fatalf("the reference says %d bytes, the file has %d", ref.Size, info.Size())
		}
		publish(t, s, "v", ref)
		snap, err := s.Snapshot()
		must(t, err)
		files, err := snap.Files("v")
		must(t, err)
		i := 0
		for sec := range files[0].Sections() {
			if sec.Tag() != want[i].tag || sec.Len() != len(want[i].data) {
				t.Fatalf("section %q of %d bytes, want %q of %d", sec.Tag(), sec.Len(), want[i].tag, len(want[i].data))
			}
			checkRanges(t, rng, sec, want[i].data)
			i++
		}
		if i != len(want) {
			t.Fatalf("%d sections, want %d", i, len(want))
		}
		must(t, errors.Join(snap.Verify(t.Context()), snap.Close()))
	}
}

func checkRanges(t *testing.T, rng *rand.Rand, sec shelf.Section, want []byte) {
	t.Helper()
	for range 50 {
		off := rng.IntN(len(want) + 1)
		n := rng.IntN(len(want) - off + 1)
		if rng.IntN(2) == 0 {
			n = min(n, 20)
		}
		got, err := sec.Bytes(off, n)
		must(t, err)
		if !bytes.Equal(got, want[off:off+n]) {
			t.Fatalf("section %s: %d bytes at %d differ", sec.Tag(), n, off)
		}
		if len(got) != cap(got) {
			t.Fatalf("%d bytes have room for %d", len(got), cap(got))
		}
	}
	all, err := sec.All()
	must(t, err)
	if !bytes.Equal(all, want) {
		t.Fatalf("section %s differs", sec.Tag())
	}
}

func TestOutOfRangeIsCorrupt(t *testing.T) {
	s := open(t, vfs.NewMem())
	ref := write(t, s, "v", section{"a", make([]byte, 100)}, section{"b", nil}, section{"c", make([]byte, 40_000)})
	publish(t, s, "v", ref)
	files, err := snapshot(t, s).Files("v")
	must(t, err)
	f := files[0]
	if _, ok := f.Section("none"); ok {
		t.Error("a section was found that nobody wrote")
	}
	sections := []shelf.Section{{}}
	for _, tag := range []string{"a", "b", "c"} {
		sec, ok := f.Section(tag)
		if !ok {
			t.Fatalf("no section %s", tag)
		}
		sections = append(sections, sec)
	}
	for _, sec := range sections {
		n := sec.Len()
		for _, r := range [][2]int{
			{0, n + 1},
			{n, 1},
			{n + 1, 0},
			{1, n},
			{-1, 1},
			{0, -1},
			{-1, 0},
			{n + 1, -1},
			{math.MaxInt, 1},
			{1, math.MaxInt},
			{math.MaxInt, math.MaxInt},
			{math.MinInt, 0},
			{0, math.MinInt},
			{math.MinInt, math.MinInt},
		} {
			b, err := sec.Bytes(r[0], r[1])
			if !errors.Is(err, shelf.ErrCorrupt) || b != nil {
				t.Errorf("section %q of %d bytes gives %d at %d: %d bytes, %v", sec.Tag(), n, r[1], r[0], len(b), err)
			}
			if want := fmt.Sprintf("section %q at %d", sec.Tag(), r[0]); err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %s: %v", want, err)
			}
		}
		if b, err := sec.Bytes(n, 0); len(b) != 0 || err != nil {
			t.Errorf("the empty end of section %q: %q, %v", sec.Tag(), b, err)
		}
	}
}

// readFile reads all sections of the only file of view v.
func readFile(s *shelf.Shelf) (sections []section, verify, err error) {
	snap, err := s.Snapshot()
	if err != nil {
		return nil, err, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	files, err := snap.Files("v")
	if err != nil {
		return nil, err, err
	}
	for sec := range files[0].Sections() {
		b, err := sec.All()
		if err != nil {
			return nil, files[0].Verify(), err
		}
		sections = append(sections, section{sec.Tag(), bytes.Clone(b)})
	}
	return sections, files[0].Verify(), nil
}

// TestFlips: no flipped byte anywhere in a file reaches a reader, and Verify
// finds even those that no reader would see.
func TestFlips(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys)
	want := []section{{"first", []byte("some bytes")}, {"empty", nil}, {"last", []byte("and more")}}
	ref := write(t, s, "v", want...)
	publish(t, s, "v", ref)
	name := dir + "/" + ref.Name
	good, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	payload := int(binary.LittleEndian.Uint64(good[len(good)-40:]))
	harmless := 0
	for i := range good {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(good)
			bad[i] ^= flip
			overwrite(t, fsys, name, bad)
			if i < 16 || i >= payload { // all but the sections is compared before anything is read
				_, err := s.Snapshot()
				wantErr(t, fmt.Sprintf("opening after flip %#x at %d", flip, i), err, shelf.ErrCorrupt)
			}
			got, verify, err := readFile(s)
			wantErr(t, fmt.Sprintf("verify after flip %#x at %d", flip, i), verify, shelf.ErrCorrupt)
			if err == nil && fmt.Sprint(got) == fmt.Sprint(want) {
				harmless++
				continue
			}
			wantErr(t, fmt.Sprintf("flip %#x at %d", flip, i), err, shelf.ErrCorrupt)
		}
	}
	if harmless > 0 { // all lie in one page, whose sum covers the padding too
		t.Errorf("%d flips were read over", harmless)
	}
	for i := range good {
		overwrite(t, fsys, name, good[:i])
		_, _, err := readFile(s)
		wantErr(t, fmt.Sprintf("cut at %d", i), err, shelf.ErrCorrupt)
	}
	overwrite(t, fsys, name, good)
	got, verify, err := readFile(s)
	must(t, errors.Join(verify, err))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v", got)
	}
}

// TestHostileFiles: right sums do not make a file true.
func TestHostileFiles(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys)
	ref := write(t, s, "v", section{"first", []byte("some bytes")}, section{"last", []byte("and more")})
	good, err := vfs.ReadFile(fsys, dir+"/"+ref.Name, 1<<20)
	must(t, err)
	footer := len(good) - 40
	first, last := footer-64, footer-32
	u64 := func(at int, v uint64) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	u32 := func(at int, v uint32) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	for what, c := range map[string]struct {
		change func(b []byte)
		want   error
	}{
		"nothing wrong":                 {func([]byte) {}, nil},
		"one tag twice":                 {func(b []byte) { copy(b[last:], "first\x00") }, shelf.ErrCorrupt},
		"an empty tag":                  {func(b []byte) { clear(b[first : first+16]) }, shelf.ErrCorrupt},
		"a tag that is no text":         {func(b []byte) { b[first+1] = 0x80 }, shelf.ErrCorrupt},
		"a section in the header":       {u64(first+16, 8), shelf.ErrCorrupt},
		"sections that overlap":         {u64(last+16, 20), shelf.ErrCorrupt},
		"a section that is too long":    {u64(last+24, 1000), shelf.ErrCorrupt},
		"a length that wraps around":    {u64(last+24, math.MaxUint64-10), shelf.ErrCorrupt},
		"an offset that wraps around":   {u64(last+16, math.MaxUint64), shelf.ErrCorrupt},
		"a payload that is too long":    {u64(footer, 1000), shelf.ErrCorrupt},
		"a payload that wraps around":   {u64(footer, math.MaxUint64), shelf.ErrCorrupt},
		"a payload without a header":    {u64(footer, 3), shelf.ErrCorrupt},
		"more sections than there are":  {u32(footer+8, 3), shelf.ErrCorrupt},
		"fewer sections than there are": {u32(footer+8, 1), shelf.ErrCorrupt},
		"far too many sections":         {u32(footer+8, math.MaxUint32), shelf.ErrCorrupt},
		"format 0":                      {u32(footer+20, 0), shelf.ErrCorrupt},
		"format 2":                      {u32(footer+20, 2), shelf.ErrNewer},
	} {
		b := bytes.Clone(good)
		c.change(b)
		if _, err := shelf.OpenBytes(shelf.SealFile(b)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
}

// TestDamageIsLocal: a damaged page takes nothing with it but what lies in it.
func TestDamageIsLocal(t *testing.T) {
	rng := random(t)
	fsys := vfs.NewMem()
	s := open(t, fsys)
	data := randomBytes(rng, 10*shelf.PageSize)
	ref := write(t, s, "v", section{"data", data})
	publish(t, s, "v", ref)
	raw, err := vfs.ReadFile(fsys, dir+"/"+ref.Name, 1<<20)
	must(t, err)
	page := 1 + rng.IntN(8)
	raw[page*shelf.PageSize+rng.IntN(shelf.PageSize)] ^= 0x10
	overwrite(t, fsys, dir+"/"+ref.Name, raw)

	files, err := snapshot(t, s).Files("v")
	must(t, err)
	sec, _ := files[0].Section("data")
	start := bytes.Index(raw, data[:64]) // where the section begins in the file
	for off := 0; off+100 <= len(data); off += 100 {
		b, err := sec.Bytes(off, 100)
		if first, last := (start+off)/shelf.PageSize, (start+off+99)/shelf.PageSize; first <= page && page <= last {
			wantErr(t, fmt.Sprintf("bytes at %d", off), err, shelf.ErrCorrupt)
			continue
		}
		must(t, err)
		if !bytes.Equal(b, data[off:off+100]) {
			t.Fatalf("bytes at %d differ", off)
		}
	}
	_, err = sec.All()
	if want := fmt.Sprintf("%s: section %q at %d", ref.Name, "data", page*shelf.PageSize-start); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not say %q: %v", want, err)
	}
}

// TestUnreadablePage: a file that is cut short under its mapping raises a
// signal at the first touch, which becomes an error.
func TestUnreadablePage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are read whole there")
	}
	root := t.TempDir()
	s, err := shelf.Open(vfs.OS{}, root)
	must(t, err)
	ref := write(t, s, "v", section{"data", make([]byte, 200_000)})
	publish(t, s, "v", ref)
	snap := snapshot(t, s)
	files, err := snap.Files("v")
	must(t, err)
	sec, _ := files[0].Section("data")
	_, err = sec.Bytes(0, 100)
	must(t, err)
	must(t, os.Truncate(filepath.Join(root, ref.Name), 2*shelf.PageSize))
	_, err = sec.Bytes(100, 100) // of a page that was compared before
	must(t, err)
	_, err = sec.Bytes(100_000, 100)
	wantErr(t, "a page that is gone", err, shelf.ErrCorrupt)
	wantErr(t, "verify", snap.Verify(t.Context()), shelf.ErrCorrupt)
}

// TestBytesFromManyGoroutines is for the race detector.
func TestBytesFromManyGoroutines(t *testing.T) {
	rng := random(t)
	s := open(t, vfs.NewMem())
	data := randomBytes(rng, 40*shelf.PageSize)
	publish(t, s, "v", write(t, s, "v", section{"data", data}))
	files, err := snapshot(t, s).Files("v")
	must(t, err)
	sec, _ := files[0].Section("data")
	var wg sync.WaitGroup
	for range 4 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			for range 1000 {
				off := rng.IntN(len(data) - 100)
				b, err := sec.Bytes(off, 100)
				if err != nil || !bytes.Equal(b, data[off:off+100]) {
					t.Errorf("bytes at %d differ: %v", off, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWriterRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys)
	for what, use := range map[string]func(w *shelf.Writer){
		"bytes before a section": func(w *shelf.Writer) { w.Write([]byte("x")) },
		"one tag twice":          func(w *shelf.Writer) { w.Section("a"); w.Section("b"); w.Section("a") },
		"no tag":                 func(w *shelf.Writer) { w.Section("") },
		"a long tag":             func(w *shelf.Writer) { w.Section("seventeen-letters") },
		"a tag with spaces":      func(w *shelf.Writer) { w.Section("a b") },
		"too many sections": func(w *shelf.Writer) {
			for i := range 257 {
				w.Section(fmt.Sprint(i))
			}
		},
		"a finished writer": func(w *shelf.Writer) { w.Abort() },
	} {
		w, err := s.Create("v")
		must(t, err)
		use(w)
		if _, err := w.Write([]byte("after")); err == nil {
			t.Errorf("%s: written to", what)
		}
		if ref, err := w.Finish(); err == nil {
			t.Errorf("%s: finished as %v", what, ref)
		}
		if names := listed(t, fsys); len(names) != 0 {
			t.Errorf("%s: left are %q", what, names)
		}
	}
	w, err := s.Create("v")
	must(t, err)
	_, err = w.Finish()
	must(t, err)
	if err := w.Abort(); err != nil || len(listed(t, fsys)) != 1 {
		t.Errorf("an abort after the end: %v", err)
	}
	if _, err := w.Finish(); err == nil {
		t.Error("finished twice")
	}
}
