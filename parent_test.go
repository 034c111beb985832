package watchdog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var errHostGone = errors.New("host gone")

// manyErrors cannot be compared, as go/scanner's ErrorList.
type manyErrors []error

func (e manyErrors) Error() string { return errors.Join(e...).Error() }

func TestParent(t *testing.T) {
	t.Run("a run whose parent ended first has not fired, whatever comes later", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			parent, end := context.WithCancelCause(context.Background())
			wd, err := watchdog.New(parent, b.run, b.cfg)
			require.NoError(t, err)
			ctx := wd.Context()
			end(errHostGone)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), errHostGone)
			b.pass(5 * time.Hour)
			_, fired := wd.Fired()
			require.False(t, fired)
			require.NoError(t, wd.Close())
			require.ErrorIs(t, context.Cause(ctx), errHostGone)
			require.Zero(t, b.store.appends)
		})
	})
	t.Run("those who wait on a child of the run's context are told", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			parent, end := context.WithCancel(context.Background())
			wd, err := watchdog.New(parent, b.run, b.cfg)
			require.NoError(t, err)
			defer wd.Close()
			child, stop := context.WithCancel(wd.Context())
			defer stop()
			end()
			<-child.Done()
		})
	})
	t.Run("its cause is the run's at once, whoever asks first", func(t *testing.T) {
		type key struct{}
		for name, contextOf := range map[string]func(wd *watchdog.Watchdog) context.Context{
			"the run's context": (*watchdog.Watchdog).Context,
			"one with a value": func(wd *watchdog.Watchdog) context.Context {
				return context.WithValue(wd.Context(), key{}, 1)
			},
			"a layer's": func(wd *watchdog.Watchdog) context.Context {
				step, err := wd.Layer("build", watchdog.Budget{})
				require.NoError(t, err)
				return step.Context()
			},
		} {
			for range 100 { // outside of a bubble, where nobody waits for the goroutine that tells of the parent's end
				parent, end := context.WithCancelCause(context.Background())
				wd, err := watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()},
					watchdog.Config{Store: &watchdog.Memory{}, Logger: quiet})
				require.NoError(t, err)
				ctx := contextOf(wd)
				end(errHostGone)
				require.ErrorIs(t, context.Cause(ctx), errHostGone, name)
				require.NoError(t, wd.Close())
			}
		}
	})
	t.Run("its cause may be of a type that cannot be compared", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			parent, end := context.WithCancelCause(context.Background())
			wd, err := watchdog.New(parent, b.run, b.cfg)
			require.NoError(t, err)
			defer wd.Close()
			end(manyErrors{errHostGone})
			require.Equal(t, context.Canceled, wd.Context().Err())
			var many manyErrors
			require.ErrorAs(t, context.Cause(wd.Context()), &many)
		})
	})
	t.Run("a run that ended before its parent, for the same cause, was not ended by it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			parent, end := context.WithDeadlineCause(context.Background(), time.Now().Add(time.Minute), watchdog.ErrClosed)
			defer end()
			wd, err := watchdog.New(parent, b.run, b.cfg)
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			after(time.Minute)
			require.Equal(t, context.DeadlineExceeded, parent.Err())
			require.Equal(t, context.Canceled, wd.Context().Err())
		})
	})
	t.Run("its deadline and its values are the run's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			type key struct{}
			parent, stop := context.WithTimeout(context.WithValue(context.Background(), key{}, "v"), time.Minute)
			defer stop()
			wd, err := watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()},
				watchdog.Config{Store: &watchdog.Memory{}})
			require.NoError(t, err)
			defer wd.Close()
			require.Equal(t, "v", wd.Context().Value(key{}))
			want, _ := parent.Deadline()
			got, _ := wd.Context().Deadline()
			require.Equal(t, want, got)
			<-wd.Context().Done()
			require.Equal(t, context.DeadlineExceeded, wd.Context().Err())
		})
	})
	t.Run("its end is recorded as an interrupt where the host asks for it, without its text", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.RecordInterrupts = true
			parent, end := context.WithCancelCause(context.Background())
			wd, err := watchdog.New(parent, b.run, b.cfg)
			require.NoError(t, err)
			end(errors.New("canary"))
			synctest.Wait()
			require.NoError(t, wd.Close())
			require.Len(t, b.events(watchdog.EventInterrupt), 1)
			require.NotContains(t, string(b.events(watchdog.EventInterrupt)[0].Payload), "canary")
			require.Contains(t, string(b.events(watchdog.EventInterrupt)[0].Payload), `"signal":"parent_canceled"`)
			require.Empty(t, b.events(watchdog.EventCancel))
			b.live(b.attach())
		})
	})
}

func TestInterrupt(t *testing.T) {
	t.Run("it ends the run, is recorded, and the window goes on with the next attach", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.pass(time.Hour)
			require.NoError(t, wd.Interrupt("SIGINT"))
			var interruption *watchdog.Interruption
			require.ErrorAs(t, context.Cause(wd.Context()), &interruption)
			require.Equal(t, "SIGINT", interruption.By)
			_, fired := wd.Fired()
			require.False(t, fired)
			require.Len(t, b.events(watchdog.EventInterrupt), 1)
			b.pass(time.Hour)
			require.Equal(t, 2*time.Hour, b.attach().Remaining())
		})
	})
	t.Run("a run that has ended cannot be interrupted any more", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.pass(over)
			require.ErrorIs(t, wd.Interrupt("SIGINT"), watchdog.ErrEnded)
			require.Empty(t, b.events(watchdog.EventInterrupt))
		})
	})
	t.Run("the run ends also where the interrupt cannot be recorded", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			require.ErrorIs(t, wd.Interrupt("SIGINT"), errDiskFull)
			require.Error(t, wd.Context().Err())
		})
	})
	t.Run("a signal without a name is refused and changes nothing", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			for _, signal := range []string{"", "  ", "a\nb", strings.Repeat("x", 101)} {
				require.ErrorIs(t, wd.Interrupt(signal), watchdog.ErrInvalid)
			}
			b.live(wd)
		})
	})
}
