package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
		require.Equal(f, 1, f.failsFor(lost).Failed)
		f.onSession, f.after = nil, nil
		p := f.pass()
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
		require.Equal(f, 1, f.fails("look up the cancel of run s-1: down").Failed)
		f.onSession, f.after = nil, nil
		f.onStalled = func(context.Context, session.Query) error { return errors.New("down") }
		f.advance(claimFor - 1)
		f.fails("")
		require.Zero(f, all.resumes, "the claim lasts")
		f.advance(1)
		f.fails("")
		f.onStalled = nil
		require.Zero(f, f.pass().Tally, "its run is another attempt by then")
		require.Equal(f, consequences{0, 1}, *all)
		require.Zero(f, f.sweeper().Remembered())
	})
	for name, wait := range map[string]time.Duration{
		"and the next pass does not find it": time.Hour, "right before the next try": 150 * time.Second,
	} {
		subtest(t, "one that is committed late, "+name+", counts once", func(f *fixture) {
			f.put("s-1", time.Hour)
			all := f.consequences()
			var commit func()
			f.use(&lateCanceller{f, &commit})
			require.Equal(f, 1, f.failsFor(context.DeadlineExceeded).Failed)
			if wait == time.Hour {
				commit()
			} else {
				f.onPage = func(*session.Page) { commit(); f.onPage = nil }
			}
			f.advance(wait)
			require.Equal(f, []string{"s-1 cancelled"}, outcomes(f.pass()))
			require.Zero(f, f.sweeper().Remembered())
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
			f.failsFor(lost)
			f.onCancel, f.onSession = nil, nil
			end(f)
			p := f.pass()
			require.Equal(f, []string{"s-1 spared"}, outcomes(p))
			require.Equal(f, consequences{}, *all)
			require.Zero(f, f.sweeper().Remembered())
		})
	}
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
		f.after = func() error { return context.DeadlineExceeded }
		f.failsFor(context.DeadlineExceeded)
		f.after = nil
		require.Len(f, f.events("s-1"), 1)
		f.advance(30 * time.Second)
		require.Equal(f, 1, f.pass().Deferred)
		f.advance(30 * time.Second)
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(f.pass()))
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
		f.fails("down")
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

// TestStartUnderClaim: a cancel that is found to be committed has its start if the claim lasts for as long as that takes.
func TestStartUnderClaim(t *testing.T) {
	for left, resumed := range map[time.Duration]int{31 * time.Second: 1, 31*time.Second - time.Millisecond: 0} {
		subtest(t, fmt.Sprint("with so much left: ", left), func(f *fixture) {
			f.starts(0, 0)
			f.put("s-1", time.Hour)
			f.after = func() error { return errors.New("connection lost") }
			f.onSession = func(context.Context) error { return errors.New("down") }
			f.fails("down")
			f.onSession, f.after = nil, nil
			f.advance(claimFor - left)
			require.Equal(f, sweep.Tally{Cancelled: 1, Resumed: resumed}, f.pass().Tally)
		})
	}
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
		first := f.failsFor(lost)
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

// TestPoisonedSession: a session whose cancel always fails.
func TestPoisonedSession(t *testing.T) {
	subtest(t, "holds up no other, and is tried at growing intervals", func(f *fixture) {
		names := f.putStalled(31)
		var tries []time.Duration
		began := time.Now()
		f.cfg.Interval = time.Hour
		f.onCancel = func(_ context.Context, s session.Session) error {
			if s.RunID != "s-00" {
				return nil
			}
			tries = append(tries, time.Since(began))
			return errPoisoned
		}
		stop := f.run()
		f.advance(2*time.Hour + time.Minute)
		require.Equal(f, names[1:], f.ended())
		f.advance(40 * time.Hour)
		stop()
		require.Equal(f, []time.Duration{0, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}, tries[:5])
		for i := 6; i < len(tries); i++ {
			require.Equal(f, 6*time.Hour, tries[i]-tries[i-1], "but not too late")
		}
	})
	subtest(t, "starts from nothing when it has woken up and stalled again", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Interval = 24 * time.Hour
		f.poisoned = every
		f.fails("poisoned")
		f.wake("s-1")
		f.poisoned = nil
		f.advance(11 * time.Minute)
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "starts from nothing when it was active under its lease", func(f *fixture) {
		h := f.newHost("live", 1)
		f.cfg.Interval = 24 * time.Hour
		stalls := func() {
			h.signal(true, "live-000")
			f.advance(11 * time.Minute)
			h.renew()
		}
		f.poisoned = every
		f.advance(time.Minute)
		stalls()
		defer h.live()()
		f.fails("poisoned")
		f.poisoned = nil
		stalls()
		require.Equal(f, []string{"live-000 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "is forgotten when it has ended, and when it is cancelled at last", func(f *fixture) {
		f.putStalled(2)
		f.poisoned = every
		f.fails("")
		require.Equal(f, 2, f.sweeper().Remembered())
		f.finish("s-00")
		f.poisoned = nil
		f.pass()
		require.Equal(f, 1, f.sweeper().Remembered())
		f.advance(5 * time.Minute)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "is forgotten in the end though no pass sees every stalled session", func(f *fixture) {
		f.putStalled(60)
		f.cfg.MaxCancellationsPerRun = 1
		f.poisoned = only("s-00")
		f.fails("")
		f.finish("s-00")
		f.pass()
		require.Equal(f, 1, f.sweeper().Remembered())
		f.advance(25 * time.Hour)
		f.pass()
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "behind 1,500 that fail at once, one is cancelled in the first pass", func(f *fixture) {
		f.poison(1500)
		f.put("good", 20*time.Minute)
		stop := f.run()
		require.Equal(f, []string{"good"}, f.ended())
		require.Zero(f, f.sweeper().Stats().ConsecutiveFailures)
		f.put("later", 20*time.Minute)
		f.advance(5 * time.Minute)
		stop()
		require.Equal(f, []string{"good", "later"}, f.ended(), "each pause is over, and they are tried again")
		require.Equal(f, 2, f.sweeper().Stats().Passes)
	})
	subtest(t, "behind 1,500 that fail slowly, one is cancelled in the second pass", func(f *fixture) {
		f.poison(1500)
		f.onCancel = func(context.Context, session.Session) error { time.Sleep(30 * time.Millisecond); return nil }
		f.put("good", 20*time.Minute)
		stop := f.run()
		f.advance(40 * time.Second)
		require.ErrorContains(f, f.sweeper().Stats().Last.Err, "1000 sessions in a row failed, the last: cancel run s-999")
		require.Equal(f, 1, f.sweeper().Stats().Passes)
		f.advance(20 * time.Second)
		stop()
		require.Equal(f, []string{"good"}, f.ended())
		require.Equal(f, 2, f.sweeper().Stats().Passes)
	})
	subtest(t, "behind 150 that fail only at their timeout, one is cancelled when each of them has had its turn",
		func(f *fixture) {
			f.poison(150)
			tries := map[string]int{}
			var mu sync.Mutex // of tries
			f.onCancel = func(ctx context.Context, s session.Session) error {
				mu.Lock()
				tries[s.RunID]++
				mu.Unlock()
				if f.poisoned(s) {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			f.put("good", 20*time.Minute)
			stop := f.run()
			f.advance(150 * 6 * time.Second) // 5 s each, and a little for those that are tried again, and for the waits
			f.advance(5 * time.Minute)
			require.Equal(f, []string{"good"}, f.ended())
			f.advance(30 * time.Hour)
			stop()
			mu.Lock()
			defer mu.Unlock()
			require.Len(f, tries, 151)
			for runID, n := range tries {
				if runID != "good" {
					require.Greater(f, n, 1, "%s is tried again", runID)
				}
			}
		})
	subtest(t, "of many the pauses do not grow while nothing works", func(f *fixture) {
		names := f.putStalled(12)
		var writable atomic.Bool
		f.onCancel = func(context.Context, session.Session) error {
			if !writable.Load() {
				return errors.New("read-only transaction")
			}
			return nil
		}
		stop := f.run()
		require.ErrorContains(f, f.sweeper().Stats().Last.Err, "12 sessions in a row failed, the last: cancel run s-11")
		require.Equal(f, 1, f.sweeper().Stats().ConsecutiveFailures)
		f.advance(10 * time.Hour)
		writable.Store(true)
		f.advance(10 * time.Minute)
		stop()
		require.Equal(f, names, f.ended())
	})
}

// poison adds sessions that were silent for longest and whose cancels fail.
func (f *fixture) poison(count int) {
	for _, name := range f.putStalled(count) {
		s := f.get(name)
		s.LastEventAt = s.LastEventAt.Add(-24 * time.Hour)
		s.CreatedAt = s.LastEventAt
		f.row(s)
	}
	f.poisoned = func(s session.Session) bool { return time.Since(s.LastEventAt) > 12*time.Hour }
}
