package sweep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestResumeAgain: a start that fails is tried again by later passes.
func TestResumeAgain(t *testing.T) {
	// starts has the first calls of Start fail, and returns when it was called.
	starts := func(f *fixture, most, failing int) *[]time.Duration {
		began, calls := time.Now(), &[]time.Duration{}
		f.cfg.Resume = sweep.ResumePolicy{Max: most, Start: func(context.Context, session.Session) error {
			if *calls = append(*calls, time.Since(began)); len(*calls) <= failing {
				return errors.New("no worker")
			}
			return nil
		}}
		return calls
	}
	const minute = time.Minute
	run := func(f *fixture, d time.Duration) {
		f.cfg.StartupDelay = watchdog.None
		f.put("s-1", time.Hour)
		stop := f.run()
		f.advance(d)
		stop()
	}
	t.Run("after growing waits, until it succeeds", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			calls := starts(f, 9, 4)
			run(f, 24*time.Hour)
			require.Equal(f, []time.Duration{0, 5 * minute, 10 * minute, 20 * minute, 40 * minute}, *calls)
			require.Equal(f, 1, f.sweeper().Stats().Resumed)
			require.Equal(f, 4, f.sweeper().Stats().Errors)
		})
	})
	t.Run("up to Max starts of the run in all", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			calls := starts(f, 3, 100)
			run(f, 48*time.Hour)
			require.Len(f, *calls, 3)
		})
	})
	t.Run("the starts that failed count when the run is cancelled again", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			calls := starts(f, 3, 1)
			run(f, 6*minute)
			require.Len(f, *calls, 2)
			for range 3 {
				_, _, err := f.Attach(f.Context(), session.Session{RunID: "s-1", StartedAt: time.Now()})
				require.NoError(f, err)
				f.advance(11 * minute)
				require.Equal(f, 1, f.pass().Cancelled)
			}
			require.Len(f, *calls, 3)
			row, err := f.Session(f.Context(), "s-1")
			require.NoError(f, err)
			require.Equal(f, 3, row.Resumes)
		})
	})
	for name, happens := range map[string]func(f *fixture, row session.Session){
		"is active again": func(f *fixture, row session.Session) {
			row.Status = session.Active
			f.row(row)
		},
		"was started and cancelled": func(f *fixture, row session.Session) {
			row.Attempt++
			f.row(row)
		},
	} {
		t.Run("not if the run "+name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				calls := starts(f, 3, 100)
				f.put("s-1", time.Hour)
				_, err := f.sweeper().Sweep(f.Context())
				require.ErrorContains(f, err, "no worker")
				row, err := f.Session(f.Context(), "s-1")
				require.NoError(f, err)
				row.LastEventAt = time.Now()
				happens(f, row)
				f.advance(5 * minute)
				f.pass()
				require.Len(f, *calls, 1)
			})
		})
	}
	t.Run("later if the database cannot be read", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			calls := starts(f, 3, 1)
			f.put("s-1", time.Hour)
			_, err := f.sweeper().Sweep(f.Context())
			require.Error(f, err)
			f.advance(5 * minute)
			f.onSession = func(context.Context) error { return errors.New("down") }
			_, err = f.sweeper().Sweep(f.Context())
			require.ErrorContains(f, err, "resume run s-1 again: down")
			f.onSession = nil
			require.Equal(f, 1, f.pass().Resumed)
			require.Len(f, *calls, 2)
		})
	})
	t.Run("not without a method to look the session up", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			calls := starts(f, 3, 100)
			f.put("s-1", time.Hour)
			s, err := sweep.New(struct{ sweep.Finder }{f}, noAppend{f}, f.cfg)
			require.NoError(f, err)
			for range 3 {
				_, _ = s.Sweep(f.Context())
				f.advance(time.Hour)
			}
			require.Len(f, *calls, 1)
		})
	})
}
