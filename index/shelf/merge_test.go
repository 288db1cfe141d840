package shelf_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/deja-node/deja/index/shelf"
)

// arrivals are the ways in which files come to a view.
var arrivals = map[string]func(rng *rand.Rand, i int) uint64{
	"all alike":        func(*rand.Rand, int) uint64 { return 1 },
	"all heavy":        func(*rand.Rand, int) uint64 { return 1 << 40 },
	"uniform":          func(rng *rand.Rand, _ int) uint64 { return 1 + rng.Uint64N(1000) },
	"heavy tail":       func(rng *rand.Rand, _ int) uint64 { return uint64(math.Pow(rng.Float64(), -1.2)) },
	"weightless":       func(rng *rand.Rand, _ int) uint64 { return rng.Uint64N(2) },
	"by turns":         func(_ *rand.Rand, i int) uint64 { return 1 + uint64(i%2)*4096 },
	"growing":          func(_ *rand.Rand, i int) uint64 { return uint64(i + 1) },
	"shrinking":        func(_ *rand.Rand, i int) uint64 { return uint64(max(1, 5000-i)) },
	"ruler":            func(_ *rand.Rand, i int) uint64 { return 1 << (2 * bits.TrailingZeros(uint(i+1))) },
	"a heap, then few": func(rng *rand.Rand, i int) uint64 { return max(1, uint64(100_000)>>min(i, 40)) + rng.Uint64N(2) },
}

// TestPickMergeLaw: whatever the weights, files stay few and entries are
// rewritten seldom.
func TestPickMergeLaw(t *testing.T) {
	rng := random(t)
	for name, weight := range arrivals {
		t.Run(name, func(t *testing.T) {
			var files []shelf.FileRef
			var total, written uint64
			for i := range 5000 {
				w := weight(rng, i)
				total += max(w, 1)
				written += max(w, 1)
				files = append(files, shelf.FileRef{Name: fmt.Sprintf("%d-%d", i, i), Weight: w})
				for {
					picked := shelf.PickMerge(files)
					if picked == nil {
						break
					}
					var cost uint64
					files, cost = merge(t, files, picked)
					written += cost
				}
				classes := 1 + math.Floor(math.Log2(float64(total))/3)
				if len(files) > int(7*classes) {
					t.Fatalf("%d files of weight %d in all", len(files), total)
				}
				if float64(written) > float64(total)*(2*classes+1) {
					t.Fatalf("%d written for a weight of %d", written, total)
				}
			}
			t.Logf("%d files at the end, each entry written %.1f times", len(files), float64(written)/float64(total))
			checkAges(t, files)
		})
	}
}

// merge replaces the picked files by one whose name says from which to which
// arrival it reaches.
func merge(t *testing.T, files []shelf.FileRef, picked []int) ([]shelf.FileRef, uint64) {
	t.Helper()
	if len(picked) < 2 {
		t.Fatalf("%d files picked", len(picked))
	}
	var sum uint64
	for i, at := range picked {
		if at != picked[0]+i || at < 0 || at >= len(files) {
			t.Fatalf("picked %v of %d files: no neighbours in order", picked, len(files))
		}
		sum += max(files[at].Weight, 1)
	}
	first, end := picked[0], picked[0]+len(picked)
	var from, to, skip int
	scan(t, files[first].Name, &from, &skip)
	scan(t, files[end-1].Name, &skip, &to)
	one := shelf.FileRef{Name: fmt.Sprintf("%d-%d", from, to), Weight: sum}
	return slices.Concat(files[:first], []shelf.FileRef{one}, files[end:]), sum
}

func scan(t *testing.T, name string, from, to *int) {
	t.Helper()
	_, err := fmt.Sscanf(name, "%d-%d", from, to)
	must(t, err)
}

// checkAges: the files still are the arrivals in order.
func checkAges(t *testing.T, files []shelf.FileRef) {
	t.Helper()
	next := 0
	for _, f := range files {
		var from, to int
		scan(t, f.Name, &from, &to)
		if from != next || to < from {
			t.Fatalf("file %s where arrival %d should be", f.Name, next)
		}
		next = to + 1
	}
}

func TestPickMergeExamples(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []uint64
		want    []int
	}{
		{"nothing", nil, nil},
		{"one", []uint64{5}, nil},
		{"seven of a class", []uint64{1, 2, 3, 4, 5, 6, 7}, nil},
		{"eight of a class", []uint64{1, 2, 3, 4, 5, 6, 7, 1}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"eight after heavier ones", []uint64{900, 70, 1, 1, 1, 1, 1, 1, 1, 1}, []int{2, 3, 4, 5, 6, 7, 8, 9}},
		{"falling classes", []uint64{5000, 600, 70, 8, 1}, nil},
		{"a heavy one comes", []uint64{5000, 70, 8, 1, 600}, []int{1, 2, 3, 4}},
		{"the heaviest first", []uint64{1, 8, 1, 64}, []int{0, 1, 2, 3}},
	} {
		var files []shelf.FileRef
		for _, w := range c.weights {
			files = append(files, shelf.FileRef{Weight: w})
		}
		if got := shelf.PickMerge(files); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v gives %v, want %v", c.name, c.weights, got, c.want)
		}
	}
}
