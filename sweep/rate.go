package sweep

import (
	"context"
	"math"
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

// A throttle keeps the cancels of a sweeper to a number in each minute. The zero value does not.
type throttle struct {
	perMinute int64
	cancels   []time.Time // of the last minute
}

func (t *throttle) add(now time.Time) {
	if t.perMinute > 0 {
		t.cancels = append(t.cancels, now)
	}
}

// room returns how many cancels there may be now.
func (t *throttle) room(now time.Time) int {
	if t.perMinute == 0 {
		return math.MaxInt
	}
	t.cancels = slices.DeleteFunc(t.cancels, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	return int(max(min(t.perMinute, math.MaxInt)-int64(len(t.cancels)), 0))
}

// next returns when to go on after a pass that cancelled or warned as many sessions as it may; zero if there is no
// throttle. The passes are spread over the minute.
func (t *throttle) next(now time.Time, handled int) time.Time {
	if t.perMinute == 0 {
		return time.Time{}
	}
	next := now.Add(spread(t.perMinute, handled))
	if t.room(now) == 0 && len(t.cancels) > 0 && next.Before(t.cancels[0].Add(time.Minute)) {
		return t.cancels[0].Add(time.Minute)
	}
	return next
}

// spread returns the time that a number of cancels takes at a rate.
func spread(perMinute int64, cancels int) time.Duration {
	return time.Duration(float64(time.Minute) * float64(max(cancels, 1)) / float64(perMinute))
}

// earliest returns the earlier time of two. Zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
