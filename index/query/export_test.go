package query

// Irregular are the forms and bases of the table of irregular words.
func Irregular() [][2]string {
	var out [][2]string
	for _, f := range irregular {
		out = append(out, [2]string{f.said, f.base})
	}
	return out
}

// IsCommon reports whether a word is one that says nothing.
var IsCommon = isCommon

// IsStable reports whether normalisation is spared a letter.
var IsStable = isStable
