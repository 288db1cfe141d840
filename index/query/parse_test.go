package query_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/query"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text     string
		terms, phrases string // separated by a bar
	}{
		{"common words say nothing", "how did we fix the deadlock in the pool?", "fix|deadlock|pool", ""},
		{"unless there are no others", "who is it", "who|is|it", ""},
		{"each once", "pool pools pooling", "pool", ""},
		{"no operators", "foo AND NOT bar:baz (qux* OR ^x)", "foo|bar|baz|qux", ""},
		{"apostrophe", "it's the user's pool", "user|pool", ""},
		{"flags are words", "--dry-run -x", "dri|run", ""},
		{"quotes", `the "connection  Pool" is 'full'`, "connect|pool|full", "connection pool"},
		{"typographic quotes", "“connection pool” „full“", "connect|pool|full", "connection pool|full"},
		{"quote without an end", `say "hello`, "say|hello", ""},
		{"two and a half", `"ab cd" ef "gh ij" "kl`, "ab|cd|ef|gh|ij|kl", "ab cd|gh ij"},
		{"quotes around nothing", `"" " " "!?" ok`, "ok", ""},
		{"source code", `fmt.Println("hello world")`, "fmt|println|hello|world", "hello world"},
		{"nothing", "", "", ""},
		{"only signs", "!?. — …", "", ""},
		{"han", "修复死锁", "修复|复死|死锁", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := query.Parse(c.text)
			if got, want := q.Terms, split(c.terms); !slices.Equal(got, want) {
				t.Errorf("terms: got %q, want %q", got, want)
			}
			var phrases []string
			for _, p := range q.Phrases {
				phrases = append(phrases, p.String())
			}
			if want := split(c.phrases); !slices.Equal(phrases, want) {
				t.Errorf("phrases: got %q, want %q", phrases, want)
			}
		})
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

// checkQuery holds what is true of every question, whatever was typed.
func checkQuery(t *testing.T, text string) {
	t.Helper()
	q := query.Parse(text)
	seen := map[string]bool{}
	for _, term := range q.Terms {
		if seen[term] || query.Stem(term) != term {
			t.Fatalf("%q: term %q", text, term)
		}
		seen[term] = true
	}
	if (len(q.Terms) == 0) != (len(q.Words) == 0) || len(q.Terms) > 64 || len(q.Words) > 256 || len(q.Phrases) > 8 {
		t.Fatalf("%q: %d terms, %d words, %d phrases", text, len(q.Terms), len(q.Words), len(q.Phrases))
	}
	for _, p := range q.Phrases {
		if !p.In(text) {
			t.Fatalf("%q does not hold its own phrase %q", text, p)
		}
	}
	query.Dates(text, time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
}

func TestAnyTextIsAQuestion(t *testing.T) {
	rng := newRand(t)
	for range 100_000 {
		checkQuery(t, randomText(rng, rng.IntN(8)))
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range pieces {
		f.Add(`"` + p + `" may 3 ` + p)
	}
	f.Fuzz(checkQuery)
}

func TestPastedLogIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		b.WriteString(" word")
		b.WriteString(strings.Repeat("x", i%50))
	}
	checkQuery(t, b.String())
}

func TestPhrases(t *testing.T) {
	for _, c := range []struct {
		phrase, text string
		want         bool
	}{
		{"connection pool", "the Connection\n\tPOOL is full", true},
		{"connection pool", "the connection of the pool", false},
		{"pool", "spool", false},
		{"pool", "pools", false},
		{"pool", "spool pool", true},
		{"pool", "pool", true},
		{"--dry-run", "run it with --dry-run=true", true},
		{"x == nil", "if x == nil {", true},
		{"nil", "nil\u200bx", true},
		{"死锁", "修复死锁了", true},
		{"straße", "STRASSE", true},
		{"file", "ﬁle", true},
		{"get", "ＧＥＴ /", true},
		{"aa", "aaa aa", true},
	} {
		ps := query.Parse(`"` + c.phrase + `"`).Phrases
		if len(ps) != 1 || ps[0].In(c.text) != c.want {
			t.Errorf("%q in %q: want %v", c.phrase, c.text, c.want)
		}
	}
	if !(query.Phrase{}).In("anything") {
		t.Error("nothing is not everywhere")
	}
}

func TestParseSince(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	now := time.Date(2026, 3, 31, 15, 0, 0, 0, zone)
	for in, want := range map[string]time.Time{
		"30d":                  now.AddDate(0, 0, -30),
		"2w":                   now.AddDate(0, 0, -14),
		"12h":                  now.Add(-12 * time.Hour),
		" 90m ":                now.Add(-90 * time.Minute),
		"0d":                   now,
		"2026-01-31":           time.Date(2026, 1, 31, 0, 0, 0, 0, zone),
		"2026-01-31 08:30":     time.Date(2026, 1, 31, 8, 30, 0, 0, zone),
		"2026-01-31T08:30":     time.Date(2026, 1, 31, 8, 30, 0, 0, zone),
		"2026-01-31T08:30:00Z": time.Date(2026, 1, 31, 8, 30, 0, 0, time.UTC),
	} {
		if got, err := query.ParseSince(in, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "d", "-3d", "+3d", "3", "3y", "3 d", "1.5h", "99999d", "yesterday", "2026-13-01", "2026-02-30", "30dd", "\x00d"} {
		if got, err := query.ParseSince(in, now); err == nil {
			t.Errorf("%q is read as %v", in, got)
		}
	}
}

func TestDates(t *testing.T) {
	now := time.Date(2026, 3, 4, 15, 0, 0, 0, time.UTC) // a Wednesday
	day := func(y int, m time.Month, d int) query.Date { return query.Date{Year: y, Month: m, Day: d, Days: 1} }
	for text, want := range map[string][]query.Date{
		"what broke on May 23, 2025?":        {day(2025, 5, 23)},
		"on 23 May 2025":                     {day(2025, 5, 23)},
		"the 23rd of May":                    {day(0, 5, 23)},
		"may 3rd":                            {day(0, 5, 3)},
		"on Jan 5":                           {day(0, 1, 5)},
		"1 February, 2023":                   {day(2023, 2, 1)},
		"since 2025-05-23":                   {day(2025, 5, 23)},
		"in June 2025":                       {{Year: 2025, Month: 6}},
		"what did we do in June":             {{Month: 6}},
		"the deploy of September":            {{Month: 9}},
		"between 2 May and 4 June 2025":      {day(0, 5, 2), day(2025, 6, 4)},
		"yesterday":                          {day(2026, 3, 3)},
		"what we did last week":              {{Year: 2026, Month: 2, Day: 23, Days: 7}},
		"last month":                         {{Year: 2026, Month: 2}},
		"last":                               nil,
		"it may break":                       nil,
		"May I ask":                          nil,
		"march on":                           nil,
		"March 2025":                         {{Year: 2025, Month: 3}},
		"mar the surface, dec it, sep by it": nil,
		"port 8080 in 2025":                  nil,
		"may 45":                             nil,
		"2025-13-45":                         nil,
		"":                                   nil,
	} {
		if got := query.Dates(text, now); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	at := func(m time.Month, d int) time.Time { return time.Date(2025, m, d, 12, 0, 0, 0, time.UTC) }
	may23, may := query.Date{Year: 2025, Month: 5, Day: 23, Days: 1}, query.Date{Year: 2025, Month: 5}
	for _, c := range []struct {
		name         string
		date         query.Date
		began, ended time.Time
		want         float64
	}{
		{"the day", may23, at(5, 23), at(5, 23), 1},
		{"the day before", may23, at(5, 22), at(5, 22), 1},
		{"two days before", may23, at(5, 21), at(5, 21), 0},
		{"the day after", may23, at(5, 24), at(5, 24), 1},
		{"a week after", may23, at(5, 30), at(5, 30), 0.6},
		{"a month after", may23, at(6, 23), at(6, 23), 0},
		{"around it", may23, at(5, 1), at(6, 23), 1},
		{"another year", may23, at(5, 23).AddDate(1, 0, 0), at(5, 23).AddDate(1, 0, 0), 0},
		{"any year", query.Date{Month: 5, Day: 23, Days: 1}, at(5, 23), at(5, 23), 1},
		{"any year, over its end", query.Date{Month: 12, Day: 31, Days: 1}, at(1, 1), at(1, 1), 1},
		{"the month", may, at(5, 1), at(5, 1), 0.8},
		{"the next month", may, at(6, 10), at(6, 10), 0.4},
		{"late in the next month", may, at(6, 20), at(6, 20), 0},
		{"the month before", may, at(4, 30), at(4, 30), 0},
		{"no end", may23, at(5, 23), time.Time{}, 1},
		{"no time", may23, time.Time{}, time.Time{}, 0},
		{"no date", query.Date{}, at(5, 23), at(5, 23), 0},
	} {
		if got := c.date.Fit(c.began, c.ended); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
