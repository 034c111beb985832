package watchdoghttp

import (
	"io"
	"time"
)

// RingLate has the timer of a body, which rings on time in a bubble, have been set for so much earlier.
func RingLate(body io.ReadCloser, by time.Duration) { body.(*stream).setFor.Add(-int64(by)) }
