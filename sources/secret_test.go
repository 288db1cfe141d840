package sources_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deja-node/deja/sources"
)

// Marks are stored, so no text enters one unscrubbed.
func TestMarksHoldNoSecret(t *testing.T) {
	for _, c := range goldens(t) {
		if filepath.Base(c.dir) != "secret" {
			continue
		}
		h, files := openCase(t, c, c.home(t))
		for _, f := range files {
			name := filepath.Join(h.Store().Root, filepath.FromSlash(f.Rel))
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte(planted)) {
				t.Fatalf("%s holds no secret", f.Rel)
			}
			scrubbed := func(text string) string { return strings.ReplaceAll(text, planted, "[gone]") }
			for _, scrub := range []func(string) string{scrubbed, nil} {
				for _, cut := range cuts(data) {
					rewriteFile(t, name, data[:cut])
					to := newRecorder()
					res, err := h.Decode(t.Context(), sources.Job{File: f, Memory: to, Scrub: scrub}, to.sink(t))
					if err != nil {
						t.Fatal(err)
					}
					if bytes.Contains(res.Mark, []byte(planted)) {
						t.Fatalf("%s cut at %d: the mark holds the secret: %s", f.Rel, cut, res.Mark)
					}
				}
			}
		}
	}
}
