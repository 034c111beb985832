package stall_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/delay"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/story"
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

// TestAlsoEnd ends what no signal of Run reaches: a process that the command did not start.
func TestAlsoEnd(t *testing.T) {
	t.Parallel()
	elsewhere := exec.Command("sleep", "300")
	require.NoError(t, elsewhere.Start())
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"kill", strconv.Itoa(elsewhere.Process.Pid)}, Timeout: longTime}
	result, _ := f.stalled(command(t, "print:"+ready, "stay"))
	require.NoError(t, result.AlsoEnded.Err)
	require.ErrorContains(t, elsewhere.Wait(), "terminated")
}

// TestAlsoEndFinished checks that AlsoEnd is not executed for a command that exited by itself or was never started.
func TestAlsoEndFinished(t *testing.T) {
	t.Parallel()
	for name, cmd := range map[string]*exec.Cmd{
		"with status 0": command(t), "with a failure": command(t, "exit:3"),
		"and left a process behind": command(t, "daemon:print:"+ready+";stay"), "never": exec.Command("/no/such/program"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			touched := filepath.Join(t.TempDir(), "touched")
			f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "touch:"+touched)}
			result, _ := stall.Run(t.Context(), cmd, f.cfg)
			require.True(t, result == nil || result.Finished && result.AlsoEnded == nil)
			require.NoFileExists(t, touched)
		})
	}
}

// TestAlsoEndOrder checks that a command can end its work itself before AlsoEnd is executed.
func TestAlsoEndOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	require.NoError(t, childSteps["touch"](from))
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"test", "-e", to}, Timeout: longTime}
	result, _ := f.stalled(command(t, "copy:"+from+":"+to, "print:"+ready, "stay"))
	require.Equal(t, []syscall.Signal{syscall.SIGINT}, signals(result))
	require.NoError(t, result.AlsoEnded.Err, "the file is there")
}

// TestAlsoEndFails checks that an AlsoEnd which fails is an error beside the one that the command has.
func TestAlsoEndFails(t *testing.T) {
	t.Parallel()
	three := 3
	for _, c := range []struct {
		name   string
		steps  []string
		failed string
		says   string
		code   *int
	}{
		{"with an exit status", []string{"exit:3"}, "exit", "its exit status is 3", &three},
		{"by a signal", []string{"kill:KILL"}, "exit", "a signal ended it: killed", nil},
		{"to start", nil, "start", "it cannot be started: no such file or directory", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal = readyLine
			f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, c.steps...), Timeout: longTime}
			if c.steps == nil {
				f.cfg.AlsoEnd.Command = []string{"/no/such/program"}
			}
			result, err := stall.Run(t.Context(), command(t, "print:"+ready, "stay"), f.cfg)
			var stalled *stall.Stalled
			var exit *exec.ExitError
			require.ErrorAs(t, err, &stalled)
			require.ErrorIs(t, err, stall.ErrAlsoEnd)
			require.ErrorContains(t, err, "AlsoEnd failed: "+c.says+"; end it by hand")
			require.ErrorAs(t, err, &exit)
			require.Equal(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal(), "it is the command's, and not AlsoEnd's")
			require.NotErrorIs(t, err, os.ErrNotExist, "the command was found")
			require.ErrorIs(t, result.AlsoEnded.Err, stall.ErrAlsoEnd)
			require.Equal(t, c.failed, result.AlsoEnded.Failed)
			r := f.record()
			require.Equal(t, c.failed, r.AlsoEnd.Failed)
			require.Equal(t, c.code, r.AlsoEnd.ExitCode)
			if c.code == nil {
				require.Equal(t, -1, result.AlsoEnded.ExitCode)
			}
		})
	}
	t.Run("after a completion check that stalled, which is no error itself", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.AsIncomplete = readyLine, true
		f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "exit:1")}
		result, err := f.run(command(t, "print:"+ready, "stay"))
		require.True(t, result.Incomplete)
		require.ErrorIs(t, err, stall.ErrAlsoEnd)
		require.NotErrorIs(t, err, watchdog.CommandTerminal)
	})
}

// TestAlsoEndTree checks that no process of an AlsoEnd is left: it has the command's environment, and so the token.
func TestAlsoEndTree(t *testing.T) {
	t.Parallel()
	t.Run("when it hangs, after its timeout", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal = readyLine
		forked := filepath.Join(t.TempDir(), "forked")
		f.cfg.AlsoEnd = &stall.AlsoEnd{
			Command: childCommand(t, "ignore:INT,TERM", "daemon:ignore:INT,TERM;touch:"+forked+";print:"+ready+";stay", "stay"),
			Timeout: 3 * time.Second,
		}
		began := time.Now()
		result, err := f.run(command(t, "print:"+ready, "stay"))
		within(t, 3*time.Second+2*slack, began)
		require.ErrorIs(t, err, stall.ErrAlsoEnd)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "that would be the host's")
		require.FileExists(t, forked)
		require.Equal(t, "timeout", result.AlsoEnded.Failed)
		require.GreaterOrEqual(t, result.AlsoEnded.Elapsed, 3*time.Second)
		require.LessOrEqual(t, result.Elapsed+result.AlsoEnded.Elapsed, time.Since(began), "it is not time of the command")
		require.Equal(t, "timeout", f.record().AlsoEnd.Failed)
	})
	t.Run("when it exits and left a daemon", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal = readyLine
		f.cfg.AlsoEnd = &stall.AlsoEnd{
			Command: childCommand(t, "daemon:ignore:INT,TERM;print:"+ready+";stay", "exit:0"), Timeout: longTime,
		}
		result, _ := f.stalled(command(t, "print:"+ready, "stay"))
		require.NoError(t, result.AlsoEnded.Err)
	})
}

// unkillable is a host that may start a process of another user but may not signal it. It prints the events of the
// command's run.
func unkillable(string) error {
	const dropFromBounds, mayKill = 24, 5 // PR_CAPBSET_DROP, CAP_KILL
	if err := prctlOfThread(dropFromBounds, mayKill); err != nil {
		return err
	}
	store := &watchdog.Memory{}
	in, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", "read secret_argument")
	cmd.Stdin, cmd.Dir = in, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	result, err := stall.Run(context.Background(), cmd, stall.Config{
		Step: "build", RunID: "s-1", Store: store, Logger: discard, NoOutput: 50 * time.Millisecond,
		Grace: graces(0, 0),
	})
	if !errors.Is(err, stall.ErrSurvivors) || len(result.Survivors) != 1 {
		return errors.Join(errors.New("not one process survived"), err)
	}
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) || cmd.ProcessState != nil {
		return errors.Join(errors.New("a command that lives has an exit status"), err)
	}
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1/build")
	text, problem := json.Marshal(unkilled{result.Survivors[0], events})
	return cmp.Or(err, problem, hold.Close(), childSteps["print"](string(text)))
}

// An unkilled is what such a host prints.
type unkilled struct {
	PID    int
	Events []watchdog.Event
}

// TestUnkillable checks that a run's events say what could not be ended: once, after the cancel, and with no more of
// the process than its number.
func TestUnkillable(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	out, err := command(t, "unkillable").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.NoError(t, err, "%s", exit.Stderr)
	}
	require.NoError(t, err)
	var got unkilled
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	last := len(got.Events) - 1
	kinds := map[string]int{}
	for _, e := range got.Events {
		kinds[e.Type]++
	}
	require.Equal(t, 1, kinds[watchdog.EventOverrun])
	require.Equal(t, 1, kinds[watchdog.EventCancel])
	require.Equal(t, watchdog.EventOverrun, got.Events[last].Type)
	var p struct {
		Key, Layer string
		Abandoned  bool
		Survivors  int
		PIDs       []int `json:"survivor_pids"`
	}
	require.NoError(t, json.Unmarshal(got.Events[last].Payload, &p))
	assert.Equal(t, "build", p.Key)
	assert.Equal(t, "command", p.Layer)
	assert.True(t, p.Abandoned, "to a reader that does not know of commands it is a call that was abandoned")
	assert.Equal(t, 1, p.Survivors)
	assert.Equal(t, []int{got.PID}, p.PIDs)
	assert.NotContains(t, string(out), "secret_argument")

	told := story.Of(story.Record{RunID: "s-1/build", Events: got.Events}, time.Now())
	assert.Equal(t, story.Stopped, told.State)
	assert.Equal(t, fmt.Sprintf("a process of its command could not be ended (PID %d)", got.PID), told.LeftAlive())
	assert.Equal(t, "end what is left alive, then run the command again", told.Next.Advice)
}

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
