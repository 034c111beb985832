package stall_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// mostSwitches is how often host and guard may wake up in the quietest second. With a look at the output every 100 ms it
// was 60 in each. A command of os/exec has up to 10, and more on a busy machine, where it takes the runtime longer to
// settle: a quiet second may come late, but within idleSeconds.
const (
	idleSeconds  = 30
	mostSwitches = 30
)

// TestIdle checks that neither the host nor the guard wakes up while a command prints nothing.
func TestIdle(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"outside", "inside"} {
		for _, output := range []string{"none", "writer", "file"} {
			t.Run(where+" with output to "+output, func(t *testing.T) {
				t.Parallel()
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
		n += number(strings.TrimSpace(count))
	}
	return n
}
