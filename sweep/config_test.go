package sweep_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
