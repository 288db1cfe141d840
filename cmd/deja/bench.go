package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
	"github.com/deja-node/deja/sources"
)

func (a *app) benchCommand() *cobra.Command {
	var (
		needles string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "bench [index|search]",
		Short: "Measure indexing and search through the shipped code path",
		Long: `Measure on this machine's own histories, in a throw-away node, through the code
that is shipped. index reads everything from nothing; search runs queries
against it. --needles names a file of tab-separated tokens and session ids, as
an answer key: every token must find its session first.`,
		Example:   "  deja bench index",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"index", "search"},
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "search"
			if len(args) > 0 {
				what = args[0]
			}
			res, err := a.bench(cmd.Context(), what, needles)
			if err != nil {
				return err
			}
			if res.Files == 0 {
				a.note("no history to measure with: deja sources says where it is looked for")
				return errNothing
			}
			if asJSON {
				return a.printJSON(res)
			}
			return a.benchText(res)
		},
	}
	cmd.Flags().StringVar(&needles, "needles", "", "answer key: token, harness and session id a line")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// benchResult is what was measured, on what, and where.
type benchResult struct {
	Schema  string  `json:"schema"`
	Corpus  string  `json:"corpus"` // hash over names and sizes of what was read
	Machine string  `json:"machine"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Records int     `json:"records"`
	Index   seconds `json:"index_seconds"`
	MBps    float64 `json:"index_mb_per_s"`
	Stored  int64   `json:"stored_bytes"`
	Queries int     `json:"queries,omitempty"`
	First   int     `json:"found_first,omitempty"`
	Median  seconds `json:"search_median_seconds,omitempty"`
	P95     seconds `json:"search_p95_seconds,omitempty"`
}

type seconds float64

func (a *app) bench(ctx context.Context, what, needles string) (res benchResult, err error) {
	dir, err := os.MkdirTemp("", "deja-bench-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := a.config
	env.Getenv = func(key string) string {
		if key == "DEJA_HOME" {
			return dir
		}
		return a.config.Getenv(key)
	}
	cfg, err := config.Load(env)
	if err != nil {
		return res, err
	}
	n, err := node.Open(cfg, node.Host{Machine: a.machine, Now: a.now, Random: a.random, Version: version, PID: a.pid})
	if err != nil {
		return res, err
	}
	res = benchResult{Schema: "deja.bench/1", Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	if err := a.benchIndex(ctx, n, dir, &res); err != nil || what == "index" {
		return res, err
	}
	return res, benchSearch(ctx, n, a.now, needles, &res)
}

func (a *app) benchIndex(ctx context.Context, n *node.Node, dir string, res *benchResult) error {
	start := a.now()
	var last node.Progress
	rep, err := n.Refresh(ctx, node.RefreshOptions{Depth: sources.Whole, Progress: func(p node.Progress) { last = p }})
	if err != nil {
		return err
	}
	took := a.now().Sub(start)
	hash := sha256.New()
	for _, s := range rep.Sources {
		fmt.Fprintf(hash, "%s %d %d\n", s.Harness, s.Files, s.Turns)
		res.Files += s.Read
	}
	fmt.Fprintf(hash, "%d\n", last.OfBytes)
	res.Corpus = hex.EncodeToString(hash.Sum(nil)[:8])
	res.Bytes, res.Records, res.Index = last.OfBytes, rep.Total.Added, seconds(took.Seconds())
	res.MBps = float64(last.OfBytes) / (1 << 20) / took.Seconds()
	return filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			res.Stored += info.Size()
		}
		return err
	})
}

// benchQueries are asked when there is no answer key.
var benchQueries = []string{"connection refused", "why does the test fail", "error handling in the parser", "timeout", "how do I configure the server"}

func benchSearch(ctx context.Context, n *node.Node, now func() time.Time, needles string, res *benchResult) error {
	type query struct{ text, want string }
	var queries []query
	for _, q := range benchQueries {
		queries = append(queries, query{text: q})
	}
	if needles != "" {
		queries = nil
		f, err := os.Open(needles)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it was only read
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if cols := strings.Split(lines.Text(), "\t"); len(cols) == 3 {
				queries = append(queries, query{cols[0], cols[2]})
			}
		}
		if err := lines.Err(); err != nil {
			return err
		}
	}
	var took []time.Duration
	for _, q := range queries {
		start := now()
		ans, _, err := n.Search(ctx, node.SearchQuery{Text: q.text, Limit: 15})
		if err != nil {
			return err
		}
		took = append(took, now().Sub(start))
		if q.want != "" && len(ans.Hits) > 0 && ans.Hits[0].Session.Native == q.want {
			res.First++
		}
	}
	slices.Sort(took)
	res.Queries = len(queries)
	if len(took) > 0 {
		res.Median = seconds(took[len(took)/2].Seconds())
		res.P95 = seconds(took[len(took)*95/100].Seconds())
	}
	return nil
}

func (a *app) benchText(r benchResult) error {
	if err := a.line("corpus %s: %s, %s, %s; %s", r.Corpus, count(r.Files, "file"), size(r.Bytes), count(r.Records, "record"), r.Machine); err != nil {
		return err
	}
	if err := a.line("index: %.2f s, %.0f MB/s, stored %s (%.1f %% of the transcripts)", r.Index, r.MBps, size(r.Stored), 100*float64(r.Stored)/float64(max(r.Bytes, 1))); err != nil {
		return err
	}
	if r.Queries == 0 {
		return nil
	}
	return a.line("search: %s, median %.1f ms, p95 %.1f ms, %d found first", count(r.Queries, "query"), 1000*r.Median, 1000*r.P95, r.First)
}
