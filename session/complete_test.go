package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestComplete protects that a run which has done its work is finished in its row, too, and stays so.
func TestComplete(t *testing.T) {
	subtest(t, "its row is finished, with the reason complete, and no sweeper touches it", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(time.Minute)
		require.NoError(f, wd.Complete())
		require.NoError(f, wd.Close())
		f.advance(2 * time.Second)
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Equal(f, watchdog.StopReason("complete"), f.row("s-1").Reason)
		require.Zero(f, f.keeper().Live())
		f.advance(time.Hour)
		sweeper, err := sweep.New(f.db, f.db, sweep.Config{Logger: f.cfg.Logger})
		require.NoError(f, err)
		_, err = sweeper.Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, session.Finished, f.row("s-1").Status)
		_, err = watchdog.New(f.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, f.config(f.keeper()))
		require.ErrorIs(f, err, watchdog.ErrComplete)
		require.Equal(f, 1, f.row("s-1").Attempt, "it was not begun")
	})
	subtest(t, "to resume it makes the row active again", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		require.NoError(f, wd.Complete())
		f.advance(2 * time.Second)
		again, err := watchdog.Resume(f.Context(), watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()}, f.config(f.keeper()))
		require.NoError(f, err)
		defer again.Close()
		f.requireRunning(again)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.Empty(f, f.row("s-1").Reason)
	})
	subtest(t, "by another attempt it ends the live run of this one", func(f *fixture) {
		f.start()
		other := f.newKeeper("there")
		defer f.run(other)()
		wd := f.attach("s-1")
		taken := f.attachTo(other, "s-1")
		require.NoError(f, taken.Complete())
		f.advance(time.Second)
		var takeover *session.TakeoverError
		if cause := context.Cause(wd.Context()); !errors.As(cause, &takeover) { // what it learns of first
			require.ErrorIs(f, cause, watchdog.ErrComplete)
		}
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Equal(f, watchdog.StopReason("complete"), f.row("s-1").Reason)
	})
}

func TestCommandEndInRow(t *testing.T) {
	status := 7
	failed := record.CommandEnd{Outcome: "failed", ExitStatus: (*record.Count)(&status)}
	subtest(t, "the row of a run says with its end how its command ended", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		wd.Note("tests")
		require.False(f, f.row("s-1").Failed())
		require.NoError(f, handle.Of(wd.Context()).CompleteCommand(failed))
		require.True(f, f.row("s-1").Failed())
		require.Equal(f, session.State{Phase: "tests", WallClock: f.state("s-1").WallClock, Outcome: "failed", ExitStatus: &status},
			f.state("s-1"))
	})
	subtest(t, "a run that is complete without a command leaves the row's state alone", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		before := f.row("s-1").State
		wd.Note("late")
		require.NoError(f, wd.Complete())
		require.Equal(f, before, f.row("s-1").State)
		require.False(f, f.row("s-1").Failed())
	})
}

func TestStoredState(t *testing.T) {
	end := watchdog.Event{
		Type: watchdog.EventComplete, Payload: []byte(`{"reason":"complete","outcome":"failed","exit_status":"7","later":1}`),
	}
	for state, want := range map[string]string{
		"":                               `{"outcome":"failed","exit_status":7}`,
		`{"phase":"x","later":[1,2.50]}`: `{"phase":"x","later":[1,2.50],"outcome":"failed","exit_status":7}`,
		`{"outcome":"succeeded"}`:        `{"outcome":"failed","exit_status":7}`,
	} {
		require.JSONEq(t, want, string(session.StoredState([]byte(state), end)))
	}
	for _, state := range []string{`[1]`, `null`, `"text"`, `{`} {
		require.Nil(t, session.StoredState([]byte(state), end), "the state of another program is left alone")
	}
	for _, payload := range []string{`{"reason":"complete"}`, `{"outcome":7}`, `[]`, ``} {
		end.Payload = []byte(payload)
		require.Nil(t, session.StoredState(nil, end), payload)
	}
	end.Type, end.Payload = watchdog.EventCancel, []byte(`{"outcome":"failed"}`)
	require.Nil(t, session.StoredState(nil, end))
}
