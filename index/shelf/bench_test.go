package shelf_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
	"github.com/deja-node/deja/index/vfs"
)

// benchShelf publishes n files of the given size on the real disk.
func benchShelf(b *testing.B, n, size int) string {
	root := path.Join(b.TempDir(), "index")
	s, err := shelf.Open(vfs.OS{}, root)
	must(b, err)
	rng := rand.New(rand.NewPCG(1, 1))
	var files []shelf.FileRef
	for range n {
		files = append(files, write(b, s, "v", section{"data", randomBytes(rng, size)}))
	}
	publish(b, s, "v", files...)
	return root
}

func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{1, 20} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			root := benchShelf(b, n, 1<<20)
			for b.Loop() {
				s, err := shelf.Open(vfs.OS{}, root)
				must(b, err)
				snap, err := s.Snapshot()
				must(b, err)
				must(b, snap.Close())
			}
		})
	}
}

func BenchmarkSnapshotOfLargeFile(b *testing.B) {
	root := benchShelf(b, 1, 256<<20)
	for b.Loop() {
		s, err := shelf.Open(vfs.OS{}, root)
		must(b, err)
		snap, err := s.Snapshot()
		must(b, err)
		must(b, snap.Close())
	}
}

func BenchmarkBytes(b *testing.B) {
	s, err := shelf.Open(vfs.OS{}, benchShelf(b, 1, 8<<20))
	must(b, err)
	snap, err := s.Snapshot()
	must(b, err)
	defer snap.Close()
	files, err := snap.Files("v")
	must(b, err)
	sec, _ := files[0].Section("data")
	read := func(b *testing.B, n int) {
		off := 0
		for b.Loop() {
			if _, err := sec.Bytes(off, n); err != nil {
				b.Fatal(err)
			}
			off = (off + 7919) & (4<<20 - 1)
		}
	}
	_, err = sec.All()
	must(b, err)
	b.Run("hit", func(b *testing.B) { read(b, 16) })
	b.Run("hit of 64 pages", func(b *testing.B) { read(b, 1<<20) })
}

func BenchmarkFirstTouch(b *testing.B) {
	root := benchShelf(b, 1, 8<<20)
	b.SetBytes(8 << 20)
	for b.Loop() {
		s, err := shelf.Open(vfs.OS{}, root)
		must(b, err)
		snap, err := s.Snapshot()
		must(b, err)
		must(b, snap.Verify(b.Context()))
		must(b, snap.Close())
	}
}

func BenchmarkWriter(b *testing.B) {
	s, err := shelf.Open(vfs.OS{}, path.Join(b.TempDir(), "index"))
	must(b, err)
	data := randomBytes(rand.New(rand.NewPCG(1, 1)), 4<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		w, err := s.Create("v")
		must(b, err)
		w.Section("data")
		for at := 0; at < len(data); at += 4096 {
			_, err := w.Write(data[at : at+4096])
			must(b, err)
		}
		must(b, w.Abort())
	}
}

func BenchmarkManifest(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	views := map[string]shelf.State{}
	for i := range 4 {
		st := shelf.State{Version: 1, Known: record.Frontier{}}
		for range 30 {
			var id record.StreamID
			copy(id.Node[:], randomBytes(rng, 20))
			st.Known[id] = record.Head{Seq: record.Seq(rng.Uint64N(1e6))}
		}
		for k := range 10 {
			st.Files = append(st.Files, shelf.FileRef{Name: fmt.Sprintf("view%d-abcdefghijklmno%d.shelf", i, k), Size: 1 << 20, Weight: 1 << 10})
		}
		views[fmt.Sprintf("view%d", i)] = st
	}
	raw := shelf.EncodeManifest(1, views)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		_, _, err := shelf.ParseManifest(raw)
		must(b, err)
	}
}
