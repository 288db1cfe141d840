package query_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/deja-node/deja/index/query"
)

func tokens(text string) []string {
	var t query.Tokenizer
	out := []string{}
	t.Each(text, func(token []byte) { out = append(out, string(token)) })
	return out
}

func TestTokens(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"words", "The pool, it deadlocks!", "the pool it deadlocks"},
		{"single letters and digits", "a b 1 c3 x", "c3"},
		{"camel", "getUserName", "getusername get user name"},
		{"acronym", "parseHTTPRequest HTTPServer XMLHttp", "parsehttprequest parse http request httpserver http server xmlhttp xml http"},
		{"snake", "max_idle_conns __init__ _private", "max_idle_conns max idle conns init private"},
		{"shouting", "MAX_IDLE_CONNS ECONNREFUSED", "max_idle_conns max idle conns econnrefused"},
		{"kebab", "x-request-id --dry-run", "request id dry run"},
		{"path", "/usr/local/lib/libFoo.so", "usr local lib libfoo lib foo so"},
		{"module", "github.com/acme/rate-limit@v1.12.3", "github com acme rate limit v1 1.12.3 12"},
		{"numbers behind words", "sha256 error404 utf8 Python3.11", "sha256 sha 256 error404 error 404 utf8 utf python3 python 3.11 11"},
		{"hashes stay whole", "8ce9e06a 4ba4f3a2b5", "8ce9e06a 4ba4f3a2b5"},
		{"hexadecimal", "0x1F 0xdeadbeef", "0x1f 0x1 0xdeadbeef"},
		{"dotted numbers", "1.26.0 and 10.0.0.1:8080", "1.26.0 26 and 10 10.0.0.1 8080"},
		{"measured values", "0.12345678 1.5s", "12345678 1.5 5s"},
		{"apostrophe", "don't, user's", "don user"},
		{"accents", "Café cafe\u0301 NAÏVE", "café café naïve"},
		{"sharp s", "Straße STRASSE", "strasse strasse"},
		{"final sigma", "ΟΔΟΣ οδος", "οδοσ οδοσ"},
		{"cyrillic", "Ошибка в пуле ещё", "ошибка пуле еще"},
		{"han", "修复死锁", "修复 复死 死锁"},
		{"one character", "锁 a", "锁"},
		{"identifier in han", "请修复getUserName函数", "请修 修复 getusername get user name 函数"},
		{"han with digits", "第30章", "第 30 章"},
		{"kana", "データベース", "デー ータ タベ ベー ース"},
		{"half width", "ﾃﾞｰﾀ ＧｅｔＵｓｅｒ１２", "デー ータ getuser12 get user12 user 12"},
		{"hangul", "데이터베이스 오류", "데이 이터 터베 베이 이스 오류"},
		{"thai", "ฐานข้อมูล", "ฐา าน นข ข้ ้อ อม มู ูล"},
		{"wide snake", "größe_max _größe_", "grösse_max grösse max grösse"},
		{"ligature", "ﬁle", "file"},
		{"broken utf-8", "ab\xffcd \xe4\xbd ef", "ab cd ef"},
		{"controls", "ab\x00cd\u202eef\u200bgh", "ab cd ef gh"},
		{"bar", strings.Repeat("_", 80), ""},
		{"longest", strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{"too long", strings.Repeat("a", 65) + " ok", strings.Repeat("a", 32) + " ok"},
		{"too long and wide", strings.Repeat("é", 40), strings.Repeat("é", 16)},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Fields(c.want)
			if got := tokens(c.text); !slices.Equal(got, want) {
				t.Errorf("%q:\n got %q\nwant %q", c.text, got, want)
			}
		})
	}
}

func TestFewLongRunsOfATextCount(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "%076d\n", i)
	}
	if n := len(tokens(text.String())); n > 8 {
		t.Errorf("%d tokens of a text of long runs", n)
	}
}

// pieces are what random texts are made of.
var pieces = []string{
	"pool", "The", "getUserName", "max_idle", "HTTPServer", "x-y", "a/b.go", "1.26.0", "v2", "10.0.0.1", "don't", "sha256", "_", "__a__",
	"8ce9e06a", "é", "e\u0301", "ﬁ", "Ａｂ", "İ", "ß", "Σς", "ё", "锁", "修复", "データ", "ﾃﾞ", "오류", "ข้อ", "中ab文", "\xff", "\xe4\xbd",
	"\u200b", "\u202e", "\x1b[31m", `"`, "“", "'", ":", "(", "AND", "*", "\\", "%s", "{{", "--", "🙂", "👩‍💻", "\u0301", "\U00010400",
	strings.Repeat("q", 63), strings.Repeat("Z9", 40), strings.Repeat("é", 33), "aGVsbG8gd29ybGQ=", "ǅ", "ﷺ", "½", "２", "ₜ", "ꙮ",
}

func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pieces[rng.IntN(len(pieces))])
		if rng.IntN(2) == 0 {
			b.WriteByte(" \n.,/-_"[rng.IntN(7)])
		}
	}
	return b.String()
}

func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// checkTokens holds what every token is: something that finds itself.
func checkTokens(t *testing.T, text string) {
	t.Helper()
	before := strings.Clone(text)
	for _, token := range tokens(text) {
		if !utf8.ValidString(token) || len(token) < 2 || len(token) > 64 {
			t.Fatalf("%q: token %q", text, token)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsUpper(r) || unicode.IsSpace(r) }) {
			t.Fatalf("%q: token %q is not folded", text, token)
		}
		if !slices.Contains(tokens(token), token) {
			t.Fatalf("%q: token %q, asked for, gives %q", text, token, tokens(token))
		}
		if stem := query.Stem(token); query.Stem(stem) != stem || stem == "" {
			t.Fatalf("%q is filed under %q, and that under %q", token, stem, query.Stem(stem))
		}
	}
	if text != before {
		t.Fatalf("%q was changed", before)
	}
}

func TestEveryTokenFindsItself(t *testing.T) {
	rng := newRand(t)
	for range 20000 {
		checkTokens(t, randomText(rng, rng.IntN(6)))
	}
}

// TestTokensAreLocal holds that what stands around a word, after a space, does
// not change it.
func TestTokensAreLocal(t *testing.T) {
	rng := newRand(t)
	for range 5000 {
		a, b := randomText(rng, rng.IntN(5)), randomText(rng, rng.IntN(5))
		if got, want := tokens(a+" "+b), append(tokens(a), tokens(b)...); !slices.Equal(got, want) {
			t.Fatalf("%q and %q:\n got %q\nwant %q", a, b, got, want)
		}
	}
}

// TestOneTokenizerServesManyTexts holds that nothing of one text gets into the
// tokens of the next.
func TestOneTokenizerServesManyTexts(t *testing.T) {
	rng := newRand(t)
	var one query.Tokenizer
	for range 2000 {
		text := randomText(rng, 5)
		var got []string
		one.Each(text, func(token []byte) { got = append(got, string(token)) })
		if want := tokens(text); !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

// TestCaseDoesNotMatter leaves camel case aside, which case makes.
func TestCaseDoesNotMatter(t *testing.T) {
	for _, s := range []string{"pool deadlock", "connection-refused", "größe", "ошибка", "sha256", "max_idle", "οδός"} {
		if got, want := tokens(strings.ToUpper(s)), tokens(s); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

// TestStableLetters holds the short cut to the tables that it spares.
func TestStableLetters(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if !query.IsStable(r) {
			continue
		}
		if s := string([]rune{'a', r, r, 'b'}); !unicode.IsLetter(r) || !norm.NFKC.IsNormalString(s) {
			t.Errorf("%U is no letter, or not normal in %q", r, s)
		}
	}
}

func FuzzTokenizer(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTokens(t, text) })
}

func TestStems(t *testing.T) {
	for _, c := range [][]string{
		{"deadlock", "deadlocks", "deadlocked", "deadlocking"},
		{"index", "indexes", "indices", "indexed"},
		{"write", "wrote", "written", "writing", "writes"},
		{"break", "broke", "broken", "breaks"},
		{"build", "built", "rebuilds"[2:], "building"},
		{"go", "went", "gone"},
		{"ошибка", "ошибки", "ошибкой", "ошибку"},
		{"сервер", "сервера", "серверов"},
	} {
		for _, form := range c[1:] {
			if got, want := query.Stem(form), query.Stem(c[0]); got != want {
				t.Errorf("%s is filed under %q, %s under %q", form, got, c[0], want)
			}
		}
	}
	for _, s := range []string{"getusername_", "sha256", "修复", "ab", "1.26.0", "größe", strings.Repeat("nesses", 5)} {
		if got := query.Stem(s); got != s {
			t.Errorf("%q is no word, and becomes %q", s, got)
		}
	}
}

func TestIrregularForms(t *testing.T) {
	table := query.Irregular()
	if !slices.IsSortedFunc(table, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }) {
		t.Fatal("the table is out of order, so that a search in it fails")
	}
	said := map[string]bool{}
	for _, f := range table {
		if said[f[0]] {
			t.Errorf("%q twice", f[0])
		}
		said[f[0]] = true
	}
	for _, f := range table {
		if said[f[1]] || said[query.Stem(f[1])] {
			t.Errorf("the base %q of %q is an irregular form itself", f[1], f[0])
		}
		if query.Stem(f[0]) != query.Stem(f[1]) {
			t.Errorf("%q does not lead to %q", f[0], f[1])
		}
	}
}

func BenchmarkTokenizer(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"log", "2026-01-31T12:00:00Z ERROR pool.go:42 acquireConn timed out after 30s (max_idle_conns=8) request 8ce9e06a-34c4\n"},
		{"prose", "The connection pool deadlocks when every worker waits for a free slot while it holds the lock. "},
		{"code", "func (p *Pool) acquireConn(ctx context.Context) (*Conn, error) {\n\tif p.closed { return nil, ErrClosed }\n"},
		{"cyrillic", "Пул соединений блокируется, когда каждый поток ждёт свободного места. "},
		{"han", "连接池在每个线程都等待空闲槽位时会死锁，需要修复getUserName函数。"},
	} {
		b.Run(c.name, func(b *testing.B) {
			text := strings.Repeat(c.text, 100)
			var t query.Tokenizer
			n := 0
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				t.Each(text, func(token []byte) { n += len(token) })
			}
		})
	}
}

func BenchmarkStem(b *testing.B) {
	words := bytes.Fields([]byte("deadlocks connection waiting indexes happily getusername wrote configuration"))
	for b.Loop() {
		for _, w := range words {
			query.Stem(string(w))
		}
	}
}
