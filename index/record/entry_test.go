package record_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/deja-node/deja/index/record"
	"github.com/deja-node/deja/index/redact"
)

// plainCID follows the words of the definition, field by field.
func plainCID(e record.Entry) record.CID {
	h := sha256.New()
	field := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	number := func(n int64) { h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	h.Write([]byte("deja-cid-1"))
	field(e.Harness)
	field(e.Session)
	field(string(e.Role))
	if e.Time.IsZero() {
		number(0)
	} else {
		number(e.Time.UnixNano())
	}
	number(int64(e.N))
	number(int64(e.Part))
	field(e.Text.String())
	return record.CID(h.Sum(nil))
}

func TestCIDIsTheDefinition(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	seen := map[record.CID]record.Entry{}
	for range 300 {
		e := record.Entry{
			Harness: strings.Repeat("h", rng.IntN(3)), Session: strings.Repeat("s", rng.IntN(3)),
			Role: record.RoleUser, N: rng.IntN(2), Part: rng.IntN(2),
			Text: redact.Trusted(strings.Repeat("t", rng.IntN(1<<rng.IntN(18)))),
		}
		if rng.IntN(2) == 0 {
			e.Time = time.Unix(rng.Int64N(4e9)-1e9, rng.Int64N(1e9)).In(time.FixedZone("", 3600*rng.IntN(9)))
		}
		got := e.CID()
		if want := plainCID(e); got != want {
			t.Fatalf("%+v: got %v, want %v", e, got, want)
		}
		e.Project, e.Origin, e.Mid, e.Salt = redact.Trusted("p"), "o", "m", [8]byte{1}
		if e.CID() != got {
			t.Fatal("the id depends on what only labels a record")
		}
		seen[got] = e
	}
}

// TestCIDSeesWhatIsStored holds that an id computed before an entry is stored
// is the id that every reader computes afterwards.
func TestCIDSeesWhatIsStored(t *testing.T) {
	raw := record.Entry{Session: "a\xffb", Role: "r\xc3", Text: redact.Trusted("x\xed\xa0\x80y"), Time: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	stored := record.Entry{Session: "a\uFFFDb", Role: "r\uFFFD", Text: redact.Trusted("x\uFFFDy")}
	if raw.CID() != stored.CID() {
		t.Error("the id of an entry changes when it is stored")
	}
	if record.StoredTime(raw.Time) != stored.Time {
		t.Error("a time that a log cannot keep is kept")
	}
}

func TestCIDSeparatesFields(t *testing.T) {
	a := record.Entry{Harness: "ab", Session: "c"}
	b := record.Entry{Harness: "a", Session: "bc"}
	if a.CID() == b.CID() {
		t.Error("moving a byte from one field to the next keeps the id")
	}
}

func BenchmarkCID(b *testing.B) {
	e := record.Entry{Harness: "claude", Session: "0198a-session", Role: record.RoleUser, Time: time.Unix(1.7e9, 5), Text: redact.Trusted(strings.Repeat("plain words ", 60))}
	b.SetBytes(int64(e.Text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		e.CID()
	}
}
