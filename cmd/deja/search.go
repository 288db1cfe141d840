package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/node"
)

const (
	searchLimit = 15
	searchMost  = 1000
)

func (a *app) searchCommand() *cobra.Command {
	var (
		flags   filterFlags
		limit   int
		all     bool
		asJSON  bool
		explain bool
		rebuild bool
	)
	cmd := &cobra.Command{
		Use:   "search QUERY",
		Short: "Find the sessions that answer a question",
		Long: `Find the sessions that answer a question, best first. Words are looked for in
any order; text in quotes must stand there as it is. Nothing else in a query has
a meaning of its own.`,
		Example: "  deja search connection pool deadlock",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			if strings.TrimSpace(text) == "" {
				return usagef("the query is empty")
			}
			filter, err := flags.filter(a)
			if err != nil {
				return err
			}
			if limit < 1 || limit > searchMost {
				return usagef("--limit takes a number from 1 to %d", searchMost)
			}
			if all {
				limit = searchMost
			}
			n, err := a.open()
			if err != nil {
				return err
			}
			ans, fresh, err := n.Search(cmd.Context(), node.SearchQuery{Text: text, Filter: filter, Limit: limit, Explain: explain, Rebuild: rebuild})
			if err != nil {
				return err
			}
			if asJSON {
				err = a.searchJSON(ans, fresh)
			} else {
				err = a.searchText(ans, fresh, explain)
			}
			if err == nil && len(ans.Hits) == 0 {
				return errNothing
			}
			return err
		},
	}
	flags.add(cmd, true)
	cmd.Flags().IntVar(&limit, "limit", searchLimit, "sessions to show")
	cmd.Flags().BoolVar(&all, "all", false, "show all that match")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&explain, "explain", false, "show what every score is made of")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "rebuild the views from the log first")
	return cmd
}

func (a *app) searchJSON(ans index.Answer, fresh node.Freshness) error {
	hits := ans.Hits
	if hits == nil {
		hits = []index.Hit{}
	}
	return a.printJSON(struct {
		Schema    string         `json:"schema"`
		Query     string         `json:"query"`
		Tier      string         `json:"tier"`
		Total     int            `json:"total"`
		Returned  int            `json:"returned"`
		Withheld  int            `json:"withheld,omitempty"`
		Freshness node.Freshness `json:"freshness"`
		Hits      []index.Hit    `json:"hits"`
	}{"deja.search/1", ans.Query, ans.Tier, ans.Total, len(hits), ans.Withheld, fresh, hits})
}

func (a *app) searchText(ans index.Answer, fresh node.Freshness, explain bool) error {
	for _, h := range ans.Hits {
		if err := a.line("%s · %s", a.sessionLine(h.Session, h.AlsoOn), count(h.Matches, "match")); err != nil {
			return err
		}
		for _, s := range h.Snippets {
			if err := a.line("    %s: %s", s.Role, s.Text); err != nil {
				return err
			}
		}
		if explain {
			if err := a.line("    score %.3f = %s", h.Score, factors(h.Why)); err != nil {
				return err
			}
		}
	}
	switch {
	case len(ans.Hits) == 0 && fresh.Complete:
		a.note("nothing matches %q", ans.Query)
	case len(ans.Hits) == 0:
		a.note("nothing that has been read matches %q; %s", ans.Query, fresh)
	case ans.Total > len(ans.Hits):
		a.note("%d of %s; --all shows them all", len(ans.Hits), count(ans.Total, "session"))
	}
	if len(ans.Hits) > 0 && !fresh.Complete {
		a.note("%s", fresh)
	}
	return nil
}

// sessionLine is a session as lists show it.
func (a *app) sessionLine(s index.Session, also []index.Origin) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  [%s] %s · %s · %s", s.ID, s.Harness, or(s.Project, "-"), stamp(s.Updated), or(s.Title, "untitled"))
	if !s.Origin.Local {
		fmt.Fprintf(&b, " · from %s", s.Origin.Name)
	}
	for _, o := range also {
		fmt.Fprintf(&b, " · also on %s", o.Name)
	}
	if s.Gone {
		b.WriteString(" · transcript gone, kept")
	}
	return b.String()
}

func factors(why map[string]float64) string {
	names := make([]string, 0, len(why))
	for name := range why {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.3f", name, why[name])
	}
	return strings.Join(names, ", ")
}
