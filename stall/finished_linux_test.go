package stall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
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
		if e.Type == watchdog.EventCancel && s.before != nil {
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
	events, err := f.store.Read(context.Background(), watchdog.AggregateType, "run/step")
	require.NoError(f, err)
	for _, e := range events {
		switch e.Type {
		case watchdog.EventCancel:
			cancels = append(cancels, e.ID)
		case watchdog.EventCorrection:
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
		{"the wall clock", func(c *stall.Config) { c.WallClock = limit }, nil, false, false, 0},
		{"a silence, and fails", stuck, nil, false, true, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for range rounds {
				f := newFixture(t)
				c.change(&f.cfg)
				f.cfg.RecordTimeout = longTime
				f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"true"}}
				file := t.TempDir() + "/end"
				cmd := command(t, append(c.steps, "await:"+file, "exit:"+strconv.Itoa(c.code))...)
				store := &lateStore{Memory: f.store, fails: c.fails, before: func() {
					leader := leaderOf(t, cmd) // it may start late
					_ = childSteps["touch"](file)
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
				require.NotEmpty(t, result.Requested, "they are listed, though none was sent")
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

// leaderOf waits for the process of the command that awaits a file.
func leaderOf(tb testing.TB, cmd *exec.Cmd) (leader int) {
	tb.Helper()
	eventually(tb, "the command begins", func() bool {
		for _, pid := range processesWith(tokenOf(cmd)) {
			if commandLineHas(pid, "await:") {
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
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		fields := words(string(text[bytes.LastIndexByte(text, ')'):]))
		return fields[1] == "Z" && fields[18] == "1"
	})
}

// TestFinishedAtTheLimit checks commands that end at their limit, give or take: each is ended by a signal, or has
// finished and has a correction beside its cancel.
func TestFinishedAtTheLimit(t *testing.T) {
	t.Parallel()
	rounds := racing.Rounds(24, 960)
	limit := 150 * time.Millisecond
	for worker := range 4 {
		t.Run(strconv.Itoa(worker), func(t *testing.T) {
			t.Parallel()
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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(tb, err)
	parent, err := strconv.Atoi(words(string(text[bytes.LastIndexByte(text, ')'):]))[2])
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
	events, err := store.Read(t.Context(), watchdog.AggregateType, "run")
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
		events, err := store.Read(t.Context(), watchdog.AggregateType, "run")
		require.NoError(t, err)
		require.Empty(t, events)
	})
}
