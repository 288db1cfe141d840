package redact

import (
	"slices"
	"strings"
)

// rule is one row of a family.
type rule struct {
	name string
	kind string // what stands in the text afterwards; none for a rule that only passes over text

	// anchors are words, in lower case, one of which stands in every match.
	// They match in either case unless exact is set. A rule with a shape takes
	// its anchor from it, a rule without any is run on long runs of opaque
	// bytes. An anchor has three bytes or more.
	anchors []string
	exact   bool

	// match is called with the place of an anchor and marks what it finds.
	match func(s *Scrubber, at, end int)
	shape string // the form of what it finds, in place of anchors and match
	args  string // for matchCommand

	// hit texts lose what stands between ‹ and ›, and nothing else; miss texts
	// stay as they are. The tests fill both in: ‹an36› is a random value of 36
	// letters and digits.
	hit, miss []string
}

// families returns the rules, the more telling before the more general: of
// two rules that find the same value the first one names it.
func families() [][]rule {
	return [][]rule{
		passRules, keyFileRules, jwtRules, providerRules, hookRules, awsRules, urlRules,
		headerRules, hashRules, cookieRules, commandRules, rcfileRules, kubeRules, assignRules,
		proseRules, foreignRules, entropyRules,
	}
}

// Rule describes a rule to readers of the documentation.
type Rule struct {
	Name string
	Kind string // as in "[redacted:kind]"
}

// Rules lists the rules that redact, in the order of their precedence.
func Rules() []Rule {
	var all []Rule
	for _, f := range families() {
		for _, r := range f {
			if r.kind != "" {
				all = append(all, Rule{r.name, r.kind})
			}
		}
	}
	return all
}

// Kinds lists what can stand in "[redacted:kind]", in order.
func Kinds() []string {
	kinds := []string{kindUnstable}
	for _, r := range Rules() {
		kinds = append(kinds, r.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// words returns the anchors of a rule.
func (r *rule) words() []string {
	if r.shape == "" {
		return r.anchors
	}
	lit, _ := literal(r.shape)
	return []string{lit}
}

// literal returns the first part of a shape that is not a hole, and what
// stands before it.
func literal(shape string) (lit, before string) {
	at := 0
	if shape[0] == '{' {
		at = strings.IndexByte(shape, '}') + 1
	}
	if end := strings.IndexByte(shape[at:], '{'); end >= 0 {
		return shape[at : at+end], shape[:at]
	}
	return shape[at:], shape[:at]
}
