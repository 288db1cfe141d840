package sources

import "strings"

// The frame that deja puts around everything it recalls. Text inside it is not
// recorded again, or each recall would double what there is to recall.
const (
	frameOpen  = "<deja-recall"
	frameClose = "</deja-recall>"
)

// unframe removes what deja itself put into a text. A frame that its host cut
// off ends with the text, but only one at the start of a line: prose and code
// may mention the marker.
func unframe(text string) string {
	i := strings.Index(text, frameOpen)
	if i < 0 {
		return text
	}
	var b strings.Builder
	closes := true
	for ; i >= 0; i = strings.Index(text, frameOpen) {
		rest, end := text[i+len(frameOpen):], -1
		opens := rest == "" || strings.IndexByte("> \n\t", rest[0]) >= 0
		if opens && closes {
			end = strings.Index(rest, frameClose)
			closes = end >= 0
		}
		switch {
		case end >= 0:
			b.WriteString(text[:i])
			text = rest[end+len(frameClose):]
		case opens && (i == 0 || text[i-1] == '\n'):
			b.WriteString(text[:i])
			return b.String()
		default:
			b.WriteString(text[:i+len(frameOpen)])
			text = rest
		}
	}
	b.WriteString(text)
	return b.String()
}

// A wrapper is a pair of tags that a harness puts into the text of a prompt.
type wrapper struct {
	tag  string
	then func(p *prompt, inner string) // nil drops what is inside
}

// prompt is a user's text taken apart.
type prompt struct {
	speech   strings.Builder
	commands []string // what the user ran in the shell of the harness
	outputs  []string // what that printed
}

func keepSpeech(p *prompt, inner string)  { p.speech.WriteString(inner) }
func keepCommand(p *prompt, inner string) { p.commands = append(p.commands, inner) }
func keepOutput(p *prompt, inner string)  { p.outputs = append(p.outputs, inner) }

// unwrap takes the wrappers out of a text. A tag without its end is text.
func unwrap(text string, wrappers []wrapper, p *prompt) {
	open := make([]bool, len(wrappers)) // tags that have no end in the rest of the text
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			p.speech.WriteString(text)
			return
		}
		w := opening(text[i:], wrappers)
		if w < 0 || open[w] {
			p.speech.WriteString(text[:i+1])
			text = text[i+1:]
			continue
		}
		tag := wrappers[w].tag
		inner, rest, ok := strings.Cut(text[i+len(tag)+2:], "</"+tag+">")
		if open[w] = !ok; !ok {
			continue
		}
		p.speech.WriteString(text[:i])
		if then := wrappers[w].then; then != nil {
			then(p, inner)
		}
		text = rest
	}
}

// opening returns which wrapper a text begins with, -1 when none.
func opening(text string, wrappers []wrapper) int {
	for i, w := range wrappers {
		if len(text) >= len(w.tag)+2 && text[1:1+len(w.tag)] == w.tag && text[1+len(w.tag)] == '>' {
			return i
		}
	}
	return -1
}
