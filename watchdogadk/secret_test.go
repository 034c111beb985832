package watchdogadk_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"google.golang.org/adk/v2/agent"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestSecrets checks that no event and no log holds a prompt, an input or output of a tool, or what a panic says.
func TestSecrets(t *testing.T) {
	const canary = "canary-7f3a"
	synctest.Test(t, func(t *testing.T) {
		log, store := quiet(t), &watchdog.Memory{}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "job-1", StartedAt: time.Now()}, watchdog.Config{
			Store: store, Budget: watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{ToolCalls: 7}},
		})
		require.NoError(t, err)
		m := scripted(asks("work", "how", "answer"), asks("work", "how", "fail"), asks("work", "how", "panic"),
			asks("work", "how", "hang"), asks("work", "how", "late"), stalls(0, partial(canary)))
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("work", func(ctx agent.Context, args map[string]any) (map[string]any, error) {
				args["canary"] = canary
				switch args["how"] {
				case "fail":
					return nil, errors.New(canary)
				case "panic":
					panic(canary)
				case "hang":
					return until(ctx, nil)
				case "late":
					time.Sleep(time.Hour)
					panic(canary)
				}
				return map[string]any{"result": canary}, nil
			}))
		_, err = s.ask(wd.Context(), canary)
		require.ErrorIs(t, err, watchdog.IdleExceeded)
		require.NotContains(t, err.Error(), canary)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.NoError(t, wd.Close())
		var all []byte
		for _, id := range []string{"job-1", "job-1/work-1", "job-1/work-2", "job-1/work-3", "job-1/work-4", "job-1/work-5"} {
			events, err := store.Read(t.Context(), watchdog.AggregateType, id)
			require.NoError(t, err)
			text, err := json.Marshal(events)
			require.NoError(t, err)
			all = append(all, text...)
		}
		assert.Contains(t, string(all), "idle_exceeded")
		assert.NotContains(t, string(all), canary)
		assert.Contains(t, log.String(), "tool panicked")
		assert.NotContains(t, log.String(), canary)
		assert.NotContains(t, m.asked(3), "panicked: "+canary)
	})
}
