package jsonl_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/deja-node/deja/sources/jsonl"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomised tests; 0 draws one")

func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

type read struct {
	lines []string
	at    []jsonl.Position // before each line, and behind the last
	torn  int64
}

func readAll(t *testing.T, r *jsonl.Reader) read {
	t.Helper()
	var got read
	for {
		line, err := r.Next()
		if err == io.EOF {
			got.at = append(got.at, r.After())
			got.torn = r.Torn()
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		before := r.Before()
		if before.Offset != line.Start {
			t.Fatalf("line starts at %d, its position says %d", line.Start, before.Offset)
		}
		got.at = append(got.at, before)
		text := string(line.Bytes)
		if line.TooLong {
			text = "(too long)"
		}
		got.lines = append(got.lines, text)
	}
}

// document makes a file of lines of every awkward size around the buffer, and what a reader must make of it.
func document(rng *rand.Rand) (data []byte, want []string, torn int) {
	var b bytes.Buffer
	if rng.IntN(2) == 0 {
		b.WriteString("\ufeff")
	}
	for range rng.IntN(30) {
		n := rng.IntN(200)
		if rng.IntN(6) == 0 {
			n = 256<<10 - 6000 + rng.IntN(12000)
		}
		switch rng.IntN(5) {
		case 0:
			b.WriteString(strings.Repeat("\x00", rng.IntN(5000)))
		case 1:
			b.WriteString("\r\n\n")
		}
		line := fmt.Sprintf("{%d %s}", len(want), strings.Repeat("x", n))
		want = append(want, line)
		b.WriteString(line)
		if rng.IntN(3) == 0 {
			b.WriteByte('\r')
		}
		b.WriteByte('\n')
	}
	if rng.IntN(2) == 0 {
		part := "{torn" + strings.Repeat("y", rng.IntN(300<<10))
		torn = len(part)
		b.WriteString(part)
	}
	return b.Bytes(), want, torn
}

// Reading on from any position gives the rest, and the same positions.
func TestResumeIsTheRest(t *testing.T) {
	rng := newRand(t)
	for range 60 {
		data, want, torn := document(rng)
		all := readAll(t, jsonl.NewReader(bytes.NewReader(data)))
		if fmt.Sprint(all.lines) != fmt.Sprint(want) {
			t.Fatalf("lines differ: got %d want %d", len(all.lines), len(want))
		}
		if all.torn < int64(torn) {
			t.Fatalf("torn %d bytes, want at least %d", all.torn, torn)
		}
		for range 6 {
			i := rng.IntN(len(all.at))
			at := all.at[i]
			whole, err := jsonl.Resume(bytes.NewReader(data), at)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := jsonl.ResumeStream(iotest.HalfReader(bytes.NewReader(data)), at)
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range map[string]*jsonl.Reader{"resumed": whole, "streamed": stream} {
				rest := readAll(t, r)
				if fmt.Sprint(rest.lines) != fmt.Sprint(all.lines[i:]) {
					t.Fatalf("%s at %d: lines differ", name, at.Offset)
				}
				if fmt.Sprint(rest.at) != fmt.Sprint(all.at[i:]) {
					t.Fatalf("%s at %d: positions differ", name, at.Offset)
				}
			}
		}
	}
}

// A position is recognised in the file it came from, whatever follows, and in no file whose prefix differs.
func TestPositionsTellFilesApart(t *testing.T) {
	rng := newRand(t)
	for range 40 {
		data, _, _ := document(rng)
		all := readAll(t, jsonl.NewReader(bytes.NewReader(data)))
		at := all.at[rng.IntN(len(all.at))]
		grown := append(bytes.Clone(data[:at.Offset]), "{something else}\n"...)
		check := func(name string, file []byte, want bool) {
			t.Helper()
			got, err := jsonl.Begins(bytes.NewReader(file), at)
			if err != nil || got != want {
				t.Fatalf("%s: begins = %v, %v; want %v", name, got, err, want)
			}
			_, err = jsonl.ResumeStream(bytes.NewReader(file), at)
			if (err == nil) != want || err != nil && !errors.Is(err, jsonl.ErrMoved) {
				t.Fatalf("%s: resumed with %v, want %v", name, err, want)
			}
		}
		check("same", data, true)
		check("grown", grown, true)
		if at.Offset == 0 {
			continue
		}
		flipped := bytes.Clone(data)
		flipped[rng.Int64N(at.Offset)] ^= byte(1 + rng.IntN(255))
		check("flipped", flipped, false)
		check("cut", data[:rng.Int64N(at.Offset)], false)
		tail, err := jsonl.TailAt(bytes.NewReader(data), at.Offset)
		if err != nil || tail != at.Tail {
			t.Fatalf("tail differs: %v", err)
		}
		near := bytes.Clone(data)
		near[at.Offset-1-rng.Int64N(min(at.Offset, jsonl.Window))] ^= 1
		if _, err := jsonl.Resume(bytes.NewReader(near), at); !errors.Is(err, jsonl.ErrMoved) {
			t.Fatalf("a change in the window gives %v", err)
		}
	}
}

func TestReadErrorComesLast(t *testing.T) {
	broken := errors.New("broken disk")
	r := jsonl.NewReader(io.MultiReader(strings.NewReader("{1}\n{2"), iotest.ErrReader(broken)))
	if line, err := r.Next(); err != nil || string(line.Bytes) != "{1}" {
		t.Fatalf("got %q, %v", line.Bytes, err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if at := r.After(); at.Offset != 4 {
		t.Errorf("the safe offset is %d, want 4", at.Offset)
	}
}

// repeated yields n times "x" without holding them.
type repeated struct{ n int64 }

var block = bytes.Repeat([]byte("x"), 64<<10)

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(r.n, int64(len(p)))], block)
	r.n -= int64(n)
	return n, nil
}

func TestLongLines(t *testing.T) {
	tests := []struct {
		name string
		n    int64
		end  string
		want []string
		torn int64
	}{
		{"just fits", jsonl.MaxLine, "\n{b}\n", []string{"{a}", "(fits)", "{b}"}, 0},
		{"one byte over", jsonl.MaxLine + 1, "\n{b}\n", []string{"{a}", "(too long)", "{b}"}, 0},
		{"far over", jsonl.MaxLine + 6<<20, "\n{b}\n", []string{"{a}", "(too long)", "{b}"}, 0},
		{"far over and torn", jsonl.MaxLine + 6<<20, "", []string{"{a}"}, jsonl.MaxLine + 6<<20},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			src := io.MultiReader(strings.NewReader("{a}\n"), &repeated{test.n}, strings.NewReader(test.end))
			got := readAll(t, jsonl.NewReader(src))
			for i, line := range got.lines {
				if int64(len(line)) == test.n {
					got.lines[i] = "(fits)"
				}
			}
			if fmt.Sprint(got.lines) != fmt.Sprint(test.want) || got.torn != test.torn {
				t.Errorf("got %.60v, torn %d; want %v, torn %d", got.lines, got.torn, test.want, test.torn)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\ufeff{1}\r\n\x00\x00{2}\n\n{3"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all := readAll(t, jsonl.NewReader(bytes.NewReader(data)))
		for i, at := range all.at {
			r, err := jsonl.Resume(bytes.NewReader(data), at)
			if err != nil {
				t.Fatal(err)
			}
			if rest := readAll(t, r); fmt.Sprint(rest.lines) != fmt.Sprint(all.lines[i:]) {
				t.Fatalf("from %d: %q, want %q", at.Offset, rest.lines, all.lines[i:])
			}
		}
		if last := all.at[len(all.at)-1]; last.Offset+all.torn != int64(len(data)) {
			t.Fatalf("%d bytes safe and %d torn, of %d", last.Offset, all.torn, len(data))
		}
	})
}

func BenchmarkReader(b *testing.B) {
	name := b.TempDir() + "/lines.jsonl"
	line := "{" + strings.Repeat("some text ", 160) + "}\n"
	if err := os.WriteFile(name, bytes.Repeat([]byte(line), 64<<20/len(line)), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(64 << 20)
	for b.Loop() {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		r := jsonl.NewReader(f)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		r.After()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
