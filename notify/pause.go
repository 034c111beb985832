package notify

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses after a try that failed: the first, and the longest.
const firstPause, longestPause = 5 * time.Second, time.Hour

// pauseAfter returns how long a notice waits that was tried so often: twice as long each time, up to the longest pause,
// and up to a fifth less, so that the notices of one outage do not come back at one instant.
func pauseAfter(tries int) time.Duration {
	pause := firstPause
	for i := 1; i < tries && pause < longestPause; i++ {
		pause *= 2
	}
	pause = min(pause, longestPause)
	return pause - rand.N(pause/5)
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
