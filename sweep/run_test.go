package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestRun(t *testing.T) {
	subtest(t, "has its first pass after the startup delay and then one every interval", func(f *fixture) {
		f.cfg.StartupDelay = 0
		began := time.Now()
		stop := f.run()
		require.Equal(f, began.Add(30*time.Second), f.sweeper().Stats().Next)
		f.advance(11 * time.Minute)
		stop()
		first := 30 * time.Second
		require.Equal(f, []time.Duration{first, first + 5*time.Minute, first + 10*time.Minute}, f.pageTimes(began))
		require.Zero(f, f.sweeper().Stats().Next)
		require.Equal(f, 3, f.sweeper().Stats().Passes)
	})
	subtest(t, "puts off the next pass when one takes longer than the interval", func(f *fixture) {
		f.cfg.Interval, f.cfg.RecordTimeout = time.Minute, time.Hour
		f.onStalled = func(context.Context, session.Query) error { time.Sleep(7 * time.Minute); return nil }
		began := time.Now()
		stop := f.run()
		f.advance(17 * time.Minute)
		require.True(f, f.sweeper().Stats().Passing)
		_, text := f.health()
		require.Contains(f, text, `"passing": true`)
		stop()
		require.False(f, f.sweeper().Stats().Passing)
		f.advance(7 * time.Minute) // for the call that was left behind
		require.Equal(f, []time.Duration{0, 8 * time.Minute, 16 * time.Minute}, f.pageTimes(began))
	})
	subtest(t, "a second call is refused, and a later one is not", func(f *fixture) {
		stop := f.run()
		require.ErrorIs(f, f.sweeper().Run(f.Context()), sweep.ErrRunning)
		stop()
		f.run()()
	})
	subtest(t, "a disabled sweeper only waits, and Sweep refuses", func(f *fixture) {
		f.cfg.Disabled = true
		f.putStalled(1)
		stop := f.run()
		f.advance(24 * time.Hour)
		_, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, sweep.ErrDisabled)
		stop()
		require.Empty(f, f.pageTimes(time.Now()))
		require.Zero(f, f.sweeper().Stats().Passes)
	})
	subtest(t, "logs what went wrong about a session, and nothing that Sweep returns", func(f *fixture) {
		f.putStalled(1)
		f.poisoned = every
		f.fails("")
		require.NotContains(f, f.log.String(), "poisoned")
		f.made = nil
		f.run()()
		require.Contains(f, f.log.String(), "cancel run s-00: poisoned")
	})
}

func TestRunStop(t *testing.T) {
	subtest(t, "finishes the session in hand and starts no other", func(f *fixture) {
		f.putStalled(5)
		f.cfg.StopHook = func(ctx context.Context, _ session.Session) error {
			time.Sleep(10 * time.Second) // fake time
			return ctx.Err()
		}
		start := func(ctx context.Context, _ session.Session) error { return ctx.Err() }
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: start}
		stop := f.run()
		f.advance(5 * time.Second)
		began := time.Now()
		stop()
		require.Equal(f, 5*time.Second, time.Since(began))
		require.Equal(f, []string{"s-00"}, f.ended())
		last := f.sweeper().Stats().Last
		require.ErrorIs(f, last.Err, context.Canceled)
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Cancelled: 1, Resumed: 1, Errors: 1}, last.Tally)
		require.Zero(f, f.sweeper().Stats().ConsecutiveFailures, "a stop is no failure")
		require.NotContains(f, f.log.String(), "a pass over the sessions failed")
	})
	subtest(t, "takes a bounded time though neither the hook nor the database returns", func(f *fixture) {
		f.putStalled(5)
		free := make(chan struct{})
		f.cfg.StopHook = func(context.Context, session.Session) error { <-free; return nil }
		f.onCancel = func(context.Context, session.Session) error { <-free; return errors.New("late") }
		stop := f.run()
		began := time.Now()
		stop()
		require.Equal(f, (30+1+5+1)*time.Second, time.Since(began))
		close(free)
		synctest.Wait()
		require.Empty(f, f.ended())
	})
}

func TestSweep(t *testing.T) {
	subtest(t, "has a pass at once while Run waits, whose next pass stays where it is", func(f *fixture) {
		f.cfg.StartupDelay = 0
		began := time.Now()
		stop := f.run()
		f.advance(time.Second)
		f.pass()
		f.advance(30 * time.Second)
		stop()
		require.Equal(f, []time.Duration{time.Second, 30 * time.Second}, f.pageTimes(began))
	})
	subtest(t, "waits for the pass under way, until its context ends", func(f *fixture) {
		f.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil }
		began := time.Now()
		stop := f.run()
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		_, err := f.sweeper().Sweep(ctx)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.Equal(f, time.Second, time.Since(began))
		f.pass()
		require.Equal(f, 6*time.Second, time.Since(began))
		stop()
	})
	subtest(t, "has no pass with a context that has ended", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		for range 20 { // a select picks one of two ways at random
			_, err := f.sweeper().Sweep(ctx)
			require.ErrorIs(f, err, context.Canceled)
		}
		require.Empty(f, f.pages)
		require.Zero(f, f.sweeper().Stats().Passes)
	})
}

func TestDatabaseFails(t *testing.T) {
	for name, failing := range map[string]func(ctx context.Context) error{
		"is down": func(context.Context) error { return errors.New("connection refused") },
		"is slow": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"panics":  func(context.Context) error { panic("driver") },
	} {
		subtest(t, name+": passes come after growing waits, and cancel nothing until it is back", func(f *fixture) {
			f.putStalled(3)
			var down atomic.Bool
			down.Store(true)
			f.cfg.RecordTimeout = time.Millisecond
			f.onStalled = func(ctx context.Context, _ session.Query) error {
				if down.Load() {
					return failing(ctx)
				}
				return nil
			}
			began := time.Now()
			stop := f.run()
			f.advance(time.Hour)
			require.Empty(f, f.ended())
			stats := f.sweeper().Stats()
			require.Error(f, stats.Last.Err)
			require.Equal(f, stats.Passes, stats.ConsecutiveFailures)
			require.Equal(f, stats.Passes, stats.Errors)
			down.Store(false)
			f.advance(5 * time.Minute)
			stop()
			require.Len(f, f.ended(), 3)
			require.Zero(f, f.sweeper().Stats().ConsecutiveFailures)
			f.requireBackoff(began)
		})
	}
	subtest(t, "is back a second later: the next pass comes after the interval", func(f *fixture) {
		var once sync.Once
		f.onStalled = func(context.Context, session.Query) (err error) {
			once.Do(func() { err = errors.New("fails over") })
			return err
		}
		began := time.Now()
		stop := f.run()
		f.advance(time.Second)
		retried := f.pageTimes(began)[1]
		f.advance(5 * time.Minute)
		stop()
		require.Equal(f, retried+5*time.Minute, f.pageTimes(began)[2])
	})
	subtest(t, "cancels time out: the pass ends after ten, and later passes cancel all", func(f *fixture) {
		names := f.putStalled(30)
		f.cfg.MaxCancellationsPerRun = watchdog.NoLimit
		f.onCancel = func(ctx context.Context, _ session.Session) error { <-ctx.Done(); return ctx.Err() }
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, p.Err, context.DeadlineExceeded)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.Equal(f, 10, p.Failed)
		require.Equal(f, 1, f.sweeper().Stats().ConsecutiveFailures)
		f.onCancel = nil
		f.advance(5 * time.Minute)
		require.Equal(f, 30, f.pass().Cancelled)
		require.Equal(f, names, f.ended())
	})
}

// requireBackoff checks that the waits between pages were 0.5 to 1 second, 1 to 2, 2 to 4 and so on, up to the
// interval.
func (f *fixture) requireBackoff(began time.Time) {
	f.Helper()
	pages := f.pageTimes(began)
	most := time.Second
	for i := 1; i < len(pages); i++ {
		waited := pages[i] - pages[i-1]
		require.GreaterOrEqual(f, waited, most/2, i)
		require.LessOrEqual(f, waited, most+time.Millisecond, i)
		most = min(2*most, 5*time.Minute)
	}
	require.Greater(f, len(pages), 15)
}

// health returns what the page says.
func (f *fixture) health() (code int, text string) {
	f.Helper()
	w := httptest.NewRecorder()
	f.sweeper().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	require.Equal(f, "application/json", w.Header().Get("Content-Type"))
	require.Equal(f, "no-store", w.Header().Get("Cache-Control"))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		happen func(f *fixture)
	}{
		"before": {http.StatusOK, func(*fixture) {}},
		"disabled": {http.StatusOK, func(f *fixture) {
			f.cfg.Disabled = true
			f.Cleanup(f.run())
		}},
		"waiting": {http.StatusOK, func(f *fixture) {
			f.cfg.StartupDelay = 0
			f.Cleanup(f.run())
		}},
		"healthy": {http.StatusOK, func(f *fixture) {
			f.putStalled(12)
			start := func(context.Context, session.Session) error { return nil }
			f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: start}
			f.cfg.StopHook = func(_ context.Context, s session.Session) error {
				time.Sleep(1500 * time.Microsecond) // fake time
				if s.RunID == "s-03" {
					f.wake(s.RunID)
				}
				return nil
			}
			f.poisoned = only("s-05")
			f.Cleanup(f.run())
			f.advance(time.Minute)
		}},
		"failing": {http.StatusServiceUnavailable, func(f *fixture) {
			f.onStalled = func(context.Context, session.Query) error { return errors.New("password=canary refused") }
			f.fails("")
		}},
		"failing_slowly": {http.StatusServiceUnavailable, func(f *fixture) {
			f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			f.fails("")
		}},
		"overdue": {http.StatusServiceUnavailable, func(f *fixture) {
			f.cfg.RecordTimeout = time.Hour
			f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			f.Cleanup(f.run())
			f.advance(5 * time.Minute)
			code, _ := f.health()
			require.Equal(f, http.StatusOK, code, "not overdue yet")
			f.advance(1)
		}},
		"stopped": {http.StatusOK, func(f *fixture) {
			f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			f.run()()
			f.advance(time.Hour)
		}},
	} {
		subtest(t, name, func(f *fixture) {
			c.happen(f)
			code, text := f.health()
			require.Equal(f, c.code, code)
			require.NotContains(f, text, "canary")
			golden.Compare(f.T, "testdata/"+"health_"+name+".json", text)
		})
	}
	t.Run("the page can only be read", func(t *testing.T) {
		s, err := sweep.New(&session.Memory{}, &session.Memory{}, sweep.Config{})
		require.NoError(t, err)
		server := httptest.NewServer(s.Handler())
		defer server.Close()
		for method, code := range map[string]int{
			http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405,
		} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
			require.NoError(t, err)
			resp, err := server.Client().Do(r)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, code, resp.StatusCode, method)
		}
	})
}

// TestLog pins the keys of the log, which has no content of a session.
func TestLog(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.putStalled(2)
		f.cfg.Grace = time.Minute
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-01" {
				f.wake(s.RunID)
				panic("canary")
			}
			return nil
		}
		stop := f.run()
		f.advance(6 * time.Minute)
		stop()
		synctest.Wait()
		require.NotContains(f, f.log.String(), "canary")
		golden.Compare(f.T, "testdata/"+"log.golden", strings.ReplaceAll(f.log.String(), time.Now().Format("2006-01-02"), "day"))
	})
}

// TestLogStart expects settings that have a name in words, and those of a sweeper that only waits.
func TestLogStart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Disabled, f.cfg.DryRun, f.cfg.MinAge = true, true, watchdog.None
		f.cfg.StalledThreshold, f.cfg.MaxCancellationsPerRun = watchdog.NoLimit, watchdog.NoLimit
		f.run()()
		for _, shown := range []string{
			"the sweeper starts", `"enabled":false`, `"dry_run":true`, `"min_age":0`, `"stop_hook":false`,
			`"stalled_threshold":"no limit"`, `"max_cancellations":"no limit"`, "the sweeper has ended", `"passes":0`,
		} {
			require.Contains(f, f.log.String(), shown)
		}
	})
}

// TestHealthOfStop protects the page from a stop of the run that a sweeper is in, which is a time-out of its own and
// not one of the store.
func TestHealthOfStop(t *testing.T) {
	inBubble(t, func(f *fixture) {
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "sweeper", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Second},
		})
		require.NoError(f, err)
		defer wd.Close()
		f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return context.Cause(ctx) }
		_, err = f.sweeper().Sweep(wd.Context())
		require.ErrorIs(f, err, context.DeadlineExceeded)
		_, text := f.health()
		require.Contains(f, text, `"error": "stopped"`)
	})
}

func TestConfigDefaults(t *testing.T) {
	require.Equal(t, sweep.Config{
		Interval: 5 * time.Minute, StalledThreshold: 10 * time.Minute, MinAge: 2 * time.Minute,
		StartupDelay: 30 * time.Second, MaxCancellationsPerRun: 10, StopTimeout: 30 * time.Second,
		RecordTimeout: 5 * time.Second,
	}, sweep.Config{}.WithDefaults())
}

// noAppend is a canceller that cannot warn.
type noAppend struct{ sweep.Canceller }

func TestConfigInvalid(t *testing.T) {
	start := func(context.Context, session.Session) error { return nil }
	alert := func(context.Context, int) {}
	for says, cfg := range map[string]sweep.Config{
		"Interval is -1ns":                          {Interval: -1},
		"StalledThreshold is -1ns":                  {StalledThreshold: watchdog.None},
		"MinAge is -2ns":                            {MinAge: -2},
		"MinAge is without limit":                   {MinAge: watchdog.NoLimit},
		"StartupDelay is -1s":                       {StartupDelay: -time.Second},
		"Grace is -1ns":                             {Grace: watchdog.None},
		"StopTimeout is -1ns":                       {StopTimeout: -1},
		"RecordTimeout is -2562047h47m16.854775808": {RecordTimeout: math.MinInt64},
		"MaxCancellationsPerRun is -1":              {MaxCancellationsPerRun: -1},
		"Resume.Max is -1":                          {Resume: sweep.ResumePolicy{Max: -1}},
		"of Resume only":                            {Resume: sweep.ResumePolicy{Max: 1}},
		"only one of Max and Start":                 {Resume: sweep.ResumePolicy{Start: start}},
		"Alert.Count is -1":                         {Alert: sweep.Alert{Count: -1}},
		"Alert.Within is -1ns":                      {Alert: sweep.Alert{Within: -1, Func: alert}},
		"of Alert only":                             {Alert: sweep.Alert{Func: alert}},
		"only one of Within and Func":               {Alert: sweep.Alert{Within: 1}},
		"Alert.Count is set without":                {Alert: sweep.Alert{Count: 1}},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := sweep.New(&session.Memory{}, &session.Memory{}, cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, says)
		})
	}
	t.Run("without a finder or a canceller", func(t *testing.T) {
		_, err := sweep.New(nil, &session.Memory{}, sweep.Config{})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = sweep.New(&session.Memory{}, nil, sweep.Config{})
		require.ErrorContains(t, err, "pass both")
	})
	t.Run("with a grace and a canceller that cannot warn", func(t *testing.T) {
		_, err := sweep.New(&session.Memory{}, noAppend{&session.Memory{}}, sweep.Config{Grace: 1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "no method Warn or Append")
		_, err = sweep.New(&session.Memory{}, noAppend{&session.Memory{}}, sweep.Config{})
		require.NoError(t, err)
	})
}

func TestWorstTime(t *testing.T) {
	const second, minute = time.Second, time.Minute
	hook := func(context.Context, session.Session) error { return nil }
	vouched := second + 2*(10*second/3)
	for name, c := range map[string]struct {
		cfg      sweep.Config
		k        session.KeeperConfig
		sessions int
		want     time.Duration
	}{
		"one session":  {sweep.Config{}, session.KeeperConfig{}, 1, 15*minute + vouched},
		"none":         {sweep.Config{}, session.KeeperConfig{}, 0, 15*minute + vouched},
		"a full pass":  {sweep.Config{}, session.KeeperConfig{}, 10, 15*minute + vouched},
		"one too many": {sweep.Config{}, session.KeeperConfig{}, 11, 20*minute + vouched},
		"83 hours for 10,000 that only look stalled": {
			sweep.Config{}, session.KeeperConfig{}, 10_000, 83*time.Hour + 15*minute + 15*minute + vouched,
		},
		"1,000 a minute": {
			sweep.Config{MaxCancellationsPerRun: 1000, MaxCancellationsPerMinute: 1000}, session.KeeperConfig{}, 10_000,
			24*minute + vouched,
		},
		"1,000 a minute, 10 in each pass": {
			sweep.Config{MaxCancellationsPerMinute: 1000}, session.KeeperConfig{}, 10_000,
			15*minute + vouched + 999*600*time.Millisecond,
		},
		"without a cap": {
			sweep.Config{MaxCancellationsPerRun: watchdog.NoLimit}, session.KeeperConfig{}, 10_000,
			15*minute + vouched,
		},
		"a short threshold": {
			sweep.Config{StalledThreshold: second, MinAge: watchdog.None}, session.KeeperConfig{}, 1,
			5*minute + second + vouched,
		},
		"a short interval: the death of the process takes longer": {
			sweep.Config{StalledThreshold: second, MinAge: watchdog.None, Interval: second}, session.KeeperConfig{}, 1,
			40 * second,
		},
		"a short promise, whose lease may be a new one": {
			sweep.Config{StalledThreshold: second, MinAge: watchdog.None, Interval: second},
			session.KeeperConfig{Promise: second}, 1, 5*second + 3*second,
		},
		"a long promise": {
			sweep.Config{StalledThreshold: second, MinAge: watchdog.None, Interval: minute},
			session.KeeperConfig{Promise: 5 * minute, Pace: 3 * second}, 1, 20 * minute,
		},
		"a grace": {
			sweep.Config{Grace: minute}, session.KeeperConfig{}, 1, 15*minute + vouched + minute,
		},
		"a hook and a resume": {
			sweep.Config{StopHook: hook, Resume: sweep.ResumePolicy{Max: 1, Start: hook}}, session.KeeperConfig{}, 20,
			20*minute + vouched + 3*620*second,
		},
		"a minimum age": {
			sweep.Config{MinAge: time.Hour}, session.KeeperConfig{}, 1, time.Hour + 5*minute + vouched,
		},
		"off":                    {sweep.Config{Disabled: true}, session.KeeperConfig{}, 1, watchdog.NoLimit},
		"a dry run":              {sweep.Config{DryRun: true}, session.KeeperConfig{}, 1, watchdog.NoLimit},
		"without a threshold":    {sweep.Config{StalledThreshold: watchdog.NoLimit}, session.KeeperConfig{}, 1, watchdog.NoLimit},
		"longer than can be":     {sweep.Config{Interval: watchdog.NoLimit / 2}, session.KeeperConfig{}, 100, watchdog.NoLimit},
		"a rate of one a minute": {sweep.Config{MaxCancellationsPerMinute: 1}, session.KeeperConfig{}, 3, 17*minute + vouched},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.cfg.WorstTime(c.k, c.sessions)) })
	}
	t.Run("of lost sessions the last one takes no longer than the first", func(t *testing.T) {
		for _, c := range []sweep.Config{
			{}, {Grace: minute}, {MaxCancellationsPerMinute: 1}, {Interval: second}, {Disabled: true},
		} {
			require.Equal(t, c.WorstTime(session.KeeperConfig{}, 1), c.WorstTimeLost(session.KeeperConfig{}, 10_000))
		}
	})
	t.Run("of lost sessions that are stopped or started again the caps count", func(t *testing.T) {
		for _, c := range []sweep.Config{{StopHook: hook}, {Resume: sweep.ResumePolicy{Max: 1, Start: hook}}} {
			require.Equal(t, c.WorstTime(session.KeeperConfig{}, 20), c.WorstTimeLost(session.KeeperConfig{}, 20))
		}
	})
	subtest(t, "a dead host of ten times the cap is swept within it, beside one that lives", func(f *fixture) {
		defer f.run()()
		defer f.newHost("live", 1).live()()
		h := f.newHost("dead", 100)
		h.signal(false, h.runs...)
		f.advance(f.cfg.WorstTimeLost(session.KeeperConfig{}, 100))
		require.Len(f, f.ended(), 100)
	})
}

// TestWorstTimeHolds: whatever the settings are, the sessions of hosts that die, and those that go silent while their
// host lives, are all cancelled within the worst time.
func TestWorstTimeHolds(t *testing.T) {
	for seed := range racing.Rounds[uint64](60, 60) {
		subtest(t, fmt.Sprint("seed ", seed), func(f *fixture) {
			random := rand.New(rand.NewPCG(seed, 11))
			upTo := func(d time.Duration) time.Duration { return time.Second + time.Duration(random.Int64N(int64(d))) }
			f.cfg.MinAge, f.cfg.StopTimeout = watchdog.None, 5*time.Second
			long := []time.Duration{5 * time.Second, 5 * time.Minute}[random.IntN(2)] // or a death takes longer
			f.cfg.Interval, f.cfg.StalledThreshold = upTo(long), upTo(long)
			f.cfg.MaxCancellationsPerRun = 1 + random.Int64N(20)
			if random.IntN(3) == 0 {
				f.cfg.Grace = upTo(time.Minute)
			}
			if random.IntN(3) == 0 {
				f.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(3 * time.Second); return nil } // fake
			}
			k := session.KeeperConfig{Promise: upTo(20 * time.Second)}
			hosts, runs, dies := 1+random.IntN(4), 1+random.IntN(12), random.IntN(2) == 0
			defer f.run()()
			defer f.newHostOf("beside", 1, upTo(time.Minute)).live()()
			f.advance(upTo(10 * time.Minute))
			for i := range hosts {
				h := f.newHostOf(fmt.Sprint("h", i), runs, k.Promise)
				stop := h.live()
				defer stop()
				f.advance(upTo(k.Promise))
				h.signal(true, h.runs...)
				if h.renew(); dies {
					stop()
				}
			}
			began := time.Now()
			for ; len(f.ended()) < hosts*runs; f.advance(time.Second) {
				require.LessOrEqual(f, time.Since(began), f.cfg.WorstTime(k, hosts*runs), "%d of %d: %+v, promise %v, dies %v",
					len(f.ended()), hosts*runs, f.cfg, k.Promise, dies)
			}
			require.Equal(f, session.Active, f.status("beside-000"))
		})
	}
}
