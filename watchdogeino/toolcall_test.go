package watchdogeino_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/tool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// kinds are the tool "hammer" in each form that the SDK has. Those that stream send what they did before they hang.
func kinds(hang func(context.Context) error) map[string]tool.BaseTool {
	at := invokable{"hammer", func(ctx context.Context, _ string) (string, error) { return "", hang(ctx) }}
	in := streamable{"hammer", func(ctx context.Context, send func(string) bool) error {
		send("one nail")
		return hang(ctx)
	}}
	return map[string]tool.BaseTool{
		"invokable": at, "streamable": in, "enhanced": enhanced{at}, "enhanced streamable": enhancedStreamable{in},
	}
}

// TestHang checks that the model reads why its tool was ended, and that the agent goes on.
func TestHang(t *testing.T) {
	for _, hang := range []struct {
		name string
		work func(context.Context) error
		took time.Duration
		text string
	}{
		{"heeds its context", until, 10 * time.Minute, "Parts of it may have been done."},
		{"ignores its context", deaf, 10*time.Minute + 5*time.Second, "may still be running."},
	} {
		for kind, hammer := range kinds(hang.work) {
			t.Run(kind+" "+hang.name, func(t *testing.T) {
				eachWay(t, func(t *testing.T, streaming bool) {
					wd := newRun(t, watchdog.Budget{Idle: time.Minute})
					m := scripted(calls("hammer"), says("I leave that"))
					began := time.Now()
					last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
					require.NoError(t, err)
					assert.Equal(t, "I leave that", last)
					within(t, hang.took, time.Since(began))
					read := m.last(1)
					assert.Contains(t, read, `The call of the tool "hammer" was ended: it did not finish within its limit of 10m0s. `)
					assert.Contains(t, read, hang.text)
					assert.Equal(t, strings.Contains(kind, "streamable"), strings.HasPrefix(read, "one nail\n\nThe call"))
					assert.Nil(t, wd.Stop())
					time.Sleep(time.Hour) // what was abandoned returns
					assert.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded, "the hold is closed")
				})
			})
		}
	}
}

// TestPanic checks that a panic of a tool is an error of the agent, as without a guard, in the turns of each kind.
func TestPanic(t *testing.T) {
	for kind, hammer := range kinds(func(context.Context) error { panic("the handle broke") }) {
		if strings.Contains(kind, "streamable") {
			continue // a tool that panics on a goroutine of its own ends the process, guarded or not
		}
		for _, tools := range [][]string{{"hammer"}, {"hammer", "hammer"}} {
			t.Run(kind, func(t *testing.T) {
				eachWay(t, func(t *testing.T, streaming bool) {
					wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{Errors: 5}})
					agent := newAgent(t, watchdogeino.New(limits), scripted(calls(tools...), says("done")), hammer)
					_, err := ask(wd.Context(), agent, streaming)
					require.ErrorContains(t, err, "the handle broke")
					assert.Nil(t, wd.Stop())
					time.Sleep(time.Minute + 1)
					assert.NotNil(t, wd.Stop(), "the hold is closed")
				})
			})
		}
	}
}

// TestCancel checks that a call whose caller goes fails with why, and that the agent ends.
func TestCancel(t *testing.T) {
	gone := errors.New("the client has gone")
	for kind, hammer := range kinds(until) {
		t.Run(kind, func(t *testing.T) {
			eachWay(t, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				ctx, cancel := context.WithCancelCause(wd.Context())
				time.AfterFunc(time.Second, func() { cancel(gone) })
				m := scripted(calls("hammer"), says("done"))
				_, err := ask(ctx, newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 1, m.calls(), "no answer of a tool was made up")
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Minute + 5*time.Second + 1)
				assert.NotNil(t, wd.Stop(), "the hold is closed")
			})
		})
	}
}

// TestRunEnds checks that the end of the run ends the tool and the agent, and is not told to the model as an answer.
func TestRunEnds(t *testing.T) {
	for kind, hammer := range kinds(until) {
		t.Run(kind, func(t *testing.T) {
			eachWay(t, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{WallClock: 2 * time.Minute})
				m := scripted(calls("hammer"), says("done"))
				began := time.Now()
				_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
				require.Error(t, err)
				within(t, 2*time.Minute, time.Since(began))
				stopped(t, wd, watchdog.WallClockExceeded)
				assert.Equal(t, 1, m.calls())
				time.Sleep(5 * time.Second)
			})
		})
	}
}

// TestLives checks that a tool that says nothing for half an hour lives under a run's idle of a minute.
func TestLives(t *testing.T) {
	for kind, hammer := range kinds(func(context.Context) error {
		time.Sleep(bound.DefaultTick)
		return nil
	}) {
		t.Run(kind, func(t *testing.T) {
			eachWay(t, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				m := scripted(calls("hammer"), says("done"))
				last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(watchdogeino.Config{}), m, hammer), streaming)
				require.NoError(t, err)
				assert.Equal(t, "done", last)
				assert.NotContains(t, m.last(1), "was ended")
				assert.Nil(t, wd.Stop())
			})
		})
	}
}

// TestRefused checks that the model is told of a call that does not fit in a limit, and that the tool is not called.
func TestRefused(t *testing.T) {
	for kind := range kinds(nil) {
		t.Run(kind, func(t *testing.T) {
			made := 0
			hammer := kinds(func(context.Context) error { made++; return nil })[kind]
			eachWay(t, func(t *testing.T, streaming bool) {
				made = 0
				wd := newRun(t, watchdog.Budget{
					Spend:   watchdog.Spend{Tools: map[string]int64{"hammer": 1}},
					Ladders: watchdog.Ladders{ToolCalls: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
				})
				m := scripted(calls("hammer"), calls("hammer"), says("done"))
				last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
				require.NoError(t, err)
				assert.Equal(t, "done", last)
				assert.Equal(t, 1, made)
				assert.Contains(t, m.last(2), `The call of the tool "hammer" was not made: `)

				wd = newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tools: map[string]int64{"hammer": 1}}})
				m = scripted(calls("hammer"), calls("hammer"), says("done"))
				_, err = ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
				require.Error(t, err, "without a ladder the first refusal ends the run")
				assert.Equal(t, 2, made)
				stopped(t, wd, watchdog.ToolCallsExceeded)
			})
		})
	}
}
