package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) rememberCommand() *cobra.Command {
	var (
		project string
		tags    []string
	)
	cmd := &cobra.Command{
		Use:     "remember TEXT",
		Short:   "File a lasting note",
		Long:    "File a lasting note. Secrets are removed before it is written.",
		Example: `  deja remember "amounts are integer cents" --tag billing`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.open()
			if err != nil {
				return err
			}
			if project == "" {
				project = n.ProjectOf(a.dir)
			}
			done, err := n.Remember(cmd.Context(), strings.Join(args, " "), project, tags)
			if err != nil {
				return err
			}
			if err := a.line("noted%s", where(done.Project)); err != nil {
				return err
			}
			if done.Redacted > 0 {
				a.note("%s removed before the note was written", count(done.Redacted, "secret"))
			}
			if !done.Indexed {
				a.note("another process is indexing; the next index run makes the note searchable")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&project, "project", "", "the project it belongs to (default: the one of this directory)")
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "a word to find it by; may be repeated")
	return cmd
}

func where(project string) string {
	if project == "" {
		return ""
	}
	return " under project " + project
}
