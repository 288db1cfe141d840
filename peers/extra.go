package peers

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// extra holds the fields of a JSON object that this version does not know.
type extra map[string]json.RawMessage

// unknownFields returns the fields of an object that v, a struct, has no tag for.
func unknownFields(object []byte, v any) (extra, error) {
	var all extra
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for field := range reflect.TypeOf(v).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[strings.ToLower(name)] = name != ""
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return known[strings.ToLower(name)] })
	return all, nil
}

// marshalWith writes a struct as an object, followed by the unknown fields in
// the order of their names.
func marshalWith(v any, rest extra) ([]byte, error) {
	object, err := json.Marshal(v)
	if err != nil || len(rest) == 0 {
		return object, err
	}
	var out bytes.Buffer
	out.Write(bytes.TrimSuffix(object, []byte("}")))
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(rest[name])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
