package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/vfs"
)

// systems are the file systems that keep the contract of FS, each with a
// directory that exists and is empty.
var systems = map[string]func(t *testing.T) (fsys vfs.FS, dir string){
	"os": func(t *testing.T) (vfs.FS, string) { return vfs.OS{}, filepath.ToSlash(t.TempDir()) },
	"mem": func(t *testing.T) (vfs.FS, string) {
		m := vfs.NewMem()
		must(t, m.MkdirAll("/base"))
		return m, "/base"
	},
	"fault that never fires": func(t *testing.T) (vfs.FS, string) {
		return vfs.FailAt(vfs.OS{}, 1<<30), filepath.ToSlash(t.TempDir())
	},
}

// TestFS holds every file system to the contract.
func TestFS(t *testing.T) {
	laws := map[string]func(t *testing.T, fsys vfs.FS, dir string){
		"files":       checkFiles,
		"append":      checkAppend,
		"truncate":    checkTruncate,
		"offsets":     checkOffsets,
		"missing":     checkMissing,
		"irregular":   checkIrregular,
		"read-only":   checkReadOnly,
		"closed":      checkClosed,
		"rename":      checkRename,
		"directories": checkDirectories,
		"map":         checkMap,
		"lock":        checkLock,
		"whole files": checkWholeFiles,
	}
	for system, open := range systems {
		for law, check := range laws {
			t.Run(system+"/"+law, func(t *testing.T) {
				fsys, dir := open(t)
				check(t, fsys, dir)
			})
		}
	}
}

func checkFiles(t *testing.T, fsys vfs.FS, dir string) {
	name := dir + "/a"
	for _, text := range []string{"first", "", "second and longer", "3"} {
		f, err := fsys.Create(name)
		must(t, err)
		n, err := f.Write([]byte(text))
		must(t, err)
		if n != len(text) {
			t.Errorf("wrote %d of %q", n, text)
		}
		must(t, f.Sync())
		must(t, f.Close())
		wantText(t, fsys, name, text)
		info, err := fsys.Stat(name)
		must(t, err)
		if info.Size() != int64(len(text)) || info.Name() != "a" || !info.Mode().IsRegular() {
			t.Errorf("stat says %s, %d bytes, %s", info.Name(), info.Size(), info.Mode())
		}
	}
	must(t, fsys.SyncDir(dir))
	must(t, fsys.Remove(name))
	wantErr(t, "open of a removed file", openErr(fsys.Open(name)), fs.ErrNotExist)
}

func checkAppend(t *testing.T, fsys vfs.FS, dir string) {
	name := dir + "/log"
	want := ""
	for _, text := range []string{"one ", "two ", "three"} {
		f, err := fsys.Append(name)
		must(t, err)
		b := make([]byte, 100)
		n, err := f.ReadAt(b, 0)
		if !errors.Is(err, io.EOF) || string(b[:n]) != want {
			t.Errorf("a file open for appending reads as %q, %v; want %q", b[:n], err, want)
		}
		_, err = f.Write([]byte(text))
		must(t, err)
		want += text
		must(t, f.Close())
		wantText(t, fsys, name, want)
	}
	first, err := fsys.Append(name)
	must(t, err)
	second, err := fsys.Append(name)
	must(t, err)
	for i, f := range []vfs.File{first, second, first, second} {
		text := string(rune('a' + i))
		_, err := f.Write([]byte(text))
		must(t, err)
		want += text
	}
	must(t, errors.Join(first.Close(), second.Close()))
	wantText(t, fsys, name, want)
}

func checkTruncate(t *testing.T, fsys vfs.FS, dir string) {
	name := dir + "/log"
	f, err := fsys.Append(name)
	must(t, err)
	defer f.Close()
	for _, step := range []struct {
		write string
		size  int64
		want  string
	}{
		{"0123456789", 10, "0123456789"},
		{"", 4, "0123"},
		{"xy", 6, "0123xy"},
		{"", 8, "0123xy\x00\x00"},
		{"z", 9, "0123xy\x00\x00z"},
		{"", 0, ""},
		{"end", 3, "end"},
	} {
		_, err := f.Write([]byte(step.write))
		must(t, err)
		must(t, f.Truncate(step.size))
		wantText(t, fsys, name, step.want)
	}
	if f.Truncate(-1) == nil {
		t.Error("a file was cut to a negative length")
	}
}

func checkOffsets(t *testing.T, fsys vfs.FS, dir string) {
	f, err := fsys.Create(dir + "/a")
	must(t, err)
	defer f.Close()
	_, err = f.Write([]byte("abc"))
	must(t, err)
	must(t, f.Truncate(1))
	_, err = f.Write([]byte("def")) // goes on where the file was left, not at its new end
	must(t, err)
	wantText(t, fsys, dir+"/a", "a\x00\x00def")

	r, err := fsys.Open(dir + "/a")
	must(t, err)
	defer r.Close()
	b := make([]byte, 2)
	for _, want := range []string{"a\x00", "\x00d", "ef"} {
		_, err := io.ReadFull(r, b)
		must(t, err)
		if string(b) != want {
			t.Errorf("read %q, want %q", b, want)
		}
	}
	if n, err := r.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the end reads as %d bytes, %v", n, err)
	}
	if n, err := r.ReadAt(b, 3); n != 2 || err != nil || string(b) != "de" {
		t.Errorf("at 3: %q, %d, %v", b, n, err)
	}
	if n, err := r.ReadAt(b, 5); n != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("past the end: %d, %v", n, err)
	}
	if _, err := r.ReadAt(b, -1); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("before the beginning: %v", err)
	}
}

func checkMissing(t *testing.T, fsys vfs.FS, dir string) {
	nowhere := dir + "/no/where"
	_, statErr := fsys.Stat(nowhere)
	_, listErr := fsys.ReadDir(nowhere)
	_, mapErr := fsys.Map(nowhere)
	_, lockErr := fsys.Lock(nowhere)
	for what, err := range map[string]error{
		"open":    openErr(fsys.Open(nowhere)),
		"create":  openErr(fsys.Create(nowhere)),
		"append":  openErr(fsys.Append(nowhere)),
		"rename":  fsys.Rename(nowhere, dir+"/x"),
		"remove":  fsys.Remove(nowhere),
		"stat":    statErr,
		"readdir": listErr,
		"map":     mapErr,
		"lock":    lockErr,
	} {
		wantErr(t, what, err, fs.ErrNotExist)
		if err != nil && !strings.Contains(err.Error(), "no/where") {
			t.Errorf("%s does not name the file: %v", what, err)
		}
	}
}

func checkIrregular(t *testing.T, fsys vfs.FS, dir string) {
	must(t, fsys.MkdirAll(dir+"/d"))
	_, mapErr := fsys.Map(dir + "/d")
	wantErr(t, "open of a directory", openErr(fsys.Open(dir+"/d")), vfs.ErrNotRegular)
	wantErr(t, "map of a directory", mapErr, vfs.ErrNotRegular)
	if openErr(fsys.Create(dir+"/d")) == nil || openErr(fsys.Append(dir+"/d")) == nil {
		t.Error("a directory was opened for writing")
	}
	if _, err := fsys.Lock(dir + "/d"); err == nil {
		t.Error("a directory was locked")
	}
	writeText(t, fsys, dir+"/f", "")
	if fsys.MkdirAll(dir+"/f/sub") == nil || fsys.MkdirAll(dir+"/f") == nil {
		t.Error("a directory was made of a file")
	}
	if _, err := fsys.ReadDir(dir + "/f"); err == nil {
		t.Error("a file was listed")
	}
	if openErr(fsys.Open(dir+"/f/sub")) == nil {
		t.Error("a file was found below a file")
	}
}

func checkReadOnly(t *testing.T, fsys vfs.FS, dir string) {
	writeText(t, fsys, dir+"/a", "text")
	f, err := fsys.Open(dir + "/a")
	must(t, err)
	defer f.Close()
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("a file open for reading was written")
	}
	if f.Truncate(0) == nil {
		t.Error("a file open for reading was cut")
	}
	wantText(t, fsys, dir+"/a", "text")
}

func checkClosed(t *testing.T, fsys vfs.FS, dir string) {
	f, err := fsys.Append(dir + "/a")
	must(t, err)
	must(t, f.Close())
	_, writeErr := f.Write([]byte("x"))
	_, readErr := f.Read(make([]byte, 1))
	_, atErr := f.ReadAt(make([]byte, 1), 0)
	_, statErr := f.Stat()
	for what, err := range map[string]error{
		"write": writeErr, "read": readErr, "readat": atErr, "stat": statErr,
		"sync": f.Sync(), "truncate": f.Truncate(0), "close": f.Close(),
	} {
		wantErr(t, what, err, fs.ErrClosed)
	}
}

func checkRename(t *testing.T, fsys vfs.FS, dir string) {
	writeText(t, fsys, dir+"/old", "old")
	writeText(t, fsys, dir+"/new", "new")
	reader, err := fsys.Open(dir + "/old")
	must(t, err)
	defer reader.Close()
	must(t, fsys.Rename(dir+"/new", dir+"/old"))
	wantText(t, fsys, dir+"/old", "new")
	wantErr(t, "open of the former name", openErr(fsys.Open(dir+"/new")), fs.ErrNotExist)
	if b, err := io.ReadAll(reader); err != nil || string(b) != "old" {
		t.Errorf("who reads a replaced file sees %q, %v", b, err)
	}
	must(t, fsys.Rename(dir+"/old", dir+"/old"))
	wantText(t, fsys, dir+"/old", "new")

	must(t, fsys.MkdirAll(dir+"/a/b"))
	must(t, fsys.Rename(dir+"/old", dir+"/a/b/moved"))
	must(t, fsys.Rename(dir+"/a", dir+"/z"))
	wantText(t, fsys, dir+"/z/b/moved", "new")
	if fsys.Rename(dir+"/z", dir+"/z/b/z") == nil {
		t.Error("a directory was moved into itself")
	}
	writeText(t, fsys, dir+"/file", "")
	if fsys.Rename(dir+"/file", dir+"/z") == nil || fsys.Rename(dir+"/z/b", dir+"/file") == nil {
		t.Error("a file and a directory took each other's place")
	}
}

func checkDirectories(t *testing.T, fsys vfs.FS, dir string) {
	must(t, fsys.MkdirAll(dir+"/x/y/z"))
	must(t, fsys.MkdirAll(dir+"/x/y"))
	for _, name := range []string{"b", "a", "C"} {
		writeText(t, fsys, dir+"/x/"+name, name)
	}
	list, err := fsys.ReadDir(dir + "/x")
	must(t, err)
	var got []string
	for _, d := range list {
		name := d.Name()
		if d.IsDir() {
			name += "/"
		}
		got = append(got, name)
	}
	if want := []string{"C", "a", "b", "y/"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if fsys.Remove(dir+"/x") == nil {
		t.Error("a full directory was removed")
	}
	must(t, fsys.Remove(dir+"/x/y/z"))
	must(t, fsys.Remove(dir+"/x/y"))
	_, err = fsys.Stat(dir + "/x/y")
	wantErr(t, "stat of a removed directory", err, fs.ErrNotExist)
	info, err := fsys.Stat(dir)
	must(t, err)
	if !info.IsDir() {
		t.Error("a directory is not one")
	}
}

func checkMap(t *testing.T, fsys vfs.FS, dir string) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 100_000} {
		want := bytes.Repeat([]byte{'m'}, size)
		must(t, vfs.WriteFile(fsys, dir+"/m", want))
		m, err := fsys.Map(dir + "/m")
		must(t, err)
		must(t, fsys.Remove(dir+"/m"))
		if !bytes.Equal(m.Bytes(), want) {
			t.Errorf("a mapping of %d bytes differs", size)
		}
		must(t, m.Close())
		must(t, m.Close())
	}
}

func checkLock(t *testing.T, fsys vfs.FS, dir string) {
	held, err := fsys.Lock(dir + "/lock")
	must(t, err)
	_, err = fsys.Lock(dir + "/lock")
	wantErr(t, "a second lock", err, vfs.ErrLocked)
	other, err := fsys.Lock(dir + "/other")
	must(t, err)
	must(t, held.Close())
	again, err := fsys.Lock(dir + "/lock")
	must(t, err)
	must(t, held.Close()) // closing twice must not release what somebody else holds
	_, err = fsys.Lock(dir + "/lock")
	wantErr(t, "a lock after a double close", err, vfs.ErrLocked)
	must(t, errors.Join(again.Close(), other.Close()))
}

func checkWholeFiles(t *testing.T, fsys vfs.FS, dir string) {
	name := dir + "/settings.json"
	for _, text := range []string{"one", "", "three, which is longer"} {
		must(t, vfs.WriteFile(fsys, name, []byte(text)))
		b, err := vfs.ReadFile(fsys, name, int64(len(text)))
		must(t, err)
		if string(b) != text {
			t.Errorf("read %q, want %q", b, text)
		}
		if len(text) > 0 {
			_, err = vfs.ReadFile(fsys, name, int64(len(text))-1)
			wantErr(t, "a file beyond the bound", err, vfs.ErrTooLarge)
		}
	}
	_, err := vfs.ReadFile(fsys, dir+"/none", 10)
	wantErr(t, "a missing file", err, fs.ErrNotExist)
	wantErr(t, "a missing directory", vfs.WriteFile(fsys, dir+"/none/x", nil), fs.ErrNotExist)
	list, err := fsys.ReadDir(dir)
	must(t, err)
	if len(list) != 1 {
		t.Errorf("%d names are left, want 1: %v", len(list), list)
	}
}

// TestMappingByReading: where files cannot be mapped they are read.
func TestMappingByReading(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "m"))
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("mapped")
	must(t, err)
	m, err := vfs.ReadMapping(f, 6)
	must(t, err)
	if string(m.Bytes()) != "mapped" {
		t.Errorf("read %q", m.Bytes())
	}
	must(t, m.Close())
	if _, err := vfs.ReadMapping(f, 7); err == nil {
		t.Error("a file that was cut short was mapped")
	}
}

// TestMemDoesWhatTheDiskDoes: one history leaves the same files in both.
func TestMemDoesWhatTheDiskDoes(t *testing.T) {
	rng := random(t)
	for range 30 {
		seed := rng.Uint64()
		m, dir := vfs.NewMem(), filepath.ToSlash(t.TempDir())
		history(t, rand.New(rand.NewPCG(seed, 0)), m, "", 40)
		history(t, rand.New(rand.NewPCG(seed, 0)), vfs.OS{}, dir, 40)
		want := tree(t, vfs.OS{}, dir)
		for i, line := range want {
			want[i] = strings.TrimPrefix(line, dir)
		}
		if got := tree(t, m, "/"); !slices.Equal(got, want) {
			t.Fatalf("history %d in memory:\n%q\non disk:\n%q", seed, got, want)
		}
	}
}

func TestTempNames(t *testing.T) {
	temp := vfs.TempName("/a/b.json")
	if filepath.ToSlash(filepath.Dir(temp)) != "/a" || !vfs.IsTemp(temp) || temp == vfs.TempName("/a/b.json") {
		t.Errorf("temporary name %s", temp)
	}
	for _, name := range []string{"/a/b.json", "b.tmp", "b.json.tmp", "/a/" + strings.Repeat("x", 26) + ".tmp", ".tmp", ""} {
		if vfs.IsTemp(name) {
			t.Errorf("%q was taken for a temporary name", name)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func openErr(f vfs.File, err error) error {
	if err == nil {
		err = f.Close()
		if err == nil {
			return nil
		}
	}
	return err
}

func writeText(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.Write([]byte(text))
	must(t, errors.Join(err, f.Close()))
}

func wantText(t *testing.T, fsys vfs.FS, name, want string) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	if string(b) != want {
		t.Errorf("%s holds %q, want %q", name, b, want)
	}
}
