// Package clocks does on a host's clock what package time does on the machine's. A nil clock is the machine's.
package clocks

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Clock is one of a host's.
type Clock interface {
	// Now returns the time.
	Now() time.Time
	// AfterFunc calls f on a goroutine of its own after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is what AfterFunc of a [Clock] returns: a [time.Timer] is one.
type Timer interface {
	// Stop prevents the call, and reports whether it did.
	Stop() bool
	// Reset has the timer call after d from now, and reports whether it was running.
	Reset(d time.Duration) bool
}

// Now is the wall clock, for what people and databases read.
func Now(c Clock) time.Time {
	if c != nil {
		return c.Now()
	}
	return time.Now()
}

// Since is the time since t.
func Since(c Clock, t time.Time) time.Duration {
	if c != nil {
		return c.Now().Sub(t)
	}
	return time.Since(t)
}

// Uptime is the count of a host's clock that has one: it never goes back, and goes on while the machine sleeps.
func Uptime(c Clock) (count time.Duration, counts bool) {
	counter, counts := c.(interface{ Uptime() time.Duration })
	if !counts {
		return 0, false
	}
	return counter.Uptime(), true
}

// Glance is how often a timer looks at a clock at least whose count goes on while the machine sleeps, as timers do not.
const Glance = time.Minute

// Patience is how long a timer may wait for an instant of the clock.
func Patience(c Clock, wait time.Duration) time.Duration {
	if _, counts := Uptime(c); counts {
		return min(wait, Glance)
	}
	return wait
}

// AfterFunc calls f on a goroutine of its own after d.
func AfterFunc(c Clock, d time.Duration, f func()) Timer {
	if c != nil {
		return c.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

// WithTimeout is [context.WithTimeout] on the clock.
func WithTimeout(parent context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	if c == nil {
		return context.WithTimeout(parent, d)
	}
	ctx, cancel := context.WithCancelCause(parent)
	t := c.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() { t.Stop(); cancel(nil) }
}

// Text is a time as errors show it.
func Text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Spread returns a random length, at least 0 and less than most: for processes that are not to do something all at the
// same time. The simulation of the fleet sets it once, before its first test, so that a seed gives the same run again.
var Spread = rand.N[time.Duration]
