package watchdogadk_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/session"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestResume checks that a run goes on after its process was killed in the middle of a tool: its window, what it spent,
// and its session; and that the model is asked again with all of that.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, run := &watchdog.Memory{}, watchdog.Run{ID: "job-1", StartedAt: time.Now()}
		cfg := watchdog.Config{Store: store, Budget: watchdog.Budget{
			WallClock: time.Hour, Reserve: 10 * time.Minute, Spend: watchdog.Spend{ToolCalls: 3},
			Ladders: watchdog.Ladders{ToolCalls: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
		}}
		hangs := true
		m := scripted(calls("work"), calls("work"), calls("work"), calls("work"))
		sessions := session.InMemoryService()
		newStageOfProcess := func() *stage {
			g := watchdogadk.New(limits)
			return newStageOver(t, sessions, newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(
				toolOf("work", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
					if !hangs {
						return map[string]any{"result": "worked"}, nil
					}
					return until(ctx, nil)
				}))}))
		}

		process, kill := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Second, func() { kill(errors.New("killed")) })
		first, err := watchdog.New(process, run, cfg) // nobody closes it
		require.NoError(t, err)
		_, err = newStageOfProcess().ask(first.Context(), "go")
		require.Error(t, err)

		time.Sleep(10 * time.Minute)
		hangs = false
		wd, err := watchdog.New(t.Context(), run, cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, wd.Close()) }()
		assert.Equal(t, 50*time.Minute-10*time.Minute-30*time.Second, wd.Remaining(), "its window goes on")
		last, err := newStageOfProcess().ask(wd.Context(), "go on")
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		assert.Contains(t, m.asked(1), "go on")
		assert.Contains(t, m.asked(2), "worked")
		assert.Contains(t, m.asked(m.count()-1), "was not made", "the call before the kill counts")
		assert.EqualValues(t, 3, usage(wd, watchdog.ToolCallsExceeded).Used)
	})
}

// TestResumeStopped checks that a run which ended stays ended, until it is resumed by name.
func TestResumeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		store, run := &watchdog.Memory{}, watchdog.Run{ID: "job-1", StartedAt: time.Now()}
		cfg := watchdog.Config{Store: store, Budget: watchdog.Budget{WallClock: time.Minute}}
		m := scripted(calls("work"))
		s := newGuarded(t, watchdogadk.New(limits), m, toolOf("work", until))
		ask := func(open func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error)) error {
			wd, err := open(t.Context(), run, cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, wd.Close()) }()
			_, err = s.ask(wd.Context(), "go")
			return err
		}
		require.ErrorIs(t, ask(watchdog.New), watchdog.WallClockExceeded)
		require.Error(t, ask(watchdog.New))
		assert.Equal(t, 1, m.count(), "no call in a run that has ended")
		require.NoError(t, ask(watchdog.Resume))
		assert.Equal(t, 2, m.count())
	})
}
