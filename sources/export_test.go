package sources

// What tests look at from outside.
var (
	CommandText  = commandText
	FirstProgram = firstProgram
	ParseTime    = parseTime
	ParseZulu    = parseZulu
	Unframe      = unframe
	RemoteName   = remoteName
	ProgramList  = programs
	MaxCalls     = maxCalls
	MarkHeader   = markHeader
)

// Unwrap returns what is left of a prompt of Claude Code, and what was taken out of it.
func Unwrap(text string) (speech string, commands, outputs []string) {
	var p prompt
	unwrap(text, claudeWrappers, &p)
	return p.speech.String(), p.commands, p.outputs
}

// ReadPatch returns the files and edits of a patch.
func ReadPatch(text, dir string) (files, edits []string) {
	w := readPatch(text, dir)
	return w.files, w.edits
}
