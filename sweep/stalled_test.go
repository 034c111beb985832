package sweep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "what time it is")
		require.ErrorIs(f, err, p.Err)
		require.Empty(f, f.ended())
	})
	subtest(t, "a page that comes twice", func(f *fixture) {
		f.onPage = func(page *session.Page) { page.Next = "1 here" }
		_, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, `the page after "1 here" twice`)
	})
	subtest(t, "of many errors all are counted, and the first hundred kept", func(f *fixture) {
		f.onPage = func(page *session.Page) {
			for i := range 150 {
				page.Unreadable = append(page.Unreadable, fmt.Errorf("%w: run %d", session.ErrUnreadable, i))
			}
		}
		p, err := f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		require.Equal(f, 150, p.Errors)
		require.Len(f, p.Errs, 100)
	})
}
