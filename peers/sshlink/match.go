package sshlink

import (
	"errors"
	"fmt"
	"strings"
)

// matchHosts decides a Host line: one pattern must match and no negated one.
func (e *evaluation) matchHosts(patterns []string) (bool, error) {
	if len(patterns) == 0 {
		return false, errors.New("no pattern")
	}
	found := false
	for _, pattern := range patterns {
		negated, rest := strings.HasPrefix(pattern, "!"), strings.TrimPrefix(pattern, "!")
		if !matchPattern(e.host, rest) {
			continue
		}
		if negated {
			return false, nil
		}
		found = true
	}
	return found, nil
}

// matchCriteria decides a Match line: all criteria must hold.
func (e *evaluation) matchCriteria(args []string) (bool, error) {
	if len(args) == 0 {
		return false, errors.New("no criterion")
	}
	result := true
	for len(args) > 0 {
		name, value, hasValue := strings.Cut(args[0], "=")
		args = args[1:]
		negated := strings.HasPrefix(name, "!")
		name = strings.ToLower(strings.TrimPrefix(name, "!"))
		if !flagCriteria[name] && !hasValue {
			if len(args) == 0 {
				return false, fmt.Errorf("%s has no value", name)
			}
			value, args = args[0], args[1:]
		}
		holds, known := e.criterion(name, value)
		if !known {
			if result {
				e.config.warnings["Match "+name] = true
			}
			result = false
			continue
		}
		result = result && holds != negated
	}
	return result, nil
}

// flagCriteria are those without a value.
var flagCriteria = map[string]bool{"all": true, "final": true, "canonical": true}

// criterion evaluates one. A criterion that is not known never holds, negated
// or not.
func (e *evaluation) criterion(name, value string) (holds, known bool) {
	switch name {
	case "all":
		return true, true
	case "final", "canonical":
		e.wantFinal = e.wantFinal || name == "final"
		return e.final, true
	case "host":
		return matchList(strings.ToLower(e.hostName()), strings.ToLower(value)), true
	case "originalhost":
		return matchList(strings.ToLower(e.Host), strings.ToLower(value)), true
	case "user":
		user := e.User
		if user == "" {
			user = e.config.Value("user")
		}
		if user == "" {
			user = e.LocalUser
		}
		return matchList(user, value), true
	case "localuser":
		return matchList(e.LocalUser, value), true
	}
	return false, false
}

// matchList matches against patterns separated by commas; a negated one that
// matches decides.
func matchList(s, patterns string) bool {
	found := false
	for pattern := range strings.SplitSeq(patterns, ",") {
		negated, rest := strings.HasPrefix(pattern, "!"), strings.TrimPrefix(pattern, "!")
		if matchPattern(s, rest) {
			if negated {
				return false
			}
			found = true
		}
	}
	return found
}

// matchPattern matches * and ?. It goes back to the last * only, so its time
// is at most the product of the lengths.
func matchPattern(s, pattern string) bool {
	star, mark, i, j := -1, 0, 0, 0
	for i < len(s) {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, mark = j, i
			j++
		case j < len(pattern) && (pattern[j] == '?' || pattern[j] == s[i]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[j:], "*") == ""
}
