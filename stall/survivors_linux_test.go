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

// TestSurvivors checks that no process of a command survives, however it tries to escape: each command after its own
// exit and one other end, in a long run after all. In proctree each tree ends in every way.
func TestSurvivors(t *testing.T) {
	for j, ending := range []struct {
		name string
		end  func(*testing.T, escape.Scenario)
	}{
		{"a trip", endedByTrip},
		{"a cancel", endedByCancel},
		{"SIGKILL to the host", endedByHost},
		{"its normal exit", endedByItself},
	} {
		for i, s := range escape.Scenarios() {
			if j == 3 && !s.LeaderExits || j < 3 && i%3 != j && !racing.Long {
				continue
			}
			t.Run(s.Name+" after "+ending.name, func(t *testing.T) {
				if s.Name != onlyScenario {
					t.Parallel()
				}
				for range racing.Rounds(1, 5) {
					one := s.In(t.TempDir())
					t.Cleanup(one.End)
					ending.end(t, one)
					assert.Empty(t, one.Survivors())
				}
			})
		}
	}
}

// minProcesses returns how many processes a test can wait for. If the first process exits by itself, the others may be
// ended before they are registered.
func minProcesses(s escape.Scenario) int {
	if s.LeaderExits {
		return 1
	}
	return s.Processes
}

// onlyScenario is found only while its host runs no other command and no probe.
const onlyScenario = "an orphan that set its limit of file locks"

// shortGrace are the graces for a scenario.
var shortGrace = graces(50*time.Millisecond, 50*time.Millisecond)

func scenarioCommand(s escape.Scenario) *exec.Cmd {
	path, args, env := s.Command()
	return &exec.Cmd{Path: path, Args: args, Env: env}
}

// endedByTrip trips by a probe, which waits until all processes of the scenario have started.
func endedByTrip(t *testing.T, s escape.Scenario) {
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Grace: shortGrace, Logger: discard, KeepBackground: true}
	cfg.KeepBackground = !s.LeaderExits // a scenario that exits by itself may do so before the probe answers
	cfg.Probe = &stall.Probe{Timeout: longTime, Command: childCommand(t,
		"lines:"+s.Registry()+":"+strconv.Itoa(minProcesses(s)), `print:{"class": "terminal"}`)}
	code := watchdog.CommandTerminal
	if s.Name == onlyScenario {
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
	s.Processes = minProcesses(s)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		_ = s.Ready(longTime)
		cancel(errEnough)
	}()
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Grace: shortGrace, Logger: discard}
	result, err := stall.Run(ctx, cmd, cfg)
	require.NotNil(t, result, "%v", err)
	if !result.Finished {
		require.ErrorIs(t, err, errEnough)
	}
	<-looked // while there is a registry to look at
}

func endedByItself(t *testing.T, s escape.Scenario) {
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard}
	result, err := stall.Run(t.Context(), scenarioCommand(s), cfg)
	require.NoError(t, err)
	require.True(t, result.Finished)
	require.Positive(t, result.LeftBehind)
}

func endedByHost(t *testing.T, s escape.Scenario) {
	_, args, _ := s.Command()
	line := append(childCommand(t, "host"), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	s.Processes = minProcesses(s)
	require.NoError(t, s.Ready(longTime))
	require.NoError(t, cmd.Process.Kill())
	none := 0 // how often in a row, because a process that is just starting is invisible for a moment
	require.Eventually(t, func() bool {
		if none++; len(s.Survivors()) > 0 {
			none = 0
		}
		return none == 5
	}, longTime, 5*time.Millisecond, "all of it ends")
}

// host runs the command in its arguments. What the command leaves behind stays until the host is killed.
func host(string) error {
	args := os.Args[3:]
	cmd := &exec.Cmd{Path: os.Args[0], Args: args}
	cmd.Stdout, cmd.Stderr = &onFirstWrite{}, &onFirstWrite{}
	go func() {
		cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: longTime}
		_, _ = stall.Run(context.Background(), cmd, cfg)
	}()
	time.Sleep(longTime)
	return nil
}
