package postings

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/deja-node/deja/index/record"
)

// Dump writes everything that the view knows as lines of text, in an order
// that depends on the entries alone: two views that know the same entries give
// the same dump, however they are spread over files. It reads every byte and
// compares what is stored twice, so that without an error the view is sound.
func (r *Reader) Dump(ctx context.Context, w io.Writer) error {
	d := dumper{Reader: r, w: bufio.NewWriter(w), turns: make([][kinds]uint32, len(r.threads))}
	for _, step := range []func(context.Context) error{d.docs, d.sums, d.terms} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.w.Flush()
}

// dumper writes a dump. The writer keeps its first error for Flush.
type dumper struct {
	*Reader
	w     *bufio.Writer
	turns [][kinds]uint32 // that were met in each thread
}

func (d *dumper) printf(format string, args ...any) {
	fmt.Fprintf(d.w, format, args...) //nolint:errcheck // Flush returns it
}

// stretch is a range of one file.
type stretch struct {
	docRange
	part  *part
	start uint32 // its first doc
}

// stretches are all ranges in the order of streams and positions.
func (r *Reader) stretches() []stretch {
	var out []stretch
	for i := range r.parts {
		p := &r.parts[i]
		for k, dr := range p.file.ranges {
			dr.stream = p.streams[dr.stream]
			out = append(out, stretch{dr, p, p.starts[k]})
		}
	}
	slices.SortFunc(out, func(a, b stretch) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.first, b.first))
	})
	return out
}

func (d *dumper) docs(ctx context.Context) error {
	for _, s := range d.stretches() {
		for n := range s.count {
			if n%4096 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			x, err := s.part.doc(s.start + n)
			if err != nil {
				return err
			}
			seq := s.first + record.Seq(n)
			if x.thread == noThread {
				d.printf("doc %s %d -\n", d.streams[s.stream], seq)
				continue
			}
			kind, t := kindOf(x.role), d.union.threads[x.thread]
			if t.stream != s.stream || x.place&maxPlace != d.turns[x.thread][kind]&maxPlace {
				return corrupt(s.part.f, "doc of another thread")
			}
			d.turns[x.thread][kind]++
			d.printf("doc %s %d %s role %d place %d size %d\n", d.streams[s.stream], seq, t.session, x.role, x.place, x.size)
		}
	}
	return nil
}

func (d *dumper) sums(context.Context) error {
	for i, t := range d.union.threads {
		if t.turns != d.turns[i] {
			return corrupt(d.parts[0].f, "thread with other turns")
		}
		d.printf("thread %s %s turns %v tokens %v\n", t.session, d.streams[t.stream], t.turns, t.tokens)
	}
	return nil
}

func (d *dumper) terms(ctx context.Context) error {
	files := make([]*file, len(d.parts))
	for i := range d.parts {
		files[i] = d.parts[i].file
	}
	m, err := startDictionary(files)
	if err != nil {
		return err
	}
	for n := 0; m.next(); n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for k, name := range [kinds]string{speech: "speech", work: "work"} {
			if err := d.list(m, k, name); err != nil {
				return err
			}
		}
	}
	return m.err
}

func (d *dumper) list(m *dictionary, kind int, name string) error {
	type entry struct {
		pos record.Pos
		tf  uint32
	}
	var list []entry
	err := m.each(kind, func(file int, n, tf uint32) error {
		p := &d.parts[file]
		x, err := p.doc(n)
		if err == nil && (x.thread == noThread || kindOf(x.role) != kind) {
			err = corrupt(p.f, "list of another kind")
		}
		list = append(list, entry{p.pos(n), tf})
		return err
	})
	if err != nil || len(list) == 0 {
		return err
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(a.pos.Stream.Compare(b.pos.Stream), cmp.Compare(a.pos.Seq, b.pos.Seq))
	})
	d.printf("term %q %s", m.term, name)
	for _, e := range list {
		d.printf(" %s/%d:%d", e.pos.Stream.Node.Short(), e.pos.Seq, e.tf)
	}
	d.printf("\n")
	return nil
}
