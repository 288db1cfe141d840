package mailbox_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/sftp"

	"github.com/deja-node/deja/peers/mailbox"
	"github.com/deja-node/deja/syncproto"
)

// dialSFTP connects a client to a server that runs in this process. The extensions
// are what the server claims to have; nil stands for all that the library has.
func dialSFTP(t testing.TB, serve func(link syncproto.Link) error, extensions []string) *sftp.Client {
	t.Helper()
	if extensions != nil {
		if err := sftp.SetSFTPExtensions(extensions...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sftp.SetSFTPExtensions("hardlink@openssh.com", "posix-rename@openssh.com", "statvfs@openssh.com"); err != nil {
				t.Error(err)
			}
		})
	}
	near, far := syncproto.Pipe()
	done := make(chan error, 1)
	go func() { done <- serve(far) }()
	client, err := sftp.NewClientPipe(near, near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close() //nolint:errcheck // the server's end is what is waited for
		<-done
	})
	return client
}

// serveDisk is a server over the files of this machine.
func serveDisk(link syncproto.Link) error {
	s, err := sftp.NewServer(link)
	if err != nil {
		return err
	}
	return s.Serve()
}

// serveMemory is a server over handlers.
func serveMemory(h sftp.Handlers) func(syncproto.Link) error {
	return func(link syncproto.Link) error { return sftp.NewRequestServer(link, h).Serve() }
}

func TestSFTP(t *testing.T) {
	for _, tt := range []struct {
		name       string
		extensions []string
	}{
		{"all extensions", nil},
		{"no extensions", []string{}},
	} {
		t.Run("disk, "+tt.name, func(t *testing.T) {
			conform(t, func(t *testing.T) carrier {
				path := t.TempDir()
				open := func(tag string) *mailbox.Box {
					return mailbox.SFTP(dialSFTP(t, serveDisk, tt.extensions), path, mailbox.Options{Name: "nas", Tag: tag})
				}
				return carrier{box: open("first"), path: path, open: open}
			})
		})
		t.Run("memory, "+tt.name, func(t *testing.T) {
			conform(t, func(t *testing.T) carrier {
				h := sftp.InMemHandler() // renaming onto a file fails, as it should
				open := func(tag string) *mailbox.Box {
					return mailbox.SFTP(dialSFTP(t, serveMemory(h), tt.extensions), "/", mailbox.Options{Name: "nas", Tag: tag})
				}
				return carrier{box: open("first"), open: open}
			})
		})
	}
}

func TestSFTPMissingRoot(t *testing.T) {
	box := mailbox.SFTP(dialSFTP(t, serveMemory(sftp.InMemHandler()), nil), "/gone", mailbox.Options{Name: "nas"})
	if names, err := box.List(t.Context(), "heads"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing mailbox lists %v, %v", names, err)
	}
}

// odd is a server with a quirk.
type odd struct {
	sftp.Handlers
	cmd  func(r *sftp.Request, next sftp.FileCmder) error
	full bool
}

func (o *odd) handlers() sftp.Handlers {
	h := o.Handlers
	h.FileCmd = &oddCmd{o}
	h.FilePut = &oddPut{o}
	return h
}

type oddCmd struct{ o *odd }

func (c *oddCmd) Filecmd(r *sftp.Request) error {
	if c.o.cmd != nil {
		return c.o.cmd(r, c.o.FileCmd)
	}
	return c.o.FileCmd.Filecmd(r)
}

func (c *oddCmd) StatVFS(*sftp.Request) (*sftp.StatVFS, error) {
	return &sftp.StatVFS{Bsize: 512, Frsize: 512, Blocks: 100, Bfree: 10, Bavail: 10}, nil
}

type oddPut struct{ o *odd }

func (p *oddPut) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	inner, err := p.o.FilePut.Filewrite(r)
	if err != nil || !p.o.full {
		return inner, err
	}
	return &quota{inner, 5120}, nil
}

// quota fails writes above a limit, the way SFTP tells it: with no reason.
type quota struct {
	w     io.WriterAt
	limit int64
}

func (q *quota) WriteAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > q.limit {
		return 0, errors.New("failure")
	}
	return q.w.WriteAt(b, off)
}

// A full server is recognised by its free space, and nothing half is left.
func TestSFTPFull(t *testing.T) {
	o := &odd{Handlers: sftp.InMemHandler(), full: true}
	box := mailbox.SFTP(dialSFTP(t, serveMemory(o.handlers()), nil), "/", mailbox.Options{Name: "nas", Tag: "first"})
	err := box.Put(t.Context(), batchName(1, 1), make([]byte, 1<<20), false)
	full, ok := errors.AsType[*mailbox.FullError](err)
	if !ok || full.Box != "nas" || full.Path != batchName(1, 1) || full.Need != 1<<20 || full.Free != 5120 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"nas", batchName(1, 1), "1048576 bytes", "5120 bytes are free"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if names := list(t, box, dir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	o.full = false
	put(t, box, batchName(1, 1), make([]byte, 1<<20), false)
}

// Servers differ in what renaming does. Whatever it is, no file is lost and no
// half one is seen.
func TestSFTPRenames(t *testing.T) {
	over := errors.New("the name is taken")
	aside := "" // where the old file was put
	for _, tt := range []struct {
		name string
		cmd  func(r *sftp.Request, next sftp.FileCmder) error
		fail bool
	}{
		{"onto a file fails", nil, false},
		{"unsupported", func(r *sftp.Request, next sftp.FileCmder) error {
			if r.Method == "Rename" {
				return sftp.ErrSSHFxOpUnsupported
			}
			return next.Filecmd(r)
		}, true},
		{"fails for the new file only", func(r *sftp.Request, next sftp.FileCmder) error {
			if r.Method == "Rename" && strings.HasSuffix(r.Filepath, ".json") {
				aside = r.Target
			}
			if r.Method == "Rename" && strings.HasSuffix(r.Target, ".json") && r.Filepath != aside {
				return over
			}
			return next.Filecmd(r)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &odd{Handlers: sftp.InMemHandler()}
			client := dialSFTP(t, serveMemory(o.handlers()), []string{})
			box := mailbox.SFTP(client, "/", mailbox.Options{Name: "nas", Tag: "first"})
			put(t, box, heads, []byte("old"), true)
			o.cmd = tt.cmd
			if err := box.Put(t.Context(), heads, []byte("newer"), true); (err != nil) != tt.fail {
				t.Errorf("got %v", err)
			}
			want := "newer"
			if tt.fail {
				want = "old"
			}
			if got := get(t, box, heads, len(want)); string(got) != want {
				t.Errorf("it holds %q", got)
			}
			o.cmd = nil
			put(t, box, heads, []byte("newest"), true)
			if names := list(t, box, "heads"); len(names) != 1 {
				t.Errorf("heads holds %v", names)
			}
		})
	}
}

// A server that hangs is left by closing its connection.
func TestSFTPHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &odd{Handlers: sftp.InMemHandler()}
		hang := make(chan struct{})
		client := dialSFTP(t, serveMemory(o.handlers()), nil)
		box := mailbox.SFTP(client, "/", mailbox.Options{Name: "nas", Tag: "first"})
		put(t, box, heads, []byte("old"), true)
		o.cmd = func(*sftp.Request, sftp.FileCmder) error {
			<-hang
			return os.ErrClosed
		}
		time.AfterFunc(time.Minute, func() { client.Close() }) //nolint:errcheck // it ends the call below
		start := time.Now()
		err := box.Put(t.Context(), batchName(1, 1), []byte("x"), false)
		if err == nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(hang)
	})
}

// BenchmarkSFTPPut measures a file of the usual size against a server in this process.
func BenchmarkSFTPPut(b *testing.B) {
	box := mailbox.SFTP(dialSFTP(b, serveDisk, nil), b.TempDir(), mailbox.Options{Name: "nas", Tag: "first"})
	data := make([]byte, 4<<20)
	b.SetBytes(int64(len(data)))
	n := 0
	for b.Loop() {
		n++
		if err := box.Put(b.Context(), batchName(n, n), data, false); err != nil {
			b.Fatal(err)
		}
	}
}
