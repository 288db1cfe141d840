package redact

// Case is a text of a rule's row. The parts between ‹ and › are to be filled in.
type Case struct {
	Rule, Kind, Text string
	Hit              bool
}

// Cases returns the texts of all rows. Those of a shape follow from it.
func Cases() []Case {
	var all []Case
	for _, f := range families() {
		for _, r := range f {
			for _, t := range r.hit {
				all = append(all, Case{r.name, r.kind, t, true})
			}
			for _, t := range r.miss {
				all = append(all, Case{r.name, r.kind, t, false})
			}
			if r.shape != "" {
				lit, before := literal(r.shape)
				all = append(all,
					Case{r.name, r.kind, "the job printed ‹" + r.shape + "› and stopped", true},
					Case{r.name, r.kind, `client = Client("‹` + r.shape + `›")  # later`, true},
					Case{r.name, r.kind, "+  ours: ‹" + r.shape + "›\n-  ours: none", true},
					Case{r.name, r.kind, "x" + lit, false},
					Case{r.name, r.kind, "see " + lit + " in the list of " + lit + "transfer-config-registry words", false},
					Case{r.name, r.kind, before2x(before) + lit + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", false},
				)
			}
		}
	}
	return all
}

func before2x(before string) string {
	if before == "" {
		return ""
	}
	return "xx"
}

// Unproven returns the rules that no case hits, or none misses.
func Unproven() []string {
	var names []string
	for _, f := range families() {
		for _, r := range f {
			if r.kind != "" && r.shape == "" && (len(r.hit) == 0 || len(r.miss) == 0) {
				names = append(names, r.name)
			}
		}
	}
	return names
}

// Steps is the number of bytes that the scrubber has looked at.
func (s *Scrubber) Steps() int { return s.steps }

// BuildTables does what the first scrubber of a process does.
func BuildTables() { buildTables() }
