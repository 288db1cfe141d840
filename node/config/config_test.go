package config_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/deja-node/deja/node/config"
)

func env(goos, home string, vars map[string]string) config.Env {
	return config.Env{Getenv: func(k string) string { return vars[k] }, Home: home, GOOS: goos}
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		name                       string
		env                        config.Env
		config, data, index, notes string
	}{
		{"linux", env("linux", "/h", nil), "/h/.config/deja", "/h/.local/share/deja", "/h/.cache/deja/index.db", "/h/.local/share/deja/notes.jsonl"},
		{"xdg", env("linux", "/h", map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/k"}), "/c/deja", "/d/deja", "/k/deja/index.db", "/d/deja/notes.jsonl"},
		{"relative xdg is ignored", env("linux", "/h", map[string]string{"XDG_DATA_HOME": "d"}), "/h/.config/deja", "/h/.local/share/deja", "/h/.cache/deja/index.db", "/h/.local/share/deja/notes.jsonl"},
		{"xdg without home", env("linux", "", map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/k"}), "/c/deja", "/d/deja", "/k/deja/index.db", "/d/deja/notes.jsonl"},
		{"darwin", env("darwin", "/h", nil), "/h/Library/Application Support/deja/config", "/h/Library/Application Support/deja/data", "/h/Library/Caches/deja/index.db", "/h/.local/share/deja/notes.jsonl"},
		{"windows", env("windows", "/h", map[string]string{"APPDATA": "/r", "LOCALAPPDATA": "/l"}), "/r/deja", "/l/deja/data", "/l/deja/cache/index.db", "/r/deja/notes.jsonl"},
		{"DEJA_HOME", env("linux", "", map[string]string{"DEJA_HOME": "/t"}), "/t/config", "/t/data", "/t/cache/index.db", "/t/data/notes.jsonl"},
		{"moved", env("linux", "/h", map[string]string{"DEJA_HOME": "/t", "DEJA_INDEX_DIR": "/i", "DEJA_NOTES_FILE": "/n"}), "/t/config", "/t/data", "/i", "/n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := config.Load(c.env)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{c.config, c.data, c.index, c.notes}
			for i, p := range []string{got.ConfigDir, got.DataDir, got.IndexDir, got.NotesFile} {
				if filepath.ToSlash(p) != want[i] {
					t.Errorf("got %s, want %s", p, want[i])
				}
			}
		})
	}
}

func TestNoHomeIsAnError(t *testing.T) {
	if _, err := config.Load(env("linux", "", nil)); !errors.Is(err, config.ErrNoHome) {
		t.Errorf("got %v, want ErrNoHome", err)
	}
}

func TestTilde(t *testing.T) {
	c, err := config.Load(env("linux", "/h/me", nil))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{"/h/me": "~", "/h/me/a/b": "~/a/b", "/h/meta": "/h/meta", "/x": "/x", "/h/me/..a": "~/..a"} {
		if got := c.Tilde(in); got != want {
			t.Errorf("Tilde(%s) = %s, want %s", in, got, want)
		}
	}
}
