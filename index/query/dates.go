package query

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Date is a time that a question names: some days in a row, or a month. What
// was not said is 0, and fits whatever it is.
type Date struct {
	Year  int
	Month time.Month
	Day   int
	Days  int // how many from Day on; 0 where a month is meant
}

// How well a session fits a date, and for how long after it. What happened is
// told on the day, or within some days after it.
const (
	fitDay       = 1.0
	fitMonth     = 0.8
	fitAfterDay  = 0.6
	fitAfter     = 0.4 // a month
	daysAround   = 1
	daysAfterDay = 10
	daysAfter    = 15 // a month
)

// Fit says how well something that began and ended at the given times fits the
// date, from 0 to 1.
func (d Date) Fit(began, ended time.Time) float64 {
	if began.IsZero() || d.Month == 0 {
		return 0
	}
	ended = maxTime(began, ended)
	if d.Year != 0 {
		return d.fitIn(d.Year, began, ended)
	}
	best := 0.0
	for year := began.Year() - 1; year <= ended.Year()+1; year++ {
		best = max(best, d.fitIn(year, began, ended))
	}
	return best
}

func (d Date) fitIn(year int, began, ended time.Time) float64 {
	if d.Days == 0 {
		from := time.Date(year, d.Month, 1, 0, 0, 0, 0, began.Location())
		to := from.AddDate(0, 1, 0)
		switch {
		case ended.Before(from):
		case began.Before(to):
			return fitMonth
		case began.Before(to.AddDate(0, 0, daysAfter)):
			return fitAfter
		}
		return 0
	}
	from := time.Date(year, d.Month, d.Day, 0, 0, 0, 0, began.Location())
	to := from.AddDate(0, 0, d.Days)
	switch {
	case ended.Before(from.AddDate(0, 0, -daysAround)):
	case began.Before(to.AddDate(0, 0, daysAround)):
		return fitDay
	case began.Before(to.AddDate(0, 0, daysAfterDay)):
		return fitAfterDay
	}
	return 0
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

var months = [...]string{
	"january", "february", "march", "april", "may", "june",
	"july", "august", "september", "october", "november", "december",
}

// maxDates bounds how many dates of one question count.
const maxDates = 8

// Dates finds the dates that a question names: 2026-01-31, May 23, 2026 and 23
// May in their spellings, months, and days that only now tells (yesterday,
// last week).
func Dates(text string, now time.Time) []Date {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-'
	})
	var out []Date
	for i := 0; i < len(words) && len(out) < maxDates; i++ {
		if t, err := time.Parse(time.DateOnly, words[i]); err == nil {
			out = append(out, onDay(t, 1))
		} else if d, ok := relative(words[i:], now); ok {
			out = append(out, d)
		} else if d, used := named(words, i); d.Month != 0 {
			out = append(out, d)
			i += used
		}
	}
	return out
}

func onDay(t time.Time, days int) Date {
	return Date{Year: t.Year(), Month: t.Month(), Day: t.Day(), Days: days}
}

// relative reads a day that is said by its distance from now.
func relative(words []string, now time.Time) (Date, bool) {
	switch strings.ToLower(words[0]) {
	case "today":
		return onDay(now, 1), true
	case "yesterday":
		return onDay(now.AddDate(0, 0, -1), 1), true
	case "last":
	default:
		return Date{}, false
	}
	if len(words) < 2 {
		return Date{}, false
	}
	switch strings.ToLower(words[1]) {
	case "night":
		return onDay(now.AddDate(0, 0, -1), 1), true
	case "week":
		return onDay(now.AddDate(0, 0, -7-(int(now.Weekday())+6)%7), 7), true
	case "month":
		first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location()).AddDate(0, -1, 0)
		return Date{Year: first.Year(), Month: first.Month()}, true
	}
	return Date{}, false
}

// named reads a date with the name of its month at i, and returns how many
// words after it belong to it. A name that is a word of its own (may, march,
// or one cut short) needs a number beside it or its capital letter.
func named(words []string, i int) (d Date, used int) {
	month, whole := monthOf(words[i])
	if month == 0 {
		return Date{}, 0
	}
	d.Month = month
	if i > 0 {
		d.Day = dayOf(words[i-1])
	}
	if i > 1 && strings.EqualFold(words[i-1], "of") {
		d.Day = dayOf(words[i-2])
	}
	rest := words[i+1:]
	if d.Day == 0 && len(rest) > 0 {
		if d.Day = dayOf(rest[0]); d.Day != 0 {
			used, rest = 1, rest[1:]
		}
	}
	if len(rest) > 0 {
		if d.Year = yearOf(rest[0]); d.Year != 0 {
			used++
		}
	}
	if d.Day != 0 {
		d.Days = 1
	}
	alone := d.Day == 0 && d.Year == 0
	capital := unicode.IsUpper(rune(words[i][0]))
	if alone && (!whole || !capital || i == 0 && (month == time.May || month == time.March)) {
		return Date{}, 0
	}
	return d, used
}

// monthOf reads the name of a month, or its first three or four letters.
func monthOf(s string) (m time.Month, whole bool) {
	s = strings.ToLower(s)
	for i, name := range months {
		if s == name {
			return time.Month(i + 1), true
		}
		if len(s) >= 3 && len(s) <= 4 && strings.HasPrefix(name, s) {
			return time.Month(i + 1), false
		}
	}
	return 0, false
}

func dayOf(s string) int {
	s = strings.ToLower(s)
	for _, end := range []string{"st", "nd", "rd", "th"} {
		s = strings.TrimSuffix(s, end)
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 31 || len(s) > 2 {
		return 0
	}
	return n
}

func yearOf(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 4 || n < 1970 || n > 2200 {
		return 0
	}
	return n
}
