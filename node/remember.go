package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deja-node/deja/index"
	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
	"github.com/deja-node/deja/sources"
)

// Limits of a note.
const (
	maxNoteText = 1 << 20
	maxTags     = 8
)

// Remembered says what became of a note.
type Remembered struct {
	Project  string
	Redacted int  // secrets replaced before it was written
	Indexed  bool // it can be searched already; else the next index run takes it in
}

// Remember files an explicit note. It is scrubbed before it is written, since
// the notes file is primary data and outlives every view.
func (n *Node) Remember(ctx context.Context, text, project string, tags []string) (Remembered, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Remembered{}, errors.New("note: there is no text")
	case len(text) > maxNoteText:
		return Remembered{}, fmt.Errorf("note: %d bytes, at most %d can be kept: shorten it", len(text), maxNoteText)
	}
	tags, err := cleanTags(tags)
	if err != nil {
		return Remembered{}, err
	}
	scrub := redact.New(redact.Options{Disabled: n.cfg.NoRedact})
	note := sources.Note{
		Filed: n.host.Now().UTC(), Project: scrub.Scrub(project).String(),
		Text: scrub.Scrub(text).String(), Tags: tags,
	}
	for i := range note.Tags {
		note.Tags[i] = scrub.Scrub(note.Tags[i]).String()
	}
	out := Remembered{Project: note.Project}
	for _, c := range scrub.Counts() {
		out.Redacted += c
	}
	if err := sources.AppendNote(ctx, sources.NotesFile(n.sourceEnv()), note); err != nil {
		return Remembered{}, err
	}
	_, err = n.Refresh(ctx, RefreshOptions{Only: []string{"deja"}})
	if errors.Is(err, index.ErrBusy) {
		return out, nil // the process that writes now, or the next run, takes it in
	}
	out.Indexed = err == nil
	return out, err
}

// cleanTags brings tags into the one form that is stored: lower case, without
// the leading #, each once.
func cleanTags(tags []string) ([]string, error) {
	var out []string
	for _, t := range tags {
		t = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(t), "#"))
		if t == "" || slices.Contains(out, t) {
			continue
		}
		out = append(out, t)
	}
	if len(out) > maxTags {
		return nil, fmt.Errorf("note: %d tags, at most %d can be kept", len(out), maxTags)
	}
	return out, nil
}

// noteTurn is the turn that a note is in its session.
func noteTurn(n sources.Note) record.Turn {
	return record.Turn{Session: n.Session, Role: record.RoleUser, Time: n.Time, Text: n.Message()}
}

// noteMeta is what a note carries beside its text, still raw.
func noteMeta(n sources.Note) index.NoteMeta {
	return index.NoteMeta{State: n.State, Tags: n.Tags, Of: n.Of, Title: n.Title, Evident: n.Evident}
}

// indexOptions opens the log and the views of this node.
func (n *Node) indexOptions() index.Options {
	return index.Options{
		FS: n.fs, LogDir: n.cfg.LogDir(), IndexDir: n.cfg.IndexDir, SpoolDir: n.cfg.SpoolDir(),
		Key: n.id.Key, Stream: n.id.Stream, Origin: n.id.Name,
		NoRedact: n.cfg.NoRedact, Policy: n.policy, Now: n.host.Now, Random: n.host.Random, Log: n.host.Log, PID: n.host.PID,
	}
}
