package redact_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/redact"
)

// TestCases fills in the texts that stand beside the rules, many times each.
func TestCases(t *testing.T) {
	rng := newRand(t)
	s := redact.New(redact.Options{})
	for _, c := range redact.Cases() {
		for range 25 {
			text := fill(rng, c.Text)
			got := s.Scrub(text).String()
			counts := s.Take()
			if !c.Hit {
				if got != text {
					t.Errorf("%s changes %q\nto %q", c.Rule, text, got)
					break
				}
				continue
			}
			if !onlyFilled(got, split(c.Text)) {
				t.Errorf("%s: %q\nbecomes %q", c.Rule, text, got)
				break
			}
			if counts[c.Kind] == 0 {
				t.Errorf("%s: %q\ncounts %v, not %s", c.Rule, text, counts, c.Kind)
				break
			}
		}
	}
}

// onlyFilled reports whether got is a filled template with a redaction in the
// place of every value.
func onlyFilled(got string, parts []string) bool {
	for i, part := range parts {
		var ok bool
		if i%2 == 0 {
			got, ok = strings.CutPrefix(got, part)
		} else if got, ok = strings.CutPrefix(got, "[redacted:"); ok {
			_, got, ok = strings.Cut(got, "]")
		}
		if !ok {
			return false
		}
	}
	return got == ""
}

func TestEveryRuleHasCasesOfBothKinds(t *testing.T) {
	if names := redact.Unproven(); len(names) > 0 {
		t.Errorf("rules without a text that they must change, or must not: %v", names)
	}
}

func TestRuleNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range redact.Rules() {
		if seen[r.Name] {
			t.Errorf("two rules are named %s", r.Name)
		}
		seen[r.Name] = true
		if strings.Trim(r.Kind, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%s: the kind %q is no plain word", r.Name, r.Kind)
		}
	}
	if kinds := redact.Kinds(); !slices.IsSorted(kinds) || len(kinds) < 80 {
		t.Errorf("%d kinds: %v", len(kinds), kinds)
	}
}
