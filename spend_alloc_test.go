package watchdog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestAdmitAllocates protects a host that admits each call from garbage: without a key there is none.
func TestAdmitAllocates(t *testing.T) {
	if racing.Enabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	limits := watchdog.Budget{Spend: watchdog.Spend{
		InputTokens: 1 << 60, Requests: 1 << 60, Tools: map[string]int64{"rm": 1 << 60}, Cost: euros(1 << 60),
	}}
	most := watchdog.Amount{InputTokens: 10, Requests: 1, ToolCalls: 1, Tool: "rm", Cost: euros(3), Result: watchdog.ResultOK}
	for name, cfg := range map[string]watchdog.Config{
		"in memory":  {Budget: limits, Logger: quiet},
		"on a store": {Budget: limits, Logger: quiet, SpendStore: &watchdog.Memory{}, Scopes: teamOf(1 << 60)},
	} {
		session, err := watchdog.New(ctx, watchdog.Run{}, cfg)
		require.NoError(t, err)
		t.Cleanup(func() { session.Close() })
		wd := session
		for layers := range 3 {
			t.Run(fmt.Sprintf("%s, %d layers", name, layers), func(t *testing.T) {
				require.Zero(t, testing.AllocsPerRun(1000, func() {
					c, err := wd.Admit(ctx, "", most)
					if err == nil {
						err = c.Settle(most)
					}
					if err != nil {
						t.Fatal(err)
					}
				}))
			})
			wd, err = wd.Layer("l", limits)
			require.NoError(t, err)
		}
	}
}
