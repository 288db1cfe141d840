package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/deja-node/deja"

// layers is the map of the house: a package imports packages of lower layers
// only, or one of its own layer where sideways names it.
var layers = map[string]int{
	"cmd/deja": 8,
	"node/mcp": 7, "node/doctor": 7,
	"node":  6,
	"hooks": 5, "hooks/install": 5, "node/repo": 5,
	"peers/sshlink": 5, "peers/listener": 5, "peers/mailbox": 5, "peers/peertest": 5,
	"index": 4, "hooks/carry": 4, "hooks/host": 4, "node/usage": 4,
	"index/catalog": 3, "index/postings": 3, "index/mine": 3, "index/vector": 3,
	"index/journal": 2, "index/policy": 2, "index/query": 2, "index/rank": 2, "index/digest": 2,
	"syncproto": 2, "syncproto/v1": 2, "sources": 2, "peers": 2,
	"syncproto/batch": 1, "sources/jsonl": 1, "sources/sqldb": 1, "index/record": 1, "index/shelf": 1,
	"index/redact": 0, "index/vfs": 0, "node/config": 0,
}

// sideways lists the imports inside one layer.
var sideways = map[string][]string{
	"syncproto/batch": {"index/record"},
	"index/shelf":     {"index/record"},
	"index/rank":      {"index/query"},
	"index/digest":    {"index/query"},
}

// processNames says who may touch the process's own arguments, environment, exit and streams.
var processNames = []string{"Args", "Exit", "Getenv", "LookupEnv", "Environ", "Stdin", "Stdout", "Stderr", "UserHomeDir", "Getwd"}

// TestLayers reads the sources themselves: imports go down, every package has
// a comment that go doc shows, and only cmd/deja touches the process.
func TestLayers(t *testing.T) {
	root := filepath.Join("..", "..")
	documented := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		checkFile(t, name, path.Dir(filepath.ToSlash(rel)), documented)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

func checkFile(t *testing.T, name, pkg string, documented map[string]bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	test := strings.HasSuffix(name, "_test.go")
	layer, known := layers[pkg]
	if !known {
		t.Errorf("%s: package %s is on no layer", name, pkg)
		return
	}
	if !test {
		documented[pkg] = documented[pkg] || f.Doc != nil
		if pkg != "cmd/deja" {
			checkProcess(t, name, f)
		}
	}
	for _, imp := range f.Imports {
		target, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		to, own := strings.CutPrefix(target, module+"/")
		if !own || to == pkg {
			continue
		}
		below, known := layers[to]
		switch {
		case !known:
			t.Errorf("%s imports %s, which is on no layer", name, to)
		case test && below <= layer, to == "peers/peertest" && test:
		case below < layer && (to != "peers/peertest" || pkg == "cmd/deja"):
		case slices.Contains(sideways[pkg], to):
		default:
			t.Errorf("%s: %s (layer %d) imports %s (layer %d)", name, pkg, layer, to, below)
		}
	}
}

func checkProcess(t *testing.T, name string, f *ast.File) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" && slices.Contains(processNames, sel.Sel.Name) {
			t.Errorf("%s: os.%s belongs to cmd/deja", name, sel.Sel.Name)
		}
		return true
	})
}
