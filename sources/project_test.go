package sources_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/sources"
)

// place makes directories and files under a fresh home.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(home, filepath.FromSlash(name)), text)
	}
	return home
}

func TestProjects(t *testing.T) {
	home := place(t, map[string]string{
		"src/tide/.git/HEAD":                   "ref: refs/heads/main\n",
		"src/tide/.git/config":                 "[core]\n\tbare = false\n[remote \"backup\"]\n\turl = /srv/backup.git\n[remote \"origin\"]\n\tfetch = x\n\tURL = git@Example.Invalid:Team/Tide-Pool.git\n",
		"src/tide/deep/er/file":                "",
		"src/tide/.git/worktrees/wt/commondir": "../..\n",
		"src/tide/.git/worktrees/wt/HEAD":      "x",
		"src/linked/.git":                      "gitdir: ../tide/.git/worktrees/wt\n",
		"src/plain/.git/HEAD":                  "x",
		"src/plain/.git/config":                "[core]\n",
		"src/plain-wt/.git":                    "gitdir: " + "HOME/src/plain/.git/worktrees/w\n",
		"src/bare.git/HEAD":                    "x",
		"src/bare.git/config":                  "[core]\n\tbare = true\n",
		"src/bare.git/worktrees/w/commondir":   "../..",
		"src/of-bare/.git":                     "gitdir: ../bare.git/worktrees/w",
		"src/only-backup/.git/HEAD":            "x",
		"src/only-backup/.git/config":          "[remote \"backup\"]\nurl = \"https://user:pass@example.invalid:443/a/b/?token=x\"\n",
		"src/local/.git/HEAD":                  "x",
		"src/local/.git/config":                "[remote \"origin\"]\n\turl = /srv/git/Shared.git\n",
		"src/empty/.git/x":                     "",
		"src/no-repo/file":                     "",
		"src/broken/.git":                      "not a pointer\n",
		".git/HEAD":                            "x",
		"notes/file":                           "",
	})
	common := filepath.Join(home, "src", "plain", ".git", "worktrees", "w", "commondir")
	write(t, common, filepath.Join(home, "src", "plain", ".git")+"\n")
	write(t, filepath.Join(home, "src", "plain-wt", ".git"), "gitdir: "+filepath.Dir(common)+"\n")
	tests := []struct{ cwd, project, remote string }{
		{"src/tide", "Tide-Pool", "example.invalid/team/tide-pool"},
		{"src/tide/deep/er", "Tide-Pool", "example.invalid/team/tide-pool"},
		{"src/tide/gone/for/good", "Tide-Pool", "example.invalid/team/tide-pool"},
		{"src/linked", "Tide-Pool", "example.invalid/team/tide-pool"},
		{"src/plain", "plain", ""},
		{"src/plain-wt", "plain", ""},
		{"src/of-bare", "bare", ""},
		{"src/only-backup", "b", "example.invalid/a/b"},
		{"src/local", "Shared", ""},
		{"src/empty", "empty", ""},
		{"src/no-repo", "no-repo", ""},
		{"src/broken", "broken", ""},
		{"", "~", ""},
		{"notes", "notes", ""},
		{"gone", "gone", ""},
	}
	p := sources.NewProjects(env(home))
	for range 2 { // the second round is answered from memory
		for _, test := range tests {
			s := record.Session{Cwd: filepath.Join(home, filepath.FromSlash(test.cwd))}
			p.Fill(&s)
			if s.Project != test.project || s.Remote != test.remote {
				t.Errorf("%q is %q at %q, want %q at %q", test.cwd, s.Project, s.Remote, test.project, test.remote)
			}
		}
	}
}

func TestProjectsOfElsewhere(t *testing.T) {
	p := sources.NewProjects(env("/home/u"))
	tests := []struct{ s, want record.Session }{
		{record.Session{Cwd: `C:\Users\u\src\App`}, record.Session{Cwd: `C:\Users\u\src\App`, Project: "App"}},
		{record.Session{Cwd: `C:\Users\u\src\App\`}, record.Session{Cwd: `C:\Users\u\src\App\`, Project: "App"}},
		{record.Session{Cwd: `\\server\share\App`}, record.Session{Cwd: `\\server\share\App`, Project: "App"}},
		{record.Session{Cwd: "/home/u"}, record.Session{Cwd: "/home/u", Project: "~"}},
		{record.Session{Cwd: "/home/u/"}, record.Session{Cwd: "/home/u/", Project: "~"}},
		{record.Session{Cwd: "/srv/gone/app"}, record.Session{Cwd: "/srv/gone/app", Project: "app"}},
		{record.Session{Cwd: "/srv/gone/wt-7", Remote: "h/team/app"}, record.Session{Cwd: "/srv/gone/wt-7", Remote: "h/team/app", Project: "app"}},
		{record.Session{Project: "history"}, record.Session{Project: "history"}},
		{record.Session{Project: "-srv-no-such-dir", Guessed: true}, record.Session{Project: "srv-no-such-dir", Guessed: true}},
	}
	for _, test := range tests {
		got := test.s
		p.Fill(&got)
		if got != test.want {
			t.Errorf("%+v became %+v, want %+v", test.s, got, test.want)
		}
	}
}

// A folder's name is decoded by what lies on the disk, and stays a guess.
func TestProjectsOfFolderNames(t *testing.T) {
	home := place(t, map[string]string{"a-b/c.d/real/file": "", "a/b/file": "", "a-b/c/file": ""})
	var slug strings.Builder
	for _, r := range filepath.ToSlash(filepath.Join(home, "a-b", "c.d", "real")) {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			slug.WriteString(string(r))
		} else {
			slug.WriteString("-")
		}
	}
	s := record.Session{Project: slug.String(), Guessed: true}
	sources.NewProjects(env("/nowhere")).Fill(&s)
	if s.Project != "real" || !s.Guessed || s.Cwd != "" {
		t.Errorf("%q became %+v", slug.String(), s)
	}
}

func TestRemoteNames(t *testing.T) {
	tests := []struct{ url, want string }{
		{"https://example.invalid/Team/App.git", "example.invalid/team/app"},
		{"https://user:secret@Example.Invalid/team/app", "example.invalid/team/app"},
		{"ssh://git@example.invalid:22/team/app.git/", "example.invalid/team/app"},
		{"ssh://git@example.invalid:2222/team/app.git", "example.invalid:2222/team/app"},
		{"git@example.invalid:team/app.git", "example.invalid/team/app"},
		{"example.invalid:team/app", "example.invalid/team/app"},
		{"git://example.invalid:9418/app", "example.invalid/app"},
		{"https://example.invalid/app.git?token=secret#x", "example.invalid/app"},
		{"https://example.invalid/../../app", "example.invalid/app"},
		{"/srv/git/app.git", ""},
		{"../app", ""},
		{"./host:x", ""},
		{"file:///srv/git/app.git", ""},
		{`C:\git\app`, ""},
		{"https://example.invalid/", ""},
		{"https://", ""},
		{"", ""},
	}
	for _, test := range tests {
		if got := sources.RemoteName(test.url); got != test.want {
			t.Errorf("%q is %q, want %q", test.url, got, test.want)
		}
	}
}

// A pipe in place of a repository's file is no reason to wait.
func TestProjectsDoNotWait(t *testing.T) {
	home := t.TempDir()
	git := filepath.Join(home, "src", "odd", ".git")
	if err := os.MkdirAll(git, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(git, "HEAD"), "x")
	makePipe(t, filepath.Join(git, "config"))
	s := record.Session{Cwd: filepath.Dir(git)}
	sources.NewProjects(env(home)).Fill(&s)
	if s.Project != "odd" {
		t.Errorf("got %q", s.Project)
	}
}
