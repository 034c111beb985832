package verdict

import "time"

// How long what a store did not take waits for the next try, at first and at most.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// RetryRecord returns how long what a store has refused waits for the next try, after so many that were made by
// themselves: a second, twice as long each time, and at most half a minute.
func RetryRecord(tries int) time.Duration { return Doubled(firstRetry, longestRetry, tries) }
