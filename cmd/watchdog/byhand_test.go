package main_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A host is a process of a host's, with its keeper.
type host struct {
	*session.Keeper
	store testStore
	stop  func()
}

func (s testStore) host(t *testing.T, name string) host {
	t.Helper()
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: s, Host: name, Logger: slog.New(slog.DiscardHandler), Pace: 50 * time.Millisecond,
		Promise: session.ShortestPromise, Poll: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = keeper.Run(ctx)
	}()
	stop := func() { cancel(); <-ended }
	t.Cleanup(stop)
	return host{keeper, s, stop}
}

// run attaches to a run that began an hour ago, or resumes it.
func (h host) run(
	t *testing.T, attach func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error), id string,
	budget time.Duration,
) *watchdog.Watchdog {
	t.Helper()
	wd, err := attach(context.WithoutCancel(t.Context()), watchdog.Run{ID: id, StartedAt: anHourAgo}, watchdog.Config{
		Store: h.store, Keeper: h, Budget: watchdog.Budget{WallClock: budget}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, wd.Close()) })
	return wd
}

var anHourAgo = time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)

// cancelled makes a run that its wall clock has cancelled, and whose host has ended.
func (s testStore) cancelled(t *testing.T, id string) {
	t.Helper()
	h := s.host(t, "worker-1")
	wd := h.run(t, watchdog.New, id, time.Minute)
	reason, fired := wd.Fired()
	require.True(t, fired)
	require.Equal(t, watchdog.WallClockExceeded, reason)
	require.NoError(t, wd.Close())
	h.stop()
	require.Equal(t, session.Cancelled, s.row(t, id).Status)
}

func (s testStore) row(t *testing.T, id string) session.Session {
	t.Helper()
	row, err := s.Session(t.Context(), id)
	require.NoError(t, err)
	return row
}

// cancel cancels a run as a sweeper does.
func (s testStore) cancel(t *testing.T, row session.Session, request session.CancelRequest) {
	t.Helper()
	outcome, err := s.Cancel(t.Context(), row, request)
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
}

// kinds returns the kinds of a run's events.
func (s testStore) kinds(t *testing.T, id string) (all []string) {
	t.Helper()
	events, err := s.Read(t.Context(), event.AggregateType, id)
	require.NoError(t, err)
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

func TestComplete(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		t.Run("a live run ends elsewhere, and its row says complete", func(t *testing.T) {
			h := s.host(t, "worker-1")
			wd := h.run(t, watchdog.New, "live", watchdog.NoLimit)
			o := s.program(t, "complete", "live", "--reason", "merged by hand").must(t, 0)
			assert.Equal(t, "run live is recorded as complete; it ends on host worker-1, which runs it\n", o.stdout)
			select {
			case <-wd.Context().Done():
				require.ErrorIs(t, context.Cause(wd.Context()), watchdog.ErrComplete)
			case <-time.After(time.Minute):
				require.Fail(t, "the run goes on")
			}
			assert.Equal(t, []string{event.Complete}, s.kinds(t, "live"))
			row := s.row(t, "live")
			assert.Equal(t, session.Finished, row.Status)
			assert.EqualValues(t, "complete", row.Reason)
			events, err := s.Read(t.Context(), event.AggregateType, "live")
			require.NoError(t, err)
			assert.Contains(t, string(events[0].Payload), `"note":"merged by hand"`)
		})
		t.Run("a run that is complete is no error, and nothing is recorded", func(t *testing.T) {
			o := s.program(t, "complete", "live").must(t, 0)
			assert.Equal(t, "run live was complete already; nothing was recorded\n", o.stdout)
			assert.Len(t, s.kinds(t, "live"), 1)
		})
		for name, prepare := range map[string]func(t *testing.T, id string){
			"that was closed": func(t *testing.T, id string) {
				t.Helper()
				h := s.host(t, "worker-1")
				require.NoError(t, h.run(t, watchdog.New, id, watchdog.NoLimit).Close())
				h.stop()
			},
			"whose process is dead": func(t *testing.T, id string) {
				t.Helper()
				s.attach(t, session.Session{RunID: id, Host: "worker-1"})
			},
			"that was interrupted": func(t *testing.T, id string) {
				t.Helper()
				s.attach(t, session.Session{RunID: id, Host: "worker-1"})
				_, err := s.End(t.Context(), []session.Ending{{RunID: id, Attempt: 1, Status: session.Interrupted}})
				require.NoError(t, err)
			},
		} {
			t.Run("a run "+name+" is complete, and its row says so", func(t *testing.T) {
				prepare(t, name)
				o := s.program(t, "complete", name).must(t, 0)
				assert.Equal(t, "run "+name+" is recorded as complete\n", o.stdout)
				row := s.row(t, name)
				assert.Equal(t, session.Finished, row.Status)
				assert.EqualValues(t, "complete", row.Reason)
				assert.Equal(t, "worker-1", row.Host)
				attempts := row.Attempt
				_, err := watchdog.New(t.Context(), watchdog.Run{ID: name, StartedAt: row.StartedAt}, watchdog.Config{Store: s})
				require.ErrorIs(t, err, watchdog.ErrComplete)
				require.Zero(t, s.program(t, "complete", name).status)
				assert.Equal(t, attempts, s.row(t, name).Attempt, "again")
			})
		}
		t.Run("a run that was cancelled is an error, until it is resumed", func(t *testing.T) {
			s.cancelled(t, "cancelled")
			o := s.program(t, "complete", "cancelled").must(t, 125)
			assert.Equal(t, `watchdog: run "cancelled" was cancelled (watchdog_wall_clock_exceeded), and so is not complete; `+
				"nothing was recorded: watchdog resume opens a fresh window, which can be completed\n", o.stderr)
			assert.Equal(t, session.Cancelled, s.row(t, "cancelled").Status)
			require.Zero(t, s.program(t, "resume", "cancelled").status)
			o = s.program(t, "complete", "cancelled", "--json").must(t, 0)
			var did map[string]string
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &did))
			assert.Equal(t, "complete", did["outcome"])
			assert.Equal(t, "cancelled", did["run_id"])
			assert.EqualValues(t, "complete", s.row(t, "cancelled").Reason)
		})
		t.Run("a run with events and without a row is complete", func(t *testing.T) {
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "rowless", StartedAt: anHourAgo},
				watchdog.Config{Store: s, Budget: watchdog.Budget{WallClock: time.Minute}, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			require.Zero(t, s.program(t, "resume", "rowless").status)
			require.Zero(t, s.program(t, "complete", "rowless").status)
			assert.Equal(t, []string{event.Cancel, event.Resume, event.Complete}, s.kinds(t, "rowless"))
		})
		t.Run("what is not there, or begins anew each time, is an error", func(t *testing.T) {
			e := cancelOf("layer", anHourAgo)
			e.Payload = append(e.Payload[:len(e.Payload)-1], `,"parent":"job","window":"random"}`...)
			require.NoError(t, s.Append(t.Context(), e))
			for run, says := range map[string]string{
				"nosuch": `there is no run "nosuch" in the store; watchdog sessions lists those that there are`,
				"layer":  `run "layer" is a command, or a layer of run "job"`,
			} {
				for _, command := range []string{"complete", "resume"} {
					s.program(t, command, run).must(t, 125).says(t, says)
				}
			}
		})
	})
}

func TestResume(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		t.Run("a cancelled run has a fresh window, in which its host goes on", func(t *testing.T) {
			s.cancelled(t, "run-1")
			before := s.row(t, "run-1")
			o := s.program(t, "resume", "run-1").must(t, 0)
			assert.Regexp(t, `^run run-1 has a fresh window since \S+ \(before: watchdog_wall_clock_exceeded\); `+
				"nobody runs it until its host attaches\n$", o.stdout)
			assert.Equal(t, before, s.row(t, "run-1"), "no row is active that nobody runs")

			wd := s.host(t, "worker-2").run(t, watchdog.New, "run-1", time.Minute)
			_, fired := wd.Fired()
			assert.False(t, fired)
			assert.NoError(t, wd.Context().Err())
			assert.WithinDuration(t, time.Now(), wd.StartedAt(), time.Minute)
			assert.Equal(t, session.Active, s.row(t, "run-1").Status)

			o = s.program(t, "resume", "run-1").must(t, 125)
			assert.Equal(t, `watchdog: run "run-1" is live: host "worker-2" has it (attempt 2); there is nothing to resume`+"\n",
				o.stderr)
			require.NoError(t, wd.Context().Err())
		})
		t.Run("to resume it again records nothing, and its host may resume it, too", func(t *testing.T) {
			s.cancelled(t, "run-2")
			require.Zero(t, s.program(t, "resume", "run-2").status)
			o := s.program(t, "resume", "run-2").must(t, 0)
			assert.Regexp(t, `^run run-2 was not cancelled: its window is open since \S+, .*; nothing was recorded\n$`, o.stdout)
			assert.Equal(t, []string{event.Cancel, event.Resume}, s.kinds(t, "run-2"))
			wd := s.host(t, "worker-2").run(t, watchdog.Resume, "run-2", time.Minute)
			assert.NoError(t, wd.Context().Err())
			assert.Len(t, s.kinds(t, "run-2"), 2)
		})
		t.Run("a complete run can be gone on with", func(t *testing.T) {
			h := s.host(t, "worker-1")
			require.NoError(t, h.run(t, watchdog.New, "run-3", watchdog.NoLimit).Complete())
			h.stop()
			o := s.program(t, "resume", "run-3", "--json").must(t, 0)
			var did map[string]string
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &did))
			assert.Equal(t, "resumed", did["outcome"])
			assert.Equal(t, "complete", did["before"])
			assert.NoError(t, s.host(t, "worker-2").run(t, watchdog.New, "run-3", time.Minute).Context().Err())
		})
		t.Run("a row that a dead process left active is made to say how the window ended", func(t *testing.T) {
			row := s.attach(t, session.Session{RunID: "run-4", Host: "dead"})
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "run-4", StartedAt: row.StartedAt},
				watchdog.Config{Store: s, Budget: watchdog.Budget{WallClock: time.Minute}, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			require.Zero(t, s.program(t, "resume", "run-4").status)
			row = s.row(t, "run-4")
			assert.Equal(t, session.Cancelled, row.Status)
			assert.Equal(t, watchdog.WallClockExceeded, row.Reason)
			assert.Equal(t, []string{event.Cancel, event.Resume}, s.kinds(t, "run-4"))
		})
		t.Run("a sweeper leaves alone what was resumed and nobody runs", func(t *testing.T) {
			s.cancelled(t, "run-5")
			require.Zero(t, s.program(t, "resume", "run-5").status)
			sweeper, err := sweep.New(s, s, sweep.Config{
				StalledThreshold: time.Nanosecond, MinAge: watchdog.None, Logger: slog.New(slog.DiscardHandler), Interval: time.Second,
			})
			require.NoError(t, err)
			pass, err := sweeper.Sweep(t.Context())
			require.NoError(t, err)
			for _, c := range pass.Cases {
				assert.NotEqual(t, "run-5", c.Session.RunID)
			}
			assert.Equal(t, []string{event.Cancel, event.Resume}, s.kinds(t, "run-5"))
		})
	})
}

// TestStartByHand: a fresh window leaves the start of a run to the sweepers, and the end of the run ends it.
func TestStartByHand(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		row := s.attach(t, session.Session{RunID: "run-1", Host: "worker-1"})
		e := cancelOf("run-1", row.StartedAt)
		e.ID = (&watchdog.Stop{RunID: "run-1", StartedAt: row.StartedAt}).EventID()
		s.cancel(t, row, session.CancelRequest{
			Reason: watchdog.SessionIdleTimeout, Resumes: 1, Events: []watchdog.Event{e}, StartFor: time.Hour,
		})
		s.program(t, "resume", "run-1").must(t, 0)
		start := s.row(t, "run-1").Start
		assert.Equal(t, e.ID, start.Key)
		assert.Equal(t, 1, start.Tries)
		assert.Contains(t, s.program(t, "sessions", "--json").stdout, `"start_tries": 1`)
		s.program(t, "complete", "run-1").must(t, 0)
		assert.Zero(t, s.row(t, "run-1").Start)
		assert.EqualValues(t, "complete", s.row(t, "run-1").Reason)
	})
}
