package documents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// inBubble runs a test on fake time, with a context that ends with it.
func inBubble(t *testing.T, test func(t *testing.T, ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		test(t, ctx)
	})
}

// attach guards a run with a budget.
func attach(ctx context.Context, t *testing.T, budget watchdog.Budget) *watchdog.Watchdog {
	t.Helper()
	wd, err := watchdog.New(ctx, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Budget: budget, Store: &watchdog.Memory{},
	})
	require.NoError(t, err)
	return wd
}

// wholeHost is the host of the guide. Its session has an ID, it asks a person and does a step.
func wholeHost(ctx context.Context, store watchdog.EventStore, ask, step func(context.Context) error) error {
	s := struct{ ID string }{"s-1"}

	wd, err := watchdog.New(ctx, watchdog.Run{ID: s.ID}, watchdog.Config{ // the store keeps its start
		Store: store, // such as github.com/seed62658d38/watchdog/store/sqlite
		Budget: watchdog.Budget{
			WallClock: 4 * time.Hour, Idle: 10 * time.Minute, NoProgress: 30 * time.Minute,
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveRetry}},
		},
	})
	if errors.Is(err, watchdog.ErrComplete) {
		return nil // the session is done
	}
	if err != nil {
		return err
	}
	defer wd.Close()
	ctx = wd.Context() // for everything in the run

	watchdog.FromContext(ctx).Activity() // for each token, in deep code
	wd.Progress()                        // where the work moved forward

	// While a person decides:
	if err := wd.During(ctx, "approval", watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}, ask); err != nil {
		return err
	}

	// A step, again if the ladder asks for that:
	err = wd.Try(ctx, step)
	for again := (*watchdog.Directive)(nil); errors.As(err, &again); {
		err = wd.Try(ctx, step)
	}
	if err != nil {
		return err
	}

	// At the end, and the run never fires again:
	return wd.Complete()
}

// TestHost runs the host: a person decides for hours, and a step hangs and is done again.
func TestHost(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		store, steps := &watchdog.Memory{}, 0
		ask := func(context.Context) error { time.Sleep(20 * time.Hour); return nil }
		step := func(ctx context.Context) error {
			if steps++; steps > 2 {
				return nil
			}
			<-ctx.Done() // it hangs
			return ctx.Err()
		}
		require.NoError(t, wholeHost(ctx, store, ask, step))
		require.Equal(t, 3, steps)
		events, err := store.Read(ctx, event.AggregateType, "s-1")
		require.NoError(t, err)
		kinds := map[string]int{}
		for _, e := range events {
			kinds[e.Type]++
		}
		require.Equal(t, 2, kinds[event.Retry])
		require.Equal(t, 1, kinds[event.Complete])
		require.NoError(t, wholeHost(ctx, store, ask, step), "the session is done")
		require.Equal(t, 3, steps)
	})
}

// TestSilence reads a pipe whose writer goes silent, and never closes it.
func TestSilence(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		began, out := time.Now(), &bytes.Buffer{}
		reader, writer := io.Pipe()
		go func() {
			for range 3 {
				time.Sleep(50 * time.Second)
				_, _ = io.WriteString(writer, "more ")
			}
		}()
		err := copySilent(ctx, out, reader)
		var stop *watchdog.Stop
		require.ErrorAs(t, err, &stop)
		require.ErrorIs(t, err, watchdog.IdleExceeded)
		require.Equal(t, "more more more ", out.String())
		require.InDelta(t, (3*50*time.Second + time.Minute).Seconds(), time.Since(began).Seconds(), 1)
	})
}

func copySilent(ctx context.Context, out io.Writer, body io.ReadCloser) error {
	{
		ctx, timer := idle.WithLimit(ctx, time.Minute)
		defer timer.Close()
		body := idle.NewBody(ctx, body, nil) // every byte is a sign of life; the end of ctx closes body, and so ends a Read
		defer body.Close()
		_, err := io.Copy(out, body) // after a minute without a byte err wraps a *watchdog.Stop
		return err
	}
}

// TestCall makes a call that never returns.
func TestCall(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		never, began := make(chan struct{}), time.Now()
		defer close(never)
		err := call(ctx, func(context.Context) (int, error) { <-never; return 0, nil })
		var overrun *bound.Overrun
		require.ErrorAs(t, err, &overrun)
		require.InDelta(t, 61, time.Since(began).Seconds(), 0.1)
	})
}

func call(ctx context.Context, tick func(context.Context) (int, error)) error {
	out := bound.Do(ctx, bound.Call{Limit: time.Minute, Grace: time.Second}, tick)
	if out.Err != nil {
		return out.Err // a grace after the limit, though the call never returned
	}
	return nil
}

// TestCommand runs a command that starts a process and hangs, in real time, with minutes that are shorter.
func TestCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	ctx, store := t.Context(), &watchdog.Memory{}
	var printed strings.Builder
	cmd := exec.Command("sh", "-c", "sh -c 'echo $$; sleep 3600'; :")
	cmd.Stdout = &printed
	time := struct{ Minute time.Duration }{60 * time.Millisecond}

	result, err := stall.Run(ctx, cmd, stall.Config{Step: "test", NoOutput: 5 * time.Minute, Store: store})
	var stalled *stall.Stalled
	if errors.As(err, &stalled) {
		fmt.Println(stalled.Trip.Reason, result.EndedBy)
	}

	require.ErrorIs(t, err, watchdog.CommandNoOutput)
	require.NotNil(t, stalled)
	require.True(t, result.Terminated)
	require.Error(t, exec.Command("kill", "-0", strings.TrimSpace(printed.String())).Run(), "what it started is alive")
}

// TestTool has a tool that shows signs of life for longer than the run may be silent, and then hangs.
func TestTool(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		began := time.Now()
		wd := attach(ctx, t, watchdog.Budget{WallClock: watchdog.NoLimit, Idle: time.Second})
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

		err := wd.During(ctx, "", watchdog.HoldLimit{Cap: 2 * time.Hour, Idle: time.Minute}, ask)

		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), watchdog.IdleExceeded)
		require.InDelta(t, (60*50*time.Second + time.Minute).Seconds(), time.Since(began).Seconds(), 1)
	})
}

// TestToolTimeout has a tool that hangs end, and its run go on.
func TestToolTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		wd := attach(ctx, t, watchdog.Budget{WallClock: watchdog.NoLimit, Idle: time.Second})
		defer wd.Close()
		search := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		ctx = wd.Context()

		err := wd.During(ctx, "", watchdog.HoldLimit{Cap: watchdog.NoLimit}, func(ctx context.Context) error {
			return bound.Do(ctx, bound.Call{Limit: 10 * time.Minute}, search).Err
		})

		var overrun *bound.Overrun
		require.ErrorAs(t, err, &overrun)
		require.NoError(t, ctx.Err())
	})
}

// TestSpend makes a call that fits, which uses less than was admitted, and one that does not fit.
func TestSpend(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		wd := attach(ctx, t, watchdog.Budget{WallClock: watchdog.NoLimit, Spend: watchdog.Spend{Tokens: 10_000}})
		defer wd.Close()
		sent := 0
		send := func(context.Context) (watchdog.Amount, error) {
			sent++
			return watchdog.Amount{InputTokens: 7_000}, nil
		}
		require.NoError(t, charged(ctx, wd, send))
		require.EqualValues(t, 7_000, wd.Usage()[0].Used)
		var refused *watchdog.Refused
		require.ErrorAs(t, charged(ctx, wd, send), &refused)
		require.Equal(t, 1, sent)
	})
}

func charged(ctx context.Context, wd *watchdog.Watchdog, send func(context.Context) (watchdog.Amount, error)) error {
	charge, err := wd.Admit(ctx, "", watchdog.Amount{InputTokens: 8_000, OutputTokens: 1_000}) // at most
	if err != nil {
		return err // a *watchdog.Refused: it does not fit, and must not be made
	}
	used, err := send(ctx)
	return errors.Join(err, charge.Settle(used))
}

// TestSameAgain does the same again and gets the same.
func TestSameAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		wd := attach(ctx, t, watchdog.Budget{WallClock: watchdog.NoLimit})
		defer wd.Close()
		turn := []loop.Step{{Tool: "grep", Input: []byte(`{"for":"x"}`), Outcome: []byte("nothing"), Class: loop.Look}}
		var detector loop.Detector
		var asked []string
		tell := func(text string) { asked = append(asked, text) }
		for wd.Context().Err() == nil {
			var err error
			switch v := detector.Step(turn...); v.Advice { // a loop.Step for each call: tool, input, outcome, class
			case loop.Ask:
				tell(v.String())
				detector.Delivered()
			case loop.End:
				_, err = wd.Cancel(watchdog.Cancellation{Reason: watchdog.LoopDetected})
			}

			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.Len(t, asked, 1)
		reason, fired := wd.Fired()
		require.True(t, fired)
		require.Equal(t, watchdog.LoopDetected, reason)
	})
}

// TestSessions has a row of a host that died, and one of a host that lives and is not silent.
func TestSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		store := &session.Memory{}
		_, _, err := store.Attach(ctx, session.Session{RunID: "dead", StartedAt: time.Now()})
		require.NoError(t, err)
		keeper := keptAndSwept(ctx, t, store)
		wd, err := watchdog.New(ctx, watchdog.Run{ID: "live", StartedAt: time.Now()}, watchdog.Config{Store: store, Keeper: keeper})
		require.NoError(t, err)
		defer wd.Close()
		for range 60 {
			time.Sleep(20 * time.Second)
			wd.Activity()
		}
		require.NoError(t, context.Cause(wd.Context()))
		dead, err := store.Session(ctx, "dead")
		require.NoError(t, err)
		require.Equal(t, session.Cancelled, dead.Status)
		live, err := store.Session(ctx, "live")
		require.NoError(t, err)
		require.Equal(t, session.Active, live.Status)
	})
}

//nolint:ineffassign,staticcheck,wastedassign // the guide leaves out what every program does with an error
func keptAndSwept(ctx context.Context, t *testing.T, store *session.Memory) *session.Keeper {
	t.Helper()
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store}) // in each host, as the Keeper of its runs
	go keeper.Run(ctx)
	sweeper, err := sweep.New(store, store, sweep.Config{}) // anywhere; or: watchdog serve --store ...
	go sweeper.Run(ctx)

	require.NoError(t, err)
	return keeper
}
