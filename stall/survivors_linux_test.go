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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/delay"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/stall"
)

// TestSurvivors checks that no process of a command survives the end of its context, or its host, however it tries to
// escape. In proctree each tree ends in every way, and in cmd/watchdog after its own exit, too.
func TestSurvivors(t *testing.T) {
	for i, s := range escape.Scenarios() {
		name, end := "a cancel", endedByCancel
		if i%4 == 0 {
			name, end = "SIGKILL to the host", endedByHost
		}
		t.Run(s.Name+" after "+name, func(t *testing.T) {
			if s.Name != onlyScenario {
				t.Parallel()
			}
			for range racing.Rounds(1, 5) {
				s := s.In(t.TempDir())
				t.Cleanup(s.End)
				if s.LeaderExits {
					s.Processes = 1 // the others may be ended before they are registered
				}
				end(t, s)
				require.Empty(t, s.Survivors())
			}
		})
	}
}

// onlyScenario is found only while its host runs no other command and no probe.
const onlyScenario = "an orphan that set its limit of file locks"

func endedByCancel(t *testing.T, s escape.Scenario) {
	ctx, cancel := context.WithCancelCause(t.Context())
	path, args, env := s.Command()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		_ = s.Ready(longTime)
		cancel(errEnough)
	}()
	cfg := stall.Config{Step: "step", Grace: graces(50*time.Millisecond, 50*time.Millisecond)}
	result, err := stall.Run(ctx, &exec.Cmd{Path: path, Args: args, Env: env}, cfg)
	require.NotNil(t, result, "%v", err)
	if !result.Finished {
		require.ErrorIs(t, err, errEnough)
	}
	<-looked // while there is a registry to look at
}

func endedByHost(t *testing.T, s escape.Scenario) {
	_, args, _ := s.Command()
	line := append(childCommand(t, "host"), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
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

// host runs the command in its arguments, and stays until it is killed.
func host(string) error {
	cmd := &exec.Cmd{Path: os.Args[0], Args: os.Args[3:], Stdout: &onFirstWrite{}, Stderr: &onFirstWrite{}}
	go func() { _, _ = stall.Run(context.Background(), cmd, stall.Config{Step: "step"}) }()
	time.Sleep(longTime)
	return nil
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

// TestAlsoEndOrder checks that a command can end its work itself before AlsoEnd is executed, which is in its folder and
// has its environment.
func TestAlsoEndOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from := filepath.Join(t.TempDir(), "from")
	require.NoError(t, script.Touch(from))
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"sh", "-c", `test -e to && test "$JOB" = 17`}, Timeout: longTime}
	cmd := f.terminal("copy:" + from + ":to")
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"JOB=17"}, cmd.Env...)
	result, _ := f.stalled(cmd)
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
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, c.steps...), Timeout: longTime}
			if c.steps == nil {
				f.cfg.AlsoEnd.Command = []string{"/no/such/program"}
			}
			result, err := stall.Run(t.Context(), f.terminal(), f.cfg)
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
	inFixture(t, "after a completion check that stalled, which is no error itself", func(t *testing.T, f *fixture) {
		f.cfg.AsIncomplete = true
		f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "exit:1")}
		result, err := f.run(f.terminal())
		require.True(t, result.Incomplete)
		require.ErrorIs(t, err, stall.ErrAlsoEnd)
		require.NotErrorIs(t, err, watchdog.CommandTerminal)
	})
}

// TestAlsoEndTree checks that no process of an AlsoEnd that hangs is left: it has the command's environment, and so the
// token. What a probe leaves is ended in the same way: see TestProbeTree.
func TestAlsoEndTree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	forked := filepath.Join(t.TempDir(), "forked")
	f.cfg.AlsoEnd = &stall.AlsoEnd{
		Command: childCommand(t, "ignore:INT,TERM", "daemon:ignore:INT,TERM;touch:"+forked+";print:"+ready+";stay", "stay"),
		Timeout: 3 * time.Second,
	}
	began := time.Now()
	result, err := f.run(f.terminal())
	within(t, 3*time.Second+2*slack, began)
	require.ErrorIs(t, err, stall.ErrAlsoEnd)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "that would be the host's")
	require.FileExists(t, forked)
	require.Equal(t, "timeout", result.AlsoEnded.Failed)
	require.GreaterOrEqual(t, result.AlsoEnded.Elapsed, 3*time.Second)
	require.LessOrEqual(t, result.Elapsed+result.AlsoEnded.Elapsed, time.Since(began), "it is not time of the command")
	require.Equal(t, "timeout", f.record().AlsoEnd.Failed)
}

// unkillable is a host that may start a process of another user but may not signal it. It prints the events of the
// command's run.
func unkillable(string) error {
	const dropFromBounds, mayKill = 24, 5 // PR_CAPBSET_DROP, CAP_KILL
	if err := escape.ChangeThread(syscall.SYS_PRCTL, dropFromBounds, mayKill, 0); err != nil {
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
	events, err := store.Read(context.Background(), event.AggregateType, "s-1/build")
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
	require.Equal(t, 1, kinds[event.Overrun])
	require.Equal(t, 1, kinds[event.Cancel])
	require.Equal(t, event.Overrun, got.Events[last].Type)
	var p struct {
		Key, Layer string
		Abandoned  bool
		Survivors  int
		PIDs       []int `json:"survivor_pids"`
	}
	require.NoError(t, json.Unmarshal(got.Events[last].Payload, &p))
	require.Equal(t, "build", p.Key)
	require.Equal(t, "command", p.Layer)
	require.True(t, p.Abandoned, "to a reader that does not know of commands it is a call that was abandoned")
	require.Equal(t, 1, p.Survivors)
	require.Equal(t, []int{got.PID}, p.PIDs)
	require.NotContains(t, string(out), "secret_argument")

	told := story.Of(story.Record{RunID: "s-1/build", Events: got.Events}, time.Now())
	require.Equal(t, story.Stopped, told.State)
	require.Equal(t, fmt.Sprintf("a process of its command could not be ended (PID %d)", got.PID), told.LeftAlive())
	require.Equal(t, "end what is left alive, then run the command again", told.Next.Advice)
}

// TestStuckStart checks that a start that hangs ends with what limits the run.
func TestStuckStart(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"context", "wall clock"} {
		parallel(t, "by its "+by, func(t *testing.T) {
			out, err := command(t, "stuck:"+by).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, "nil result, right cause, in time\n", string(out))
		})
	}
}

// stuck:BY runs a command in a host whose guard hangs when it starts.
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
	result, err := stall.Run(ctx, exec.Command("true"), stall.Config{
		Step: "step", WallClock: wallClock, NoOutput: longTime, Store: &watchdog.Memory{}, Logger: discard,
	})
	if result != nil || !errors.Is(err, want) || time.Since(began) > 8*time.Second {
		return fmt.Errorf("%v after %v: %w", result, time.Since(began), err)
	}
	return childSteps["print"]("nil result, right cause, in time")
}
