package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/deja-node/deja/index/vfs"
)

// Format is the version of the layout on disk that this program writes. It
// reads every older one.
const Format = 1

// needs names the oldest program that reads stores of this format.
const needs = "deja 1.0"

const maxSmall = 1 << 20 // bytes of the small files that are read whole

// formatFile is FORMAT.
type formatFile struct {
	Format int    `json:"format"`
	Needs  string `json:"needs"`
}

// checkFormat refuses a store whose layout this program does not know.
func checkFormat(fsys vfs.FS, dir string) error {
	name := path.Join(dir, formatName)
	data, err := vfs.ReadFile(fsys, name, maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f formatFile
	if err := json.Unmarshal(data, &f); err != nil || f.Format < 1 {
		return corrupt(name, 0, errors.Join(errors.New("no format number"), err))
	}
	if f.Format > Format {
		return fmt.Errorf("%s: %w: format %d needs %.40s, this program reads up to %d", dir, ErrNewer, f.Format, f.Needs, Format)
	}
	return nil
}

// stampFormat marks a store with the format of what is about to be written.
func stampFormat(fsys vfs.FS, dir string) error {
	name := path.Join(dir, formatName)
	if _, err := fsys.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := json.Marshal(formatFile{Format, needs})
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, name, append(data, '\n'))
}
