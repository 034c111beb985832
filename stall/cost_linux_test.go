package stall_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

// mostSwitches is how often host and guard may wake up in the quietest second. With a look at the output every 100 ms
// it was 60 in each. A command of os/exec has up to 10, and more on a busy machine, where it takes the runtime longer
// to settle: a quiet second may come late, but within idleSeconds.
const (
	idleSeconds  = 30
	mostSwitches = 30
)

// TestIdle checks that neither the host nor the guard wakes up while a command prints nothing.
func TestIdle(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"outside", "inside"} {
		for _, output := range []string{"none", "writer", "file"} {
			parallel(t, where+" with output to "+output, func(t *testing.T) {
				host := command(t, "idle:"+where+":"+output)
				out, err := host.CombinedOutput()
				require.NoError(t, err, "%s", out)
				guardGone := func() bool { return len(processesWith(tokenOf(host))) == 0 }
				require.Eventually(t, guardGone, longTime, time.Millisecond, "it ends after its host")
				switches, err := strconv.Atoi(strings.TrimSpace(string(out)))
				require.NoError(t, err, "%s", out)
				t.Log(switches)
				require.Less(t, switches, mostSwitches)
			})
		}
	}
}

// idle:WHERE:OUTPUT runs a command that sleeps in a host of its own, and prints how often host and guard woke up in
// the quietest second, or in the first that is quiet enough.
func idleRuns(argument string) error {
	where, output, _ := strings.Cut(argument, ":")
	ctx, end := context.WithCancel(context.Background())
	defer end()
	cmd := exec.Command("sleep", "100")
	var err error
	switch output {
	case "writer":
		cmd.Stdout = &strings.Builder{}
	case "file":
		cmd.Stdout, err = os.CreateTemp("", "idle")
		defer os.Remove(cmd.Stdout.(*os.File).Name())
	}
	if err != nil {
		return err
	}
	cfg := stall.Config{Step: "step", NoOutput: longTime, Store: &watchdog.Memory{}, Logger: discard}
	if where == "inside" {
		cfg.Store = nil
		run, err := watchdog.New(ctx, watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Logger: discard, Budget: watchdog.Budget{Idle: longTime},
		})
		if err != nil {
			return err
		}
		defer run.Close()
		ctx = run.Context()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := stall.Run(ctx, cmd, cfg)
		ended <- err
	}()
	fewest := fewestSwitches()
	select {
	case err := <-ended:
		return fmt.Errorf("the command ended too early: %w", err)
	default:
	}
	end()
	<-ended // it was ended
	fmt.Println(fewest)
	return nil
}

// fewestSwitches returns the switches of the quietest second, or of the first that is quiet enough.
func fewestSwitches() int {
	time.Sleep(time.Second) // until all has settled
	fewest := math.MaxInt
	for n := 0; n < idleSeconds && fewest >= mostSwitches; n++ {
		before := switches()
		time.Sleep(time.Second)
		fewest = min(fewest, switches()-before)
	}
	return fewest
}

// switches returns how often this process and its children have given up a CPU to wait.
func switches() (n int) {
	tasks, _ := filepath.Glob("/proc/self/task/*")
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range children {
		text, _ := os.ReadFile(name)
		for pid := range strings.FieldsSeq(string(text)) {
			of, _ := filepath.Glob("/proc/" + pid + "/task/*")
			tasks = append(tasks, of...)
		}
	}
	for _, task := range tasks {
		status, _ := os.ReadFile(task + "/status")
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		count, _, _ := strings.Cut(rest, "\n")
		n += script.Number(strings.TrimSpace(count))
	}
	return n
}

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
	c = newCommand(t, exec.Command("sleep", "300"), cfg)
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
