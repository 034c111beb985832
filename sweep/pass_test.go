package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestAPass(t *testing.T) {
	t.Run("cancels the longest stalled first, at most ten, until none is left", func(t *testing.T) {
		inBed(t, func(b *bed) {
			names := b.putStalled(50)
			for i := range 10_000 {
				b.put(fmt.Sprintf("active-%05d", i), time.Minute)
			}
			for i := range 5 {
				p := b.pass()
				require.Equal(b, names[10*i:10*i+10], b.ended()[10*i:])
				require.Equal(b, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
			}
			require.Equal(b, sweep.Tally{}, b.pass().Tally)
			require.Equal(b, names, b.ended())
			require.Equal(b, sweep.Tally{Checked: 50, Found: 50, Cancelled: 50}, b.the().Stats().Tally)
		})
	})
	t.Run("writes the advisory and the cancel of the run's window, once", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", 12*time.Minute)
			c := b.pass().Cases[0]
			require.Equal(b, 12*time.Minute, c.Silence)
			require.Equal(b, 10*time.Minute, c.Threshold)
			require.Equal(b, []string{watchdog.EventWarning, watchdog.EventCancel}, b.events("s-1"))
			events, err := b.Read(b.Context(), watchdog.AggregateType, "s-1")
			require.NoError(b, err)
			stop := &watchdog.Stop{RunID: "s-1", StartedAt: c.Session.StartedAt}
			require.Equal(b, stop.EventID(), events[1].ID)
			var payload map[string]any
			require.NoError(b, json.Unmarshal(events[1].Payload, &payload))
			require.Equal(b, "idle_timeout", payload["reason"])
			require.Equal(b, "system-watchdog", payload["author"])
			require.InDelta(b, 720, payload["measured_seconds"], 0)
			row, err := b.Session(b.Context(), "s-1")
			require.NoError(b, err)
			require.Equal(b, watchdog.SessionIdleTimeout, row.Reason)
			require.Zero(b, row.Resumes)
		})
	})
	t.Run("takes the creation for the window of a session that no watchdog had", func(t *testing.T) {
		inBed(t, func(b *bed) {
			created := time.Now().Add(-time.Hour)
			b.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: created, Attempt: 1})
			b.pass()
			events, err := b.Read(b.Context(), watchdog.AggregateType, "s-1")
			require.NoError(b, err)
			require.Equal(b, (&watchdog.Stop{RunID: "s-1", StartedAt: created.UTC()}).EventID(), events[1].ID)
		})
	})
	t.Run("spares a session that wakes up between the page and its cancel", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(3)
			b.cfg.StopHook = func(_ context.Context, s session.Session) error {
				if s.RunID == "s-01" && s.LastEventAt.Before(time.Now().Add(-30*time.Minute)) {
					time.Sleep(time.Second) // the bubble's
					b.wake(s.RunID)
				}
				return nil
			}
			p := b.pass()
			require.Equal(b, []string{"s-00 cancelled", "s-01 spared", "s-02 cancelled"}, outcomes(p))
			require.Equal(b, sweep.Tally{Checked: 3, Found: 3, Cancelled: 2, Spared: 1}, p.Tally)
			require.Empty(b, b.events("s-01"))
			b.after(10*time.Minute + time.Microsecond)
			require.Equal(b, []string{"s-01 cancelled"}, outcomes(b.pass()), "when it has stalled again")
		})
	})
	t.Run("asks again for a page that has become old, for the agents of what woke up are not to be stopped", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(4)
			var stopped []string
			b.cfg.StopHook = func(_ context.Context, s session.Session) error {
				stopped = append(stopped, s.RunID)
				if s.RunID == "s-00" {
					time.Sleep(10*time.Second + 1) // the bubble's
					b.wake("s-02")
				}
				return nil
			}
			require.Equal(b, []string{"s-00 cancelled", "s-01 cancelled", "s-03 cancelled"}, outcomes(b.pass()))
			require.Equal(b, []string{"s-00", "s-01", "s-03"}, stopped)
			require.Len(b, b.pages, 2)
		})
	})
	t.Run("takes up nothing twice when it asks again", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(3)
			b.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(11 * time.Second); return nil }
			b.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
			p, err := b.the().Sweep(b.Context())
			require.Error(b, err)
			require.Equal(b, sweep.Tally{Checked: 3, Found: 3, Failed: 3, Errors: 3}, p.Tally)
		})
	})
	t.Run("takes no more from a source that gives more than it was asked for", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(20)
			b.onPage = func(page *session.Page) {
				all, err := b.Memory.Stalled(context.Background(), session.Query{Threshold: time.Minute, Limit: 20})
				require.NoError(b, err)
				page.Sessions = all.Sessions
			}
			require.Equal(b, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, b.pass().Tally)
		})
	})
	t.Run("goes on to further pages past what it cannot cancel", func(t *testing.T) {
		inBed(t, func(b *bed) {
			names := b.putStalled(25)
			b.cfg.MaxCancellationsPerRun = 5
			b.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID < "s-07" {
					return errors.New("constraint violated")
				}
				return nil
			}
			p, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, "cancel run s-06: constraint violated")
			require.NoError(b, p.Err)
			require.Equal(b, 5, p.Cancelled)
			require.Equal(b, 7, p.Failed)
			require.Equal(b, names[7:12], b.ended())
			require.Equal(b, sweep.Tally{Checked: 12, Found: 12, Cancelled: 5, Deferred: 7}, b.pass().Tally)
		})
	})
}

func TestWhatIsStalled(t *testing.T) {
	rowOf := func(change func(s *session.Session)) session.Session {
		s := session.Session{RunID: "s-1", Status: session.Active, CreatedAt: time.Now().Add(-24 * time.Hour), LastEventAt: time.Now().Add(-time.Hour), Attempt: 1}
		change(&s)
		return s
	}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for name, c := range map[string]struct {
		change func(s *session.Session)
		want   bool
	}{
		"at its threshold it is not":                   {func(s *session.Session) { s.LastEventAt = ago(10 * time.Minute) }, false},
		"a microsecond later it is":                    {func(s *session.Session) { s.LastEventAt = ago(10*time.Minute + time.Microsecond) }, true},
		"without an event it counts from its creation": {func(s *session.Session) { s.LastEventAt, s.CreatedAt = time.Time{}, ago(10*time.Minute) }, false},
		"and is stalled a microsecond later": {func(s *session.Session) {
			s.LastEventAt, s.CreatedAt = time.Time{}, ago(10*time.Minute+time.Microsecond)
		}, true},
		"at the minimum age it is old enough":             {func(s *session.Session) { s.Threshold, s.CreatedAt = time.Minute, ago(2*time.Minute) }, true},
		"a microsecond younger is not":                    {func(s *session.Session) { s.Threshold, s.CreatedAt = time.Minute, ago(2*time.Minute-time.Microsecond) }, false},
		"one that is switched off never is":               {func(s *session.Session) { s.Threshold = watchdog.NoLimit }, false},
		"at its own threshold it is not":                  {func(s *session.Session) { s.Threshold = time.Hour }, false},
		"beyond its own threshold it is":                  {func(s *session.Session) { s.Threshold = time.Hour - time.Microsecond }, true},
		"one that was cancelled is not":                   {func(s *session.Session) { s.Status = session.Cancelled }, false},
		"one that has finished is not":                    {func(s *session.Session) { s.Status = session.Finished }, false},
		"one whose last event is to come is not":          {func(s *session.Session) { s.LastEventAt = ago(-time.Hour) }, false},
		"one that is to be made is not":                   {func(s *session.Session) { s.CreatedAt = ago(-time.Hour) }, false},
		"one that was interrupted is not":                 {func(s *session.Session) { s.Status = session.Interrupted }, false},
		"one of a host that keeps another word is not":    {func(s *session.Session) { s.Status = "running" }, false},
		"one that never ran but was made long ago it is":  {func(s *session.Session) { s.LastEventAt, s.Attempt = time.Time{}, 0 }, true},
		"one of which only the last event is known is so": {func(s *session.Session) { s.StartedAt = time.Time{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(b *bed) { // the database finds it or does not
				b.row(rowOf(c.change))
				require.Equal(b, c.want, b.pass().Cancelled == 1)
			})
			inBed(t, func(b *bed) { // a database that cannot judge returns everything
				b.onPage = func(page *session.Page) { page.Sessions = []session.Session{rowOf(c.change)} }
				b.cfg.DryRun = true
				p := b.pass()
				require.Equal(b, c.want, p.Found == 1)
				require.Equal(b, 1, p.Checked)
			})
		})
	}
	t.Run("only what has a threshold of its own, where the sweeper's is off", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", time.Hour)
			b.row(session.Session{RunID: "s-2", Status: session.Active, CreatedAt: ago(time.Hour), Threshold: time.Minute, Attempt: 1})
			b.cfg.StalledThreshold = watchdog.NoLimit
			require.Equal(b, []string{"s-2 cancelled"}, outcomes(b.pass()))
		})
	})
	t.Run("at any age, where there is no minimum", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: ago(time.Second), Attempt: 1})
			b.cfg.StalledThreshold = time.Second - time.Microsecond
			require.Empty(b, b.pass().Cases)
			b.sweeper, b.cfg.MinAge = nil, watchdog.None
			b.onStalled = func(_ context.Context, q session.Query) error { require.Zero(b, q.MinAge); return nil }
			require.Equal(b, []string{"s-1 cancelled"}, outcomes(b.pass()))
		})
	})
	t.Run("by the database's clock: a host that is two minutes off cancels nothing early, and nothing late", func(t *testing.T) {
		for _, off := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
			inBed(t, func(b *bed) {
				b.Clock = func() time.Time { return time.Now().Add(off) }
				b.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: b.Clock(), Attempt: 1})
				b.onPage = func(page *session.Page) { // as a database that cannot judge
					s, err := b.Session(context.Background(), "s-1")
					require.NoError(b, err)
					page.Sessions = []session.Session{s}
				}
				b.after(10 * time.Minute)
				require.Empty(b, b.pass().Cases)
				b.after(time.Microsecond)
				c := b.pass().Cases[0]
				require.Equal(b, sweep.CaseCancelled, c.Handling)
				require.Equal(b, 10*time.Minute+time.Microsecond, c.Silence)
				events, err := b.Read(b.Context(), watchdog.AggregateType, "s-1")
				require.NoError(b, err)
				require.Equal(b, b.Clock().UTC(), events[1].Timestamp)
			})
		}
	})
}

func TestWhatCannotBeReadIsAnErrorAndNeverACancel(t *testing.T) {
	whole := session.Session{RunID: "bad", Status: session.Active, CreatedAt: time.Unix(1, 0), LastEventAt: time.Unix(1, 0), Attempt: 1}
	for name, change := range map[string]func(s *session.Session){
		"no time of creation": func(s *session.Session) { s.CreatedAt = time.Time{} },
		"threshold is -1ns":   func(s *session.Session) { s.Threshold = -1 },
		"it has no name":      func(s *session.Session) { s.RunID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(b *bed) {
				bad := whole
				change(&bad)
				b.put("good", time.Hour)
				b.onPage = func(page *session.Page) { page.Sessions = append([]session.Session{bad}, page.Sessions...) }
				p, err := b.the().Sweep(b.Context())
				require.ErrorIs(b, err, session.ErrUnreadable)
				require.ErrorContains(b, err, name)
				require.NoError(b, p.Err)
				require.Equal(b, sweep.Tally{Checked: 2, Found: 1, Cancelled: 1, Errors: 1}, p.Tally)
				require.Equal(b, []string{"good"}, b.ended())
			})
		})
	}
	t.Run("a row that the store cannot read", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(3)
			require.NoError(b, b.Spoil(b.Context(), "s-01"))
			b.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(11 * time.Second); return nil } // the page becomes old
			p, err := b.the().Sweep(b.Context())
			require.ErrorIs(b, err, session.ErrUnreadable)
			require.Equal(b, sweep.Tally{Checked: 3, Found: 2, Cancelled: 2, Errors: 1}, p.Tally)
			require.Zero(b, b.the().Stats().ConsecutiveFailures)
		})
	})
	t.Run("a page without its time", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(3)
			b.onPage = func(page *session.Page) { page.Now = time.Time{} }
			p, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, "what time it is")
			require.ErrorIs(b, err, p.Err)
			require.Empty(b, b.ended())
		})
	})
	t.Run("a page that comes twice", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.onPage = func(page *session.Page) { page.Next = "1 here" }
			_, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, `the page after "1 here" twice`)
		})
	})
	t.Run("so many errors that not all are kept, but counted", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.onPage = func(page *session.Page) {
				for i := range 150 {
					page.Unreadable = append(page.Unreadable, fmt.Errorf("%w: run %d", session.ErrUnreadable, i))
				}
			}
			p, err := b.the().Sweep(b.Context())
			require.Error(b, err)
			require.Equal(b, 150, p.Errors)
			require.Len(b, p.Errs, 100)
		})
	})
}

func TestAPoisonedSession(t *testing.T) {
	t.Run("does not keep the others from their turn, and is tried later and later", func(t *testing.T) {
		inBed(t, func(b *bed) {
			names := b.putStalled(31)
			var tries []time.Duration
			began := time.Now()
			b.cfg.StartupDelay, b.cfg.Interval = watchdog.None, time.Hour
			b.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID != "s-00" {
					return nil
				}
				tries = append(tries, time.Since(began))
				return errors.New("poisoned")
			}
			stop := b.run()
			b.after(2*time.Hour + time.Minute)
			require.Equal(b, names[1:], b.ended())
			b.after(40 * time.Hour)
			stop()
			require.Equal(b, []time.Duration{0, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}, tries[:5])
			for i := 6; i < len(tries); i++ {
				require.Equal(b, 6*time.Hour, tries[i]-tries[i-1], "but not too late")
			}
		})
	})
	t.Run("is a new matter when it has woken up and stalled again", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", time.Hour)
			b.cfg.Interval = 24 * time.Hour
			b.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
			_, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, "poisoned")
			b.wake("s-1")
			b.onCancel = nil
			b.after(11 * time.Minute)
			require.Equal(b, []string{"s-1 cancelled"}, outcomes(b.pass()))
		})
	})
	t.Run("is forgotten when it has ended, and when it is cancelled at last", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(2)
			b.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
			_, err := b.the().Sweep(b.Context())
			require.Error(b, err)
			require.Equal(b, 2, b.the().Remembered())
			require.NoError(b, b.End(b.Context(), []session.Ending{{RunID: "s-00", Attempt: 1, Status: session.Finished}}))
			b.onCancel = nil
			b.pass()
			require.Equal(b, 1, b.the().Remembered())
			b.after(5 * time.Minute)
			require.Equal(b, 1, b.pass().Cancelled)
			require.Zero(b, b.the().Remembered())
		})
	})
	t.Run("is forgotten in the end though there is always more to cancel than a pass may", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(60)
			b.cfg.MaxCancellationsPerRun = 1
			b.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID == "s-00" {
					return errors.New("poisoned")
				}
				return nil
			}
			_, err := b.the().Sweep(b.Context())
			require.Error(b, err)
			require.NoError(b, b.End(b.Context(), []session.Ending{{RunID: "s-00", Attempt: 1, Status: session.Finished}}))
			b.pass()
			require.Equal(b, 1, b.the().Remembered())
			b.after(25 * time.Hour)
			b.pass()
			require.Zero(b, b.the().Remembered())
		})
	})
	t.Run("is not the database's matter while others can be cancelled", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(36)
			b.cfg.MaxCancellationsPerRun = watchdog.NoLimit
			b.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID[3]%2 == 0 {
					return errors.New("poisoned")
				}
				return nil
			}
			p, err := b.the().Sweep(b.Context())
			require.Error(b, err)
			require.NoError(b, p.Err)
			require.Equal(b, 18, p.Failed)
			require.Equal(b, 18, p.Cancelled)
		})
	})
	t.Run("is the database's matter when ten in a row fail: the pass ends, and all the others have their turn all the same", func(t *testing.T) {
		inBed(t, func(b *bed) {
			names := b.putStalled(40)
			b.cfg.StartupDelay = watchdog.None
			b.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID < "s-25" {
					return errors.New("poisoned")
				}
				return nil
			}
			stop := b.run()
			require.Equal(b, 1, b.the().Stats().ConsecutiveFailures)
			require.ErrorContains(b, b.the().Stats().Last.Err, "10 sessions in a row failed, the last: cancel run s-09: poisoned")
			b.after(6 * time.Minute)
			stop()
			require.Equal(b, names[25:], b.ended())
		})
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	inBed(t, func(b *bed) {
		names := b.putStalled(12)
		b.cfg.DryRun, b.cfg.Grace = true, time.Minute
		b.cfg.StopHook = func(context.Context, session.Session) error { b.Error("a dry run stopped agents"); return nil }
		for range 2 {
			p := b.pass()
			require.Len(b, p.Cases, 10)
			require.Equal(b, sweep.Tally{Checked: 10, Found: 10}, p.Tally)
			require.Equal(b, "s-00 would_cancel", outcomes(p)[0])
			require.True(b, p.DryRun)
		}
		for _, name := range names {
			require.Equal(b, session.Active, b.status(name))
			require.Empty(b, b.events(name))
		}
		require.Equal(b, 20, strings.Count(b.log.String(), "would be cancelled"))
	})
}
