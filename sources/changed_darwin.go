package sources

import (
	"syscall"
	"time"
)

func changed(st *syscall.Stat_t) time.Time {
	return time.Unix(st.Ctimespec.Sec, st.Ctimespec.Nsec)
}
