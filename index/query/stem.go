package query

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/russian"
)

// maxStem bounds the words that are stemmed: longer ones are identifiers.
const maxStem = 24

// Stem returns the term that a token is filed and asked under: its stem, if it
// is made of plain Latin or Cyrillic letters, and else itself. A term is its
// own stem.
func Stem(token string) string {
	for {
		stem := once(token)
		if stem == token {
			return token
		}
		token = stem
	}
}

// once applies the rules of a language once. They shorten what they change,
// and the bases of irregular forms are no irregular forms.
func once(token string) string {
	if len(token) <= minToken || len(token) > 2*maxStem {
		return token
	}
	switch {
	case isLatin(token):
		if len(token) > maxStem {
			return token
		}
		if i, ok := slices.BinarySearchFunc(irregular[:], token, func(f form, s string) int { return strings.Compare(f.said, s) }); ok {
			token = irregular[i].base
		}
		env := snowballstem.NewEnv(token)
		english.Stem(env)
		return env.Current()
	case isCyrillic(token):
		env := snowballstem.NewEnv(token)
		russian.Stem(env)
		return env.Current()
	}
	return token
}

func isLatin(s string) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

func isCyrillic(s string) bool {
	for _, r := range s {
		if r < 'а' || r > 'я' {
			return false
		}
	}
	return utf8.RuneCountInString(s) > minToken
}

// form is a form of a word that no rule leads back to its base.
type form struct{ said, base string }

// irregular are such forms in the order of the alphabet, without those that
// are words of their own right more often (saw, rose, wound).
var irregular = [...]form{
	{"ate", "eat"},
	{"awoke", "awake"},
	{"beaten", "beat"},
	{"became", "become"},
	{"been", "be"},
	{"began", "begin"},
	{"begun", "begin"},
	{"bent", "bend"},
	{"bit", "bite"},
	{"bitten", "bite"},
	{"blew", "blow"},
	{"blown", "blow"},
	{"bought", "buy"},
	{"bound", "bind"},
	{"bred", "breed"},
	{"broke", "break"},
	{"broken", "break"},
	{"brought", "bring"},
	{"built", "build"},
	{"burnt", "burn"},
	{"came", "come"},
	{"caught", "catch"},
	{"children", "child"},
	{"chose", "choose"},
	{"chosen", "choose"},
	{"crept", "creep"},
	{"criteria", "criterion"},
	{"dealt", "deal"},
	{"did", "do"},
	{"does", "do"},
	{"done", "do"},
	{"dove", "dive"},
	{"drank", "drink"},
	{"drawn", "draw"},
	{"dreamt", "dream"},
	{"drew", "draw"},
	{"driven", "drive"},
	{"drove", "drive"},
	{"drunk", "drink"},
	{"dug", "dig"},
	{"dying", "die"},
	{"eaten", "eat"},
	{"fallen", "fall"},
	{"fed", "feed"},
	{"feet", "foot"},
	{"fell", "fall"},
	{"felt", "feel"},
	{"fled", "flee"},
	{"flew", "fly"},
	{"flown", "fly"},
	{"forbade", "forbid"},
	{"forbidden", "forbid"},
	{"forgave", "forgive"},
	{"forgiven", "forgive"},
	{"forgot", "forget"},
	{"forgotten", "forget"},
	{"fought", "fight"},
	{"found", "find"},
	{"froze", "freeze"},
	{"frozen", "freeze"},
	{"gave", "give"},
	{"geese", "goose"},
	{"given", "give"},
	{"gone", "go"},
	{"got", "get"},
	{"gotten", "get"},
	{"grew", "grow"},
	{"grown", "grow"},
	{"had", "have"},
	{"halves", "half"},
	{"has", "have"},
	{"heard", "hear"},
	{"held", "hold"},
	{"hid", "hide"},
	{"hidden", "hide"},
	{"hung", "hang"},
	{"indices", "index"},
	{"kept", "keep"},
	{"knew", "know"},
	{"knives", "knife"},
	{"known", "know"},
	{"laid", "lay"},
	{"leapt", "leap"},
	{"learnt", "learn"},
	{"leaves", "leave"},
	{"led", "lead"},
	{"left", "leave"},
	{"lent", "lend"},
	{"lit", "light"},
	{"lives", "life"},
	{"lost", "lose"},
	{"lying", "lie"},
	{"made", "make"},
	{"matrices", "matrix"},
	{"meant", "mean"},
	{"men", "man"},
	{"met", "meet"},
	{"mice", "mouse"},
	{"mistaken", "mistake"},
	{"mistook", "mistake"},
	{"overridden", "override"},
	{"overrode", "override"},
	{"overwritten", "overwrite"},
	{"overwrote", "overwrite"},
	{"paid", "pay"},
	{"people", "person"},
	{"proven", "prove"},
	{"ran", "run"},
	{"rang", "ring"},
	{"rebuilt", "rebuild"},
	{"redid", "redo"},
	{"redone", "redo"},
	{"reran", "rerun"},
	{"resent", "resend"},
	{"rewritten", "rewrite"},
	{"rewrote", "rewrite"},
	{"ridden", "ride"},
	{"risen", "rise"},
	{"rode", "ride"},
	{"rung", "ring"},
	{"said", "say"},
	{"sang", "sing"},
	{"sank", "sink"},
	{"sat", "sit"},
	{"seen", "see"},
	{"sent", "send"},
	{"sewn", "sew"},
	{"shaken", "shake"},
	{"shelves", "shelf"},
	{"shook", "shake"},
	{"shot", "shoot"},
	{"shown", "show"},
	{"shrank", "shrink"},
	{"shrunk", "shrink"},
	{"slept", "sleep"},
	{"slid", "slide"},
	{"sold", "sell"},
	{"sought", "seek"},
	{"spent", "spend"},
	{"spoke", "speak"},
	{"spoken", "speak"},
	{"spun", "spin"},
	{"stole", "steal"},
	{"stolen", "steal"},
	{"stood", "stand"},
	{"struck", "strike"},
	{"stuck", "stick"},
	{"sung", "sing"},
	{"sunk", "sink"},
	{"swam", "swim"},
	{"swept", "sweep"},
	{"swollen", "swell"},
	{"sworn", "swear"},
	{"swum", "swim"},
	{"taken", "take"},
	{"taught", "teach"},
	{"teeth", "tooth"},
	{"thieves", "thief"},
	{"thought", "think"},
	{"threw", "throw"},
	{"thrown", "throw"},
	{"told", "tell"},
	{"took", "take"},
	{"tore", "tear"},
	{"torn", "tear"},
	{"tying", "tie"},
	{"understood", "understand"},
	{"undid", "undo"},
	{"undone", "undo"},
	{"vertices", "vertex"},
	{"was", "be"},
	{"went", "go"},
	{"were", "be"},
	{"withdrawn", "withdraw"},
	{"withdrew", "withdraw"},
	{"wives", "wife"},
	{"woke", "wake"},
	{"woken", "wake"},
	{"women", "woman"},
	{"won", "win"},
	{"wore", "wear"},
	{"worn", "wear"},
	{"written", "write"},
	{"wrote", "write"},
}
