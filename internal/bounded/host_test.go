package bounded_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

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
