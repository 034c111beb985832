package storetest_test

import (
	"testing"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/storetest"
)

// The test of a store. Run opens a new, empty store for each rule.
func ExampleRun() {
	var t *testing.T // the argument of the host's func TestStore(t *testing.T)

	storetest.Run(t, func(*testing.T) watchdog.EventStore { return &watchdog.Memory{} })
}
