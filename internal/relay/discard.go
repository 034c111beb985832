package relay

import (
	"errors"
	"os"
	"time"
)

// discard reads and drops what comes until every writer has closed the pipe.
func (r *source) discard() {
	var buffer [4096]byte
	for {
		_ = r.file.SetReadDeadline(time.Time{}) // drain set one, and may again; fails only on a closed file
		_, err := r.file.Read(buffer[:])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}
