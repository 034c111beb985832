package storeflow

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// StartPause returns the pause of a start in microseconds, negative if none is to follow.
func StartPause(pause time.Duration) int64 {
	if pause == session.NoMoreStarts {
		return -1
	}
	return storerows.RoundUp(storerows.StartPause(pause))
}
