package stall_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

// TestCost compares what docs/cost.md says of goroutines with what is started.
func TestCost(t *testing.T) {
	page, err := os.ReadFile("../docs/cost.md")
	if os.IsNotExist(err) {
		t.Skip("not in a checkout of the repository:", err)
	}
	require.NoError(t, err)
	command := func(cfg stall.Config) func(*testing.T) func() {
		return func(t *testing.T) func() { _, end := startSleep(t, cfg); return end }
	}
	for _, c := range []struct {
		row   string
		begin func(*testing.T) (end func())
	}{
		{"| a timer of package `idle` | %d |", func(t *testing.T) func() {
			_, timer := idle.WithLimit(t.Context(), longTime)
			return timer.Close
		}},
		{"| a run in memory | %d |", func(t *testing.T) func() {
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Idle: longTime}})
			require.NoError(t, err)
			return func() { _ = wd.Close() }
		}},
		{"| a command | %d |", command(stall.Config{Step: "sleep"})},
		{"| a command with `NoOutput` | %d |", command(stall.Config{
			Step: "sleep", NoOutput: longTime, Store: &watchdog.Memory{},
		})},
	} {
		c.begin(t)() // the first of its kind starts what all share
		require.Eventually(t, func() bool { return strings.Contains(string(page), fmt.Sprintf(c.row, started(t, c.begin))) },
			slack, time.Millisecond, c.row)
	}
}

// started returns how many goroutines are there a moment after the beginning: some only set out.
func started(t *testing.T, begin func(*testing.T) (end func())) int {
	t.Helper()
	before := runtime.NumGoroutine()
	defer begin(t)()
	time.Sleep(time.Second / 5)
	return runtime.NumGoroutine() - before
}

// TestGuardCost checks that commands have one guard, and that it needs little memory of its own.
func TestGuardCost(t *testing.T) {
	first, endFirst := startSleep(t, stall.Config{Step: "first"})
	defer endFirst()
	second, endSecond := startSleep(t, stall.Config{Step: "second"})
	defer endSecond()
	guard := parentOf(t, first.Pid())
	require.NotEqual(t, os.Getpid(), guard)
	require.Equal(t, guard, parentOf(t, second.Pid()))
	if racing.Enabled {
		t.Skip("the race detector has memory of its own")
	}
	require.Less(t, ownKilobytes(t, guard), 8<<10)
}

// startSleep starts a command that sleeps until end.
func startSleep(t *testing.T, cfg stall.Config) (c *stall.Command, end func()) {
	t.Helper()
	c, err := stall.NewCommand(exec.Command("sleep", "300"), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, c.Start(ctx))
	return c, func() {
		cancel()
		_, _ = c.Wait()
	}
}

// ownKilobytes returns the memory that a process shares with no other.
func ownKilobytes(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "Private_Dirty:")
	require.True(t, found, "%s", text)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}
