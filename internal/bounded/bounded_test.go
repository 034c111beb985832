package bounded_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDo(t *testing.T) {
	t.Run("returns what the call returned", func(t *testing.T) {
		value, err := bounded.Do(t.Context(), func() (int, error) { return 7, io.EOF })
		require.Equal(t, 7, value)
		require.Equal(t, io.EOF, err)
	})
	t.Run("returns also if the wait had ended, when the call has returned by then", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wait, end := context.WithCancel(t.Context())
			value, err := bounded.Do(wait, func() (int, error) { end(); return 7, nil })
			if err == nil { // either may win; neither is lost
				require.Equal(t, 7, value)
				return
			}
			require.ErrorIs(t, err, bounded.ErrLeftBehind)
		})
	})
	t.Run("leaves behind a call that does not return, and drops its result", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("enough")
			wait, end := context.WithTimeoutCause(t.Context(), time.Second, cause)
			defer end()
			began := time.Now()
			value, err := bounded.Do(wait, func() (int, error) { time.Sleep(time.Hour); return 7, nil })
			require.Equal(t, time.Second, time.Since(began))
			require.ErrorIs(t, err, bounded.ErrLeftBehind)
			require.ErrorIs(t, err, cause)
			require.Zero(t, value)
			time.Sleep(time.Hour)
		})
	})
	t.Run("makes a panic an error that keeps the value and does not say it", func(t *testing.T) {
		_, err := bounded.Do(t.Context(), func() (int, error) { panic("a secret") })
		var panicked *bounded.PanicError
		require.ErrorAs(t, err, &panicked)
		require.Equal(t, "a secret", panicked.Value)
		require.EqualError(t, err, "it panicked with a string")
		require.Contains(t, string(panicked.Stack), "TestDo")
	})
	t.Run("makes an end of the goroutine an error", func(t *testing.T) {
		_, err := bounded.Do(t.Context(), func() (int, error) { runtime.Goexit(); return 7, nil })
		require.Equal(t, bounded.ErrExited, err)
	})
}

func TestHere(t *testing.T) {
	value, err := bounded.Here(func() (int, error) { return 7, io.EOF })
	require.Equal(t, 7, value)
	require.Equal(t, io.EOF, err)
	_, err = bounded.Here(func() (int, error) { panic(io.EOF) })
	require.EqualError(t, err, "it panicked with a *errors.errorString")
}

func TestCause(t *testing.T) {
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	require.ErrorIs(t, bounded.Cause(ctx), why)
	require.ErrorIs(t, bounded.Cause(ctx), context.Canceled)
	require.EqualError(t, bounded.Cause(ctx), "why")
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, bounded.Cause(plain))
}

func TestWithin(t *testing.T) {
	t.Run("returns what a call returns that heeds its context, however late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			value, err := bounded.Within(t.Context(), time.Minute, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(bounded.Lateness / 2)
				return 7, ctx.Err()
			})
			require.Equal(t, time.Minute+bounded.Lateness/2, time.Since(began))
			require.Equal(t, 7, value)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, bounded.ErrLeftBehind)
		})
	})
	t.Run("leaves one behind that does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began, over := time.Now(), make(chan struct{})
			_, err := bounded.Within(t.Context(), time.Minute, func(context.Context) (int, error) { <-over; return 7, nil })
			require.Equal(t, time.Minute+bounded.Lateness, time.Since(began))
			require.ErrorIs(t, err, bounded.ErrLeftBehind)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			close(over)
		})
	})
}

func TestGuard(t *testing.T) {
	require.Nil(t, bounded.Guard(func() {}))
	p := bounded.Guard(func() { panic("secret") })
	require.Equal(t, "secret", p.Value)
	require.EqualError(t, p, "it panicked with a string")
	require.Contains(t, string(p.Stack), "TestGuard", "where it happened")
}

func TestQuietly(t *testing.T) {
	called := false
	bounded.Quietly(func() { called = true; panic("a log that is broken") })
	require.True(t, called)
}

func TestEach(t *testing.T) {
	t.Run("makes the calls in order", func(t *testing.T) {
		var got []int
		bounded.Each([]int{1, 2, 3}, func(n int) { got = append(got, n) })
		require.Equal(t, []int{1, 2, 3}, got)
	})
	t.Run("makes them also if some end the goroutine, which then ends", func(t *testing.T) {
		var got []int
		survived := false
		<-bounded.Aside(func() {
			bounded.Each([]int{1, 2, 3, 4}, func(n int) {
				if got = append(got, n); n%2 == 0 {
					runtime.Goexit()
				}
			})
			survived = true
		})
		require.Equal(t, []int{1, 2, 3, 4}, got)
		require.False(t, survived)
	})
}

func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		done := bounded.Aside(func() { <-answer; runtime.Goexit() })
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the call has not ended")
		default:
		}
		close(answer)
		<-done
	})
}
