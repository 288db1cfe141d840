package sources

import (
	"strings"

	"github.com/valyala/fastjson"
)

// raw returns a string that is valid until the parser takes the next line.
func raw(v *fastjson.Value) []byte {
	if v == nil || v.Type() != fastjson.TypeString {
		return nil
	}
	b, _ := v.StringBytes() //nolint:errcheck // its type is checked above
	return b
}

// str returns a string, empty when the value is none.
func str(v *fastjson.Value) string { return string(raw(v)) }

// isTrue reports whether a value is the literal true.
func isTrue(v *fastjson.Value) bool { return v != nil && v.Type() == fastjson.TypeTrue }

// list returns the elements of an array, nil when the value is none.
func list(v *fastjson.Value) []*fastjson.Value {
	if v == nil || v.Type() != fastjson.TypeArray {
		return nil
	}
	a, _ := v.Array() //nolint:errcheck // its type is checked above
	return a
}

// get returns a member of an object, nil when there is none.
func get(v *fastjson.Value, key string) *fastjson.Value {
	if v == nil || v.Type() != fastjson.TypeObject {
		return nil
	}
	o, _ := v.Object() //nolint:errcheck // its type is checked above
	return o.Get(key)
}

// set replaces a string when the value is another one that is not empty.
func set(dst *string, v *fastjson.Value) {
	if b := raw(v); len(b) > 0 && string(b) != *dst {
		*dst = string(b)
	}
}

// joiner joins texts with newlines, without copying when there is one.
type joiner struct {
	one  string
	more strings.Builder
	n    int
}

func (j *joiner) add(s string) {
	if s == "" {
		return
	}
	switch j.n++; j.n {
	case 1:
		j.one = s
	case 2:
		j.more.WriteString(j.one)
		fallthrough
	default:
		j.more.WriteByte('\n')
		j.more.WriteString(s)
	}
}

func (j *joiner) String() string {
	if j.n < 2 {
		return j.one
	}
	return j.more.String()
}

// whole returns a whole number.
func whole(v *fastjson.Value) (int, bool) {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return 0, false
	}
	n, err := v.Int()
	return n, err == nil
}
