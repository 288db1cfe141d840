package hooks

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/deja-node/deja/hooks/host"
)

// promptSessions is how many sessions a prompt recalls at most.
const promptSessions = 2

// Prompt recalls sessions that answer what the user just typed. It stays
// silent unless most of the informative words of the question stand in one
// session: a doubtful recall costs the agent more than none.
func Prompt(ctx context.Context, m Memory, e host.Event, now time.Time) (string, error) {
	question := ask(e.Prompt)
	if question == "" {
		return "", nil
	}
	related, err := m.Related(ctx, e.Cwd, e.Session, question, promptSessions)
	if err != nil {
		return "", err
	}
	sure := related[:0:0]
	for _, r := range related {
		if r.Asked >= 2 && r.Matched*3 >= r.Asked*2 {
			sure = append(sure, r)
		}
	}
	return render("Sessions that may answer this:", sure, PromptBudget, now), nil
}

// ask finds the question in a prompt: the last line that ends in a question
// mark, else the last line with a word in it. What is pasted above it, a log
// or a listing, is not what the user wants to know.
func ask(prompt string) string {
	var question, last string
	for l := range strings.SplitSeq(withoutFrames(prompt), "\n") {
		l = strings.TrimSpace(l)
		if strings.HasSuffix(l, "?") || strings.HasSuffix(l, "？") {
			question = l
		}
		if strings.ContainsFunc(l, unicode.IsLetter) {
			last = l
		}
	}
	if question != "" {
		return question
	}
	return last
}

// withoutFrames leaves out what deja itself put into a prompt.
func withoutFrames(s string) string {
	const open, end = "<deja-recall", "</deja-recall>"
	var b strings.Builder
	for {
		before, rest, framed := strings.Cut(s, open)
		b.WriteString(before)
		if !framed {
			return b.String()
		}
		_, s, framed = strings.Cut(rest, end)
		if !framed {
			return b.String()
		}
	}
}
