package sources

import (
	"syscall"
	"time"
)

func changed(st *syscall.Stat_t) time.Time {
	return time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec)) //nolint:unconvert // 32-bit systems have narrower fields
}
