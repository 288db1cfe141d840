// Package postings is the view that finds: which entries hold which terms. It
// is a fold over the logs, kept as immutable files of package shelf that are
// read in place; FORMAT.md beside the code gives their layout.
//
// [View] is the writing side: it folds entries into memory, Flush turns that
// into a file and merges small files into larger ones. [Reader] is the reading
// side, and [Reader.Search] ranks sessions by the recipe of package rank.
//
// Every entry of a covered range of a log is a doc, numbered within its file
// in the order of the ranges, so that a doc tells its place in the log, and
// files are merged by putting their docs one after the other. Terms of speech
// and terms of work records (tool output, files, commands, edits, summaries)
// are filed in lists of their own: an ordinary search never touches the latter.
//
// What a term is belongs to the format: version counts it.
package postings

import (
	"fmt"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/shelf"
)

const (
	// Name is the view's name on the shelf.
	Name = "postings"
	// version goes up when the same entries would give another file.
	version = 1
)

// The two kinds of lists that a term has.
const (
	speech = 0
	work   = 1
	kinds  = 2
)

// Roles as numbers within the view. They are on disk: none may change, and
// there is room up to 15.
const (
	roleNone       = 0 // no text: metadata, a stub
	roleUser       = 1
	roleAssistant  = 2
	roleDeveloper  = 3
	roleToolOutput = 4
	roleFiles      = 5
	roleCommand    = 6
	roleEdit       = 7
	roleSummary    = 8
	roleOther      = 9  // one that this version does not know; counts as speech
	roleNote       = 10 // an explicit note
	roles          = 16
)

// roleNames are the roles of messages by number.
var roleNames = [roles]record.Role{
	roleUser: record.RoleUser, roleAssistant: record.RoleAssistant, roleDeveloper: record.RoleDeveloper,
	roleToolOutput: record.RoleToolOutput, roleFiles: record.RoleFiles, roleCommand: record.RoleCommand,
	roleEdit: record.RoleEdit, roleSummary: record.RoleSummary, roleNote: record.RoleUser,
}

// roleNumber returns the number of a message's role.
func roleNumber(r record.Role) uint8 {
	switch r {
	case record.RoleUser:
		return roleUser
	case record.RoleAssistant:
		return roleAssistant
	case record.RoleDeveloper:
		return roleDeveloper
	case record.RoleToolOutput:
		return roleToolOutput
	case record.RoleFiles:
		return roleFiles
	case record.RoleCommand:
		return roleCommand
	case record.RoleEdit:
		return roleEdit
	case record.RoleSummary:
		return roleSummary
	case record.RoleMeta:
		return roleNone
	}
	return roleOther
}

// kindOf says in which lists the terms of a role are.
func kindOf(role uint8) int {
	if role >= roleToolOutput && role <= roleSummary {
		return work
	}
	return speech
}

// corrupt is an [shelf.ErrCorrupt] about what a file says of itself.
func corrupt(f *shelf.File, what string) error {
	return fmt.Errorf("%s: %s: %w", f.Ref().Name, what, shelf.ErrCorrupt)
}
