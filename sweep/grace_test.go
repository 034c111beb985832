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

func TestGrace(t *testing.T) {
	warned := func(f *fixture) { f.cfg.Grace, f.cfg.StartupDelay = time.Minute, watchdog.None }
	subtest(t, "starts with a warning and ends with the cancel, to the nanosecond", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		stop := f.run()
		require.Equal(f, []string{watchdog.EventWarning}, f.events("s-1"))
		require.Equal(f, time.Now().Add(time.Minute), f.sweeper().Stats().Next)
		f.advance(time.Minute - 1)
		require.Empty(f, f.ended())
		f.advance(1)
		require.Equal(f, []string{"s-1"}, f.ended())
		require.Equal(f, []string{watchdog.EventWarning, watchdog.EventWarning, watchdog.EventCancel}, f.events("s-1"))
		events := f.stored("s-1")
		require.Contains(f, string(events[2].Payload), `"attempt":2`)
		require.Equal(f, time.Now().Add(5*time.Minute), f.sweeper().Stats().Next)
		stop()
		require.Equal(f, sweep.Tally{Checked: 2, Found: 2, Cancelled: 1, Warned: 1}, f.sweeper().Stats().Tally)
	})
	subtest(t, "is void after an event, and starts again when the session stalls again", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		stop := f.run()
		f.advance(30 * time.Second)
		f.wake("s-1")
		f.advance(16 * time.Minute) // stalled after 10 and a half, seen after 11, and warned
		require.Equal(f, []string{watchdog.EventWarning, watchdog.EventWarning}, f.events("s-1")[:2])
		require.Equal(f, 2, f.sweeper().Stats().Warned)
		require.Equal(f, []string{"s-1"}, f.ended())
		stop()
	})
	subtest(t, "of a pass of Sweep makes the next pass of Run come sooner", func(f *fixture) {
		warned(f)
		stop := f.run()
		f.put("s-1", time.Hour)
		f.pass()
		f.advance(time.Minute)
		stop()
		require.Equal(f, []string{"s-1"}, f.ended())
	})
	subtest(t, "a pass warns at most as many as it may cancel, and can do both", func(f *fixture) {
		warned(f)
		names := f.putStalled(25)
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Warned: 10}, f.pass().Tally)
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{Checked: 20, Found: 20, Warned: 10, Cancelled: 10}, f.pass().Tally)
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{Checked: 15, Found: 15, Warned: 5, Cancelled: 10}, f.pass().Tally)
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{Checked: 5, Found: 5, Cancelled: 5}, f.pass().Tally)
		require.Equal(f, names, f.ended())
	})
	subtest(t, "passes come no faster when more are due than a pass may cancel", func(f *fixture) {
		warned(f)
		f.cfg.MaxCancellationsPerRun = 1
		f.putStalled(4)
		for range 4 {
			require.Equal(f, 1, f.pass().Warned)
		}
		f.advance(time.Minute)
		stop := f.run()
		f.advance(4 * time.Minute)
		require.Len(f, f.ended(), 1)
		f.advance(15 * time.Minute)
		stop()
		require.Len(f, f.ended(), 4)
	})
	subtest(t, "that is over is not delayed by one that has to start", func(f *fixture) {
		warned(f)
		f.cfg.MaxCancellationsPerRun = 1
		f.put("s-1", time.Hour)
		f.pass()
		f.advance(time.Minute)
		f.put("s-0", 2*time.Hour)
		require.Equal(f, []string{"s-0 warned", "s-1 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "does not start if the warning cannot be recorded", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		s, err := sweep.New(f, &failingWarn{fixture: f, err: errors.New("disk full")}, f.cfg)
		require.NoError(f, err)
		p, err := s.Sweep(f.Context())
		require.ErrorContains(f, err, "warn run s-1: disk full")
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Failed: 1, Errors: 1}, p.Tally)
		require.Empty(f, f.ended())
	})
}

// TestGraceOneShot has each pass by a sweeper that knows nothing of those before, as a scheduled job does.
func TestGraceOneShot(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.put("s-1", time.Hour)
		f.newHost("dead", 1)
		f.cfg.Grace = 15 * time.Minute
		var all []string
		for range 20 {
			f.made = nil
			began := time.Now()
			all = append(all, outcomes(f.pass())...)
			f.advance(time.Minute - time.Since(began))
		}
		require.Equal(f, []string{"s-1 warned", "dead-000 warned", "s-1 cancelled"}, all)
		require.Equal(f, []string{watchdog.EventWarning, watchdog.EventWarning, watchdog.EventCancel}, f.events("s-1"))
		f.advance(15 * time.Minute)
		f.made = nil
		require.Equal(f, []string{"dead-000 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "a canceller without Warn leaves the grace to the sweeper that warned", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace = time.Minute
		s, err := sweep.New(f, appends{f, f}, f.cfg)
		require.NoError(f, err)
		var all []string
		for range 3 {
			p, err := s.Sweep(f.Context())
			require.NoError(f, err)
			all = append(all, outcomes(p)...)
			f.advance(30 * time.Second)
		}
		require.Equal(f, []string{"s-1 warned", "s-1 cancelled"}, all)
	})
	subtest(t, "another sweeper comes when the grace ends", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace, f.cfg.StartupDelay = time.Minute, watchdog.None
		f.pass()
		f.made = nil
		f.advance(20 * time.Second)
		stop := f.run()
		f.advance(40 * time.Second)
		stop()
		require.Equal(f, []string{"s-1"}, f.ended())
	})
	subtest(t, "two silences under one lease have a warning each", func(f *fixture) {
		h := f.newHost("live", 1)
		f.cfg.Grace = time.Minute
		for range 2 {
			f.advance(time.Minute)
			h.signal(true, "live-000")
			f.advance(11 * time.Minute)
			h.renew()
			stop := h.live()
			require.Equal(f, []string{"live-000 warned"}, outcomes(f.pass()))
			stop()
		}
		require.Len(f, f.events("live-000"), 2)
	})
}

// appends is a canceller that can only append a warning.
type appends struct {
	sweep.Canceller
	events watchdog.EventStore
}

func (a appends) Append(ctx context.Context, events ...watchdog.Event) error {
	return a.events.Append(ctx, events...)
}

// failingWarn is a canceller whose Warn fails.
type failingWarn struct {
	*fixture
	err error
}

func (m *failingWarn) Warn(context.Context, session.Session, []watchdog.Event) (session.Outcome, error) {
	return "", m.err
}
