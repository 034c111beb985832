package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestPass(t *testing.T) {
	subtest(t, "cancels the longest stalled first, at most ten, until none is left", func(f *fixture) {
		names := f.putStalled(50)
		for i := range 10_000 {
			f.put(fmt.Sprintf("active-%05d", i), time.Minute)
		}
		for i := range 5 {
			p := f.pass()
			require.Equal(f, names[10*i:10*i+10], f.ended()[10*i:])
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
			require.Empty(f, f.sweeper().Stats().Last.Cases)
		}
		require.Equal(f, sweep.Tally{}, f.pass().Tally)
		require.Equal(f, names, f.ended())
		require.Equal(f, sweep.Tally{Checked: 50, Found: 50, Cancelled: 50}, f.sweeper().Stats().Tally)
	})
	subtest(t, "writes the advisory and the cancel of the run's window, once", func(f *fixture) {
		f.put("s-1", 12*time.Minute)
		c := f.pass().Cases[0]
		require.Equal(f, 12*time.Minute, c.Silence)
		require.Equal(f, 10*time.Minute, c.Threshold)
		require.Equal(f, []string{event.Warning, event.Cancel}, f.events("s-1"))
		events := f.stored("s-1")
		stop := &watchdog.Stop{RunID: "s-1", StartedAt: c.Session.StartedAt}
		require.Equal(f, stop.EventID(), events[1].ID)
		var payload map[string]any
		require.NoError(f, json.Unmarshal(events[1].Payload, &payload))
		require.Equal(f, "idle_timeout", payload["reason"])
		require.Equal(f, "system-watchdog", payload["author"])
		require.InDelta(f, 720, payload["measured_seconds"], 0)
		row := f.get("s-1")
		require.Equal(f, watchdog.SessionIdleTimeout, row.Reason)
		require.Zero(f, row.Resumes)
		require.Empty(f, f.claims, "there is no hook")
	})
	subtest(t, "the window of a session that no watchdog ran starts at its creation", func(f *fixture) {
		created := time.Now().Add(-time.Hour)
		f.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: created, Attempt: 1})
		f.pass()
		events := f.stored("s-1")
		require.Equal(f, (&watchdog.Stop{RunID: "s-1", StartedAt: created.UTC()}).EventID(), events[1].ID)
	})
	subtest(t, "spares a session that wakes up between the page and its cancel", func(f *fixture) {
		f.putStalled(3)
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-01" && s.LastEventAt.Before(time.Now().Add(-30*time.Minute)) {
				time.Sleep(time.Second) // fake time
				f.wake(s.RunID)
			}
			return nil
		}
		p := f.pass()
		require.Equal(f, []string{"s-00 cancelled", "s-01 spared", "s-02 cancelled"}, outcomes(p))
		require.Equal(f, sweep.Tally{Checked: 3, Found: 3, Cancelled: 2, Spared: 1}, p.Tally)
		require.Empty(f, f.events("s-01"))
		f.advance(10*time.Minute + time.Microsecond)
		require.Equal(f, []string{"s-01 cancelled"}, outcomes(f.pass()), "when it has stalled again")
	})
	subtest(t, "reads a stale page again, so that no hook stops the agents of a session that woke up", func(f *fixture) {
		f.putStalled(4)
		var stopped []string
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			stopped = append(stopped, s.RunID)
			if s.RunID == "s-00" {
				time.Sleep(10*time.Second + 1) // fake time
				f.wake("s-02")
			}
			return nil
		}
		require.Equal(f, []string{"s-00 cancelled", "s-01 cancelled", "s-03 cancelled"}, outcomes(f.pass()))
		require.Equal(f, []string{"s-00", "s-01", "s-03"}, stopped)
		require.Len(f, f.pages, 2)
	})
	subtest(t, "handles no session twice when it reads a page again", func(f *fixture) {
		f.putStalled(3)
		f.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(11 * time.Second); return nil }
		f.poisoned = every
		p := f.fails("")
		require.Equal(f, sweep.Tally{Checked: 3, Found: 3, Failed: 3, Errors: 3}, p.Tally)
	})
	subtest(t, "goes on to the next pages past sessions that it cannot cancel", func(f *fixture) {
		names := f.putStalled(25)
		f.cfg.MaxCancellationsPerRun = 5
		f.poisoned = func(s session.Session) bool { return s.RunID < "s-07" }
		p := f.fails("cancel run s-06: poisoned")
		require.NoError(f, p.Err)
		require.Equal(f, 5, p.Cancelled)
		require.Equal(f, 7, p.Failed)
		require.Equal(f, names[7:12], f.ended())
		require.Equal(f, sweep.Tally{Checked: 12, Found: 12, Cancelled: 5, Deferred: 7}, f.pass().Tally)
	})
}

func TestStalled(t *testing.T) {
	rowOf := func(change func(s *session.Session)) session.Session {
		s := session.Session{
			RunID: "s-1", Status: session.Active, Attempt: 1,
			CreatedAt: time.Now().Add(-24 * time.Hour), LastEventAt: time.Now().Add(-time.Hour),
		}
		change(&s)
		return s
	}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	const microsecond = time.Microsecond
	type row = *session.Session
	for name, c := range map[string]struct {
		change func(s row)
		want   bool
	}{
		"at its threshold it is not":     {func(s row) { s.LastEventAt = ago(10 * time.Minute) }, false},
		"a microsecond later it is":      {func(s row) { s.LastEventAt = ago(10*time.Minute + microsecond) }, true},
		"at its own threshold it is not": {func(s row) { s.Threshold = time.Hour }, false},
		"beyond its own threshold it is": {func(s row) { s.Threshold = time.Hour - microsecond }, true},
		"without an event it counts from its creation": {
			func(s row) { s.LastEventAt, s.CreatedAt = time.Time{}, ago(10*time.Minute) }, false,
		},
		"and is stalled a microsecond later": {
			func(s row) { s.LastEventAt, s.CreatedAt = time.Time{}, ago(10*time.Minute+microsecond) }, true,
		},
		"at the minimum age it is old enough": {
			func(s row) { s.Threshold, s.CreatedAt = time.Minute, ago(2*time.Minute) }, true,
		},
		"a microsecond younger is not": {
			func(s row) { s.Threshold, s.CreatedAt = time.Minute, ago(2*time.Minute-microsecond) }, false,
		},
		"one that is switched off never is":            {func(s row) { s.Threshold = watchdog.NoLimit }, false},
		"one that was cancelled is not":                {func(s row) { s.Status = session.Cancelled }, false},
		"one that has finished is not":                 {func(s row) { s.Status = session.Finished }, false},
		"one that was interrupted is not":              {func(s row) { s.Status = session.Interrupted }, false},
		"one with a status of another writer is not":   {func(s row) { s.Status = "running" }, false},
		"one whose last event is in the future is not": {func(s row) { s.LastEventAt = ago(-time.Hour) }, false},
		"one whose creation is in the future is not":   {func(s row) { s.CreatedAt = ago(-time.Hour) }, false},
		"one that was made long ago and never ran is":  {func(s row) { s.LastEventAt, s.Attempt = time.Time{}, 0 }, true},
		"one without a start of its window is":         {func(s row) { s.StartedAt = time.Time{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) { // the database judges
				f.row(rowOf(c.change))
				require.Equal(f, c.want, f.pass().Cancelled == 1)
			})
			inBubble(t, func(f *fixture) { // a database that cannot judge returns every session
				f.onPage = func(page *session.Page) { page.Sessions = []session.Session{rowOf(c.change)} }
				f.cfg.DryRun = true
				p := f.pass()
				require.Equal(f, c.want, p.Found == 1)
				require.Equal(f, 1, p.Checked)
			})
		})
	}
	subtest(t, "with the sweeper's threshold off, only a session with a threshold of its own is", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.row(session.Session{
			RunID: "s-2", Status: session.Active, CreatedAt: ago(time.Hour), Threshold: time.Minute, Attempt: 1,
		})
		f.cfg.StalledThreshold = watchdog.NoLimit
		require.Equal(f, []string{"s-2 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "without a minimum age, a session of any age is", func(f *fixture) {
		f.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: ago(time.Second), Attempt: 1})
		f.cfg.StalledThreshold = time.Second - time.Microsecond
		require.Empty(f, f.pass().Cases)
		f.made, f.cfg.MinAge = nil, watchdog.None
		f.onStalled = func(_ context.Context, q session.Query) error { require.Zero(f, q.MinAge); return nil }
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(f.pass()))
	})
	for _, off := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
		subtest(t, fmt.Sprint("the database's clock counts, a host cancels on time though it is off by ", off), func(f *fixture) {
			f.Clock = func() time.Time { return time.Now().Add(off) }
			f.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: f.Clock(), Attempt: 1})
			f.onPage = func(page *session.Page) { // a database that cannot judge
				s := f.get("s-1")
				page.Sessions = []session.Session{s}
			}
			f.advance(10 * time.Minute)
			require.Empty(f, f.pass().Cases)
			f.advance(time.Microsecond)
			c := f.pass().Cases[0]
			require.Equal(f, sweep.CaseCancelled, c.Handling)
			require.Equal(f, 10*time.Minute+time.Microsecond, c.Silence)
			events := f.stored("s-1")
			require.Equal(f, f.Clock().UTC(), events[1].Timestamp)
		})
	}
}

// TestUnreadable: what cannot be read is an error and never a cancel.
func TestUnreadable(t *testing.T) {
	whole := session.Session{
		RunID: "bad", Status: session.Active, CreatedAt: time.Unix(1, 0), LastEventAt: time.Unix(1, 0), Attempt: 1,
	}
	for name, change := range map[string]func(s *session.Session){
		"no time of creation": func(s *session.Session) { s.CreatedAt = time.Time{} },
		"threshold is -1ns":   func(s *session.Session) { s.Threshold = -1 },
		"it has no name":      func(s *session.Session) { s.RunID = "" },
	} {
		subtest(t, name, func(f *fixture) {
			bad := whole
			change(&bad)
			f.put("good", time.Hour)
			f.onPage = func(page *session.Page) { page.Sessions = append([]session.Session{bad}, page.Sessions...) }
			p, err := f.sweeper().Sweep(f.Context())
			require.ErrorIs(f, err, session.ErrUnreadable)
			require.ErrorContains(f, err, name)
			require.NoError(f, p.Err)
			require.Equal(f, sweep.Tally{Checked: 2, Found: 1, Cancelled: 1, Errors: 1}, p.Tally)
			require.Equal(f, []string{"good"}, f.ended())
		})
	}
	subtest(t, "a row that the store cannot read", func(f *fixture) {
		f.putStalled(3)
		require.NoError(f, f.Spoil(f.Context(), "s-01"))
		f.cfg.StopHook = func(context.Context, session.Session) error {
			time.Sleep(11 * time.Second) // the page becomes stale
			return nil
		}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, session.ErrUnreadable)
		require.Equal(f, sweep.Tally{Checked: 3, Found: 2, Cancelled: 2, Errors: 1}, p.Tally)
		require.Zero(f, f.sweeper().Stats().ConsecutiveFailures)
	})
	subtest(t, "a page without its time", func(f *fixture) {
		f.putStalled(3)
		f.onPage = func(page *session.Page) { page.Now = time.Time{} }
		require.ErrorContains(f, f.fails("what time it is").Err, "what time it is")
		require.Empty(f, f.ended())
	})
	subtest(t, "a page that comes twice", func(f *fixture) {
		f.onPage = func(page *session.Page) { page.Next = "1 here" }
		f.fails(`the page after "1 here" twice`)
	})
	subtest(t, "of many errors all are counted, and the first hundred kept", func(f *fixture) {
		f.onPage = func(page *session.Page) {
			for i := range 150 {
				page.Unreadable = append(page.Unreadable, fmt.Errorf("%w: run %d", session.ErrUnreadable, i))
			}
		}
		p := f.fails("")
		require.Equal(f, 150, p.Errors)
		require.Len(f, p.Errs, 100)
	})
}

// setClock has the database show another time from now on.
func (f *fixture) setClock(by time.Duration) { f.clockSet.Add(int64(by)) }

// TestDatabaseClock: sessions without a lease are judged by the database's clock, which can be set.
func TestDatabaseClock(t *testing.T) {
	subtest(t, "set forward cancels nobody who was active, until he was silent for his threshold since", func(f *fixture) {
		f.put("silent", 9*time.Minute)
		f.put("busy", 0)
		f.pass()
		f.advance(time.Second)
		f.setClock(time.Hour)
		seen := time.Now()
		require.Equal(f, sweep.Tally{Checked: 2, Found: 2, Deferred: 2}, f.pass().Tally)
		stats := f.sweeper().Stats()
		require.Equal(f, 1, stats.ClockSteps)
		require.Equal(f, time.Hour, stats.LastClockStep)
		_, text := f.health()
		require.Contains(f, text, `"clock_steps": 1`)
		require.Contains(f, text, `"last_clock_step_seconds": 3600`)
		f.advance(10*time.Minute - time.Since(seen))
		require.Equal(f, 2, f.pass().Deferred, "at the threshold")
		f.wakeByDatabase("busy")
		f.advance(1)
		require.Equal(f, []string{"silent cancelled"}, outcomes(f.pass()))
		f.advance(10*time.Minute + time.Microsecond)
		require.Equal(f, []string{"busy cancelled"}, outcomes(f.pass()))
		require.Equal(f, 1, strings.Count(f.log.String(), "the clock of the database was set"))
		require.Contains(f, f.log.String(), `"step":3600000000000,"direction":"forward"`)
	})
	subtest(t, "set forward between two pages of a pass is seen, too", func(f *fixture) {
		f.cfg.MaxCancellationsPerRun = 1000
		f.putStalled(150)
		f.onPage = func(*session.Page) {
			if len(f.pages) == 1 {
				f.setClock(time.Hour)
			}
		}
		require.Equal(f, sweep.Tally{Checked: 150, Found: 150, Cancelled: 100, Deferred: 50}, f.pass().Tally)
	})
	subtest(t, "set back delays by no more than that, and is said", func(f *fixture) {
		f.put("s-1", 5*time.Minute)
		f.pass()
		f.setClock(-time.Hour)
		f.pass()
		require.Equal(f, -time.Hour, f.sweeper().Stats().LastClockStep)
		require.Contains(f, f.log.String(), `"step":-3600000000000,"direction":"back"`)
		f.advance(time.Hour + 5*time.Minute)
		require.Zero(f, f.pass().Found)
		f.advance(time.Microsecond)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Equal(f, 1, f.sweeper().Stats().ClockSteps)
	})
	subtest(t, "set back makes no silence uncertain", func(f *fixture) {
		f.put("s-1", 5*time.Minute)
		f.pass()
		f.setClock(-time.Minute)
		f.pass()
		f.advance(6*time.Minute + time.Microsecond)
		require.Equal(f, 1, f.pass().Cancelled)
	})
	subtest(t, "set forward does not end a grace", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace, f.cfg.StalledThreshold = 10*time.Minute, time.Minute
		require.Equal(f, 1, f.pass().Warned)
		f.advance(time.Minute)
		f.setClock(time.Hour)
		f.pass()
		f.advance(9 * time.Minute)
		require.Equal(f, 1, f.pass().Deferred)
		f.advance(time.Minute)
		require.Equal(f, 1, f.pass().Cancelled)
	})
}

// wakeByDatabase gives a session an event, at the time that the database shows.
func (f *fixture) wakeByDatabase(runID string) {
	s := f.get(runID)
	s.LastEventAt = f.Clock()
	f.row(s)
}

func TestMaxCancellationsPerMinute(t *testing.T) {
	for _, perRun := range []int64{0, 1, 7, 30, watchdog.NoLimit} {
		subtest(t, fmt.Sprint("has full passes follow one another, and no minute with more: ", perRun), func(f *fixture) {
			f.putStalled(200)
			f.cfg.MaxCancellationsPerRun, f.cfg.MaxCancellationsPerMinute = perRun, 30
			var at []time.Time
			f.onCancel = func(context.Context, session.Session) error { at = append(at, time.Now()); return nil }
			stop := f.run()
			f.advance(8 * time.Minute)
			stop()
			require.Len(f, f.ended(), 200)
			require.LessOrEqual(f, at[199].Sub(at[0]), 7*time.Minute)
			for i := 30; i < len(at); i++ {
				require.GreaterOrEqual(f, at[i].Sub(at[i-30]), time.Minute)
			}
		})
	}
	subtest(t, "holds for passes of Sweep", func(f *fixture) {
		f.putStalled(50)
		f.cfg.MaxCancellationsPerMinute = 15
		require.Equal(f, 10, f.pass().Cancelled)
		require.Equal(f, 5, f.pass().Cancelled)
		require.Zero(f, f.pass().Cancelled)
		f.advance(time.Minute)
		require.Equal(f, 10, f.pass().Cancelled)
	})
	subtest(t, "waits for a minute that has room", func(f *fixture) {
		f.putStalled(31)
		f.cfg.MaxCancellationsPerRun = watchdog.NoLimit
		f.cfg.MaxCancellationsPerMinute = 30
		require.Equal(f, 30, f.pass().Cancelled)
		f.advance(30 * time.Second)
		stop := f.run()
		f.advance(30*time.Second - 1)
		require.Equal(f, 2, f.sweeper().Stats().Passes)
		f.advance(1)
		stop()
		require.Len(f, f.ended(), 31)
	})
	subtest(t, "passes that are not full come after the interval", func(f *fixture) {
		f.cfg.MaxCancellationsPerMinute = 30
		f.putStalled(5)
		stop := f.run()
		f.advance(5*time.Minute - 1)
		stop()
		require.Equal(f, 1, f.sweeper().Stats().Passes)
	})
}

func TestAlert(t *testing.T) {
	subtest(t, "comes once when there are more than Count cancels, and again after there were fewer", func(f *fixture) {
		var alerts []int
		call := func(_ context.Context, n int) { alerts = append(alerts, n) }
		f.cfg.Alert = sweep.Alert{Count: 3, Within: time.Hour, Func: call}
		f.putStalled(3)
		f.pass()
		require.Empty(f, alerts)
		f.advance(time.Hour) // they still count
		f.putStalled(3)
		f.pass()
		require.Equal(f, []int{4}, alerts)
		f.advance(time.Hour + 1)
		f.putStalled(3)
		f.pass()
		require.Equal(f, []int{4}, alerts, "the first six count no more")
		f.putStalled(10)
		f.pass()
		require.Equal(f, []int{4, 4}, alerts)
	})
	subtest(t, "may panic", func(f *fixture) {
		f.putStalled(2)
		f.cfg.Alert = sweep.Alert{Within: time.Hour, Func: func(context.Context, int) { panic("pager") }}
		p := f.fails("alert of 1 cancels: it panicked with a string")
		require.Equal(f, 2, p.Cancelled)
	})
}

func TestOnPass(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.putStalled(1)
		var passes []sweep.Pass
		f.cfg.OnPass = func(p sweep.Pass) { passes = append(passes, p) }
		f.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(2 * time.Second); return nil }
		p := f.pass()
		require.Equal(f, []sweep.Pass{p}, passes)
		require.Equal(f, 2*time.Second, p.Duration)
		f.onStalled = func(context.Context, session.Query) error { return errors.New("down") }
		f.fails("")
		require.ErrorContains(f, passes[1].Err, "down")
	})
	subtest(t, "a pass that a stop ended is given, too, and Run waits for the callback", func(f *fixture) {
		f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
		told := false
		f.cfg.OnPass = func(sweep.Pass) { time.Sleep(10 * time.Second); told = true }
		f.run()()
		require.True(f, told)
	})
	subtest(t, "a callback may hang", func(f *fixture) {
		f.putStalled(1)
		free := make(chan struct{})
		defer close(free)
		f.cfg.OnPass = func(sweep.Pass) { <-free }
		f.pass()
		require.Contains(f, f.log.String(), `"callback":"OnPass"`)
	})
}

// A batching fixture cancels several sessions together.
type batching struct {
	*fixture
	locked string                                                      // a run
	onAll  func(all []session.BatchedCancel) error                     // before; its error is a transaction that was rolled back
	after  func(outcomes []session.Outcome) ([]session.Outcome, error) // what CancelAll returns after it was done
	calls  [][]string
}

// inBatches makes the sweeper one that cancels in batches.
func (f *fixture) inBatches() *batching {
	b := &batching{fixture: f}
	b.use(f)
	return b
}

// use makes the sweeper again, after a change of its config.
func (b *batching) use(finder sweep.Finder) {
	made, err := sweep.New(finder, b, b.cfg)
	require.NoError(b, err)
	b.made = made
}

func (b *batching) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	var names []string
	for _, c := range all {
		names = append(names, c.Judged.RunID)
	}
	b.mu.Lock()
	b.calls = append(b.calls, names)
	b.mu.Unlock()
	if b.onAll != nil {
		if err := b.onAll(all); err != nil {
			return nil, err
		}
	}
	refused := func(c session.BatchedCancel) bool { return b.poisoned != nil && b.poisoned(c.Judged) }
	if slices.ContainsFunc(all, refused) {
		return nil, errPoisoned
	}
	outcomes := make([]session.Outcome, len(all))
	for i, c := range all {
		if c.Judged.RunID == b.locked {
			continue
		}
		outcome, err := b.Memory.Cancel(ctx, c.Judged, c.Request)
		require.NoError(b, err)
		outcomes[i] = outcome
		if outcome == session.Done {
			b.mu.Lock()
			b.cancelled = append(b.cancelled, c.Judged.RunID)
			b.mu.Unlock()
		}
	}
	if b.after != nil {
		return b.after(outcomes)
	}
	return outcomes, nil
}

// TestTogether: the sessions of a page are cancelled in one transaction, if the canceller can.
func TestTogether(t *testing.T) {
	subtest(t, "as many as a pass may, the longest stalled first", func(f *fixture) {
		names := f.putStalled(25)
		b := f.inBatches()
		for n := 0; n < 20; n += 10 {
			p := f.pass()
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
			for i, c := range p.Cases {
				require.Equal(f, names[n+i], c.Session.RunID)
			}
		}
		require.Equal(f, [][]string{names[:10], names[10:20]}, b.calls)
		require.Equal(f, []string{event.Warning, event.Cancel}, f.events("s-00"))
		f.pass()
		f.put("s-99", time.Hour)
		f.pass()
		require.Len(f, b.calls, 3, "a single session is cancelled alone")
		require.Len(f, f.ended(), 26)
	})
	subtest(t, "and one that cannot be cancelled does not hold up the others", func(f *fixture) {
		f.putStalled(6)
		b := f.inBatches()
		b.locked = "s-01"
		f.storedEnd("s-02", event.Complete, `{"reason":"complete"}`)
		f.onPage = func(*session.Page) { f.wake("s-03"); f.onPage = nil }
		f.onCancel = func(context.Context, session.Session) error { return session.ErrLocked }
		p := f.pass()
		require.Equal(f, []string{
			"s-00 cancelled", "s-02 end_stored", "s-03 spared", "s-04 cancelled", "s-05 cancelled",
		}, outcomes(p))
		require.Equal(f, sweep.Tally{
			Checked: 6, Found: 6, Cancelled: 3, EndStored: 1, Spared: 1, Deferred: 1,
		}, p.Tally)
		require.Equal(f, session.Active, f.status("s-01"))
	})
	subtest(t, "and one that the database refuses has the others cancelled one by one, and only once", func(f *fixture) {
		names := f.putStalled(20)
		b := f.inBatches()
		f.poisoned = only("s-03")
		p := f.failsFor(errPoisoned)
		require.Equal(f, sweep.Tally{Checked: 11, Found: 11, Cancelled: 10, Failed: 1, Errors: 1}, p.Tally)
		require.Equal(f, "s-03 failed", outcomes(p)[3])
		p = f.pass()
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 9, Deferred: 1}, p.Tally)
		require.Equal(f, [][]string{names[:10], names[11:]}, b.calls)
		require.Equal(f, 1, f.sweeper().Remembered())
	})
	subtest(t, "and where the answer was lost each is looked up, and counts once", func(f *fixture) {
		names := f.putStalled(10)
		alerts := 0
		f.cfg.Alert = sweep.Alert{Count: 9, Within: time.Hour, Func: func(context.Context, int) { alerts++ }}
		b := f.inBatches()
		b.after = func([]session.Outcome) ([]session.Outcome, error) { return nil, errors.New("connection lost") }
		p := f.pass()
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
		require.Equal(f, names, f.ended())
		require.Zero(f, f.sweeper().Remembered())
		f.advance(time.Hour)
		require.Equal(f, sweep.Tally{}, f.pass().Tally)
		require.Equal(f, 1, alerts)
	})
	subtest(t, "and where they cannot be read either the pass looks them up that finds no others", func(f *fixture) {
		f.putStalled(30)
		b := f.inBatches()
		b.after = func([]session.Outcome) ([]session.Outcome, error) {
			time.Sleep(5 * time.Second) // fake time
			return nil, context.DeadlineExceeded
		}
		f.onCancel = func(context.Context, session.Session) error { return errors.New("down") }
		f.onSession = func(context.Context) error { return errors.New("down") }
		p := f.fails("3 sessions in a row failed and cannot be read")
		require.Equal(f, 3, p.Failed)
		b.after, f.onCancel, f.onSession = nil, nil, nil
		for range 2 {
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, f.pass().Tally)
		}
		require.Equal(f, sweep.Tally{Cancelled: 10}, f.pass().Tally)
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "and where a store answers for too few they are looked up", func(f *fixture) {
		f.putStalled(3)
		b := f.inBatches()
		b.after = func(outcomes []session.Outcome) ([]session.Outcome, error) { return outcomes[1:], nil }
		require.Equal(f, 3, f.pass().Cancelled)
	})
	subtest(t, "and the pass goes on behind those that had woken up", func(f *fixture) {
		f.putStalled(9)
		f.cfg.MaxCancellationsPerRun = 3
		b := f.inBatches()
		b.use(wholePages{f})
		f.onPage = func(*session.Page) { f.wake("s-00"); f.wake("s-02"); f.onPage = nil }
		p := f.pass()
		require.Equal(f, []string{
			"s-00 spared", "s-01 cancelled", "s-02 spared", "s-03 cancelled", "s-04 cancelled",
		}, outcomes(p))
		require.Len(f, f.pages, 1)
		require.Equal(f, [][]string{{"s-00", "s-01", "s-02"}, {"s-03", "s-04"}}, b.calls)
	})
	subtest(t, "with a grace those that are due come before the next is warned", func(f *fixture) {
		f.putStalled(2)
		f.cfg.Grace, f.cfg.Interval = time.Minute, 10*time.Second
		b := f.inBatches()
		require.Equal(f, 2, f.pass().Warned)
		f.put("s-98", 50*time.Minute)
		f.advance(time.Minute)
		require.Equal(f, []string{"s-00 cancelled", "s-01 cancelled", "s-98 warned"}, outcomes(f.pass()))
		require.Equal(f, [][]string{{"s-00", "s-01"}}, b.calls)
	})
	subtest(t, "and a sweeper that is stopped tries no other after a failure", func(f *fixture) {
		f.putStalled(5)
		ctx, cancel := context.WithCancel(f.Context())
		b := f.inBatches()
		b.onAll = func([]session.BatchedCancel) error { cancel(); return errors.New("down") }
		p, err := f.sweeper().Sweep(ctx)
		require.ErrorIs(f, err, context.Canceled)
		require.Zero(f, p.Cancelled)
		require.Empty(f, f.ended())
	})
}

// wholePages returns all stalled sessions at once.
type wholePages struct{ *fixture }

func (w wholePages) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	q.Limit = 100
	return w.fixture.Stalled(ctx, q)
}
