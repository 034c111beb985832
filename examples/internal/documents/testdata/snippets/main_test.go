// Package snippets_test is what stands around the snippets of the documents. TestSnippets puts them in and runs it.
package snippets_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test on fake time, with a context that ends with it.
func bubble(t *testing.T, test func(t *testing.T, ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		test(t, ctx)
	})
}

// attach guards a run with a budget.
func attach(t *testing.T, ctx context.Context, budget watchdog.Budget) *watchdog.Watchdog {
	t.Helper()
	wd, err := watchdog.New(ctx, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Budget: budget, Store: &watchdog.Memory{},
	})
	require.NoError(t, err)
	return wd
}

// spending is the budget of a run that may spend that much.
func spending(spend watchdog.Spend) watchdog.Budget {
	return watchdog.Budget{WallClock: watchdog.NoLimit, Spend: spend}
}

func euros(micros int64) watchdog.Amount {
	return watchdog.Amount{Cost: watchdog.Money{Micros: micros, Currency: "EUR"}}
}

// inFolder has the test in a folder of its own, with a file.
func inFolder(t *testing.T, name, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}
