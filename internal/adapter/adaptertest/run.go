// Package adaptertest begins the runs in which the tests of package adapter, and of the adapters of SDKs, make calls.
// It checks nothing of the calls.
package adaptertest

import (
	"testing"

	"github.com/seed62658d38/watchdog"
)

// NewRun begins a run that is kept in memory and closed with the test.
func NewRun(tb testing.TB, budget watchdog.Budget) *watchdog.Watchdog {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{}, watchdog.Config{Budget: budget})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := wd.Close(); err != nil {
			tb.Error(err)
		}
	})
	return wd
}
