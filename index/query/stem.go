package query

import (
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// irregular maps forms that no rule reaches to the stem of their base.
var irregular = map[string]string{
	"ran": "run", "began": "begin", "begun": "begin", "broke": "break", "broken": "break", "built": "build",
	"brought": "bring", "bought": "buy", "caught": "catch", "chose": "choos", "chosen": "choos", "came": "come",
	"did": "do", "done": "do", "drew": "draw", "drove": "drive", "fell": "fall", "felt": "feel", "found": "find",
	"forgot": "forget", "froze": "freez", "frozen": "freez", "gave": "give", "given": "give", "went": "go", "gone": "go",
	"got": "get", "grew": "grow", "had": "have", "held": "hold", "hidden": "hide", "kept": "keep", "knew": "know",
	"known": "know", "left": "leav", "lost": "lose", "made": "make", "meant": "mean", "met": "meet", "paid": "pay",
	"said": "say", "saw": "see", "seen": "see", "sent": "send", "shown": "show", "spent": "spend", "stood": "stand",
	"stuck": "stick", "took": "take", "taken": "take", "taught": "teach", "told": "tell", "thought": "think",
	"threw": "throw", "thrown": "throw", "understood": "understand", "woke": "wake", "won": "win", "wrote": "write",
	"written": "write", "children": "child", "indices": "index", "indexes": "index", "vertices": "vertex", "people": "person",
}

// Stem returns the term that a token is filed and asked under. Tokens that are
// not plain English words are their own.
func Stem(token string) string {
	if len(token) < 3 || len(token) > 24 {
		return token
	}
	for i := range len(token) {
		if token[i] < 'a' || token[i] > 'z' {
			return token
		}
	}
	if s, ok := irregular[token]; ok {
		return s
	}
	env := snowballstem.NewEnv(token)
	english.Stem(env)
	return env.Current()
}
