package snippets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestSilence reads a pipe whose writer goes silent, and never closes it.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		began, out := time.Now(), &bytes.Buffer{}
		body, writer := io.Pipe()
		go func() {
			for range 3 {
				time.Sleep(50 * time.Second)
				_, _ = io.WriteString(writer, "more ")
			}
		}()
		err := func() error {
			body := io.ReadCloser(body)
			return func() error {
				// snippet docs/guide.md: ctx, timer := idle.WithLimit(ctx, time.Minute)
				require.ErrorIs(t, context.Cause(ctx), watchdog.IdleExceeded)
				return err
			}()
		}()
		var stop *watchdog.Stop
		require.ErrorAs(t, err, &stop)
		require.Equal(t, "more more more ", out.String())
		require.InDelta(t, (3*50*time.Second + time.Minute).Seconds(), time.Since(began).Seconds(), 1)
	})
}

// TestCall makes a call that never returns.
func TestCall(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		never := make(chan struct{})
		defer close(never)
		tick := func(context.Context) (int, error) { <-never; return 0, nil }
		began := time.Now()
		err := func() error {
			// snippet docs/guide.md: out := bound.Do(
			return nil
		}()
		var overrun *bound.Overrun
		require.ErrorAs(t, err, &overrun)
		require.InDelta(t, 61, time.Since(began).Seconds(), 0.1)
	})
}

// TestCommand runs a command that leaves a process behind and hangs.
func TestCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	ctx, store := t.Context(), &watchdog.Memory{}
	var printed strings.Builder
	cmd := exec.Command("sh", "-c", "sleep 3600 & echo $!; wait")
	cmd.Stdout = &printed
	// snippet docs/guide.md: result, err := stall.Run(
	// with 5 * time.Minute as 300 * time.Millisecond
	// with Store: store as Store: store, Grace: []stall.Step{{Signal: syscall.SIGTERM, Grace: time.Minute}}
	require.ErrorIs(t, err, watchdog.CommandNoOutput)
	require.NotNil(t, stalled)
	require.True(t, result.Terminated)
	require.Error(t, exec.Command("kill", "-0", strings.TrimSpace(printed.String())).Run(), "what it started is alive")
}

// TestTool has a tool that shows signs of life for longer than the run may be silent, and then hangs.
func TestTool(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		began := time.Now()
		wd := attach(t, ctx, watchdog.Budget{WallClock: watchdog.NoLimit, Idle: time.Second})
		defer wd.Close()
		ask := func(ctx context.Context) error {
			for range 60 {
				time.Sleep(50 * time.Second)
				wd.Activity()
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ctx = wd.Context()
		// snippet docs/guide.md: err := wd.During(
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), watchdog.IdleExceeded)
		require.InDelta(t, (60*50*time.Second + time.Minute).Seconds(), time.Since(began).Seconds(), 1)
	})
}

// TestSpend makes a call that fits, which uses less than was admitted, and one that does not fit.
func TestSpend(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		wd := attach(t, ctx, spending(watchdog.Spend{Tokens: 10_000}))
		defer wd.Close()
		sent := 0
		send := func(context.Context) (watchdog.Amount, error) {
			sent++
			return watchdog.Amount{InputTokens: 7_000}, nil
		}
		call := func() error {
			// snippet docs/guide.md: charge, err := wd.Admit(
		}
		require.NoError(t, call())
		require.EqualValues(t, 7_000, wd.Usage()[0].Used)
		var refused *watchdog.Refused
		require.ErrorAs(t, call(), &refused)
		require.Equal(t, 1, sent)
	})
}

// TestSameAgain does the same again and gets the same.
func TestSameAgain(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		wd := attach(t, ctx, watchdog.Budget{WallClock: watchdog.NoLimit})
		defer wd.Close()
		turn := []loop.Step{{Tool: "grep", Input: []byte(`{"for":"x"}`), Outcome: []byte("nothing"), Class: loop.Look}}
		var asked []watchdog.DirectiveKind
		for range 50 {
			// snippet docs/guide.md: wd.Step(turn...)
			time.Sleep(time.Second)
			for d := range wd.Pending() {
				asked = append(asked, d.Kind)
			}
		}
		require.Contains(t, asked, watchdog.DirectiveUnstuck)
		reason, fired := wd.Fired()
		require.True(t, fired)
		require.Equal(t, watchdog.LoopDetected, reason)
	})
}

// TestSessions has a row of a host that died, and one of a host that lives and is not silent.
func TestSessions(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		store := &session.Memory{}
		_, _, err := store.Attach(ctx, session.Session{RunID: "dead", StartedAt: time.Now()})
		require.NoError(t, err)
		func() {
			// snippet docs/guide.md: keeper, err := session.NewKeeper(
			require.NoError(t, err)
			wd, err := watchdog.New(ctx, watchdog.Run{ID: "live", StartedAt: time.Now()}, watchdog.Config{Store: store, Keeper: keeper})
			require.NoError(t, err)
			for range 60 {
				time.Sleep(20 * time.Second)
				wd.Activity()
			}
			require.NoError(t, context.Cause(wd.Context()))
			defer wd.Close()
			dead, err := store.Session(ctx, "dead")
			require.NoError(t, err)
			require.Equal(t, session.Cancelled, dead.Status)
			live, err := store.Session(ctx, "live")
			require.NoError(t, err)
			require.Equal(t, session.Active, live.Status)
		}()
	})
}

var _ = []any{errors.Is, fmt.Println} // of snippets
