package stall_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

var errEnough = errors.New("enough")

// A trigger is a writer that does something at the first output.
type trigger struct{ do func() }

func (w *trigger) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// outer is a run around a command; its context.
func outer(tb testing.TB, store watchdog.EventStore, budget watchdog.Budget, observeOnly bool) (*watchdog.Watchdog, context.Context) {
	tb.Helper()
	w, err := watchdog.New(tb.Context(), watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{Store: store, Budget: budget, ObserveOnly: observeOnly, Logger: quiet})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = w.Close() })
	return w, w.Context()
}

// inside is a bed for commands inside a run.
func inside(tb testing.TB) *bed {
	tb.Helper()
	b := newBed(tb)
	b.cfg.Store, b.cfg.RunID = nil, ""
	return b
}

func TestAnOutsideCancel(t *testing.T) {
	t.Parallel()
	t.Run("by the context ends the command with the graces, and the error has its cause", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.Grace = stall.Grace{Interrupt: 200 * time.Millisecond, Terminate: patient}
		ctx, cancel := context.WithCancelCause(t.Context())
		cmd := play(t, "ignore:INT", "obey:TERM:9", "print:"+ready, "stay")
		cmd.Stdout = &trigger{func() { cancel(errEnough) }}
		result, err := stall.Run(ctx, cmd, b.cfg)
		require.ErrorIs(t, err, errEnough)
		require.Equal(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, signals(result))
		require.Equal(t, syscall.SIGTERM, result.EndedBy)
		require.Equal(t, 9, result.ExitCode)
		require.True(t, result.Terminated)
		require.Nil(t, result.Trip)
		require.Empty(t, b.artifacts(), "it was not stuck")
		require.Empty(t, b.events(watchdog.EventCancel))
	})
	t.Run("by its own wall clock", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.WallClock = 500 * time.Millisecond
		began := time.Now()
		_, err := b.run(play(t, "every:20ms:x"))
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		require.Equal(t, []payload{{"wall_clock_exceeded", "run"}}, b.events(watchdog.EventCancel))
		within(t, late, began)
	})
	t.Run("by the run around it", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		_, ctx := outer(t, b.store, watchdog.Budget{WallClock: 500 * time.Millisecond}, false)
		result, err := stall.Run(ctx, play(t, "every:20ms:x"), b.cfg)
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		require.True(t, result.Terminated)
		require.Equal(t, "run/step", result.RunID)
	})
	t.Run("before the start starts nothing", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errEnough)
		touched := t.TempDir() + "/touched"
		result, err := stall.Run(ctx, play(t, "touch:"+touched), b.cfg)
		require.ErrorIs(t, err, errEnough)
		require.Nil(t, result)
		require.False(t, exists(touched))
	})
	t.Run("after an ignored trip is no stall, and no decision", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.OnTerminal, b.cfg.Terminal, b.cfg.AsIncomplete = stall.ActionIgnore, readyLine, true
		b.cfg.WallClock = time.Second
		result, err := b.run(play(t, "print:"+ready, "stay"))
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		require.False(t, result.Incomplete)
		require.Equal(t, []string{"event.json"}, b.artifacts())
		r := b.record()
		require.Equal(t, words("SIGINT SIGTERM SIGKILL"), r.Action.Requested)
		require.Equal(t, "SIGINT", r.Action.EndedBy)
	})
}

func TestInsideARun(t *testing.T) {
	t.Parallel()
	t.Run("a stall ends the command and not the run", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		w, ctx := outer(t, b.store, watchdog.Budget{}, false)
		b.cfg.Terminal = readyLine
		_, err := stall.Run(ctx, play(t, "print:"+ready, "stay"), b.cfg)
		require.ErrorIs(t, err, watchdog.CommandTerminal)
		require.Nil(t, w.Stop())
		require.Equal(t, []payload{{"terminal", "run"}}, b.events(watchdog.EventCancel))
	})
	t.Run("output is the run's activity, and silence is not", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		w, ctx := outer(t, b.store, watchdog.Budget{Idle: 2500 * time.Millisecond}, false)
		result, err := stall.Run(ctx, play(t, "every:100ms:x:40"), b.cfg)
		require.NoError(t, err, "it printed for four seconds")
		require.True(t, result.Finished)
		require.Nil(t, w.Stop())
		_, err = stall.Run(ctx, play(t, "stay"), b.cfg)
		require.ErrorIs(t, err, watchdog.IdleExceeded)
	})
	t.Run("a probe's change is its progress, and sameness is not", func(t *testing.T) {
		for _, c := range []struct {
			words string
			stuck bool
		}{{"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,1,2,3,4,5,6,7,8,9", false}, {"=progressing", false}, {"a,a", true}} {
			t.Run(c.words[:3], func(t *testing.T) {
				t.Parallel()
				b := inside(t)
				_, ctx := outer(t, b.store, watchdog.Budget{NoProgress: 2500 * time.Millisecond}, false)
				b.cfg.Probe = b.probe(c.words)
				b.cfg.Probe.StallThreshold = 1000
				b.cfg.Probe.Interval = 200 * time.Millisecond
				_, err := stall.Run(ctx, play(t, "every:20ms:x:220"), b.cfg)
				require.Equal(t, c.stuck, errors.Is(err, watchdog.NoProgressExceeded), "%s: %v", c.words, err)
			})
		}
	})
	t.Run("a slow reader holds the run too", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		w, ctx := outer(t, b.store, watchdog.Budget{Idle: 500 * time.Millisecond, FromFirstSign: true}, false)
		cmd := play(t, "flood:"+floodSize)
		cmd.Stdout = &trigger{func() { time.Sleep(2 * time.Second) }}
		_, err := stall.Run(ctx, cmd, b.cfg)
		require.NoError(t, err)
		require.Nil(t, w.Stop())
		require.NoError(t, w.Close())
		b = inside(t)
		w, ctx = outer(t, b.store, watchdog.Budget{Idle: 500 * time.Millisecond, FromFirstSign: true}, false)
		cmd = play(t, "print:"+ready)
		cmd.Stdout = &trigger{func() { time.Sleep(2 * time.Second) }}
		_, err = stall.Run(ctx, cmd, b.cfg)
		require.NoError(t, err, "also one that is slow after the command's end")
		require.Nil(t, w.Stop())
	})
	t.Run("a caller that gives up waits for no reader, though the run goes on", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		w, ctx := outer(t, b.store, watchdog.Budget{}, false)
		ctx, giveUp := context.WithCancel(ctx)
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		ended, w1, err := os.Pipe()
		require.NoError(t, err)
		cmd := play(t, "print:"+ready)
		cmd.ExtraFiles = []*os.File{w1}
		cmd.Stdout = &trigger{func() {
			_ = w1.Close()
			_, _ = ended.Read(make([]byte, 1)) // the command's end
			time.AfterFunc(300*time.Millisecond, giveUp)
			<-release
		}}
		began := time.Now()
		result, err := stall.Run(ctx, cmd, b.cfg)
		require.Less(t, time.Since(began), patient)
		require.NoError(t, err)
		require.Error(t, result.OutputErr)
		require.NoError(t, w.Context().Err())
	})
	t.Run("that only observes, a trip is recorded and the command goes on", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		_, ctx := outer(t, b.store, watchdog.Budget{}, true)
		b.cfg.Terminal = readyLine
		result, err := stall.Run(ctx, play(t, "print:"+ready, "sleep:300ms"), b.cfg)
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Equal(t, stall.KindTerminal, result.Trip.Kind)
		require.Equal(t, stall.ActionIgnore, result.Trip.Action)
		require.Empty(t, b.events(watchdog.EventCancel))
		require.Len(t, b.events(watchdog.EventWarning), 1)
		require.True(t, b.record().Complete)
	})
	t.Run("a store or a run ID of its own is an error before anything was done", func(t *testing.T) {
		t.Parallel()
		b := inside(t)
		_, ctx := outer(t, b.store, watchdog.Budget{}, false)
		for _, change := range []func(*stall.Config){func(c *stall.Config) { c.Store = b.store }, func(c *stall.Config) { c.RunID = "other" }} {
			cfg := b.cfg
			change(&cfg)
			result, err := stall.Run(ctx, play(t), cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "run")
			require.Nil(t, result)
			require.False(t, exists(b.cfg.Artifacts))
		}
	})
}

// A sickStore reads, and hangs or fails where it is to append.
type sickStore struct {
	watchdog.EventStore
	fails error
}

func (s *sickStore) Append(ctx context.Context, _ ...watchdog.Event) error {
	if s.fails != nil {
		return s.fails
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestAStoreThatIsSickDoesNotKeepACommandAlive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fails error
		bound time.Duration
	}{
		{"one that hangs delays the first signal by the record timeout", nil, 500 * time.Millisecond},
		{"one that fails does not delay it", errEnough, patient},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.cfg.Store, b.cfg.RecordTimeout, b.cfg.Terminal = &sickStore{b.store, c.fails}, c.bound, readyLine
			result, err := b.stalled(play(t, "print:"+ready, "stay"))
			first := result.Sent[0].At.Sub(result.Trip.ObservedAt)
			if c.fails == nil {
				require.GreaterOrEqual(t, first, c.bound)
			}
			require.Less(t, first, min(c.bound, time.Second)+late)
			require.NotNil(t, err)
			require.True(t, result.Terminated)
			_, whole := stall.Run(t.Context(), play(t, "print:"+ready, "stay"), b.cfg)
			if c.fails != nil {
				require.ErrorIs(t, whole, c.fails)
			} else {
				require.ErrorIs(t, whole, context.DeadlineExceeded)
			}
		})
	}
	t.Run("one that cannot be read starts nothing", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.Store = unreadable{b.store}
		result, err := stall.Run(t.Context(), play(t), b.cfg)
		require.ErrorIs(t, err, errEnough)
		require.Nil(t, result)
	})
}

type unreadable struct{ watchdog.EventStore }

func (unreadable) Read(context.Context, string, string) ([]watchdog.Event, error) {
	return nil, errEnough
}

// deaf is a command that only a SIGKILL ends, and a child of it that holds the output.
func deaf() []string {
	return []string{"ignore:INT,TERM", "daemon:ignore:INT,TERM;print:" + ready + ";stay", "print:" + ready, "stay"}
}

func TestRunReturnsWithinTheGracesAndASecond(t *testing.T) {
	t.Parallel()
	graces := stall.Grace{Interrupt: 200 * time.Millisecond, Terminate: 200 * time.Millisecond}
	for _, c := range []struct {
		name string
		to   func(release <-chan struct{}) *blocking
	}{
		{"where all ignore the signals and a child holds the output", nil},
		{"where a Writer of the host's never returns", func(release <-chan struct{}) *blocking { return &blocking{release: release} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.cfg.Grace, b.cfg.NoOutput, b.cfg.WallClock = graces, patient, 2*time.Second
			release := make(chan struct{})
			defer close(release)
			cmd := play(t, deaf()...)
			var out strings.Builder
			cmd.Stdout = &out
			if c.to != nil {
				cmd.Stdout = c.to(release)
			}
			began := time.Now()
			result, err := b.run(cmd)
			require.ErrorIs(t, err, watchdog.WallClockExceeded)
			require.Equal(t, syscall.SIGKILL, result.EndedBy)
			require.Equal(t, c.to != nil, result.OutputErr != nil, "%v", result.OutputErr)
			within(t, b.cfg.WallClock+400*time.Millisecond+time.Second+time.Second/2, began)
		})
	}
	t.Run("where a command has ended and a Writer never returns, until the context ends", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.WallClock = 3 * time.Second
		release := make(chan struct{})
		defer close(release)
		cmd := play(t, "print:"+ready)
		cmd.Stdout = &blocking{release: release}
		result, err := b.run(cmd)
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Error(t, result.OutputErr)
	})
}

// A blocking writer returns when it is released.
type blocking struct{ release <-chan struct{} }

func (w *blocking) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}
