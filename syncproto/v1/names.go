// Package v1 reads and writes the older batch files, one record a line and no
// header, that earlier programs of this kind exchange and that `deja sync
// export` and `deja sync import` keep as their shape on disk.
//
// Nothing in such a file is signed: its origin is a claim. Start at [Reader]
// and [Writer]; [Files], [Open] and [Create] find, open and make the files of a
// directory. What a Reader yields is raw: it has to pass the write gate like
// any transcript.
package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"
)

var namePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^deja-sync-([0-9a-f]{12})-([0-9]{1,19})\.jsonl$`)
})

// Name is what the name of a batch file says.
type Name struct {
	Source string // 12 hex digits, whatever they stand for
	Time   int64  // nanoseconds since 1970
}

// NameOf names a file of the records of a source, written at a time.
func NameOf(source string, at time.Time) Name {
	sum := sha256.Sum256([]byte(source))
	return Name{Source: hex.EncodeToString(sum[:6]), Time: at.UnixNano()}
}

// String returns the base name of the file.
func (n Name) String() string { return fmt.Sprintf("deja-sync-%s-%d.jsonl", n.Source, n.Time) }

// ParseName reads a base name. Anything but the exact form is no batch file.
func ParseName(base string) (Name, bool) {
	m := namePattern().FindStringSubmatch(base)
	if m == nil {
		return Name{}, false
	}
	at, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return Name{}, false
	}
	return Name{Source: m[1], Time: at}, true
}
