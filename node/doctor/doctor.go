// Package doctor examines a node and returns findings: one file per subject.
// It changes nothing. Start at [Examine].
package doctor

import (
	"context"

	"github.com/deja-node/deja/node"
)

// State is how something is.
type State string

// The states, from good to bad.
const (
	OK        State = "ok"
	Attention State = "attention"
	Broken    State = "broken"
)

// Finding is one fact about one subject, and what helps where it is not well.
type Finding struct {
	Subject string `json:"subject"`
	State   State  `json:"state"`
	Fact    string `json:"fact"`
	Remedy  string `json:"remedy,omitempty"`
}

// Index says how the log and the views are.
type Index struct {
	State    State  `json:"state"`
	Path     string `json:"path"`
	LogPath  string `json:"log_path"`
	Sessions int    `json:"sessions"`
	Records  int    `json:"records"`
	LogBytes int64  `json:"log_bytes"`
	Bytes    int64  `json:"bytes"`
	Behind   bool   `json:"behind"`
	Kept     int    `json:"kept_source_gone"`
}

// Policy says whether the policy is in force.
type Policy struct {
	State State  `json:"state"`
	Path  string `json:"path"`
	Error string `json:"error,omitempty"`
}

// Report is the whole examination.
type Report struct {
	Schema   string            `json:"schema"`
	State    State             `json:"state"`
	Findings []Finding         `json:"findings"`
	Stores   []node.SourceInfo `json:"stores"`
	Index    Index             `json:"index"`
	Peers    []node.PeerInfo   `json:"peers"`
	Wiring   []string          `json:"wiring"`
	Policy   Policy            `json:"policy"`
}

// Options say how thorough to be.
type Options struct {
	Deep    bool
	Offline bool
	Peer    string // only this peer's row
}

// Examine looks at everything. What cannot be examined is a finding, not an
// error: a node that is broken in one place still reports on the others.
func Examine(ctx context.Context, n *node.Node, opt Options) (Report, error) {
	r := Report{Schema: "deja.doctor/1", State: OK, Findings: []Finding{}, Stores: []node.SourceInfo{}, Peers: []node.PeerInfo{}, Wiring: []string{}}
	for _, look := range []func(context.Context, *node.Node, Options, *Report){identity, stores, log, index, peers, policy} {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		look(ctx, n, opt, &r)
	}
	return r, nil
}

// add records a finding; the report is as bad as its worst.
func (r *Report) add(subject string, state State, fact, remedy string) {
	r.Findings = append(r.Findings, Finding{subject, state, fact, remedy})
	if state == Broken || state == Attention && r.State == OK {
		r.State = state
	}
}
