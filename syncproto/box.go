package syncproto

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deja-node/deja/index/record"
)

// Box is a folder that several nodes share: a directory, or one on a server.
// All names in it are made by this package; a carrier refuses any other
// ([ValidBoxName]), so that no name of a peer becomes a path.
//
// Errors about missing files satisfy errors.Is(err, fs.ErrNotExist).
type Box interface {
	// List returns the regular files right in a directory, none when the
	// directory is missing. A box that is itself missing is an error.
	List(ctx context.Context, dir string) ([]Object, error)

	// Get returns the contents of a file that has exactly size bytes.
	Get(ctx context.Context, name string, size int64) ([]byte, error)

	// Put writes a file so that it is there as a whole or not at all. A file
	// that exists is replaced if that is wanted; else it is left alone, which
	// is success when it has the right size.
	Put(ctx context.Context, name string, data []byte, replace bool) error

	// Remove removes a file. A missing one is no error.
	Remove(ctx context.Context, name string) error
}

// Object is one file of a listing.
type Object struct {
	Name string // base name
	Size int64
	Mod  time.Time
}

// The layout of a mailbox; PROTOCOL.md describes it.
const (
	metaName  = "deja-mailbox.json"
	headsDir  = "heads"
	batchRoot = "b"

	packSize = 4 << 20             // a file is closed when the next batch would take it above
	maxFile  = packSize + maxBatch // a file that a reader takes
	maxHeads = 1 << 20             // a heads file
)

func headsName(n record.NodeID) string { return headsDir + "/" + n.String() + ".json" }

func batchDir(s record.StreamID) string { return batchRoot + "/" + s.String() }

// packed is a file of batches, back to back, of one stream.
type packed struct {
	stream      record.StreamID
	first, last record.Seq
	hash16      string // of the last batch's header
	rev         int    // how many of its entries are stubs
	size        int64
}

// base returns the file's name without the directory.
func (p packed) base() string {
	rev := ""
	if p.rev > 0 {
		rev = ".r" + strconv.Itoa(p.rev)
	}
	return fmt.Sprintf("%020d-%020d-%s%s.djb", uint64(p.first), uint64(p.last), p.hash16, rev)
}

func (p packed) name() string { return batchDir(p.stream) + "/" + p.base() }

var packedName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{20})-([0-9]{20})-([0-9a-f]{16})(?:\.r([1-9][0-9]{0,8}))?\.djb$`)
})

// parsePacked reads a base name. Anything but the exact form is not ours.
func parsePacked(s record.StreamID, o Object) (packed, bool) {
	m := packedName().FindStringSubmatch(o.Name)
	if m == nil {
		return packed{}, false
	}
	first, err1 := strconv.ParseUint(m[1], 10, 64)
	last, err2 := strconv.ParseUint(m[2], 10, 64)
	if err1 != nil || err2 != nil || first == 0 || first > last || last > maxSeq {
		return packed{}, false
	}
	p := packed{stream: s, first: record.Seq(first), last: record.Seq(last), hash16: m[3], size: o.Size}
	if m[4] != "" {
		rev, err := strconv.Atoi(m[4])
		if err != nil {
			return packed{}, false
		}
		p.rev = rev
	}
	return p, p.base() == o.Name
}

func parseHeadsName(base string) (record.NodeID, bool) {
	id, ok := strings.CutSuffix(base, ".json")
	if !ok {
		return record.NodeID{}, false
	}
	n, err := record.ParseNode(id)
	return n, err == nil && n.String() == id
}

// ValidBoxName reports whether a name belongs to the layout of a mailbox: the
// description, a heads file or a file of batches.
func ValidBoxName(name string) bool {
	if name == metaName {
		return true
	}
	dir, base, ok := cutLast(name)
	if !ok {
		return false
	}
	if dir == headsDir {
		_, ok := parseHeadsName(base)
		return ok
	}
	s, ok := parseBatchDir(dir)
	if !ok {
		return false
	}
	_, ok = parsePacked(s, Object{Name: base})
	return ok
}

// ValidBoxDir reports whether a directory belongs to the layout of a mailbox.
func ValidBoxDir(dir string) bool {
	if dir == "" || dir == headsDir {
		return true
	}
	_, ok := parseBatchDir(dir)
	return ok
}

func parseBatchDir(dir string) (record.StreamID, bool) {
	id, ok := strings.CutPrefix(dir, batchRoot+"/")
	if !ok {
		return record.StreamID{}, false
	}
	s, err := record.ParseStream(id)
	return s, err == nil && s.String() == id
}

func cutLast(name string) (dir, base string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// find returns the file that a reader takes for position seq: of those that
// hold it the one that reaches farthest, and of equal ones the one with the
// most stubs, which is the newest.
func find(files []packed, seq record.Seq) (packed, bool) {
	var best packed
	for _, f := range files {
		if f.first > seq || f.last < seq {
			continue
		}
		if c := cmp.Or(cmp.Compare(f.last, best.last), cmp.Compare(best.first, f.first), cmp.Compare(f.rev, best.rev)); best.last == 0 || c > 0 {
			best = f
		}
	}
	return best, best.last != 0
}

// spare returns the files that no reader needs, because others hold all that
// they hold.
func spare(files []packed) []packed {
	used := map[string]bool{}
	for seq := record.Seq(1); seq != 0; {
		if best, ok := find(files, seq); ok {
			used[best.base()] = true
			seq = best.last + 1
			continue
		}
		seq = nextFirst(files, seq)
	}
	return slices.DeleteFunc(slices.Clone(files), func(f packed) bool { return used[f.base()] })
}

// nextFirst returns where the nearest file above seq begins, 0 when there is none.
func nextFirst(files []packed, seq record.Seq) record.Seq {
	var next record.Seq
	for _, f := range files {
		if f.first > seq && (next == 0 || f.first < next) {
			next = f.first
		}
	}
	return next
}
