package sweep

import (
	"context"
	"slices"
	"time"
)

// An Alert is a callback for many cancels. The zero value never calls.
type Alert struct {
	// Count is the largest number of cancels by this sweeper that needs no alert. Within is the time up to now in
	// which they are counted. A Count of zero has each cancel alert; a Within of zero is an error with Func.
	Count  int
	Within time.Duration
	// Func is called with the number of cancels when that gets larger than Count. It is called again only after the
	// number was back at Count or less.
	Func func(ctx context.Context, cancels int)
}

// A rate counts cancels for an alert.
type rate struct {
	Alert
	cancels []time.Time
	alerted bool
}

// add counts a cancel. It reports whether that one needs an alert, and how many there are.
func (r *rate) add(now time.Time) (alert bool, cancels int) {
	if r.Func == nil {
		return false, 0
	}
	r.cancels = slices.DeleteFunc(r.cancels, func(at time.Time) bool { return now.Sub(at) > r.Within })
	if len(r.cancels) <= r.Count {
		r.alerted = false
	}
	r.cancels = append(r.cancels, now)
	if len(r.cancels) <= r.Count || r.alerted {
		return false, len(r.cancels)
	}
	r.alerted = true
	return true, len(r.cancels)
}
