// Package watchdogtest has what the tests of a host need: a mock clock for [watchdog.Config].Clock.
//
// With testing/synctest a test needs no clock of its own: leave Clock nil. This one is for tests that move the time by
// hand, and for hosts that use github.com/benbjohnson/clock already.
package watchdogtest

import (
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
)

// A MockClock is a mock clock as a [watchdog.Clock]: its Add and Set move the time, and timers that are due ring. Put a
// mock clock that a host has already into its Mock. Safe for concurrent use.
type MockClock struct{ *clock.Mock }

// NewMockClock returns a clock that stands at the beginning of 1970.
func NewMockClock() *MockClock { return &MockClock{clock.NewMock()} }

// AfterFunc implements [watchdog.Clock].
func (c *MockClock) AfterFunc(d time.Duration, f func()) watchdog.Timer {
	return c.Mock.AfterFunc(d, f)
}

var _ watchdog.Clock = (*MockClock)(nil)
