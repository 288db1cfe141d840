package sources

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/deja-node/deja/sources/jsonl"
)

// head is what the beginning of a file says of its relations.
type head struct {
	kin  []string  // files that name one thing alike are of one family
	born time.Time // when the session of the file began; zero when its head cannot tell
	late bool      // it speaks about other files, which must be read before
}

// Arrange puts files in the order to read them in: newest families first, so
// that what is searched for most is there early, and within a family originals
// before their copies, so that a turn is recorded where it was first said.
// Files that speak about older ones come last, oldest first. It reads the heads
// of the files. A file whose head cannot be read is alone in
// its family; decoding it will say why.
func (h *Handle) Arrange(ctx context.Context, files []File) ([]File, error) {
	heads := make([]head, len(files))
	family := make([]int, len(files)) // a forest: the root of a tree names the family
	names := map[string]int{}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		family[i] = i
		if h.source.head == nil {
			continue
		}
		var err error
		if heads[i], err = h.source.head(ctx, h, f); err != nil {
			heads[i] = head{}
		}
		for _, name := range heads[i].kin {
			if j, ok := names[name]; ok {
				family[root(family, i)] = root(family, j)
			} else {
				names[name] = i
			}
		}
	}
	return h.inOrder(files, heads, family), nil
}

func root(family []int, i int) int {
	for family[i] != i {
		family[i] = family[family[i]]
		i = family[i]
	}
	return i
}

func (h *Handle) inOrder(files []File, heads []head, family []int) []File {
	newest := map[int]time.Time{}
	size := map[int]int{}
	late := map[int]bool{}
	for i, f := range files {
		r := root(family, i)
		size[r]++
		late[r] = late[r] || heads[i].late
		if f.Modified.After(newest[r]) {
			newest[r] = f.Modified
		}
	}
	type member struct {
		File
		root int
		age  time.Time
	}
	members := make([]member, len(files))
	for i, f := range files {
		r := root(family, i)
		f.Family = files[r].Key
		members[i] = member{File: f, root: r, age: heads[i].born}
		if size[r] > 1 && members[i].age.IsZero() {
			members[i].age = h.lastTime(f)
		}
	}
	slices.SortStableFunc(members, func(a, b member) int {
		recent := newest[b.root].Compare(newest[a.root])
		switch {
		case late[a.root] && !late[b.root]:
			return 1
		case late[b.root] && !late[a.root]:
			return -1
		case late[a.root]:
			recent = -recent
		}
		return cmp.Or(
			recent, cmp.Compare(a.root, b.root),
			a.age.Compare(b.age), cmp.Compare(a.Size, b.Size), strings.Compare(a.Key, b.Key),
		)
	})
	ordered := make([]File, len(members))
	for i, m := range members {
		ordered[i] = m.File
	}
	return ordered
}

// How much of a file's beginning and end is looked at.
const (
	headBytes = 1 << 20
	tailBytes = 64 << 10
)

// headLines calls f for the lines of a file's beginning until it has enough.
func (h *Handle) headLines(ctx context.Context, file File, f func(*fastjson.Value) (enough bool)) (err error) {
	r, err := h.open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	content, done, err := expand(file, r)
	if err != nil {
		return err
	}
	defer done()
	lines := bufio.NewReaderSize(io.LimitReader(content, headBytes), 8<<10)
	p := parsers.Get().(*lineParser) //nolint:errcheck // the pool holds nothing else
	defer p.release()
	for ctx.Err() == nil {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		v, err := p.parse(jsonl.Trim(line))
		if err == nil && v.Type() == fastjson.TypeObject && f(v) {
			return nil
		}
	}
	return context.Cause(ctx)
}

// lastTime is the time of the last line of a file that has one. Of two files
// that share a beginning, the one that ended first is the original.
func (h *Handle) lastTime(f File) (last time.Time) {
	if compressed(f) {
		return last
	}
	file, err := h.open(f)
	if err != nil {
		return last
	}
	defer file.Close() //nolint:errcheck // nothing was written
	buf := make([]byte, min(f.Size, tailBytes))
	n, err := file.ReadAt(buf, f.Size-int64(len(buf)))
	if err != nil && !errors.Is(err, io.EOF) {
		return last
	}
	p := parsers.Get().(*lineParser) //nolint:errcheck // the pool holds nothing else
	defer p.release()
	for line := range strings.Lines(string(buf[:n])) {
		if v, err := p.parse(jsonl.Trim([]byte(line))); err == nil {
			if t := timeOf(get(v, "timestamp")); t.After(last) {
				last = t
			}
		}
	}
	return last
}

// claudeHead finds the first message of a transcript, which copies share, and
// the sessions it names.
func claudeHead(ctx context.Context, h *Handle, f File) (head, error) {
	var found head
	err := h.headLines(ctx, f, func(v *fastjson.Value) bool {
		switch string(raw(get(v, "type"))) {
		case "user", "assistant":
		case "summary":
			found.late = true
			return false
		default:
			return false
		}
		dir, _, _ := strings.Cut(f.Rel, "/")
		if uuid := raw(get(v, "uuid")); len(uuid) > 0 {
			found.kin = append(found.kin, dir+"/"+string(uuid))
		}
		if isTrue(get(v, "isSidechain")) {
			return true
		}
		for _, session := range [][]byte{raw(get(v, "sessionId")), raw(get(get(v, "forkedFrom"), "sessionId"))} {
			if len(session) > 0 {
				found.kin = append(found.kin, "session "+string(session))
			}
		}
		return true
	})
	return found, err
}
