package sessiontest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) session.Store { return new(session.Memory) })
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return frozen(), nil }))
}

// frozen returns a memory whose clock stands still, so that rows can be exactly at a limit, with an outbox.
func frozen() *session.Memory {
	now := time.Date(2026, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	return &session.Memory{Clock: func() time.Time { return now }, Outbox: true}
}

var brokenStores = contracttest.Stores(open, brokenRows, brokenLeases, brokenCancels, brokenTold)

// The rules without a testing.T.
func ExampleTest() {
	err := sessiontest.Test(func() (session.Store, error) { return &session.Memory{}, nil })
	fmt.Println("broken rules:", err)
	// Output: broken rules: <nil>
}

func TestBrokenStores(t *testing.T) {
	t.Cleanup(sessiontest.SetRows(2000, 50)) // their clock stands still, and no limit of theirs is higher
	contracttest.EachBreaksOneRule(t, sessiontest.Rules(), brokenStores)
}

// plain is a store that is neither a Putter nor a Listener.
type plain struct{ session.Store }

// A store that is not a Putter skips the rules that need one, and only those.
func TestPlainStore(t *testing.T) {
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return plain{frozen()}, nil }))
	err := sessiontest.Test(func() (session.Store, error) {
		return plain{open(attaches(func(_, _ row, after *row) { after.Attempt = 1 }))}, nil
	})
	require.ErrorContains(t, err, "attaching again counts the attempt, and returns the row as it was: ")
}

func TestRunFailure(t *testing.T) {
	broken := brokenStores[0]
	contracttest.RunFails(t, func() {
		sessiontest.Run(t, func(*testing.T) session.Store { return broken.Open() })
	}, contracttest.RuleOf(t, sessiontest.Rules(), broken.Breaks).Name)
}
