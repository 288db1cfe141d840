package index

import (
	"time"

	"github.com/deja-node/deja/index/record"
)

// Origin is the machine a session comes from.
type Origin struct {
	Node  record.NodeID `json:"node"`
	Name  string        `json:"name"`
	Local bool          `json:"local"`
}

// Session is a session as every surface shows it. Texts are scrubbed, and may
// hold anything: who prints them cleans them.
type Session struct {
	ID       string    `json:"id"`
	Native   string    `json:"native_id"`
	Harness  string    `json:"harness"`
	Project  string    `json:"project"`
	Title    string    `json:"title"`
	Cwd      string    `json:"cwd,omitempty"`
	Branch   string    `json:"branch,omitempty"`
	Model    string    `json:"model,omitempty"`
	Kind     string    `json:"kind,omitempty"`
	Parent   string    `json:"parent,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Started  time.Time `json:"started"`
	Updated  time.Time `json:"updated"`
	Messages int       `json:"messages"`
	Origin   Origin    `json:"origin"`
	Gone     bool      `json:"source_gone,omitempty"`

	key record.SessionID
}

// Message is one turn of a session.
type Message struct {
	Ordinal int         `json:"ordinal"` // from 0, in the order of the session
	Role    record.Role `json:"role"`
	Time    time.Time   `json:"time"`
	Text    string      `json:"text"`
	Exit    *int        `json:"exit,omitempty"`
}

// Snippet is the part of a turn that answers.
type Snippet struct {
	Role    record.Role `json:"role"`
	Time    time.Time   `json:"time"`
	Ordinal int         `json:"ordinal"`
	Text    string      `json:"text"`
}

// Hit is one session that answers a query.
type Hit struct {
	Rank     int                `json:"rank"`
	Score    float64            `json:"score"`
	Why      map[string]float64 `json:"why,omitempty"`
	Session  Session            `json:"session"`
	Matches  int                `json:"matches"`
	Snippets []Snippet          `json:"snippets"`
	AlsoOn   []Origin           `json:"also_on,omitempty"`

	// Matched and Asked count the words of the query that the session holds,
	// and all of them.
	Matched int `json:"-"`
	Asked   int `json:"-"`
}

// The tiers of an answer: how its hits were found.
const (
	TierExact   = "exact"   // every word of the query stands in the first hit
	TierNearest = "nearest" // the sessions that hold most of what was asked
	TierPhrase  = "phrase"  // quoted text stands there word for word
	TierRegexp  = "regexp"
	TierNone    = "none"
)

// Answer is what a search found.
type Answer struct {
	Query    string
	Tier     string
	Total    int // sessions that hold any word of the query
	Hits     []Hit
	Withheld int // sessions that policy keeps from this surface
}

// Filter narrows what is looked at.
type Filter struct {
	Harness string
	Project string // part of the project's name, any case
	Since   time.Time
	Roles   []record.Role // empty: speech
	Session string        // a selector, as Find takes it
	From    func(record.NodeID) bool
}

// plain reports whether the filter needs nothing of a session.
func (f Filter) plain() bool {
	return f.Harness == "" && f.Project == "" && f.Since.IsZero() && f.From == nil
}
