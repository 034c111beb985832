package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/session"
)

// TestLoopAcrossAttempts protects what a run did before from each way in which its process can end.
func TestLoopAcrossAttempts(t *testing.T) {
	again := loop.Step{Tool: "grep", Class: loop.Look, Input: []byte("{}"), Outcome: []byte("nothing")}
	for name, end := range map[string]func(f *fixture, wd *watchdog.Watchdog, endParent func()){
		"closed":              func(_ *fixture, wd *watchdog.Watchdog, _ func()) { _ = wd.Close() },
		"interrupted":         func(_ *fixture, wd *watchdog.Watchdog, _ func()) { _ = wd.Interrupt("SIGTERM"); _ = wd.Close() },
		"ended by its parent": func(f *fixture, _ *watchdog.Watchdog, end func()) { end(); f.advance(session.DefaultPromise) },
		"killed": func(f *fixture, wd *watchdog.Watchdog, _ func()) {
			f.advance(session.DefaultThreshold / 10)
			wd.Activity()
			f.advance(session.DefaultThreshold / 10)
		},
	} {
		subtest(t, name, func(f *fixture) {
			run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
			attempt := func(steps int, end func(f *fixture, wd *watchdog.Watchdog, endParent func())) loop.Advice {
				ctx, endParent := context.WithCancel(context.Background())
				defer endParent()
				k := f.newKeeper("here")
				defer f.run(k)()
				wd, err := watchdog.New(ctx, run, f.config(k))
				require.NoError(f, err)
				advice := loop.Go
				for range steps {
					advice = wd.Step(again).Advice
				}
				end(f, wd, endParent)
				return advice
			}
			require.Equal(f, loop.Go, attempt(2, end))
			killed := func(f *fixture, _ *watchdog.Watchdog, _ func()) { f.advance(2 * session.DefaultPace) }
			require.Equal(f, loop.Go, attempt(0, killed), "one that does nothing, and forgets nothing")
			require.Equal(f, loop.Ask, attempt(1, killed), "the third round")
		})
	}
}

// TestLoopInRow protects that a restart forgets nothing of a loop, and that a fresh window does.
func TestLoopInRow(t *testing.T) {
	again := loop.Step{Tool: "grep", Class: loop.Look, Input: []byte(`{"for":"secret"}`), Outcome: []byte("nothing secret")}
	inBubble(t, func(f *fixture) {
		stop := f.run(f.keeper())
		began := time.Now()
		wd := f.attach("s-1")
		require.Equal(t, loop.Go, wd.Step(again).Advice)
		require.Equal(t, loop.Go, wd.Step(again).Advice)
		f.advance(2 * time.Minute)
		require.NotEmpty(t, f.state("s-1").Loop)
		require.NotContains(t, string(f.row("s-1").State), "secret")
		require.LessOrEqual(t, len(f.row("s-1").State), 12<<10)
		stop() // the process is gone, and closed nothing

		other := f.newKeeper("there")
		defer f.run(other)()
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, f.config(other))
		require.NoError(t, err)
		require.Equal(t, loop.Ask, wd.Step(again).Advice, "the third round")
		f.advance(session.DefaultThreshold)
		_, err = wd.Cancel(watchdog.Cancellation{Reason: watchdog.OscillationDetected})
		require.NoError(t, err)
		require.NoError(t, wd.Close())

		wd, err = watchdog.Resume(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, f.config(other))
		require.NoError(t, err)
		require.Equal(t, loop.Go, wd.Step(again).Advice)
		require.NoError(t, wd.Close())
	})
}
