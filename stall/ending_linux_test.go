package stall_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/stall"
)

var errEnough = errors.New("enough")

var readyLine = []*regexp.Regexp{regexp.MustCompile("^" + ready + "$")}

// An onFirstWrite is a writer that calls a function at the first output.
type onFirstWrite struct{ do func() }

func (w *onFirstWrite) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// outerRun returns a run for a command to run inside of, and its context.
func outerRun(
	tb testing.TB, store watchdog.EventStore, budget watchdog.Budget, observeOnly bool,
) (*watchdog.Watchdog, context.Context) {
	tb.Helper()
	w, err := watchdog.New(tb.Context(), watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
		Store: store, Budget: budget, ObserveOnly: observeOnly, Logger: discard,
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = w.Close() })
	return w, w.Context()
}

// newInsideFixture returns a fixture for commands inside a run.
func newInsideFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := newFixture(tb)
	f.cfg.Store, f.cfg.RunID = nil, ""
	return f
}

// An ending is what ends a command that has printed ready and stays.
type ending struct {
	name   string
	set    func(*stall.Config)
	is     error
	kind   stall.TripKind // of the trip; empty for none
	print  string         // begins the first fingerprint of the trip
	reason string         // of the cancel
	around *watchdog.Budget
}

// trips are the three signals by which a command is stuck.
func trips(tb testing.TB) []ending {
	tb.Helper()
	probe := childCommand(tb, "print:{}")
	return []ending{
		{"its silence", func(c *stall.Config) { c.NoOutput = time.Second },
			watchdog.CommandNoOutput, stall.KindNoOutput, "stall/no_output", "no_output", nil},
		{"no progress", func(c *stall.Config) {
			c.Probe = &stall.Probe{Command: probe, Interval: 300 * time.Millisecond, Timeout: longTime}
		}, watchdog.CommandNoProgress, stall.KindNoProgress, "stall/no-progress", "no_progress", nil},
		{"a terminal line", func(c *stall.Config) { c.Terminal = readyLine },
			watchdog.CommandTerminal, stall.KindTerminal, "stall/terminal:pattern-1", "terminal", nil},
	}
}

// endings are all. With errEnough, it is the context that ends.
func endings(tb testing.TB) []ending {
	tb.Helper()
	return append(trips(tb), []ending{
		{"its wall clock", func(c *stall.Config) { c.WallClock = 2 * time.Second },
			watchdog.WallClockExceeded, stall.KindWallClock, "stall/wall_clock", "wall_clock_exceeded", nil},
		{name: "its context", set: func(*stall.Config) {}, is: errEnough},
		{name: "its context, disabled", set: func(c *stall.Config) {
			c.Disabled, c.Terminal, c.NoOutput = true, readyLine, time.Millisecond
		}, is: errEnough},
		{name: "the run around it", set: func(*stall.Config) {}, is: watchdog.StopReason("oscillation_detected"), around: &watchdog.Budget{}},
		{name: "the wall clock of the run around it", set: func(*stall.Config) {}, is: watchdog.WallClockExceeded,
			around: &watchdog.Budget{WallClock: 3 * time.Second}},
	}...)
}

// TestEnding ends a command in every way, however it was started, and asks for all that is said of it.
func TestEnding(t *testing.T) {
	t.Parallel()
	for _, c := range endings(t) {
		for _, start := range []string{"run", "talk", "inside"} {
			for _, action := range []stall.TripAction{stall.ActionInterrupt, stall.ActionFail} {
				if c.around != nil && start == "run" || action == stall.ActionFail && (c.reason == "" || start != "run") {
					continue
				}
				if c.kind == stall.KindWallClock && action == stall.ActionFail {
					continue // it has no action
				}
				parallel(t, start+" ended by "+c.name+", "+string(action), func(t *testing.T) {
					endOne(t, c, start, action)
				})
			}
		}
	}
}

func endOne(t *testing.T, c ending, start string, action stall.TripAction) {
	f, ctx := newFixture(t), t.Context()
	var around *watchdog.Watchdog
	if start == "inside" || c.around != nil {
		f.cfg.Store, f.cfg.RunID = nil, ""
		around, ctx = outerRun(t, f.store, *cmp.Or(c.around, &watchdog.Budget{}), false)
		defer func() { require.Equal(t, c.around != nil, around.Stop() != nil, "a command's end is not the run's") }()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	begun := func() {
		switch {
		case errors.Is(c.is, errEnough):
			end(errEnough)
		case errors.Is(c.is, watchdog.StopReason("oscillation_detected")):
			_, _ = around.Cancel(watchdog.Cancellation{Reason: "oscillation_detected"})
		}
	}
	f.cfg.OnStall, f.cfg.OnTerminal = action, action
	f.cfg.KeepBackground = start == "run" // it keeps nothing of a command that is ended
	c.set(&f.cfg)
	f.cfg.Tail = &stall.Tail{Bytes: 100, Redact: func(text []byte) []byte { return text }}
	also := filepath.Join(t.TempDir(), "also")
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "touch:"+also), Timeout: longTime}
	cmd := command(t, "child:print:there;stay", "warn:last words", "print:"+ready, "stay")
	var result *stall.Result
	var err error
	if start == "talk" {
		talk := f.talk(ctx, cmd)
		out := bufio.NewReader(talk.out)
		_, _ = out.ReadString('\n')
		begun()
		require.Empty(t, all(t, out), "Read returns because the command was ended")
		writeUntilError(t, talk.in)
		result, err = talk.Wait()
	} else {
		cmd.Stdout = &onFirstWrite{begun}
		result, err = stall.Run(ctx, cmd, f.cfg)
	}
	require.FileExists(t, also)
	checkEnding(f, c, action, cmd, result, err)
}

func checkEnding(f *fixture, c ending, action stall.TripAction, cmd *exec.Cmd, result *stall.Result, err error) {
	f.Helper()
	require.ErrorIs(f, err, c.is)
	require.NotErrorIs(f, err, stall.ErrAlsoEnd)
	require.ErrorContains(f, err, "run step step: ")
	var exit *exec.ExitError
	require.ErrorAs(f, err, &exit)
	require.Same(f, cmd.ProcessState, exit.ProcessState)
	require.NotContains(f, err.Error(), exit.Error())
	by := syscall.SIGINT
	if action == stall.ActionFail {
		by = syscall.SIGKILL
	}
	require.Equal(f, []syscall.Signal{by, by}, []syscall.Signal{result.EndedBy, result.Signal})
	require.Equal(f, []syscall.Signal{by}, signals(result))
	require.Equal(f, -1, result.ExitCode)
	require.True(f, result.Terminated && !result.Finished)
	require.Positive(f, result.MaxRSS)
	require.Equal(f, "run/step", result.RunID)
	require.NoError(f, result.AlsoEnded.Err)
	require.Zero(f, result.AlsoEnded.ExitCode)
	require.Positive(f, result.AlsoEnded.Elapsed)
	if c.kind == stall.KindTerminal || errors.Is(c.is, errEnough) { // it has begun all of its processes
		require.Equal(f, 2, result.Sent[0].Processes)
	}
	if c.kind == "" {
		require.Nil(f, result.Trip)
		require.Empty(f, f.artifacts(), "it was not stuck")
		if c.around == nil {
			require.Empty(f, f.events(event.Cancel))
		}
		return
	}
	checkTrip(f, c, action, result, err)
}

func checkTrip(f *fixture, c ending, action stall.TripAction, result *stall.Result, err error) {
	f.Helper()
	require.Equal(f, []any{c.kind, action}, []any{result.Trip.Kind, result.Trip.Action})
	require.True(f, strings.HasPrefix(result.Fingerprints()[0], c.print), result.Fingerprints())
	require.Equal(f, []payload{{c.reason, "run"}}, f.events(event.Cancel), "exactly one, with its parent")
	var stop *watchdog.Stop
	require.ErrorAs(f, err, &stop)
	require.Equal(f, "run", stop.Parent)
	var stalled *stall.Stalled
	if errors.As(err, &stalled) {
		require.Equal(f, stalled.Trip, *result.Trip)
	}
	require.Equal(f, c.kind != stall.KindWallClock, stalled != nil)
	if c.kind == stall.KindNoOutput {
		require.Equal(f, f.cfg.NoOutput, stop.Budget)
		require.GreaterOrEqual(f, stop.Elapsed, f.cfg.NoOutput)
	}
	r := f.record()
	require.Equal(f, string(c.kind), r.Trigger.Kind)
	require.Equal(f, stop.EventID(), r.EventID)
	require.Equal(f, result.Fingerprints(), r.Fingerprints)
	require.True(f, r.Complete && r.Action.Terminated)
	require.Nil(f, r.Action.ExitCode)
	require.Len(f, r.Action.Sent, 1)
	require.Zero(f, *r.AlsoEnd.ExitCode)
	if c.kind == stall.KindTerminal {
		require.Equal(f, "last words\n", f.artifact("stderr.tail.log"))
	}
}

// TestIgnoredTrip runs commands that go on after a trip and exit by themselves, because of the action or because the
// run around the command only observes.
func TestIgnoredTrip(t *testing.T) {
	t.Parallel()
	for _, c := range trips(t) {
		for _, observes := range []bool{false, true} {
			if observes && c.kind != stall.KindTerminal {
				continue
			}
			parallel(t, string(c.kind), func(t *testing.T) {
				f, ctx := newFixture(t), t.Context()
				f.cfg.OnStall, f.cfg.OnTerminal = stall.ActionIgnore, stall.ActionIgnore
				if observes {
					f = newInsideFixture(t)
					_, ctx = outerRun(t, f.store, watchdog.Budget{}, true)
				}
				c.set(&f.cfg)
				e := filepath.Join(f.cfg.Artifacts, "step", "_stall", "event.json")
				result, err := stall.Run(ctx, command(t, "print:"+ready, "await:"+e, "exit:4"), f.cfg)
				require.Equal(t, 4, exitCode(t, err))
				require.True(t, result.Finished)
				require.Empty(t, result.Sent)
				require.Equal(t, []any{c.kind, stall.ActionIgnore}, []any{result.Trip.Kind, result.Trip.Action})
				require.Empty(t, f.events(event.Cancel))
				require.Len(t, f.events(event.Warning), 1)
				r := f.record()
				require.Equal(t, "ignore", r.Action.Kind)
				require.Empty(t, r.Action.Requested)
				require.True(t, r.Complete)
				require.Equal(t, 4, *r.Action.ExitCode)
				require.Empty(t, r.EventID)
			})
		}
	}
	inFixture(t, "and a context that ends after it", func(t *testing.T, f *fixture) {
		f.cfg.OnTerminal, f.cfg.AsIncomplete = stall.ActionIgnore, true
		ctx, cancel := context.WithCancelCause(t.Context())
		f.cfg.Store = &endingStore{f.store, func() { cancel(errEnough) }} // once the trip is on record
		result, err := stall.Run(ctx, f.terminal(), f.cfg)
		require.ErrorIs(t, err, errEnough)
		require.False(t, result.Incomplete, "it is no stall, and no decision")
		require.Equal(t, []string{"event.json"}, f.artifacts())
		r := f.record()
		require.Equal(t, words("SIGINT SIGTERM SIGKILL"), r.Action.Requested)
		require.Equal(t, "SIGINT", r.Action.EndedBy)
	})
}

// An endingStore ends the command when an event is recorded: after the trip, before the first signal.
type endingStore struct {
	watchdog.EventStore
	end func()
}

func (s *endingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.end()
	return s.EventStore.Append(ctx, events...)
}

// TestPipesEnd checks that the pipes end with the command's tree, whoever holds them.
func TestPipesEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps string
		keep  bool
		is    error
	}{
		{"when the command exits", "print:" + ready, false, nil},
		{"though a daemon holds them", "print:" + ready + " heir:stay", false, nil},
		{"though a daemon holds them and is kept", "print:" + ready + " heir:stay", true, nil},
		{"though a daemon holds them and ignores signals", "print:" + ready + " heir:ignore:INT,TERM;stay stay", false,
			context.Canceled},
	} {
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			f.cfg.KeepBackground, f.cfg.Grace = c.keep, graces(50*time.Millisecond, 50*time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cmd := command(t, words(c.steps)...)
			t.Cleanup(func() { endAll(tokenOf(cmd)) }) // runs before the check that nothing is left
			talk := f.talk(ctx, cmd)
			out := bufio.NewReader(talk.out)
			line, err := out.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, ready+"\n", line)
			if c.is != nil {
				cancel()
			}
			writeUntilError(t, talk.in)
			require.Empty(t, all(t, io.MultiReader(out, talk.errs)))
			result, err := talk.Wait()
			require.ErrorIs(t, err, c.is)
			require.NoError(t, result.OutputErr)
		})
	}
}

// writeUntilError writes to a command that does not read, until it has ended.
func writeUntilError(tb testing.TB, to io.Writer) {
	tb.Helper()
	block := make([]byte, 1<<20)
	for {
		if _, err := to.Write(block); err != nil {
			require.ErrorIs(tb, err, syscall.EPIPE)
			return
		}
	}
}

func endAll(token string) {
	for _, pid := range processesWith(token) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for len(processesWith(token)) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestSteps checks that a command gets the signals that the host chose, in order, and SIGKILL last.
func TestSteps(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	quit, usr1 := stall.Step{Signal: syscall.SIGQUIT, Grace: pause}, stall.Step{Signal: syscall.SIGUSR1, Grace: pause}
	kill := stall.Step{Signal: syscall.SIGKILL}
	for _, c := range []struct {
		name      string
		grace     []stall.Step
		steps     string
		requested string
		sent      int // how many of them
	}{
		{"the first one", []stall.Step{{Signal: syscall.SIGQUIT, Grace: longTime}}, "obey:QUIT:3", "SIGQUIT SIGKILL", 1},
		{"the second one", []stall.Step{quit, {Signal: syscall.SIGUSR1, Grace: longTime}}, "ignore:QUIT obey:USR1:3",
			"SIGQUIT SIGUSR1 SIGKILL", 2},
		{"SIGKILL by itself", []stall.Step{quit, usr1}, "ignore:QUIT,USR1", "SIGQUIT SIGUSR1 SIGKILL", 3},
		{"SIGKILL by its name", []stall.Step{quit, kill}, "ignore:QUIT", "SIGQUIT SIGKILL", 2},
		{"SIGKILL at once", []stall.Step{kill}, "obey:QUIT:3", "SIGKILL", 1},
		{"SIGKILL with a time after it, of a host's two settings", []stall.Step{{Signal: syscall.SIGKILL, Grace: longTime}},
			"obey:QUIT:3", "SIGKILL", 1},
		{"one signal twice", []stall.Step{quit, quit}, "ignore:QUIT", "SIGQUIT SIGQUIT SIGKILL", 3},
		{"the default, whose first is obeyed", graces(longTime, pause), "obey:INT:3", "SIGINT SIGTERM SIGKILL", 1},
		{"the default, whose second is obeyed", graces(pause, longTime), "ignore:INT obey:TERM:3",
			"SIGINT SIGTERM SIGKILL", 2},
		{"the default with no time", graces(0, 0), "ignore:INT,TERM", "SIGINT SIGTERM SIGKILL", 3},
		{"without SIGINT", []stall.Step{{Signal: syscall.SIGTERM, Grace: pause}}, "obey:INT:3 ignore:TERM",
			"SIGTERM SIGKILL", 2},
		{"a signal without a name", []stall.Step{{Signal: 42, Grace: pause}}, "print:x", "signal 42 SIGKILL", 2},
	} {
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			f.cfg.Grace = c.grace
			told := make(chan stall.Escalation, 10)
			f.cfg.OnSignal = func(e stall.Escalation) { told <- e }
			result, _ := f.stalled(f.terminal(words(c.steps)...))
			require.True(t, result.Terminated)
			require.Equal(t, result.Requested[:c.sent], signals(result))
			require.Equal(t, result.Requested[c.sent-1], result.EndedBy)
			code := -1
			if strings.Contains(c.steps, "obey") && result.EndedBy != syscall.SIGKILL {
				code = 3
			}
			require.Equal(t, code, result.ExitCode)
			for i, sent := range result.Sent[1:] {
				require.GreaterOrEqual(t, sent.At.Sub(result.Sent[i].At), c.grace[i].Grace)
			}
			for i, sent := range result.Sent {
				e, next := <-told, syscall.Signal(0)
				if i+1 < len(result.Requested) {
					next = result.Requested[i+1]
					require.GreaterOrEqual(t, e.NextAt.Sub(sent.At), c.grace[i].Grace)
				}
				require.Equal(t, stall.Escalation{Sent: sent, Next: next, NextAt: e.NextAt}, e)
			}
			r := f.record()
			require.Equal(t, c.requested, strings.Join(r.Action.Requested, " "))
			require.Equal(t, r.Action.Requested[c.sent-1], r.Action.EndedBy)
		})
	}
}

// TestMissed checks that the end of a process that no signal reaches names all of them, and how many they missed.
func TestMissed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	t.Parallel()
	in, hold, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cmd := exec.Command("/bin/sh", "-c", "echo; read x")
	cmd.Dir, cmd.Stdin, cmd.Stdout = "/", in, &onFirstWrite{func() { cancel(errEnough) }}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cfg := stall.Config{Step: "step", Grace: graces(time.Millisecond, time.Millisecond)}
	cfg.OnSignal = func(e stall.Escalation) {
		if e.Signal == syscall.SIGKILL {
			_ = hold.Close() // the end of its input ends it
		}
	}
	var result *stall.Result
	var host sync.WaitGroup
	host.Go(func() {
		const dropFromBounds, mayKill = 24, 5 // PR_CAPBSET_DROP, CAP_KILL
		runtime.LockOSThread()                // the thread ends with the goroutine
		if err = escape.ChangeThread(syscall.SYS_PRCTL, dropFromBounds, mayKill, 0); err == nil {
			result, err = stall.Run(ctx, cmd, cfg)
		}
	})
	host.Wait()
	require.NotNil(t, result, "%v", err)
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}, signals(result))
	for _, sent := range result.Sent {
		require.Equal(t, [2]int{0, 1}, [2]int{sent.Processes, sent.Missed}, sent.Signal)
	}
}

// TestOnSignal checks that a host that is told of a signal delays none, whatever it does, and is told no more of them
// once it has hung for longer than its RecordTimeout.
func TestOnSignal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does  func()
		calls int32
	}{
		"takes long": {func() { time.Sleep(time.Second - 1) }, 3}, "hangs": {func() { time.Sleep(time.Second + 1) }, 1},
		"panics": {func() { panic("host") }, 3}, "ends": {runtime.Goexit, 3},
	} {
		t.Run("and "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var called atomic.Int32
				began := time.Now()
				stall.TellEscalation(stall.Config{RecordTimeout: time.Second, OnSignal: func(stall.Escalation) {
					called.Add(1)
					c.does()
				}}, make([]stall.Escalation, 3)...)
				require.Zero(t, time.Since(began))
				time.Sleep(time.Minute)
				require.Equal(t, c.calls, called.Load())
			})
		})
	}
}

// TestStepsOfContext checks that the steps are also those after the end of the context, and that a host that changes
// them after NewCommand changes nothing.
func TestStepsOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := command(t, "obey:QUIT:3", "print:"+ready, "stay")
	cmd.Stdout = &onFirstWrite{cancel}
	grace := []stall.Step{{Signal: syscall.SIGQUIT, Grace: longTime}}
	c := newCommand(t, cmd, stall.Config{Step: "step", Store: &watchdog.Memory{}, Grace: grace})
	grace[0] = stall.Step{Signal: syscall.SIGSTOP}
	require.NoError(t, c.Start(ctx))
	result, err := c.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, syscall.SIGQUIT, result.EndedBy)
	require.Equal(t, 3, result.ExitCode)
}

// TestNoLimit checks that a limit which is switched off by name is off: nothing is needed for it, and nothing logged.
// The log says so if a config has what only a trip uses, and no limit.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   stall.Config
		warns int
	}{
		"no store":   {stall.Config{NoOutput: watchdog.NoLimit, WallClock: watchdog.NoLimit}, 0},
		"one limit":  {stall.Config{NoOutput: watchdog.NoLimit, Store: &watchdog.Memory{}}, 0},
		"the other":  {stall.Config{WallClock: watchdog.NoLimit, Store: &watchdog.Memory{}}, 0},
		"a store":    {stall.Config{Store: &watchdog.Memory{}}, 1},
		"a folder":   {stall.Config{Artifacts: t.TempDir()}, 1},
		"only these": {stall.Config{}, 0},
	} {
		parallel(t, name, func(t *testing.T) {
			var log bytes.Buffer
			c.cfg.Step, c.cfg.Logger = "build", slog.New(slog.NewTextHandler(&log, nil))
			result, err := stall.Run(t.Context(), command(t), c.cfg)
			require.NoError(t, err)
			require.Equal(t, "build", result.RunID)
			require.Equal(t, c.warns, strings.Count(log.String(), "\n"), log.String())
			require.Equal(t, c.warns, strings.Count(log.String(), "can never end its command"))
		})
	}
}

// TestStoreMissing checks that what needs a store says so.
func TestStoreMissing(t *testing.T) {
	for field, change := range map[string]func(*stall.Config){
		"NoOutput":  func(c *stall.Config) { c.NoOutput = longTime },
		"WallClock": func(c *stall.Config) { c.WallClock = longTime },
		"Terminal":  func(c *stall.Config) { c.Terminal = readyLine },
		"Probe":     func(c *stall.Config) { c.Probe = &stall.Probe{Command: []string{"true"}} },
	} {
		for _, disabled := range []bool{false, true} {
			cfg := stall.Config{Step: "step", Disabled: disabled, Logger: discard}
			change(&cfg)
			_, err := stall.Run(t.Context(), exec.Command("true"), cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "Store is nil and "+field+" is set; set Store")
		}
	}
}
