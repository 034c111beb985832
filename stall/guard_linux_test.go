package stall_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape/delay"
	"github.com/seed62658d38/watchdog/stall"
)

// TestStuckStart checks that a start that hangs ends with what limits the run.
func TestStuckStart(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"context", "wall clock"} {
		t.Run("by its "+by, func(t *testing.T) {
			t.Parallel()
			out, err := command(t, "stuck:"+by).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, 5, strings.Count(string(out), "nil result, right cause, in time\n"), "%s", out)
		})
	}
}

// stuck:BY runs five commands at once in a host whose guard hangs when it starts.
func stuck(by string) error {
	if err := os.Setenv(delay.Variable, "1h"); err != nil {
		return err
	}
	ctx := context.Background()
	want, wallClock := context.DeadlineExceeded, time.Duration(0)
	if by == "context" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
	} else {
		want, wallClock = watchdog.WallClockExceeded, 300*time.Millisecond
	}
	began := time.Now()
	var all sync.WaitGroup
	for n := range 5 {
		all.Go(func() {
			cfg := stall.Config{
				Step: fmt.Sprint("step", n), WallClock: wallClock, NoOutput: longTime, Store: &watchdog.Memory{}, Logger: discard,
			}
			result, err := stall.Run(ctx, exec.Command("true"), cfg)
			switch {
			case result != nil, !errors.Is(err, want), time.Since(began) > 8*time.Second:
				fmt.Println(result, err, time.Since(began))
			default:
				fmt.Println("nil result, right cause, in time")
			}
		})
	}
	all.Wait()
	return nil
}
