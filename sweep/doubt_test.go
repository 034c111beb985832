package sweep_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// consequences counts what must follow a cancel once.
type consequences struct{ alerts, resumes int }

func (f *fixture) consequences() *consequences {
	c := &consequences{}
	f.cfg.Alert = sweep.Alert{Within: time.Hour, Func: func(context.Context, int) { c.alerts++ }}
	f.cfg.Resume = sweep.ResumePolicy{Max: 2, Start: func(ctx context.Context, s session.Session) error {
		c.resumes++
		_, _, err := f.Attach(ctx, session.Session{RunID: s.RunID, StartedAt: time.Now(), Threshold: watchdog.NoLimit})
		return err
	}}
	return c
}

// claimFor is how long claims last at the defaults.
const claimFor = 43 * time.Second

// TestDoubt: a cancel whose answer was lost may have been committed.
func TestDoubt(t *testing.T) {
	lost := errors.New("connection lost")
	subtest(t, "a cancel that was committed counts once, with its alert and its resume", func(f *fixture) {
		f.put("s-1", time.Hour)
		all := f.consequences()
		f.after = func() error { return lost }
		p := f.pass()
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(p))
		require.True(f, p.Cases[0].Resumed)
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Cancelled: 1, Resumed: 1}, p.Tally)
		for range 3 {
			f.advance(time.Hour)
			require.Equal(f, sweep.Tally{}, f.pass().Tally)
		}
		require.Equal(f, consequences{1, 1}, *all)
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "one that cannot be looked up at once is looked up by the next pass", func(f *fixture) {
		f.put("s-1", time.Hour)
		all := f.consequences()
		f.after = func() error { return lost }
		f.onSession = func(context.Context) error { return errors.New("down") }
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, lost)
		require.ErrorContains(f, err, "look up the cancel of run s-1: down")
		require.Equal(f, 1, p.Failed)
		f.onSession, f.after = nil, nil
		p = f.pass()
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(p))
		require.Equal(f, sweep.Tally{Cancelled: 1, Resumed: 1}, p.Tally)
		require.Equal(f, sweep.Tally{}, f.pass().Tally)
		require.Equal(f, consequences{1, 1}, *all)
	})
	subtest(t, "one that no pass can look up has its start taken over when the claim is over", func(f *fixture) {
		f.put("s-1", time.Hour)
		all := f.consequences()
		f.after = func() error { return lost }
		f.onSession = func(context.Context) error { return errors.New("down") }
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, lost)
		require.ErrorContains(f, err, "look up the cancel of run s-1: down")
		require.Equal(f, 1, p.Failed)
		f.onSession, f.after = nil, nil
		f.onStalled = func(context.Context, session.Query) error { return errors.New("down") }
		f.advance(claimFor - 1)
		_, err = f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		require.Zero(f, all.resumes, "the claim lasts")
		f.advance(1)
		_, err = f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		f.onStalled = nil
		require.Zero(f, f.pass().Tally, "its run is another attempt by then")
		require.Equal(f, consequences{0, 1}, *all)
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "one that was not committed is tried again", func(f *fixture) {
		f.put("s-1", time.Hour)
		all := f.consequences()
		f.onCancel = func(context.Context, session.Session) error { return lost }
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, lost)
		require.Equal(f, 1, p.Failed)
		f.onCancel = nil
		f.advance(5 * time.Minute)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Equal(f, consequences{1, 1}, *all)
	})
	for name, wait := range map[string]time.Duration{
		"and the next pass does not find it": time.Hour, "right before the next try": 150 * time.Second,
	} {
		subtest(t, "one that is committed late, "+name+", counts once", func(f *fixture) {
			f.put("s-1", time.Hour)
			all := f.consequences()
			var commit func()
			s, err := sweep.New(f, &lateCanceller{f, &commit}, f.cfg)
			require.NoError(f, err)
			p, err := s.Sweep(f.Context())
			require.ErrorIs(f, err, context.DeadlineExceeded)
			require.Equal(f, 1, p.Failed)
			if wait == time.Hour {
				commit()
			} else {
				f.onPage = func(*session.Page) { commit(); f.onPage = nil }
			}
			f.advance(wait)
			p, err = s.Sweep(f.Context())
			require.NoError(f, err)
			require.Equal(f, []string{"s-1 cancelled"}, outcomes(p))
			require.Zero(f, s.Remembered())
			require.Equal(f, consequences{1, 1}, *all)
		})
	}
	for name, end := range map[string]func(f *fixture){
		"by its own process": func(f *fixture) { f.finish("s-1") },
		"by another sweeper": func(f *fixture) {
			cfg := f.cfg
			cfg.Alert, cfg.Resume = sweep.Alert{}, sweep.ResumePolicy{}
			s, err := sweep.New(f.Memory, f.Memory, cfg)
			require.NoError(f, err)
			p, err := s.Sweep(f.Context())
			require.NoError(f, err)
			require.Equal(f, 1, p.Cancelled)
		},
	} {
		subtest(t, "one that was not committed, and ended "+name+", is spared", func(f *fixture) {
			f.put("s-1", time.Hour)
			all := f.consequences()
			f.onCancel = func(context.Context, session.Session) error { return lost }
			f.onSession = func(context.Context) error { return errors.New("down") }
			_, err := f.sweeper().Sweep(f.Context())
			require.ErrorIs(f, err, lost)
			f.onCancel, f.onSession = nil, nil
			end(f)
			p := f.pass()
			require.Equal(f, []string{"s-1 spared"}, outcomes(p))
			require.Equal(f, consequences{}, *all)
			require.Zero(f, f.sweeper().Remembered())
		})
	}
	subtest(t, "one that was not committed, and finished under the claim, is spared", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.hook(nil)
		f.onCancel = func(context.Context, session.Session) error { f.finish("s-1"); return lost }
		require.Equal(f, []string{"s-1 spared"}, outcomes(f.pass()))
	})
	subtest(t, "without a method to look it up it is judged as usual", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.after = func() error { return lost }
		s, err := sweep.New(struct{ sweep.Finder }{f}, noAppend{f}, f.cfg)
		require.NoError(f, err)
		_, err = s.Sweep(f.Context())
		require.ErrorIs(f, err, lost)
		p, err := s.Sweep(f.Context())
		require.NoError(f, err)
		require.Empty(f, p.Cases)
	})
	subtest(t, "a warning whose answer was lost is not written again", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace, f.cfg.Interval = time.Minute, 10*time.Second
		s, err := sweep.New(f, &lostWarning{f}, f.cfg)
		require.NoError(f, err)
		_, err = s.Sweep(f.Context())
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.Len(f, f.events("s-1"), 1)
		f.advance(30 * time.Second)
		p, err := s.Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, 1, p.Deferred)
		f.advance(30 * time.Second)
		p, err = s.Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(p))
		require.Len(f, f.events("s-1"), 3)
	})
}

// lateCanceller commits the first cancel later than its answer fails.
type lateCanceller struct {
	*fixture
	commit *func()
}

func (l *lateCanceller) Cancel(
	ctx context.Context, s session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	if *l.commit == nil {
		*l.commit = func() {
			outcome, err := l.Memory.Cancel(context.Background(), s, c)
			require.NoError(l, err)
			require.Equal(l, session.Done, outcome)
		}
		return "", context.DeadlineExceeded
	}
	return l.Memory.Cancel(ctx, s, c)
}

type lostWarning struct{ *fixture }

func (l *lostWarning) Warn(
	ctx context.Context, s session.Session, events []watchdog.Event,
) (session.Outcome, error) {
	_, err := l.Memory.Warn(ctx, s, events)
	require.NoError(l, err)
	return "", context.DeadlineExceeded
}

// TestStartOfLateAnswer: a cancel that is found to be committed when its claim is over has no claim on the start.
func TestStartOfLateAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var now, most, calls atomic.Int32
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error {
			calls.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(20 * time.Second) // fake
			now.Add(-1)
			return nil
		}}
		f.put("s-1", time.Hour)
		f.after = func() error { return errors.New("connection lost") }
		f.onSession = func(context.Context) error { return errors.New("down") }
		_, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "down")
		f.onSession, f.after = nil, nil
		f.advance(5 * time.Minute)
		other, err := sweep.New(f, f, f.cfg)
		require.NoError(f, err)
		go func() {
			time.Sleep(5 * time.Second) // fake
			_, _ = other.Sweep(context.Background())
		}()
		require.Equal(f, sweep.Tally{Cancelled: 1, Resumed: 1}, f.pass().Tally)
		f.advance(time.Minute)
		require.EqualValues(f, 1, calls.Load())
		require.EqualValues(f, 1, most.Load(), "no two sweepers call Start at once")
	})
}

// TestLookUpIsBounded protects that a database which answers slowly about many cancels in doubt does not keep a pass
// from its sessions.
func TestLookUpIsBounded(t *testing.T) {
	const answer = 4 * time.Second
	inBubble(t, func(f *fixture) {
		f.putStalled(30)
		lost, cancels := errors.New("connection lost"), 0
		f.after = func() error {
			if cancels++; cancels%3 == 0 { // three in a row that cannot be read end the pass
				return nil
			}
			return lost
		}
		f.onSession = func(context.Context) error { return errors.New("down") }
		first, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, lost)
		require.Equal(f, 10, first.Cancelled)
		require.Equal(f, 20, first.Failed, "these are in doubt")
		f.after = nil
		f.onSession = func(context.Context) error { time.Sleep(answer); return nil }
		f.put("next", time.Hour)
		var cancelled time.Time
		f.onCancel = func(context.Context, session.Session) error { cancelled = time.Now(); return nil }
		began := time.Now()
		second := f.pass()
		require.Equal(f, began, cancelled, "what is stalled now comes first")
		require.LessOrEqual(f, second.Duration, 30*time.Second+answer, "the look-up ends in time")
		require.GreaterOrEqual(f, second.Duration, 30*time.Second, "and there was as much to look up")
		others := f.pass().Cancelled + f.pass().Cancelled
		require.Equal(f, 20+1, second.Cancelled+others, "the others are looked up by the next passes")
		require.Zero(f, f.sweeper().Remembered())
	})
}
