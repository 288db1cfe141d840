package journal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/deja-node/deja/index/record"
)

// Names of files in the folder of the journal.
const (
	formatName = "FORMAT"
	lockName   = "LOCK"
	writerName = "WRITER"
)

// Names of files in the folder of a stream.
const (
	headName  = "HEAD"
	cardName  = "CARD"
	holesName = "HOLES"
	forkName  = "FORK"
)

// Suffixes of files that are named by the position of their first entry.
const (
	segSuffix  = ".seg"
	idxSuffix  = ".idx"
	tailSuffix = ".tail"
)

const seqDigits = 20

func seqName(first record.Seq, suffix string) string {
	return fmt.Sprintf("%0*d%s", seqDigits, first, suffix)
}

// parseSeqName reads the exact form that seqName writes.
func parseSeqName(name, suffix string) (record.Seq, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != seqDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return record.Seq(n), err == nil && n > 0
}
