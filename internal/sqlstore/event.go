package sqlstore

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Validate returns the error of the first invalid event of a batch, with its number.
func Validate(events []watchdog.Event) error {
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("append event %d of %d: %w", i+1, len(events), err)
		}
	}
	return nil
}

// Truncate returns a time as the tables keep it: in UTC, cut off below the microsecond.
func Truncate(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// RoundUp returns a duration in microseconds, rounded up, so that a minimum stays a minimum.
func RoundUp(d time.Duration) (microseconds int64) {
	return (d + time.Microsecond - 1).Microseconds()
}

// Nullable returns NULL for an empty text.
func Nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
