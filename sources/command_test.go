package sources_test

import (
	"slices"
	"testing"

	"github.com/deja-node/deja/sources"
)

func TestCommands(t *testing.T) {
	tests := []struct {
		line    string
		program string
		kept    bool
	}{
		{"go test ./...", "go", true},
		{"  make build  ", "make", true},
		{"CGO_ENABLED=0 GOOS=linux go build", "go", true},
		{`FOO="a b" BAR='c d' npm ci`, "npm", true},
		{"sudo -u postgres psql -c 'select 1'", "psql", true},
		{"sudo apt-get update", "apt-get", true},
		{"time -p cargo build", "cargo", true},
		{"nice -n 19 tar cf - .", "tar", true},
		{"timeout -k 5 60s pytest -x", "pytest", true},
		{"env -u HOME FOO=1 python3 -m http.server", "python", true},
		{"cd /srv/demo && go vet", "go", true},
		{`cd "/srv/with space" && cd sub; git status`, "git", true},
		{"export A=1 && make", "make", true},
		{"source venv/bin/activate && pip install x", "pip", true},
		{". ./env.sh && docker ps", "docker", true},
		{"./gradlew test", "gradlew", true},
		{"./node_modules/.bin/jest --ci", "jest", true},
		{"/usr/bin/python3.12 x.py", "python", true},
		{`C:\tools\git.exe status`, "git", true},
		{`"C:\Program Files\nodejs\node.exe" x.js`, "node", true},
		{"clang-18 -O2 a.c", "clang", true},
		{"(cd sub && make)", "make", true},
		{"bash ./deploy.sh", "bash", true},
		{"kubectl get pods | grep api", "kubectl", true},
		{"ls -la", "ls", false},
		{"cd /srv/demo", "cd", false},
		{"cat go.mod", "cat", false},
		{"echo go test", "echo", false},
		{"which go", "which", false},
		{"grep -r make .", "grep", false},
		{"export GOFLAGS=-mod=mod", "export", false},
		{"go test ./...\ngo vet ./...", "go", false},
		{"", "", false},
		{"   ", "", false},
		{"&& make", "", false},
		{"'unclosed", "unclosed", false},
		{"sudo", "", false},
		{"timeout 5", "", false},
		{"A=1", "", false},
	}
	for _, test := range tests {
		if got := sources.FirstProgram(test.line); got != test.program {
			t.Errorf("%q runs %q, want %q", test.line, got, test.program)
		}
		text, ok := sources.CommandText(test.line)
		if ok != test.kept {
			t.Errorf("%q: kept %v, want %v", test.line, ok, test.kept)
		}
		if ok && text[:2] != "$ " {
			t.Errorf("%q is recorded as %q", test.line, text)
		}
	}
}

func TestProgramsAreSorted(t *testing.T) {
	if !slices.IsSorted(sources.ProgramList) {
		t.Error("the list of programs is searched, and must be sorted")
	}
	if len(slices.Compact(slices.Clone(sources.ProgramList))) != len(sources.ProgramList) {
		t.Error("a program is listed twice")
	}
}

func FuzzFirstProgram(f *testing.F) {
	f.Add(`sudo -u x env A="b c" timeout 5 'go' test`)
	f.Fuzz(func(t *testing.T, line string) {
		sources.FirstProgram(line)
		if text, ok := sources.CommandText(line); ok && len(text) > len(line)+2 {
			t.Errorf("%q became %q", line, text)
		}
	})
}
