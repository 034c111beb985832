package stall_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/stall"
)

func TestInsideRun(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*stall.Config){
		"that is disabled":  func(c *stall.Config) { c.Disabled = true },
		"whose limit is no": func(c *stall.Config) { c.IdleGoesOn = true },
	} {
		parallel(t, "output is the run's activity, and silence is not, of a command "+name, func(t *testing.T) {
			f := newInsideFixture(t)
			set(&f.cfg)
			w, ctx := outerRun(t, f.store, watchdog.Budget{Idle: 2500 * time.Millisecond}, false)
			_, err := stall.Run(ctx, command(t, "every:100ms:x:35", "stay"), f.cfg)
			require.ErrorIs(t, err, watchdog.IdleExceeded)
			require.Greater(t, w.Elapsed(), 3500*time.Millisecond, "while it printed it was alive")
		})
	}
	parallel(t, "a probe's change is its progress, and sameness is not", func(t *testing.T) {
		for _, c := range []struct {
			words string
			stuck bool
		}{
			{"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,1,2,3,4,5,6,7,8,9", false},
			{"=progressing", false},
			{"a,a", true},
		} {
			parallel(t, c.words[:3], func(t *testing.T) {
				var err error
				for n := 0; n < attempts && (n == 0 || errors.Is(err, watchdog.NoProgressExceeded) != c.stuck); n++ {
					f := newInsideFixture(t)
					_, ctx := outerRun(t, f.store, watchdog.Budget{NoProgress: 2500 * time.Millisecond}, false)
					f.cfg.Probe = f.probe(c.words)
					f.cfg.Probe.StallThreshold, f.cfg.IdleGoesOn = 1000, true
					f.cfg.Probe.Interval = 200 * time.Millisecond
					_, err = stall.Run(ctx, command(t, "every:20ms:x:220"), f.cfg)
				}
				require.Equal(t, c.stuck, errors.Is(err, watchdog.NoProgressExceeded), "%s: %v", c.words, err)
			})
		}
	})
	for _, step := range []string{"flood:" + floodSize, "print:" + ready} { // a reader is slow after the end, too
		parallel(t, "a slow reader opens a hold on the run, "+step, func(t *testing.T) {
			f := newInsideFixture(t)
			w, ctx := outerRun(t, f.store, watchdog.Budget{Idle: 2500 * time.Millisecond, FromFirstSign: true}, false)
			cmd := command(t, step)
			cmd.Stdout = &onFirstWrite{func() { time.Sleep(4 * time.Second) }}
			_, err := stall.Run(ctx, cmd, f.cfg)
			require.NoError(t, err)
			require.Nil(t, w.Stop())
			require.NoError(t, w.Close())
		})
	}
	parallel(t, "a store or a run ID in the config is an error before anything happens", func(t *testing.T) {
		f := newInsideFixture(t)
		_, ctx := outerRun(t, f.store, watchdog.Budget{}, false)
		for _, change := range []func(*stall.Config){
			func(c *stall.Config) { c.Store = f.store },
			func(c *stall.Config) { c.RunID = "other" },
		} {
			cfg := f.cfg
			change(&cfg)
			result, err := stall.Run(ctx, command(t), cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "run")
			require.Nil(t, result)
			require.False(t, exists(f.cfg.Artifacts))
		}
	})
}

// TestInFlight checks what the silence of a command means for the run that waits for it.
func TestInFlight(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	budget := watchdog.Budget{Idle: idle, NoProgress: idle}
	for name, set := range map[string]func(*fixture){
		"with a NoOutput of its own": func(f *fixture) { f.cfg.NoOutput = longTime },
		"with a probe":               func(f *fixture) { f.cfg.Probe = f.probe("=progressing") },
		"without any limit":          func(f *fixture) { f.cfg.NoOutput = watchdog.NoLimit },
	} {
		parallel(t, "the run stands still, and begins again after it, "+name, func(t *testing.T) {
			f := newInsideFixture(t)
			w, ctx := outerRun(t, f.store, budget, false)
			set(f)
			_, err := stall.Run(ctx, command(t, "sleep:2500ms"), f.cfg)
			require.NoError(t, err)
			require.NoError(t, context.Cause(ctx))
			<-ctx.Done()
			require.Greater(t, w.Elapsed(), 2500*time.Millisecond+idle)
			for run, events := range map[string]int{"run": 1, "run/step": 0} { // its cancel
				recorded, err := f.store.Read(t.Context(), event.AggregateType, run)
				require.NoError(t, err)
				require.Len(t, recorded, events)
			}
		})
	}
	parallel(t, "without a limit of its own the run's ends it, and the run goes on", func(t *testing.T) {
		f := newInsideFixture(t)
		f.cfg.Artifacts = ""
		w, around := outerRun(t, f.store, watchdog.Budget{Idle: idle}, false)
		layer, err := w.Layer("phase", watchdog.Budget{})
		require.NoError(t, err)
		result, err := stall.Run(layer.Context(), command(t, "stay"), f.cfg)
		require.ErrorIs(t, err, watchdog.CommandNoOutput)
		require.ErrorContains(t, err, "of 1 s")
		require.Less(t, result.Elapsed, longTime)
		require.NoError(t, context.Cause(around))
		require.NoError(t, context.Cause(layer.Context()))
	})
	parallel(t, "what prints beside it is nobody's sign but its own", func(t *testing.T) {
		f := newInsideFixture(t)
		_, ctx := outerRun(t, f.store, watchdog.Budget{Idle: idle}, false)
		beside, ended := f.cfg, make(chan error, 1)
		beside.Step, beside.NoOutput = "beside", longTime
		prints := command(t, "every:50ms:x:60")
		go func() {
			_, err := stall.Run(ctx, prints, beside)
			ended <- err
		}()
		_, err := stall.Run(ctx, command(t, "stay"), f.cfg)
		require.ErrorIs(t, err, watchdog.CommandNoOutput)
		require.NoError(t, <-ended)
	})
	parallel(t, "the run stands still until the command has ended, also after its trip", func(t *testing.T) {
		f := newInsideFixture(t)
		w, ctx := outerRun(t, f.store, watchdog.Budget{Idle: idle}, false)
		f.cfg.Grace = graces(3*time.Second, longTime)
		_, err := stall.Run(ctx, command(t, "ignore:INT", "stay"), f.cfg)
		require.ErrorIs(t, err, watchdog.CommandNoOutput)
		stop := w.Stop()
		require.True(t, stop == nil || stop.FiredAt.Sub(stop.StartedAt) > 4*time.Second, "%v", stop)
	})
	parallel(t, "a hold around it allows it what it allows the run, until it is closed", func(t *testing.T) {
		f := newInsideFixture(t)
		w, ctx := outerRun(t, f.store, watchdog.Budget{Idle: idle}, false)
		hold, err := w.Hold(t.Context(), "tool", watchdog.HoldLimit{Cap: longTime})
		require.NoError(t, err)
		time.AfterFunc(2500*time.Millisecond, func() { hold.Close() })
		result, err := stall.Run(ctx, command(t, "stay"), f.cfg)
		require.ErrorIs(t, err, watchdog.CommandNoOutput)
		require.Greater(t, result.Elapsed, 2500*time.Millisecond+idle)
		if stop := w.Stop(); stop != nil { // this test may have to wait for its turn for longer than the run's Idle
			require.Greater(t, stop.FiredAt.Sub(stop.StartedAt), result.Elapsed+idle)
		}
	})
	parallel(t, "a run that waits for its first sign waits for the command's", func(t *testing.T) {
		f := newInsideFixture(t)
		_, ctx := outerRun(t, f.store, watchdog.Budget{Idle: idle, FromFirstSign: true}, false)
		result, err := stall.Run(ctx, command(t, "sleep:2500ms", "print:"+ready, "stay"), f.cfg)
		require.ErrorIs(t, err, watchdog.CommandNoOutput)
		require.Greater(t, result.Elapsed, 2500*time.Millisecond+idle)
		require.NoError(t, context.Cause(ctx))
	})
	parallel(t, "a command that the host talks to meanwhile is the run's silence", func(t *testing.T) {
		f := newInsideFixture(t)
		_, ctx := outerRun(t, f.store, watchdog.Budget{Idle: idle}, false)
		c, err := stall.NewCommand(command(t, "stay"), f.cfg)
		require.NoError(t, err)
		require.NoError(t, c.Start(ctx))
		_, err = c.Wait()
		require.ErrorIs(t, err, watchdog.IdleExceeded)
	})
}

// A faultyStore can read, but fails or hangs when it appends.
type faultyStore struct {
	watchdog.EventStore
	fails error
}

func (s *faultyStore) Append(ctx context.Context, _ ...watchdog.Event) error {
	if s.fails != nil {
		return s.fails
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestFaultyStore checks that a faulty store does not keep a command alive.
func TestFaultyStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fails error
		bound time.Duration
	}{
		{"one that hangs delays the first signal by the record timeout", nil, 500 * time.Millisecond},
		{"one that fails does not delay it", errEnough, longTime},
	} {
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			f.cfg.Store, f.cfg.RecordTimeout = &faultyStore{f.store, c.fails}, c.bound
			result, err := f.run(f.terminal())
			first := result.Sent[0].At.Sub(result.Trip.ObservedAt)
			if c.bound < longTime {
				require.GreaterOrEqual(t, first, c.bound)
			}
			require.Less(t, first, min(c.bound, time.Second)+slack)
			require.True(t, result.Terminated)
			require.ErrorIs(t, err, watchdog.CommandTerminal)
			require.ErrorIs(t, err, cmp.Or(c.fails, context.DeadlineExceeded))
		})
	}
	const unread = "one that cannot be read is none of the command's business, whose window is its own"
	inFixture(t, unread, func(t *testing.T, f *fixture) {
		f.cfg.Store = unreadable{f.store}
		result, err := stall.Run(t.Context(), command(t), f.cfg)
		require.NoError(t, err)
		require.Zero(t, result.ExitCode)
	})
}

type unreadable struct{ watchdog.EventStore }

func (unreadable) Read(context.Context, string, string) ([]watchdog.Event, error) {
	return nil, errEnough
}

// ignoringSignals are the steps of a command that only SIGKILL ends, and that has a child which keeps the output open.
func ignoringSignals() []string {
	return []string{"ignore:INT,TERM", "daemon:ignore:INT,TERM;print:" + ready + ";stay", "print:" + ready, "stay"}
}

// TestRunInTime checks that Run returns within the graces and a second.
func TestRunInTime(t *testing.T) {
	t.Parallel()
	bound, unknown := stall.EndingBound()
	require.Less(t, bound, time.Second)
	for name, blocks := range map[string]bool{
		"if all processes ignore the signals and a child keeps the output open": false,
		"if a Writer of the host never returns":                                 true,
	} {
		parallel(t, name, func(t *testing.T) {
			const grace = 200 * time.Millisecond
			most, took := 2*grace+time.Second+10*time.Second, longTime // ten for a busy machine, which are no wait of Run's
			require.Less(t, most, 2*grace+unknown)
			for n := 0; n < attempts && took >= most; n++ {
				took = endIgnoring(t, grace, blocks)
			}
			require.Less(t, took, most)
		})
	}
	for name, givesUp := range map[string]bool{"its time is used up": false, "its caller gives up": true} {
		parallel(t, "if the command has ended and a Writer never returns, when "+name, func(t *testing.T) {
			var result *stall.Result
			err := errEnough
			for n := 0; n < attempts && err != nil; n++ {
				result, err = endBlocked(t, givesUp, 3*time.Second<<(2*n)) // in which a busy machine may not even start it
			}
			require.NoError(t, err)
			require.True(t, result.Finished)
			require.Error(t, result.OutputErr)
		})
	}
}

// endBlocked runs a command that ends long before a limit, on it or on its context, with a Writer that never returns.
func endBlocked(t *testing.T, givesUp bool, limit time.Duration) (*stall.Result, error) {
	t.Helper()
	f, ctx := newFixture(t), t.Context()
	if givesUp {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	} else {
		f.cfg.WallClock = limit
	}
	release := make(chan struct{})
	defer close(release)
	cmd := command(t, "print:"+ready)
	cmd.Stdout = &onFirstWrite{func() { <-release }}
	return stall.Run(ctx, cmd, f.cfg)
}

// endIgnoring ends a command that only SIGKILL ends, once all of it ignores the other signals, and returns how long that
// took. Its Writer never returns if it blocks.
func endIgnoring(t *testing.T, grace time.Duration, blocks bool) time.Duration {
	t.Helper()
	f := newFixture(t)
	f.cfg.Grace, f.cfg.NoOutput = graces(grace, grace), longTime
	ctx, cancel := context.WithCancelCause(t.Context())
	release := make(chan struct{})
	defer close(release)
	var began time.Time
	cmd := command(t, ignoringSignals()...)
	cmd.Stdout = &onFirstWrite{func() {
		began = time.Now()
		cancel(errEnough)
		if blocks {
			<-release
		}
	}}
	result, err := stall.Run(ctx, cmd, f.cfg)
	took := time.Since(began)
	require.ErrorIs(t, err, errEnough)
	require.Empty(t, result.Survivors)
	require.Equal(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}, signals(result))
	require.GreaterOrEqual(t, took, 2*grace)
	require.Equal(t, blocks, result.OutputErr != nil, "%v", result.OutputErr)
	return took
}

// TestInsideTimer runs commands in the context of a timer of package idle.
func TestInsideTimer(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // longer than a busy machine delays a command
	parallel(t, "output is a sign of life, and silence ends the command", func(t *testing.T) {
		f := newInsideFixture(t)
		f.cfg.Artifacts = ""
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		result, err := stall.Run(ctx, command(t, "every:100ms:x:60"), f.cfg)
		require.NoError(t, err, "it printed for six seconds")
		require.True(t, result.Finished)
		_, err = stall.Run(ctx, command(t, "stay"), f.cfg)
		stop, stopped := timer.Stopped()
		require.True(t, stopped)
		require.ErrorIs(t, err, stop)
	})
	parallel(t, "a reader that is behind is not silence, inside two timers and a run", func(t *testing.T) {
		f := newInsideFixture(t)
		f.cfg.Artifacts = ""
		_, around := outerRun(t, f.store, watchdog.Budget{}, false)
		outer, outerTimer := idle.WithLimit(around, limit)
		defer outerTimer.Close()
		ctx, timer := idle.WithLimit(outer, limit)
		defer timer.Close()
		cmd := command(t, "flood:"+floodSize)
		cmd.Stdout = &onFirstWrite{func() { time.Sleep(6 * time.Second) }}
		_, err := stall.Run(ctx, cmd, f.cfg)
		require.NoError(t, err)
	})
	parallel(t, "a probe that says so is a sign of life", func(t *testing.T) {
		err := context.DeadlineExceeded
		for n := 0; n < attempts && err != nil; n++ {
			f := newInsideFixture(t)
			_, around := outerRun(t, f.store, watchdog.Budget{}, false)
			ctx, timer := idle.WithLimit(around, limit)
			f.cfg.ActivitySource = stall.ActivityStderr
			f.cfg.Probe = f.probe("=progressing")
			f.cfg.Probe.Interval = 200 * time.Millisecond
			_, err = stall.Run(ctx, command(t, "every:20ms:x:350"), f.cfg)
			timer.Close()
		}
		require.NoError(t, err)
	})
}

// brokenStore fails the test when it is called.
type brokenStore struct{ t *testing.T }

func (s brokenStore) Append(context.Context, ...watchdog.Event) error {
	s.t.Error("Append was called")
	return errors.New("disk full")
}

func (s brokenStore) Read(context.Context, string, string) ([]watchdog.Event, error) {
	s.t.Error("Read was called")
	return nil, errors.New("disk full")
}

// disabled is a fixture in which a command trips at once in every way, if it is watched.
func disabled(t *testing.T) (f *fixture, probed string) {
	t.Helper()
	f, probed = newFixture(t), filepath.Join(t.TempDir(), "probed")
	f.cfg.Disabled, f.cfg.Store = true, brokenStore{t}
	f.cfg.WallClock, f.cfg.NoOutput, f.cfg.Terminal = time.Millisecond, time.Millisecond, readyLine
	f.cfg.Probe = &stall.Probe{Command: childCommand(t, "touch:"+probed), Interval: time.Millisecond}
	f.cfg.Tail = &stall.Tail{Bytes: 100, Redact: func(text []byte) []byte { return text }}
	return f, probed
}

// finishes expects that a silent command with a fatal line goes on until it exits.
func finishes(f *fixture, ctx context.Context, probed string) { //nolint:revive // the fixture is the test
	f.Helper()
	var out bytes.Buffer
	cmd := command(f, "print:"+ready, "sleep:300ms", "exit:3")
	cmd.Stdout = &out
	result, err := stall.Run(ctx, cmd, f.cfg)
	require.Equal(f, 3, exitCode(f, err))
	require.True(f, result.Finished)
	require.Nil(f, result.Trip)
	require.Zero(f, result.Probes.Count)
	require.Empty(f, result.Artifacts)
	require.Equal(f, ready+"\n", out.String())
	require.NoFileExists(f, probed)
	require.Empty(f, f.artifacts())
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	parallel(t, "a command goes on until it exits, and the log says so, once", func(t *testing.T) {
		f, probed := disabled(t)
		var log bytes.Buffer
		f.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		finishes(f, t.Context(), probed)
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), "%s", &log)
		require.Contains(t, log.String(),
			`level=INFO msg="stall sentinel is disabled and does not watch the command" run=run/step`)
	})
	parallel(t, "so does one in a run that nothing guards", func(t *testing.T) {
		f, probed := disabled(t)
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
			Disabled: true, Store: f.cfg.Store, Logger: discard, Budget: watchdog.Budget{WallClock: time.Millisecond},
		})
		require.NoError(t, err)
		defer wd.Close()
		f.cfg.Disabled, f.cfg.Store = false, nil
		finishes(f, wd.Context(), probed)
	})
}
