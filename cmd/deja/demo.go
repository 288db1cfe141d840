package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deja-node/deja/node"
	"github.com/deja-node/deja/node/config"
	"github.com/deja-node/deja/node/doctor"
	"github.com/deja-node/deja/node/mcp"
	"github.com/deja-node/deja/sources"
)

// demo runs the main job on two throw-away nodes: histories are read, indexed
// and exchanged over SSH on the loopback, and an agent on one node recalls
// what was solved on the other.
func (a *app) demo(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "deja-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demoRun{app: a, dir: dir}
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"two machines, each with the history of one agent", d.machines},
		{"each node indexes what it finds", d.index},
		{"the laptop pairs with the desktop, and they exchange over SSH", d.exchange},
		{"a question asked on the laptop, answered by the desktop's history", d.search},
		{"an agent on the laptop recalls it over MCP", d.recall},
		{"how the laptop's node is", d.doctor},
	} {
		if _, err := fmt.Fprintf(a.stdout, "\n== %s\n", step.title); err != nil {
			return err
		}
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("demo: %s: %w", step.title, err)
		}
	}
	return a.line("That was a throw-away fleet; nothing is left of it. For your own machines: deja up")
}

type demoRun struct {
	app             *app
	dir             string
	laptop, desktop *node.Node
}

// machines writes the sample histories and makes the nodes.
func (d *demoRun) machines(context.Context) error {
	now := d.app.now()
	if err := writeClaude(filepath.Join(d.dir, "laptop"), laptopHistory, now); err != nil {
		return err
	}
	if err := writeCodex(filepath.Join(d.dir, "desktop"), desktopHistory, now); err != nil {
		return err
	}
	var err error
	if d.laptop, err = d.node("laptop"); err != nil {
		return err
	}
	if d.desktop, err = d.node("desktop"); err != nil {
		return err
	}
	for _, n := range []*node.Node{d.laptop, d.desktop} {
		if err := d.app.line("%s is node %s", n.Identity().Name, n.Identity().Node.Short()); err != nil {
			return err
		}
	}
	return nil
}

// node makes a node whose whole world is one directory of the demo's.
func (d *demoRun) node(name string) (*node.Node, error) {
	home := filepath.Join(d.dir, name)
	cfg, err := config.Load(config.Env{
		Home: home, GOOS: d.app.config.GOOS,
		Getenv: func(key string) string {
			switch key {
			case "DEJA_HOME":
				return filepath.Join(home, ".deja")
			case "DEJA_MACHINE":
				return name
			}
			return ""
		},
	})
	if err != nil {
		return nil, err
	}
	return node.Open(cfg, node.Host{Machine: node.Machine{Hostname: name}, Now: d.app.now, Random: d.app.random, Version: version})
}

func (d *demoRun) index(ctx context.Context) error {
	for _, n := range []*node.Node{d.laptop, d.desktop} {
		rep, err := n.Refresh(ctx, node.RefreshOptions{Depth: sources.Whole})
		if err != nil {
			return err
		}
		redacted := 0
		for _, s := range rep.Sources {
			redacted += s.Redacted
		}
		if err := d.app.line("%s: %s, %s redacted", n.Identity().Name, indexSummary(rep), count(redacted, "secret")); err != nil {
			return err
		}
	}
	return nil
}

// exchange runs the desktop's listener for as long as the laptop needs it.
func (d *demoRun) exchange(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serveCtx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- d.desktop.Listen(serveCtx, ln) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	key, _, err := d.laptop.Identity().SSHKey()
	if err != nil {
		return err
	}
	if _, err := d.desktop.AddPeer(ctx, node.AddOptions{Host: "laptop", Via: "dial", Key: key, Group: "mine"}); err != nil {
		return err
	}
	_, want, err := d.desktop.Identity().SSHKey()
	if err != nil {
		return err
	}
	row, err := d.laptop.AddPeer(ctx, node.AddOptions{
		Host: "deja://" + ln.Addr().String(), Group: "mine",
		Decide: func(c node.Contact) (bool, error) { return c.Fingerprint == want, nil },
	})
	if err != nil {
		return err
	}
	if err := d.app.line("paired with %s (%s)", row.Name, want); err != nil {
		return err
	}
	for range 2 {
		outcomes, err := d.laptop.Sync(ctx, node.SyncOptions{})
		if err != nil {
			return err
		}
		if err := d.app.syncReport(outcomes, false, false); err != nil {
			return err
		}
	}
	return nil
}

const demoQuestion = "waiting for connection pool after the upgrade"

func (d *demoRun) search(ctx context.Context) error {
	if err := d.app.line("$ deja search %s", demoQuestion); err != nil {
		return err
	}
	ans, fresh, err := d.laptop.Search(ctx, node.SearchQuery{Text: demoQuestion, Limit: 2})
	if err != nil {
		return err
	}
	if len(ans.Hits) == 0 || ans.Hits[0].Session.Origin.Local {
		return errors.New("the desktop's session was not found on the laptop")
	}
	return d.app.searchText(ans, fresh, false)
}

// recall asks as an agent would: through an MCP client and the server.
func (d *demoRun) recall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	here, there := sdk.NewInMemoryTransports()
	served := make(chan error, 1)
	go func() {
		served <- mcp.ServeOn(ctx, there, mcp.Options{
			Version: version, Now: d.app.now, Memory: func() (mcp.Memory, error) { return d.laptop, nil },
		})
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "demo agent", Version: version}, nil)
	session, err := client.Connect(ctx, here, nil)
	if err != nil {
		return err
	}
	res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "recall", Arguments: map[string]any{"query": demoQuestion, "limit": 1}})
	if err = errors.Join(err, session.Close(), <-served); err != nil {
		return err
	}
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			fmt.Fprintln(d.app.stdout, t.Text)
		}
	}
	return nil
}

func (d *demoRun) doctor(ctx context.Context) error {
	rep, err := doctor.Examine(ctx, d.laptop, doctor.Options{})
	if err != nil {
		return err
	}
	return d.app.doctorText(rep)
}
