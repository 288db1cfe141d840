package sources_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/sources"
)

func TestTimes(t *testing.T) {
	want := time.Date(2026, 5, 4, 8, 0, 0, 500e6, time.UTC)
	for _, text := range []string{
		"2026-05-04T08:00:00.500Z", "2026-05-04T08:00:00.5Z", "2026-05-04T10:00:00.500000000+02:00", "2026-05-04T08:00:00.5", "2026-05-04 08:00:00.5",
		"2026-05-04 08:00:00.5Z", "1777881600.5", "1777881600500", "1777881600500000", "1777881600500000000", " 1777881600.5 ", "1777881600500.0",
	} {
		if got := sources.ParseTime(text); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{
		"", "yesterday", "2026-13-04T08:00:00.500Z", "2026-02-30T08:00:00.500Z", "2026-05-04T25:00:00.500Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
		"-5", "5e+246", "NaN", "Inf", "1e400", "0", "2026",
	} {
		if got := sources.ParseTime(text); !got.IsZero() {
			t.Errorf("%q is %v, want none", text, got)
		}
	}
	for day := time.Date(2024, 1, 1, 23, 59, 59, 999e6, time.UTC); day.Year() < 2027; day = day.AddDate(0, 0, 1) {
		text := day.Format("2006-01-02T15:04:05.000Z")
		if got, ok := sources.ParseZulu([]byte(text)); ok && !got.Equal(day) || !sources.ParseTime(text).Equal(day) {
			t.Fatalf("%v is %v", day, got)
		}
	}
}

const frame = "<deja-recall>\nuntrusted\n</deja-recall>"

func TestFramesLeaveNoTrace(t *testing.T) {
	tests := []struct{ text, want string }{
		{"nothing here", "nothing here"},
		{frame, ""},
		{"before\n" + frame + "\nafter", "before\n\nafter"},
		{"before " + frame + " after", "before  after"},
		{frame + frame + "x" + frame, "x"},
		{"<deja-recall source=\"mini\">x</deja-recall>y", "y"},
		{"before\n<deja-recall>\ncut off", "before\n"},
		{"<deja-recall", ""},
		{"prose about <deja-recall> without an end", "prose about <deja-recall> without an end"},
		{"<deja-recaller>x", "<deja-recaller>x"},
		{"x <deja-recaller> " + frame, "x <deja-recaller> "},
	}
	for _, test := range tests {
		if got := sources.Unframe(test.text); got != test.want {
			t.Errorf("%q leaves %q, want %q", test.text, got, test.want)
		}
	}
}

// Whatever surrounds them, frames are removed and the rest stays in order; and doing so twice changes nothing.
func TestUnframeLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	for range 2000 {
		var text, want strings.Builder
		for i := range rng.IntN(8) {
			word := fmt.Sprintf("w%d<b> ", i)
			text.WriteString(word)
			want.WriteString(word)
			if rng.IntN(2) == 0 {
				text.WriteString(frame)
			}
		}
		got := sources.Unframe(text.String())
		if got != want.String() || sources.Unframe(got) != got {
			t.Fatalf("%q leaves %q, want %q", text.String(), got, want.String())
		}
	}
}

func TestUnwrap(t *testing.T) {
	tests := []struct {
		text, speech      string
		commands, outputs []string
	}{
		{text: "plain", speech: "plain"},
		{text: "a <b> c", speech: "a <b> c"},
		{text: "a<system-reminder>x</system-reminder>b", speech: "ab"},
		{text: "<command-name>/x</command-name><command-args>y</command-args>", speech: "y"},
		{text: "<bash-input>ls</bash-input><bash-stdout>o</bash-stdout><bash-stderr>e</bash-stderr>", commands: []string{"ls"}, outputs: []string{"o", "e"}},
		{text: "<system-reminder>no end", speech: "<system-reminder>no end"},
		{text: "<system-reminder><system-reminder>x</system-reminder>", speech: ""},
		{text: "<", speech: "<"},
	}
	for _, test := range tests {
		speech, commands, outputs := sources.Unwrap(test.text)
		if speech != test.speech || !slices.Equal(commands, test.commands) || !slices.Equal(outputs, test.outputs) {
			t.Errorf("%q gives %q %q %q", test.text, speech, commands, outputs)
		}
	}
}

// A tag without an end is looked for once, however often it is opened.
func TestUnwrapIsLinear(t *testing.T) {
	text := strings.Repeat("<system-reminder>", 1<<17)
	if speech, _, _ := sources.Unwrap(text); speech != text {
		t.Error("tags without an end are text")
	}
	text = strings.Repeat("x<deja-recall> ", 1<<17)
	if sources.Unframe(text) != text {
		t.Error("frames without an end inside a line are text")
	}
}

func TestPatches(t *testing.T) {
	files, edits := sources.ReadPatch("*** Begin Patch\r\n*** Update File: a\\b.c\r\n@@\r\n-\tone\r\n+\ttwo\r\n*** End Patch\r\n", `C:\src`)
	if want := []string{`C:\src\a\b.c`}; !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if want := []string{"C:\\src\\a\\b.c\n\tone"}; !slices.Equal(edits, want) {
		t.Errorf("edits %q, want %q", edits, want)
	}
	files, edits = sources.ReadPatch("-not in a file\n*** Add File: ../x\n+y\n", "/srv/demo")
	if !slices.Equal(files, []string{"/srv/x"}) || len(edits) > 0 {
		t.Errorf("files %q, edits %q", files, edits)
	}
}
