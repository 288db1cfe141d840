package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
	"github.com/deja-node/deja/peers"
	"github.com/deja-node/deja/peers/mailbox"
	"github.com/deja-node/deja/syncproto"
	"github.com/deja-node/deja/syncproto/v1"
)

// ExportOptions say what goes into a folder.
type ExportOptions struct {
	Dir     string
	Peer    string // only what this name was not given before; empty remembers nothing
	Full    bool   // with Peer: everything again
	Batches bool   // signed batches instead of lines
}

// Transfer says what an export or an import moved.
type Transfer struct {
	Records  int
	Files    int
	Had      int
	Problems []string
}

// Export writes this node's history into a folder: signed batches in the
// layout of a mailbox, or one file of lines that older versions import.
func (n *Node) Export(ctx context.Context, opt ExportOptions) (Transfer, error) {
	if n.cfg.NoRedact {
		return Transfer{}, ErrNoRedact
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return Transfer{}, err
	}
	if opt.Batches {
		rep, err := n.mirrorFolder(ctx, opt.Dir, syncproto.Push)
		return Transfer{Records: int(rep.Sent.Records), Files: rep.Sent.Batches}, err
	}
	given, err := n.given(opt)
	if err != nil {
		return Transfer{}, err
	}
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return Transfer{}, err
	}
	var out Transfer
	name := v1.NameOf(n.id.Node.String(), n.host.Now())
	made, err := v1.Create(n.fs, filepath.ToSlash(dir), name, func(w *v1.Writer) error {
		return index.EachOwnLine(ctx, n.indexOptions(), given, func(line []byte) error {
			out.Records++
			return w.Line(line)
		})
	})
	if made {
		out.Files = 1
	}
	if err == nil && opt.Peer != "" {
		err = n.saveGiven(opt.Peer, given)
	}
	return out, err
}

// mirrorFolder exchanges with a folder that nobody keeps a row for.
func (n *Node) mirrorFolder(ctx context.Context, dir string, mode syncproto.Mode) (rep syncproto.Report, err error) {
	box, err := mailbox.Dir(dir, mailbox.Options{Name: dir, Tag: n.id.Node.Short()})
	if err != nil {
		return rep, err
	}
	store, err := n.store()
	if err != nil {
		return rep, errors.Join(err, box.Close())
	}
	rep, err = syncproto.Mirror(ctx, box, store, syncproto.MirrorConfig{Key: n.id.Key, Name: dir, Mode: mode, Now: n.host.Now()}, &syncproto.BoxState{})
	return rep, errors.Join(err, store.Close(), box.Close())
}

// given is what a name was given before, by stream.
func (n *Node) given(opt ExportOptions) (map[record.StreamID]record.Seq, error) {
	out := map[record.StreamID]record.Seq{}
	if opt.Peer == "" || opt.Full {
		return out, nil
	}
	data, err := vfs.ReadFile(n.fs, n.givenPath(opt.Peer), maxBoxState)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("%s: %w: --full exports everything again", n.givenPath(opt.Peer), err)
	}
	return out, nil
}

func (n *Node) givenPath(name string) string {
	return path.Join(n.stateDir(), "exports", peerKey(peers.Peer{Host: name})+".json")
}

func (n *Node) saveGiven(name string, given map[record.StreamID]record.Seq) error {
	data, err := json.Marshal(given)
	if err != nil {
		return err
	}
	file := n.givenPath(name)
	if err := n.fs.MkdirAll(path.Dir(file)); err != nil {
		return err
	}
	return vfs.WriteFile(n.fs, file, data)
}

// Import takes in what a folder holds: batches in the layout of a mailbox, and
// files of lines. Lines carry no signature: what they say of their origin is
// shown as a claim, and never put before an agent unasked.
func (n *Node) Import(ctx context.Context, dir string) (Transfer, error) {
	if n.cfg.NoRedact {
		return Transfer{}, ErrNoRedact
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Transfer{}, err
	}
	files, err := v1.Files(n.fs, filepath.ToSlash(abs))
	if err != nil {
		return Transfer{}, err
	}
	var out Transfer
	if _, err := n.fs.Stat(filepath.ToSlash(filepath.Join(abs, "deja-mailbox.json"))); err == nil {
		rep, err := n.mirrorFolder(ctx, abs, syncproto.Pull)
		out.Records, out.Had, out.Files = int(rep.Received.Records), int(rep.Received.Had), rep.Received.Batches
		for _, r := range rep.Refused {
			out.Problems = append(out.Problems, r.Error())
		}
		if err != nil {
			return out, err
		}
		if err := n.catchUp(ctx); err != nil {
			return out, err
		}
	}
	if len(files) == 0 {
		return out, nil
	}
	return out, n.importLines(ctx, filepath.ToSlash(abs), files, &out)
}

func (n *Node) importLines(ctx context.Context, dir string, files []v1.Name, out *Transfer) (err error) {
	w, err := index.OpenWriter(ctx, n.indexOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, name := range files {
		if err := n.importFile(ctx, w, dir, name, out); err != nil {
			return err
		}
		if err := w.Commit(ctx); err != nil {
			return err
		}
	}
	return w.Publish(ctx)
}

func (n *Node) importFile(ctx context.Context, w *index.Writer, dir string, name v1.Name, out *Transfer) error {
	f, err := v1.Open(n.fs, dir, name)
	if err != nil {
		return err
	}
	r := v1.NewReader(f)
	for rec, err := range r.Records(ctx) {
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if rec.Kind == record.KindSession {
			continue // metadata without turns; the turns name their project
		}
		added, err := w.Import(ctx, rec.Origin, index.Imported{
			Key: rec.Key, Project: rec.Project, Role: rec.Turn.Role, Time: rec.Turn.Time, Text: rec.Turn.Text,
		})
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if added {
			out.Records++
		} else {
			out.Had++
		}
	}
	out.Files++
	s := r.Summary()
	for _, p := range s.Problems {
		out.Problems = append(out.Problems, fmt.Sprintf("%s line %d: %s", name, p.Line, p.Why))
	}
	if s.Torn || s.Short {
		out.Problems = append(out.Problems, fmt.Sprintf("%s: cut short: what is there was imported, the rest is missing", name))
	}
	return f.Close()
}
