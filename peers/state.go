package peers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/vfs"
)

const maxState = 4 << 20 // bytes of a state file

// State is what the last exchanges with a peer came to. Times move only when a
// side confirmed.
type State struct {
	LastPush      time.Time                      `json:"last_push,omitzero"`
	LastPull      time.Time                      `json:"last_pull,omitzero"`
	LastError     string                         `json:"last_error,omitempty"`
	SinceError    time.Time                      `json:"since_error,omitzero"`
	NextAttempt   time.Time                      `json:"next_attempt,omitzero"`
	Failures      int                            `json:"failures,omitempty"`
	Acked         map[record.StreamID]record.Seq `json:"acked,omitempty"` // what the peer confirmed to have
	BehindRecords uint64                         `json:"behind_records,omitempty"`
	TheyLack      *uint64                        `json:"they_lack,omitempty"` // nil: not known
	ClockSkew     time.Duration                  `json:"clock_skew,omitempty"`
	Version       string                         `json:"version,omitempty"`
	BytesIn       uint64                         `json:"bytes_in,omitempty"`
	BytesOut      uint64                         `json:"bytes_out,omitempty"`
}

// LoadState reads the state of a peer from <stateDir>/peers. A row that has no
// state yet has that of its host before its node was known, else the times of
// its v1 row.
func LoadState(fsys vfs.FS, stateDir string, p Peer) (State, error) {
	for _, key := range p.stateKeys() {
		name := stateFile(stateDir, key)
		data, err := vfs.ReadFile(fsys, name, maxState)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return State{}, err
		}
		var s State
		if err := json.Unmarshal(data, &s); err != nil {
			return State{}, fmt.Errorf("%s: %w: remove it to start afresh", name, err)
		}
		return s, nil
	}
	return p.v1State(), nil
}

// SaveState writes the state of a peer.
func SaveState(fsys vfs.FS, stateDir string, p Peer, s State) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(path.Join(stateDir, "peers")); err != nil {
		return err
	}
	return vfs.WriteFile(fsys, stateFile(stateDir, p.stateKeys()[0]), append(data, '\n'))
}

func stateFile(stateDir, key string) string { return path.Join(stateDir, "peers", key+".json") }

// stateKeys names the files a row's state may be in, the current one first.
// A host is hashed because a file cannot have every name that a host has.
func (p Peer) stateKeys() []string {
	var keys []string
	if !p.Node.IsZero() {
		keys = append(keys, p.Node.String())
	}
	sum := sha256.Sum256([]byte(foldHost(p.Host)))
	return append(keys, "host-"+hex.EncodeToString(sum[:10]))
}

// v1State returns what a row of v1 says of its last exchanges. A time that
// cannot be read is as good as none.
func (p Peer) v1State() State {
	var s State
	for field, into := range map[string]any{"last_push": &s.LastPush, "last_pull": &s.LastPull, "last_error": &s.LastError} {
		if err := json.Unmarshal(p.extra[field], into); err != nil {
			continue
		}
	}
	return s
}

const (
	backoffFirst = 5 * time.Minute
	backoffMost  = 6 * time.Hour
)

// Backoff returns how long to leave a peer alone after so many failures in a
// row: between half and all of a bound that doubles from 10 minutes to 6
// hours. The random function returns numbers in [0,1).
func Backoff(failures int, random func() float64) time.Duration {
	if failures <= 0 {
		return 0
	}
	bound := backoffMost
	if shift := min(failures, 16); backoffFirst<<shift < backoffMost {
		bound = backoffFirst << shift
	}
	return bound/2 + time.Duration(random()*float64(bound/2))
}
