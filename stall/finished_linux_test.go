package stall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

// A lateStore calls a function before it appends a cancel.
type lateStore struct {
	*watchdog.Memory
	before func()
	fails  bool
}

func (s *lateStore) Append(ctx context.Context, events ...watchdog.Event) error {
	for _, e := range events {
		if e.Type == event.Cancel && s.before != nil {
			s.before()
			s.before = nil
			if s.fails {
				return errEnough
			}
		}
	}
	return s.Memory.Append(ctx, events...)
}

// A plainStore has no method but those of an EventStore.
type plainStore struct{ watchdog.EventStore }

// endings are the events about the end of a fixture's command.
func (f *fixture) endings() (cancels, corrected []string) {
	f.Helper()
	events, err := f.store.Read(context.Background(), event.AggregateType, "run/step")
	require.NoError(f, err)
	for _, e := range events {
		switch e.Type {
		case event.Cancel:
			cancels = append(cancels, e.ID)
		case event.Correction:
			var p struct {
				Cancel string `json:"cancel_id"`
			}
			require.NoError(f, json.Unmarshal(e.Payload, &p))
			corrected = append(corrected, p.Cancel)
		}
	}
	return cancels, corrected
}

// TestFinishedWhileRecording checks that a command that ends while its cancel is recorded has finished.
func TestFinishedWhileRecording(t *testing.T) {
	t.Parallel()
	rounds := racing.Rounds(1, 40)
	limit := 300 * time.Millisecond
	stuck := func(c *stall.Config) { c.NoOutput = limit }
	for _, c := range []struct {
		name    string
		change  func(*stall.Config)
		steps   []string
		fails   bool
		tripped bool
		code    int
	}{
		{"a silence", stuck, nil, false, true, 0},
		{"a silence, whose action is to fail", func(c *stall.Config) { stuck(c); c.OnStall = stall.ActionFail }, nil, false, true, 0},
		{"a silence of a check", func(c *stall.Config) { stuck(c); c.AsIncomplete = true }, nil, false, true, 0},
		{"a silence, and a child is left behind", stuck, []string{"daemon:print:" + ready + ";stay"}, false, true, 0},
		{"a silence, and the store fails at first", stuck, nil, true, true, 0},
		{"the wall clock", func(c *stall.Config) { c.WallClock = 10 * limit }, nil, false, false, 0}, // longer than a start
		{"a silence, and fails", stuck, nil, false, true, 5},
	} {
		parallel(t, c.name, func(t *testing.T) {
			for range rounds {
				f := newFixture(t)
				c.change(&f.cfg)
				f.cfg.RecordTimeout = longTime
				f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"true"}}
				file := t.TempDir() + "/end"
				cmd := command(t, append(c.steps, "await:"+file, "exit:"+strconv.Itoa(c.code))...)
				store := &lateStore{Memory: f.store, fails: c.fails, before: func() {
					leader := leaderOf(t, cmd) // it may start late
					_ = script.Touch(file)
					exits(t, leader)
				}}
				f.cfg.Store = plainStore{store}
				result, err := f.run(cmd)
				if c.code == 0 {
					require.NoError(t, err)
				} else {
					require.Equal(t, c.code, exitCode(t, err))
					require.NotErrorIs(t, err, watchdog.CommandNoOutput)
				}
				require.True(t, result.Finished)
				require.False(t, result.Incomplete || result.Terminated)
				if c.tripped { // at the wall clock the exit may be seen first
					require.NotEmpty(t, result.Requested, "they are listed, though none was sent")
				}
				require.Empty(t, result.Sent)
				require.Zero(t, result.EndedBy)
				require.Nil(t, result.AlsoEnded)
				require.Equal(t, len(c.steps), result.LeftBehind)
				cancels, corrected := f.endings()
				require.Len(t, cancels, 1)
				require.Equal(t, cancels, corrected)
				if c.tripped {
					r := f.record()
					require.True(t, r.Finished && r.Complete)
					require.Nil(t, r.AlsoEnd)
					require.Equal(t, c.code, *r.Action.ExitCode)
				}
			}
		})
	}
}

// leaderOf waits for the process of the command that awaits a file. A process that it starts has its arguments as well,
// until it executes another program or, if package os only finds out what the system can do, ends.
func leaderOf(tb testing.TB, cmd *exec.Cmd) (leader int) {
	tb.Helper()
	eventually(tb, "the command begins", func() bool {
		for _, pid := range processesWith(tokenOf(cmd)) {
			fields := statOf(strconv.Itoa(pid))
			if fields != nil && commandLineHas(pid, "await:") && isGuard(fields[2]) {
				leader = pid
			}
		}
		return leader > 0
	})
	return leader
}

// exits waits until every thread of a process has ended. A process that exits loses its arguments first, and under the
// race detector it takes long to give its memory back.
func exits(tb testing.TB, pid int) {
	tb.Helper()
	eventually(tb, "the command ends", func() bool {
		fields := statOf(strconv.Itoa(pid))
		return fields == nil || fields[1] == "Z" && fields[18] == "1"
	})
}

// statOf returns what the system says of a process or a thread after its name, or nil if it is gone.
func statOf(pid string) []string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	return words(string(text[bytes.LastIndexByte(text, ')'):]))
}

// TestFinishedAtTheLimit checks commands that end at their limit, give or take: each is ended by a signal, or has
// finished and has a correction beside its cancel.
func TestFinishedAtTheLimit(t *testing.T) {
	t.Parallel()
	rounds := racing.Rounds(24, 960)
	limit := 150 * time.Millisecond
	for worker := range 4 {
		parallel(t, strconv.Itoa(worker), func(t *testing.T) {
			for n := worker; n < rounds; n += 4 {
				endAtLimit(t, limit, n)
			}
		})
	}
}

func endAtLimit(t *testing.T, limit time.Duration, n int) {
	t.Helper()
	f := newFixture(t)
	f.cfg.AsIncomplete = n%3 == 0
	if f.cfg.NoOutput = limit; n%2 == 0 {
		f.cfg.NoOutput, f.cfg.WallClock = 0, limit
	}
	length := limit - time.Duration(n%24)*time.Millisecond // starting takes some of it
	if f.cfg.NoOutput > 0 {
		length += 20 * time.Millisecond // how long a silence is looked at again
	}
	result, err := stall.Run(t.Context(), command(t, "sleep:"+length.String()), f.cfg)
	cancels, corrected := f.endings()
	switch {
	case result == nil: // on a busy machine the start can take longer than the wall clock
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		require.Len(t, cancels, 1)
		require.Empty(t, corrected)
	case result.Finished:
		require.NoError(t, err)
		require.Zero(t, result.ExitCode)
		require.False(t, result.Incomplete)
		require.Empty(t, result.Sent)
		require.Equal(t, cancels, corrected)
	default:
		require.NotEmpty(t, result.Sent)
		require.Equal(t, err == nil, result.Incomplete)
		require.Len(t, cancels, 1)
		require.Empty(t, corrected)
	}
}

// parentOf returns the parent process of a process.
func parentOf(tb testing.TB, pid int) int {
	tb.Helper()
	fields := statOf(strconv.Itoa(pid))
	require.NotNil(tb, fields)
	parent, err := strconv.Atoi(fields[2])
	require.NoError(tb, err)
	return parent
}

// TestCorrectedRun checks that a reader of a cancel and its correction says that the run has finished.
func TestCorrectedRun(t *testing.T) {
	store := &watchdog.Memory{}
	run := watchdog.Run{ID: "run", StartedAt: time.Now().Add(-time.Minute)}
	w, err := watchdog.New(t.Context(), run, watchdog.Config{Store: store, Logger: discard})
	require.NoError(t, err)
	stop, err := w.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
	require.NoError(t, err)
	require.True(t, handle.Of(w.Context()).RecordFinished())
	require.True(t, handle.Of(w.Context()).RecordFinished(), "again is the same event")
	require.NoError(t, w.Close())
	events, err := store.Read(t.Context(), event.AggregateType, "run")
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Contains(t, string(events[1].Payload)+string(events[0].Payload), stop.EventID())
	_, err = watchdog.New(t.Context(), run, watchdog.Config{Store: store, Logger: discard})
	require.ErrorIs(t, err, watchdog.ErrComplete)

	t.Run("a run without a cancel has nothing to correct, and ends", func(t *testing.T) {
		store := &watchdog.Memory{}
		w, err := watchdog.New(t.Context(), run, watchdog.Config{Store: store, Logger: discard})
		require.NoError(t, err)
		require.False(t, handle.Of(w.Context()).RecordFinished())
		require.ErrorIs(t, context.Cause(w.Context()), watchdog.ErrClosed)
		require.NoError(t, w.Close())
		events, err := store.Read(t.Context(), event.AggregateType, "run")
		require.NoError(t, err)
		require.Empty(t, events)
	})
}

// Tests that stop or kill the guard run alone, because it is that of all commands of this process.

// stopGuardOf stops the guard of a command that has begun, has the command end by touching a file, and returns the
// guard.
func stopGuardOf(t *testing.T, cmd *exec.Cmd, file string) (guard int) {
	t.Helper()
	leader := leaderOf(t, cmd)
	guard = parentOf(t, leader)
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	eventually(t, "the guard stops", func() bool { return allStopped(guard) })
	_ = script.Touch(file)
	exits(t, leader)
	return guard
}

// allStopped reports whether all threads of a process are stopped. One takes the signal, and until it has a processor
// to do so the others go on.
func allStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	return len(threads) > 0 && !slices.ContainsFunc(threads, func(thread string) bool {
		fields := statOf(strings.TrimPrefix(thread, "/proc/"))
		return fields != nil && fields[1] != "T"
	})
}

// TestFinishedBeforeLateNews checks that a command has finished whose guard tells of its exit only when all signals
// that could be sent are due, or after SIGKILL, the only signal, which then reached only what the command had left
// behind.
func TestFinishedBeforeLateNews(t *testing.T) {
	for name, c := range map[string]struct {
		killBound time.Duration
		action    stall.TripAction
		left      int
	}{
		"all signals are due": {time.Millisecond, stall.ActionInterrupt, 0}, "after SIGKILL": {longTime, stall.ActionFail, 1},
	} {
		t.Run(name, func(t *testing.T) {
			defer stall.SetKillBound(c.killBound)()
			f := newFixture(t)
			f.cfg.NoOutput, f.cfg.OnStall, f.cfg.Grace = 300*time.Millisecond, c.action, graces(longTime, 0)
			file := t.TempDir() + "/end"
			steps := []string{"daemon:print:" + ready + ";stay", "await:" + file, "exit:0"}
			cmd := command(t, steps[1-c.left:]...)
			f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() {
				guard := stopGuardOf(t, cmd, file)
				// The stop is asked about after 400 ms, twice, and the command is signalled without the guard.
				time.AfterFunc(2*time.Second, func() { _ = syscall.Kill(guard, syscall.SIGCONT) })
			}}}
			result := f.succeeds(cmd)
			require.True(t, result.Finished)
			require.Empty(t, result.Sent)
			require.Equal(t, c.left, result.LeftBehind)
			cancels, corrected := f.endings()
			require.Len(t, cancels, 1)
			require.Equal(t, cancels, corrected)
		})
	}
}

// TestAlsoEndWithoutGuard checks that nothing of an AlsoEnd is left whose guard was stopped meanwhile.
func TestAlsoEndWithoutGuard(t *testing.T) {
	f := newFixture(t)
	file := filepath.Join(t.TempDir(), "guard")
	line := "echo $PPID > " + file + "; sleep 0.2; kill -STOP $PPID; trap '' INT TERM; sleep 300"
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"sh", "-c", line}, Timeout: time.Second}
	cmd := f.terminal()
	result, err := stall.Run(t.Context(), cmd, f.cfg)
	text, _ := os.ReadFile(file)
	defer syscall.Kill(script.Number(strings.TrimSpace(string(text))), syscall.SIGCONT)
	require.ErrorIs(t, err, stall.ErrAlsoEnd)
	require.NotErrorIs(t, err, stall.ErrSurvivors)
	// The guard of a busy machine has not told of the start yet.
	require.Contains(t, []string{"timeout", "start"}, result.AlsoEnded.Failed)
	require.Empty(t, processesWith(tokenOf(cmd)))
}

// TestExitToldLate checks that a command has finished whose exit the guard tells after it has answered the first
// question. What it left behind gets no SIGINT.
func TestExitToldLate(t *testing.T) {
	const pause, patience = 150 * time.Millisecond, 300 * time.Millisecond // the host waits for an answer for 400 ms
	for range 10 {
		f := newFixture(t)
		f.cfg.NoOutput, f.cfg.Artifacts = 300*time.Millisecond, "" // nothing to write before the first question
		file := t.TempDir() + "/end"
		cmd := command(t, "daemon:print:"+ready+";stay", "await:"+file, "exit:0")
		resumed := make(chan time.Duration, 1)
		f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() {
			guard := stopGuardOf(t, cmd, file)
			began := time.Now()
			time.AfterFunc(pause, func() {
				_ = syscall.Kill(guard, syscall.SIGCONT)
				resumed <- time.Since(began)
			})
		}}}
		result, err := f.run(cmd)
		if <-resumed > patience {
			continue // the machine was too busy
		}
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Empty(t, result.Sent)
		require.Equal(t, 1, result.LeftBehind)
		return
	}
	t.Skip("the machine is too busy to resume a process in time")
}

// TestKilledAfterExit checks that a command was ended, and has not finished, if it exited because of a signal before
// SIGKILL ended its child.
func TestKilledAfterExit(t *testing.T) {
	t.Parallel()
	var result *stall.Result
	for grace := 2 * time.Second; grace < slack; grace *= 3 {
		f := newFixture(t)
		f.cfg.Grace = graces(grace, 50*time.Millisecond)
		result, _ = f.stalled(f.terminal("obey:INT:7", "child:ignore:INT,TERM;print:"+ready+";stay"))
		if result.ExitCode == 7 {
			break // on a busy machine the command can take longer to exit
		}
	}
	require.Equal(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}, signals(result))
	require.Equal(t, 7, result.ExitCode)
	require.Equal(t, syscall.SIGKILL, result.EndedBy)
	require.True(t, result.Terminated)
}

// TestLostGuard checks that a command whose guard was killed has not finished.
func TestLostGuard(t *testing.T) {
	kill := func(cmd *exec.Cmd) {
		eventually(t, "the command begins", func() bool { return len(processesWith(tokenOf(cmd))) == 1 })
		require.NoError(t, syscall.Kill(parentOf(t, processesWith(tokenOf(cmd))[0]), syscall.SIGKILL))
		eventually(t, "the command ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
	}
	t.Run("while the command runs", func(t *testing.T) {
		f := newFixture(t)
		cmd := command(t, "stay")
		c := newCommand(t, cmd, f.cfg)
		require.NoError(t, c.Start(t.Context()))
		kill(cmd)
		result, err := c.Wait()
		require.ErrorIs(t, err, proctree.ErrGuard)
		require.False(t, result.Finished)
		require.Empty(t, result.Survivors)
		require.Equal(t, -1, result.ExitCode)
	})
	t.Run("while the cancel is recorded", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.NoOutput = 300 * time.Millisecond
		cmd := command(t, "stay")
		f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() { kill(cmd) }}}
		result, err := f.run(cmd)
		require.ErrorIs(t, err, proctree.ErrGuard)
		require.False(t, result.Finished)
		cancels, corrected := f.endings()
		require.Len(t, cancels, 1)
		require.Empty(t, corrected)
	})
}

// TestDyingIsNoSurvivor checks that a process that takes longer to die than a kill may, as on a busy machine, is waited
// for and is no survivor.
func TestDyingIsNoSurvivor(t *testing.T) {
	defer stall.SetKillBound(time.Nanosecond)()
	for _, action := range []stall.TripAction{stall.ActionFail, stall.ActionInterrupt} {
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.OnTerminal = readyLine, action
		f.cfg.Grace = graces(time.Millisecond, time.Millisecond)
		cmd := command(t, ignoringSignals()...)
		result, err := f.run(cmd)
		require.NotErrorIs(t, err, stall.ErrSurvivors)
		require.Equal(t, syscall.SIGKILL, result.Signal)
		require.Empty(t, processesWith(tokenOf(cmd)))
	}
}

// TestSurvivorsError checks that the error names nobody where nobody is known.
func TestSurvivorsError(t *testing.T) {
	require.EqualError(t, stall.SurvivorsError([]int{7, 9}), "processes survived: end the processes [7 9] by hand")
	err := stall.SurvivorsError(nil)
	require.ErrorIs(t, err, stall.ErrSurvivors)
	require.NotContains(t, err.Error(), "[]")
	require.ErrorContains(t, err, "not known in time")
}
