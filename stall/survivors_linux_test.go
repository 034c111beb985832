package stall_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

var long = os.Getenv("WATCHDOG_LONG") != ""

// times is how often each scenario is ended in each way.
func times(s escape.Scenario) int {
	switch {
	case long:
		return 20
	case s.Processes > 100 || racing.Enabled: // it takes a while to start them
		return 1
	}
	return 2
}

func TestNothingSurvives(t *testing.T) {
	for _, ending := range []struct {
		name string
		end  func(*testing.T, escape.Scenario)
	}{
		{"a trip", endedByTrip}, {"an outside cancel", endedByCancel}, {"its normal exit", endedByItself}, {"SIGKILL to the host", endedByHost},
	} {
		for _, s := range escape.Scenarios() {
			t.Run(s.Name+" after "+ending.name, func(t *testing.T) {
				if s.Name != unmarked {
					t.Parallel()
				}
				if ending.name == "its normal exit" && !s.LeaderExits {
					t.Skip("its leader does not end by itself")
				}
				for range times(s) {
					one := s.In(t.TempDir())
					t.Cleanup(one.End)
					ending.end(t, one)
					assert.Empty(t, one.Survivors())
				}
			})
		}
	}
}

// there is how many processes an ending may wait for: where the leader ends by itself the others may be ended before they are written down.
func there(s escape.Scenario) int {
	if s.LeaderExits {
		return 1
	}
	return s.Processes
}

// unmarked is the scenario that is told from others by being the only one: of the host, and of the command and its probe.
const unmarked = "an orphan that set its limit of file locks"

// shortly are the graces of a scenario.
var shortly = stall.Grace{Interrupt: 50 * time.Millisecond, Terminate: 50 * time.Millisecond}

func scenarioCommand(s escape.Scenario) *exec.Cmd {
	path, args, env := s.Command()
	return &exec.Cmd{Path: path, Args: args, Env: env}
}

// endedByTrip trips by a probe, which waits until all of the scenario is there.
func endedByTrip(t *testing.T, s escape.Scenario) {
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Grace: shortly, Logger: quiet, KeepBackground: true}
	cfg.KeepBackground = !s.LeaderExits // one that ends by itself may have before the probe's answer
	cfg.Probe = &stall.Probe{Command: []string{self(t), actor, "lines:" + s.Registry() + ":" + strconv.Itoa(there(s)), `print:{"class": "terminal"}`}, Timeout: patient}
	code := watchdog.CommandTerminal
	if s.Name == unmarked {
		cfg.Probe, cfg.NoOutput, code = nil, 500*time.Millisecond, watchdog.CommandNoOutput
	}
	result, err := stall.Run(t.Context(), scenarioCommand(s), cfg)
	require.NotNil(t, result, "%v", err)
	require.NotErrorIs(t, err, stall.ErrSurvivors)
	if !result.Finished {
		require.ErrorIs(t, err, code)
	}
}

func endedByCancel(t *testing.T, s escape.Scenario) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cmd := scenarioCommand(s)
	s.Processes = there(s)
	go func() {
		_ = s.Ready(20 * time.Second)
		cancel(errEnough)
	}()
	result, err := stall.Run(ctx, cmd, stall.Config{Step: "step", Store: &watchdog.Memory{}, Grace: shortly, Logger: quiet})
	require.NotNil(t, result, "%v", err)
	if !result.Finished {
		require.ErrorIs(t, err, errEnough)
	}
	cancel(nil)
}

func endedByItself(t *testing.T, s escape.Scenario) {
	result, err := stall.Run(t.Context(), scenarioCommand(s), stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: quiet})
	require.NoError(t, err)
	require.True(t, result.Finished)
	require.Positive(t, result.LeftBehind)
}

func endedByHost(t *testing.T, s escape.Scenario) {
	_, args, _ := s.Command()
	cmd := exec.Command(self(t), append([]string{actor, "host"}, args...)...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	s.Processes = there(s)
	require.NoError(t, s.Ready(20*time.Second))
	require.NoError(t, cmd.Process.Kill())
	none := 0 // how often in a row: a process that is just being started is not to be seen for a moment
	eventually(t, "all of it ends", func() bool {
		if none++; len(s.Survivors()) > 0 {
			none = 0
		}
		return none == 20
	})
}

// host runs what the arguments after it are, and what that leaves behind stays, until the host is killed.
func host(string) error {
	args := os.Args[3:]
	cmd := &exec.Cmd{Path: os.Args[0], Args: args}
	cmd.Stdout, cmd.Stderr = &trigger{}, &trigger{}
	go func() {
		_, _ = stall.Run(context.Background(), cmd, stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: quiet, NoOutput: patient})
	}()
	time.Sleep(patient)
	return nil
}
