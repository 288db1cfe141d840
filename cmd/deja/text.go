package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/deja-node/deja/index/digest"
)

// columns tells the width of the terminal: COLUMNS, else what the terminal says.
func columns(override string, fd int) int {
	if n, err := strconv.Atoi(override); err == nil && n > 0 {
		return n
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		return w
	}
	return 80
}

// note narrates on stderr, unless the user asked for quiet.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// line writes one line of results, clean of control characters and cut to the
// terminal's width where there is a terminal.
func (a *app) line(format string, args ...any) error {
	text := strings.NewReplacer("\n", " ", "\t", " ").Replace(digest.Clean(fmt.Sprintf(format, args...)))
	_, err := fmt.Fprintln(a.stdout, fit(strings.TrimRight(text, " "), a.width))
	return err
}

// oneLine makes recorded or remote text fit for one line of a terminal.
func oneLine(s string) string {
	return strings.Join(strings.Fields(digest.Clean(s)), " ")
}

// fit cuts s to so many columns; 0 means no limit.
func fit(s string, width int) string {
	if width <= 0 || uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	used, state := 0, -1
	for rest := s; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width-1 {
			break
		}
		b.WriteString(cluster)
		used += w
	}
	return b.String() + "…"
}

// count writes "1 session", "2 sessions".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	switch {
	case strings.HasSuffix(what, "y"):
		return strconv.Itoa(n) + " " + strings.TrimSuffix(what, "y") + "ies"
	case strings.HasSuffix(what, "ch"):
		return strconv.Itoa(n) + " " + what + "es"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

// ago writes how long ago t was. A time that is unknown or ahead of this
// machine's clock is said to be so.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "unknown time"
	case d < -2*time.Minute:
		return "clock ahead by " + span(-d)
	case d < time.Minute:
		return "just now"
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return count(int(d/time.Minute), "minute")
	case d < day:
		return count(int(d/time.Hour), "hour")
	case d < 60*day:
		return count(int(d/day), "day")
	case d < 730*day:
		return count(int(d/(30*day)), "month")
	}
	return count(int(d/(365*day)), "year")
}

// stamp is a time as lists print it, in the reader's zone.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// or returns the first string that is not empty.
func or(values ...string) string { return cmp.Or(values...) }

// agoOr writes a time that may not have come yet.
func agoOr(t *time.Time, a *app) string {
	if t == nil {
		return "never"
	}
	return ago(*t, a.now())
}

// known writes a number that may not be known.
func known(n *uint64) string {
	if n == nil {
		return "unknown"
	}
	return strconv.FormatUint(*n, 10)
}
