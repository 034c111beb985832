package storerows

import (
	"fmt"
	"time"
)

// Validate returns the error of the first invalid event of a batch, with its number.
func Validate[E interface{ Validate() error }](events []E) error {
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("append event %d of %d: %w", i+1, len(events), err)
		}
	}
	return nil
}

// RoundUp returns a duration in microseconds, rounded up, so that a minimum stays a minimum.
func RoundUp(d time.Duration) (microseconds int64) {
	microseconds = d.Microseconds()
	if d%time.Microsecond > 0 {
		microseconds++
	}
	return microseconds
}

// Nullable returns NULL for an empty text.
func Nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// WithoutRepeats divides a batch into parts in which each key occurs once, in their order: what one element of a part
// does cannot concern another.
func WithoutRepeats[E any, K comparable](batch []E, keyOf func(E) K) (parts [][]E) {
	begin, occurs := 0, map[K]bool{}
	for i, e := range batch {
		key := keyOf(e)
		if occurs[key] {
			parts = append(parts, batch[begin:i])
			begin = i
			clear(occurs)
		}
		occurs[key] = true
	}
	return append(parts, batch[begin:])
}
