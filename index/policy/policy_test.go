package policy_test

import (
	"strings"
	"testing"

	"github.com/deja-node/deja/index/policy"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/index/vfs"
)

var (
	self     = record.NodeID{1}
	mate     = record.NodeID{2} // in group mine, by the book
	team     = record.NodeID{3} // in group team, by the file
	stranger = record.NodeID{4}
)

func load(t *testing.T, file, exclude string) *policy.Policy {
	t.Helper()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("/c"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"/c/policy.json": file, "/c/exclude": exclude} {
		if text != "" {
			if err := vfs.WriteFile(fsys, name, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return policy.Load(fsys, "/c/policy.json", "/c/exclude", self, func(n record.NodeID) string {
		if n == mate {
			return policy.Mine
		}
		return ""
	})
}

func entry(project string, role record.Role) *record.Entry {
	return &record.Entry{Kind: record.KindMsg, Project: redact.Trusted(project), Role: role}
}

func TestWithoutAFile(t *testing.T) {
	p := load(t, "", "")
	if p.Problem() != nil || !p.Knows(mate) || p.Knows(stranger) {
		t.Fatalf("problem %v, mate %v, stranger %v", p.Problem(), p.Knows(mate), p.Knows(stranger))
	}
	if !p.ServesStream(mate, self) || !p.ServesStream(mate, stranger) || p.ServesStream(stranger, self) {
		t.Error("mine gets everything, strangers nothing")
	}
	if !p.Serves(mate, entry("api", record.RoleToolOutput)) || p.WithholdsFrom(mate) {
		t.Error("something is withheld from mine")
	}
	if !p.Accepts(mate) || p.Accepts(stranger) {
		t.Error("mine is accepted, strangers are not")
	}
	if p.Inject(self) != policy.Auto || p.Inject(mate) != policy.Auto || p.Inject(stranger) != policy.Search {
		t.Error("levels")
	}
}

func teamFile() string {
	return `{"v":2,"groups":{"team":{"nodes":["` + team.String() + `"],"serve":["api","api/*","!api/secret"],"accept":["api"],"relay":"own","inject":"mcp","retract":"own"}},"private":["diary"]}`
}

func TestGroups(t *testing.T) {
	p := load(t, teamFile(), "")
	if err := p.Problem(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		project string
		role    record.Role
		want    bool
	}{
		{"api", record.RoleUser, true},
		{"api/v2", record.RoleAssistant, true},
		{"api/secret", record.RoleUser, false},
		{"web", record.RoleUser, false},
		{"api", record.RoleToolOutput, false}, // the leakiest roles stay at home
		{"api", record.RoleEdit, false},
	} {
		if got := p.Serves(team, entry(c.project, c.role)); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.project, c.role, got, c.want)
		}
	}
	if !p.ServesStream(team, self) || p.ServesStream(team, mate) {
		t.Error("relay own")
	}
	if p.Serves(mate, entry("diary", record.RoleUser)) {
		t.Error("a private project was served")
	}
	if p.Inject(team) != policy.MCP {
		t.Errorf("inject %v", p.Inject(team))
	}
}

// A file that cannot be read must not open anything.
func TestMalformedFailsClosed(t *testing.T) {
	for _, file := range []string{"{", `{"groups":{"x":{"inject":"always"}}}`, `{"groups":{"x":{"relay":"maybe"}}}`} {
		p := load(t, file, "")
		if p.Problem() == nil {
			t.Fatalf("%s: no problem", file)
		}
		if p.Knows(mate) || p.ServesStream(mate, self) || p.Serves(mate, entry("api", record.RoleUser)) || p.Accepts(mate) {
			t.Errorf("%s: something is shared", file)
		}
		if p.Inject(mate) > policy.Search || p.Inject(self) != policy.Auto {
			t.Errorf("%s: foreign history surfaces unasked", file)
		}
	}
}

func TestExclude(t *testing.T) {
	p := load(t, "", "# comment\n\nclient-*\nNDA\n")
	for project, want := range map[string]bool{"client-a": false, "my-nda-work": false, "api": true, "": true} {
		if got := p.MayIngest(project, ""); got != want {
			t.Errorf("%q: %v, want %v", project, got, want)
		}
	}
	if p.MayIngest("x", "/work/NDA/x") {
		t.Error("the directory is not looked at")
	}
	if p.Serves(mate, entry("client-a", record.RoleUser)) || !p.WithholdsFrom(mate) {
		t.Error("what is excluded was served")
	}
}

// The tag moves when the rules for a peer do, and only then.
func TestTag(t *testing.T) {
	plain, excluding := load(t, "", ""), load(t, "", "nda")
	if plain.Tag(mate) != load(t, "", "").Tag(mate) {
		t.Error("the tag of one policy differs")
	}
	if plain.Tag(mate) == excluding.Tag(mate) {
		t.Error("the tag does not see the exclude file")
	}
	if a := load(t, teamFile(), ""); a.Tag(team) == load(t, strings.Replace(teamFile(), `"api/*"`, `"web"`, 1), "").Tag(team) {
		t.Error("the tag does not see the served projects")
	}
}
