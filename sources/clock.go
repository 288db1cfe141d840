package sources

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// Times outside these bounds are damage, and count as missing.
var (
	earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// timeOf reads a time: RFC 3339, or a number or numeric string since 1970 in
// whatever unit its size suggests. It is zero when there is none.
func timeOf(v *fastjson.Value) time.Time {
	if v == nil {
		return time.Time{}
	}
	switch v.Type() {
	case fastjson.TypeString:
		if t, ok := parseZulu(raw(v)); ok {
			return t
		}
		return parseTime(str(v))
	case fastjson.TypeNumber:
		return parseEpoch(v.String())
	}
	return time.Time{}
}

// parseTime reads a time from text.
func parseTime(s string) time.Time {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return plausible(t)
		}
	}
	return parseEpoch(s)
}

func plausible(t time.Time) time.Time {
	if t.Before(earliest) || !t.Before(latest) {
		return time.Time{}
	}
	return t.UTC()
}

// parseZulu reads the one shape that nearly every line has, 2006-01-02T15:04:05.000Z,
// at a fraction of the cost of time.Parse.
func parseZulu(s []byte) (time.Time, bool) {
	if len(s) != len("2006-01-02T15:04:05.000Z") || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != '.' || s[23] != 'Z' {
		return time.Time{}, false
	}
	ok := true
	num := func(from, to int) (n int) {
		for _, c := range s[from:to] {
			ok = ok && '0' <= c && c <= '9'
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := num(0, 4), num(5, 7), num(8, 10)
	hour, minute, second, milli := num(11, 13), num(14, 16), num(17, 19), num(20, 23)
	if !ok || month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false // the last days of a month are left to time.Parse
	}
	return plausible(time.Date(year, time.Month(month), day, hour, minute, second, milli*1e6, time.UTC)), true
}

// parseEpoch reads a number since 1970: at least 1e17 nanoseconds, 1e14
// microseconds, 1e11 milliseconds, else seconds. Whole numbers are read
// exactly.
func parseEpoch(s string) time.Time {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		switch {
		case n >= 1e17:
			return plausible(time.Unix(0, n))
		case n >= 1e14:
			return plausible(time.UnixMicro(n))
		case n >= 1e11:
			return plausible(time.UnixMilli(n))
		}
		return plausible(time.Unix(n, 0))
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f >= 1e19 {
		return time.Time{}
	}
	switch {
	case f >= 1e17:
		f /= 1e9
	case f >= 1e14:
		f /= 1e6
	case f >= 1e11:
		f /= 1e3
	}
	whole, part := math.Modf(f)
	return plausible(time.Unix(int64(whole), int64(math.Round(part*1e6))*1e3))
}
