package redact_test

import (
	"fmt"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/redact"
)

// transcript returns texts as coding agents write them, of n bytes in all:
// prose, source code in pieces of a few kilobytes, diffs, logs, and a secret
// now and then. The code is that of Go itself.
func transcript(tb testing.TB, n int) []string {
	tb.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var code []string
	size := 0
	root := filepath.Join(build.Default.GOROOT, "src", "net")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || size > 8<<20 {
			return err
		}
		b, err := os.ReadFile(path)
		code, size = append(code, string(b)), size+len(b)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	var texts []string
	for size = 0; size < n; {
		src := code[rng.IntN(len(code))]
		from := rng.IntN(len(src))
		src = src[from:min(len(src), from+500+rng.IntN(6000))]
		var text string
		switch rng.IntN(8) {
		case 0, 1:
			text = "Let me look at the handler first. The token is parsed in `internal/auth/token.go`, then the key is looked up; I'll run the tests and see why the second one fails."
		case 2:
			text = "+" + strings.ReplaceAll(src, "\n", "\n+")
		case 3:
			text = strings.Repeat(fmt.Sprintf("2026-11-02T10:11:12Z level=info msg=\"request done\" status=200 id=%016x path=/v1/users\n", rng.Uint64()), 20)
		default:
			text = src
		}
		if rng.IntN(200) == 0 {
			text += fill(rng, "\nAPI_TOKEN=‹an24›\n")
		}
		texts, size = append(texts, text), size+len(text)
	}
	return texts
}

func BenchmarkTranscript(b *testing.B) {
	texts := transcript(b, 8<<20)
	n := 0
	for _, t := range texts {
		n += len(t)
	}
	s := redact.New(redact.Options{})
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range texts {
			s.Scrub(t)
		}
	}
}

// BenchmarkScripts measures text that has no ASCII, and bytes that are no text.
func BenchmarkScripts(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	scripts := map[string]string{
		"russian":  "мы посмотрели на журнал и увидели, что запрос не дошёл до сервера; потом перезапустили службу и проверили ещё раз ",
		"chinese":  "我们查看了日志，发现请求没有到达服务器；然后重新启动了服务并再次检查，结果一切正常。",
		"japanese": "ログを確認したところ、リクエストがサーバーに届いていませんでした。その後サービスを再起動しました。",
	}
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	scripts["bytes"] = string(random)
	for name, unit := range scripts {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(unit, 1+(1<<18)/len(unit))
			s := redact.New(redact.Options{})
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Scrub(text)
			}
		})
	}
}

// BenchmarkWorst measures texts made to be slow, of 256 KiB each.
func BenchmarkWorst(b *testing.B) {
	for name, unit := range worst(rand.New(rand.NewPCG(5, 6))) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			const n = 256 << 10
			text := strings.Repeat(unit, n/len(unit)+1)[:n]
			s := redact.New(redact.Options{})
			b.SetBytes(n)
			for b.Loop() {
				s.Scrub(text)
			}
		})
	}
}

// BenchmarkTables measures what the first scrubber of a process costs.
func BenchmarkTables(b *testing.B) {
	for b.Loop() {
		redact.BuildTables()
	}
}
