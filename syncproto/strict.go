package syncproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// decode reads one JSON value of a peer: depth and repeated keys are checked
// before anything is decoded.
func decode(p []byte, v any) error {
	if err := checkJSON(p); err != nil {
		return err
	}
	if err := json.Unmarshal(p, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// checkJSON refuses JSON that is nested too deep, repeats a key of an object,
// or is followed by more.
func checkJSON(p []byte) error {
	dec := json.NewDecoder(bytes.NewReader(p))
	dec.UseNumber()
	type level struct {
		keys  map[string]bool // nil in an array
		isKey bool            // the next token of an object is a key
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFrame, err)
		}
		var top *level
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if top != nil && top.keys != nil {
			if top.isKey {
				key, _ := tok.(string)
				if top.keys[key] {
					return fmt.Errorf("%w: key %.60q twice", ErrFrame, key)
				}
				top.keys[key] = true
				top.isKey = false
				continue
			}
			top.isKey = true
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}, isKey: true})
		case json.Delim('['):
			stack = append(stack, level{})
		}
		if len(stack) > maxDepth {
			return fmt.Errorf("%w: nested deeper than %d", ErrFrame, maxDepth)
		}
	}
}
