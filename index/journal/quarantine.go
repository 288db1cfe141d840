package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/deja-node/deja/index/vfs"
)

// Limits of what the spool keeps.
const (
	maxKept      = 20
	maxKeptBytes = 64 << 20
	keptSuffix   = ".bad"
)

// quarantine keeps a copy of bytes that were refused or are damaged, and
// removes the oldest copies when there are too many. It returns the name of
// the copy, empty if none was made.
func (j *Journal) quarantine(data []byte) (string, error) {
	if j.opt.Spool == "" || len(data) == 0 || len(data) > maxKeptBytes {
		return "", nil
	}
	if err := j.fs.MkdirAll(j.opt.Spool); err != nil {
		return "", err
	}
	var at time.Time
	if j.opt.Now != nil {
		at = j.opt.Now()
	}
	sum := sha256.Sum256(data)
	name := path.Join(j.opt.Spool, fmt.Sprintf("%020d-%s%s", max(at.UnixNano(), 0), hex.EncodeToString(sum[:8]), keptSuffix))
	if err := vfs.WriteFile(j.fs, name, data); err != nil {
		return "", err
	}
	return name, j.prune()
}

// prune removes the oldest copies beyond the limits. Their names begin with
// the time, so the list is in its order.
func (j *Journal) prune() error {
	entries, err := j.fs.ReadDir(j.opt.Spool)
	if err != nil {
		return err
	}
	kept, size := 0, int64(0)
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if !strings.HasSuffix(e.Name(), keptSuffix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		kept++
		size += info.Size()
		if kept <= maxKept && size <= maxKeptBytes {
			continue
		}
		if err := removeIfThere(j.fs, path.Join(j.opt.Spool, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
