package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestSameAttempt protects a run against two processes that have the same number of attempt, because the row was lost in
// between: one of them ends.
func TestSameAttempt(t *testing.T) {
	for name, lively := range map[string]bool{"signals": true, "is quiet": false} {
		t.Run("while the first "+name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.start()
				there := f.newKeeper("there")
				defer f.run(there)()
				first := f.attach("s-1")
				require.NoError(t, f.db.Delete(context.Background(), "s-1"))
				second := f.attachTo(there, "s-1")
				require.Equal(t, first.Attempt().Number, second.Attempt().Number)
				if lively {
					busy(f, 2*time.Minute, first)
				} else {
					f.advance(2 * time.Minute)
				}
				ended := first
				if second.Context().Err() != nil {
					ended = second
				} else {
					require.Error(t, first.Context().Err(), "both go on")
				}
				var taken *session.TakeoverError
				require.ErrorAs(t, context.Cause(ended.Context()), &taken)
				f.advance(5 * time.Minute)
				require.Equal(t, 1, f.keeper().Live()+there.Live())
				require.Equal(t, session.Active, f.row("s-1").Status)
			})
		})
	}
}

// TestStrayWithEnd protects that a row which nobody runs says what the end of its window says, if that is stored.
func TestStrayWithEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		f.attach("s-0")
		f.db.after = func(call string) error {
			if call == "Attach" {
				return errDown
			}
			return nil
		}
		run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		_, err := watchdog.New(context.Background(), run, f.config(f.keeper()))
		require.ErrorIs(t, err, errDown)
		f.db.after = nil
		stalled := sweep.StalledRun{RunID: "s-1", StartedAt: run.StartedAt, DecidedAt: time.Now(), Threshold: time.Minute}
		require.NoError(t, f.db.Append(context.Background(), stalled.CancelEvents()...))
		f.advance(121 * time.Second)
		require.Equal(t, session.Cancelled, f.row("s-1").Status)
		require.Equal(t, watchdog.SessionIdleTimeout, f.row("s-1").Reason)
	})
}
