package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index/query"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/node"
)

// filterFlags are the filters that commands share.
type filterFlags struct {
	harness, project, since, session, from string
	roles                                  []string
}

func (f *filterFlags) add(cmd *cobra.Command, withRole bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.harness, "harness", "", "only sessions of this agent (claude, codex, ...)")
	flags.StringVar(&f.project, "project", "", "only projects whose name holds this")
	flags.StringVar(&f.since, "since", "", "only sessions active since: 30d, 12h, 2w or a date")
	flags.StringVar(&f.from, "from", "", "only sessions of one machine: local, or any name of a peer")
	if withRole {
		flags.StringVar(&f.session, "session", "", "only this session")
		flags.StringSliceVar(&f.roles, "role", nil, "look at these roles: user, assistant, tool-output, files, command, edit, summary")
	}
}

// knownRoles are the roles that --role takes.
var knownRoles = []record.Role{
	record.RoleUser, record.RoleAssistant, record.RoleDeveloper, record.RoleToolOutput,
	record.RoleFiles, record.RoleCommand, record.RoleEdit, record.RoleSummary,
}

func (f *filterFlags) filter(a *app) (node.Filter, error) {
	out := node.Filter{Project: f.project, Session: f.session, From: f.from}
	if f.harness != "" {
		if err := node.CheckSources([]string{f.harness}); err != nil {
			return out, usageError{err}
		}
		out.Harness = f.harness
	}
	if f.since != "" {
		t, err := query.ParseSince(f.since, a.now())
		if err != nil {
			return out, usagef("--since: %w", err)
		}
		out.Since = t
	}
	for _, name := range f.roles {
		role := record.Role(strings.ToLower(name))
		if !slices.Contains(knownRoles, role) {
			return out, usagef("--role: no role is called %q: known are %v", name, knownRoles)
		}
		out.Roles = append(out.Roles, role)
	}
	return out, nil
}
