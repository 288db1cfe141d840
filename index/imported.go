package index

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/syncproto/batch"
)

// Imported is one record of a file of lines. It carries no signature.
type Imported struct {
	Key     record.SessionKey
	Project string
	Role    record.Role
	Time    time.Time
	Text    string
}

// importedMark begins the session id of what came without a signature. It is
// set here and by nobody else: a transcript that uses it itself only lowers
// its own trust.
const importedMark = "imported/"

// importedLevel is how far unsigned history surfaces.
const importedLevel = policy.MCP

// Import logs one unsigned record under the origin that it claims. It reports
// false when the log holds it, as an import or as this node's own.
func (w *Writer) Import(ctx context.Context, origin string, rec Imported) (bool, error) {
	if w.Holds(rec.Key.Harness).Turn(rec.Key.Native, rec.Role, rec.Time, rec.Text) {
		return false, w.broken
	}
	r := w.Begin(ReadingOptions{Harness: name(rec.Key.Harness)})
	native := importedMark + strings.ReplaceAll(name(origin), "/", "_") + "/" + rec.Key.Native
	st := r.session(native)
	st.project = w.label(rec.Project, maxLabel)
	st.excluded = !w.opt.Policy.MayIngest(rec.Project, "")
	if err := r.Turn(ctx, record.Turn{Session: native, Role: rec.Role, Time: rec.Time, Text: rec.Text}); err != nil {
		return false, err
	}
	return r.counts.Added > 0, nil
}

// claimed takes apart the session id of an unsigned record.
func claimed(key record.SessionKey) (origin, native string, ok bool) {
	rest, ok := strings.CutPrefix(key.Native, importedMark)
	if !ok {
		return "", "", false
	}
	origin, native, ok = strings.Cut(rest, "/")
	return origin, native, ok
}

// level is how far a session may surface: by its origin, and for what came
// without a signature at most so far.
func (m *Memory) level(origin record.NodeID, key record.SessionKey) policy.Level {
	l := m.opt.Policy.Inject(origin)
	if _, _, ok := claimed(key); ok {
		l = min(l, importedLevel)
	}
	return l
}

// EachOwnLine passes the lines of this node's own history that came after what
// is in from, and moves from on. What was imported and what was taken back is
// left out.
func EachOwnLine(ctx context.Context, opt Options, from map[record.StreamID]record.Seq, yield func(line []byte) error) error {
	m, err := Open(opt, nil)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // it was only read
	streams, err := m.log.Streams()
	if err != nil {
		return err
	}
	var buf []byte
	for _, s := range streams {
		if s.Node != opt.Stream.Node {
			continue
		}
		for chunk, err := range m.log.Read(ctx, s, from[s]+1) {
			if err != nil {
				return err
			}
			for i := range chunk.Entries {
				e := &chunk.Entries[i]
				at := record.Pos{Stream: s, Seq: chunk.First + record.Seq(i)}
				from[s] = at.Seq
				if e.Kind == record.KindStub || strings.HasPrefix(e.Session, importedMark) || m.cat.Superseded(at) {
					continue
				}
				buf = batch.AppendEntry(buf[:0], e)
				if err := yield(bytes.Clone(buf)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
