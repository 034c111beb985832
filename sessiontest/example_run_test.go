package sessiontest_test

import (
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
)

// The test of a store. Run opens a new, empty store for each rule.
func ExampleRun() {
	var t *testing.T // the argument of the host's func TestSessions(t *testing.T)

	sessiontest.Run(t, func(*testing.T) session.Store { return &session.Memory{} })
}

// The same rules without a testing.T.
func ExampleTest() {
	err := sessiontest.Test(func() (session.Store, error) { return &session.Memory{}, nil })
	fmt.Println("broken rules:", err)
	// Output: broken rules: <nil>
}
