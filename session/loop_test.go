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
