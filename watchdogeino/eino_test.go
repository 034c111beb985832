package watchdogeino_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

var limits = watchdogeino.Config{Tools: watchdogeino.Limits{Limit: 10 * time.Minute, Grace: 5 * time.Second}}

// TestStream checks that an answer that stalls is ended by the run's idle, with its code.
func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		turn turn
		took time.Duration // where pieces are read
	}{
		"before the first piece": {stalls(0), time.Minute},
		"after a piece":          {stalls(0, "well"), time.Minute},
		"after pieces":           {stalls(50*time.Second, "a", "b", "c"), 3*50*time.Second + time.Minute},
	} {
		eachWay(t, name, func(t *testing.T, streaming bool) {
			wd, m := newRun(t, watchdog.Budget{Idle: time.Minute}), scripted(c.turn)
			agent := newAgent(t, watchdogeino.New(limits), m)
			began := time.Now()
			_, err := ask(wd.Context(), agent, streaming)
			require.Error(t, err)
			stopped(t, wd, watchdog.IdleExceeded)
			if streaming {
				within(t, c.took, time.Since(began))
			}
			_, err = ask(wd.Context(), agent, streaming)
			require.Error(t, err)
			assert.Equal(t, 1, m.count(), "in a run that has ended no call is made")
			time.Sleep(time.Hour)
		})
	}
}

// TestAgain checks that an answer that stalls is asked for again where the run's ladder says so, with its words, once.
func TestAgain(t *testing.T) {
	for kind, says := range map[watchdog.DirectiveKind]string{
		watchdog.DirectiveRetry:   "Do it again, in smaller parts",
		watchdog.DirectiveUnstuck: "Leave that and try another way",
	} {
		eachWay(t, string(kind), func(t *testing.T, streaming bool) {
			wd := newRun(t, watchdog.Budget{
				Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{kind}},
			})
			m := scripted(stalls(0), calls("work"), speaks("whole"))
			agent := newAgent(t, watchdogeino.New(limits), m, hammer("work", ok))
			began := time.Now()
			last, err := ask(wd.Context(), agent, streaming)
			require.NoError(t, err)
			assert.Equal(t, "whole", last)
			within(t, time.Minute, time.Since(began))
			require.Equal(t, 3, m.count())
			assert.NotContains(t, m.asked(0), says)
			assert.Equal(t, 1, strings.Count(m.asked(1), "user: The last")+strings.Count(m.asked(1), "user: You have"))
			assert.Contains(t, m.asked(1), says)
			assert.NotContains(t, m.asked(2), says, "it is said once")
			assert.Nil(t, wd.Stop())
		})
	}
}

func ok(context.Context) error { return nil }

// TestPassedOn checks that an answer of which a piece was passed on is not asked for again: the directive is the error.
func TestPassedOn(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		m := scripted(stalls(0, "half"), speaks("whole"))
		last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m), streaming)
		assert.Nil(t, wd.Stop())
		if !streaming {
			require.NoError(t, err)
			assert.Equal(t, "whole", last)
			return
		}
		require.ErrorAs(t, err, new(*watchdog.Directive))
		assert.Equal(t, 1, m.count())
	})
}

// TestWrapUp checks that what the run asks for between two calls of the model is a message in front of the second.
func TestWrapUp(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute})
		m := scripted(calls("work"), speaks("so far"))
		g := watchdogeino.New(watchdogeino.Config{Tools: watchdogeino.Limits{Limit: 2 * time.Hour}})
		began := time.Now()
		last, err := ask(wd.Context(), newAgent(t, g, m, hammer("work", until)), streaming)
		require.NoError(t, err)
		assert.Equal(t, "so far", last)
		within(t, 50*time.Minute, time.Since(began))
		assert.Contains(t, m.asked(1), "within its limit of 50m0s", "the tool is ended before the reserve")
		assert.Contains(t, m.asked(1), "Call no more tools")
	})
}

// TestTool checks, for each kind of tool, that the model reads why it was ended, and that the agent goes on.
func TestTool(t *testing.T) {
	cfg := limits
	cfg.Tool = map[string]watchdogeino.Limits{"quiet": {Idle: time.Minute}, "long": {Limit: time.Hour}}
	const slow, silent = "it did not finish within its limit of 10m0s", "it gave no sign of life for its limit of 1m0s"
	for name, c := range map[string]struct {
		tool string
		work func(context.Context) error
		took time.Duration
		read []string
	}{
		"answers":             {"work", ok, 0, []string{"one nail"}},
		"is silent for long":  {"long", func(context.Context) error { time.Sleep(59 * time.Minute); return nil }, 59 * time.Minute, nil},
		"hangs":               {"work", until, 10 * time.Minute, []string{slow, "Parts of it may have been done."}},
		"ignores its context": {"work", deaf, 10*time.Minute + 5*time.Second, []string{slow, "may still be running."}},
		"goes silent": {"quiet", func(ctx context.Context) error {
			for range 4 {
				time.Sleep(30 * time.Second)
				idle.FromContext(ctx).Alive()
			}
			return until(ctx)
		}, 3 * time.Minute, []string{silent}},
	} {
		for kind, one := range kinds(c.tool, c.work) {
			eachWay(t, name+" "+kind, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Second})
				m := scripted(calls(c.tool), speaks("I leave that"))
				began := time.Now()
				last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(cfg), m, one), streaming)
				require.NoError(t, err)
				assert.Equal(t, "I leave that", last)
				within(t, c.took, time.Since(began))
				for _, text := range c.read {
					assert.Contains(t, m.asked(1), text)
				}
				if len(c.read) > 0 && c.took > 0 {
					assert.Equal(t, strings.Contains(kind, "streamable"), strings.Contains(m.asked(1), "one nail\n\nThe call"))
				}
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Second + 1)
				assert.NotNil(t, wd.Stop(), "the run's own idle counts again")
				time.Sleep(time.Hour) // what was left behind returns
			})
		}
	}
}

// TestToolFails checks that an error and a panic of a tool end the agent as they do without a guard.
func TestToolFails(t *testing.T) {
	failed := errors.New("no such file")
	for kind, one := range kinds("work", func(context.Context) error { return failed }) {
		eachWay(t, kind, func(t *testing.T, streaming bool) {
			_, err := ask(newRun(t, watchdog.Budget{}).Context(),
				newAgent(t, watchdogeino.New(limits), scripted(calls("work"), speaks("done")), one), streaming)
			require.ErrorIs(t, err, failed)
		})
	}
	eachWay(t, "panic", func(t *testing.T, streaming bool) {
		broken := hammer("work", func(context.Context) error { panic("the handle broke") })
		_, err := ask(newRun(t, watchdog.Budget{}).Context(),
			newAgent(t, watchdogeino.New(limits), scripted(calls("work"), speaks("done")), broken), streaming)
		require.ErrorContains(t, err, "the handle broke")
	})
}

// TestParallel checks that the calls of one answer run side by side, each with a limit of its own, also of one tool.
func TestParallel(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{Idle: time.Second})
		hangs := make(chan bool, 1)
		hangs <- true
		once := func(ctx context.Context) error {
			select {
			case <-hangs:
				return until(ctx)
			default:
				return nil
			}
		}
		other := func(context.Context) error { time.Sleep(9 * time.Minute); return nil }
		m := scripted(calls("work", "work", "other", "work"), speaks("done"))
		agent := newAgent(t, watchdogeino.New(limits), m, hammer("work", once), kinds("other", other)["streamable"])
		began := time.Now()
		_, err := ask(wd.Context(), agent, streaming)
		require.NoError(t, err)
		within(t, 10*time.Minute, time.Since(began))
		assert.Equal(t, 1, strings.Count(m.asked(1), "was ended"))
		assert.Equal(t, 3, strings.Count(m.asked(1), "tool: one nail\n"))
		assert.Nil(t, wd.Stop())
	})
}

// A checkpoints store keeps what eino needs to go on.
type checkpoints struct{ kept sync.Map }

func (c *checkpoints) Get(_ context.Context, id string) ([]byte, bool, error) {
	kept, ok := c.kept.Load(id)
	if !ok {
		return nil, false, nil
	}
	return kept.([]byte), true, nil
}

func (c *checkpoints) Set(_ context.Context, id string, kept []byte) error {
	c.kept.Store(id, kept)
	return nil
}

// TestApproval checks that a run holds while a person thinks, that its wall clock stands still, and no longer than that.
func TestApproval(t *testing.T) {
	asks := invokable{"work", func(ctx context.Context) (string, error) {
		if asked, _, _ := tool.GetInterruptState[any](ctx); !asked {
			return "", tool.Interrupt(ctx, "may I?")
		}
		_, _, answer := tool.GetResumeContext[string](ctx)
		return "they said " + answer, nil
	}}
	for name, c := range map[string]struct {
		approval time.Duration
		answers  bool
		code     watchdog.StopReason
		took     time.Duration
	}{
		"answered":     {0, true, watchdog.IdleExceeded, 10*time.Hour + time.Minute},
		"not answered": {0, false, watchdog.HoldExceeded, 24 * time.Hour},
		"with a limit": {time.Hour, false, watchdog.HoldExceeded, time.Hour},
		"without":      {watchdog.None, false, watchdog.IdleExceeded, time.Minute},
	} {
		eachWay(t, name, func(t *testing.T, streaming bool) {
			wd, m := newRun(t, watchdog.Budget{WallClock: 2 * time.Hour, Idle: time.Minute}), scripted(calls("work"), speaks("done"))
			g, began := watchdogeino.New(watchdogeino.Config{Approval: c.approval}), time.Now()
			runner := adk.NewRunner(wd.Context(), adk.RunnerConfig{
				Agent: newAgent(t, g, m, asks), EnableStreaming: streaming, CheckPointStore: &checkpoints{},
			})
			events := runner.Query(wd.Context(), "go on", adk.WithCheckPointID("c-1"))
			var question string
			for event, more := events.Next(); more; event, more = events.Next() {
				require.NoError(t, event.Err)
				if event.Action != nil && event.Action.Interrupted != nil {
					question = event.Action.Interrupted.InterruptContexts[0].ID
				}
			}
			require.NotEmpty(t, question)
			if c.answers {
				time.Sleep(10 * time.Hour)
				events, err := runner.ResumeWithParams(wd.Context(), "c-1",
					&adk.ResumeParams{Targets: map[string]any{question: "yes"}})
				require.NoError(t, err)
				_, err = drain(events)
				require.NoError(t, err)
				assert.Contains(t, m.asked(1), "they said yes")
				assert.Equal(t, 2*time.Hour, wd.Remaining())
			}
			<-wd.Context().Done()
			within(t, c.took, time.Since(began))
			assert.ErrorIs(t, context.Cause(wd.Context()), c.code)
		})
	}
}

// TestTwoRuns checks that runs at once, with one guard, are ended and told each by itself.
func TestTwoRuns(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		g := watchdogeino.New(limits)
		retry := watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}}
		long := hammer("long", func(context.Context) error { time.Sleep(5 * time.Minute); return nil })
		stuck, slow := scripted(stalls(0)), scripted(stalls(0), calls("long"), speaks("done"))
		var both sync.WaitGroup
		for m, code := range map[*script]error{stuck: watchdog.IdleExceeded, slow: nil} {
			both.Go(func() {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute, Ladders: retry})
				_, err := ask(wd.Context(), newAgent(t, g, m, long), streaming)
				assert.Equal(t, code != nil, err != nil)
				assert.ErrorIs(t, context.Cause(wd.Context()), code)
			})
		}
		both.Wait()
		assert.Equal(t, []int{2, 3}, []int{stuck.count(), slow.count()})
		assert.Contains(t, stuck.asked(1), "Do it again")
		assert.Contains(t, slow.asked(1), "Do it again")
		assert.NotContains(t, slow.asked(2), "Do it again")
	})
}

// TestResume checks that a run that was cancelled in a tool makes no more calls, attached again neither, and goes on
// once it is resumed.
func TestResume(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		run, cfg := watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Hour}, Logger: slog.New(slog.DiscardHandler),
		}
		m := scripted(calls("work"), speaks("done"))
		agent := newAgent(t, watchdogeino.New(limits), m, hammer("work", until))
		for _, life := range []struct {
			attach func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error)
			cancel time.Duration
			calls  int
		}{
			{attach: watchdog.New, cancel: time.Minute, calls: 1}, {attach: watchdog.New, calls: 1},
			{attach: watchdog.Resume, calls: 2},
		} {
			wd, err := life.attach(t.Context(), run, cfg)
			require.NoError(t, err)
			if life.cancel > 0 {
				time.AfterFunc(life.cancel, func() { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "user_cancelled"}) })
			}
			last, err := ask(wd.Context(), agent, streaming)
			assert.Equal(t, life.calls, m.count())
			if m.count() == 1 {
				require.Error(t, err)
				stopped(t, wd, "user_cancelled")
			} else {
				require.NoError(t, err)
				assert.Equal(t, "done", last)
			}
			require.NoError(t, wd.Close())
		}
	})
}

// BenchmarkTool is a call of a tool, bare and guarded, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	bare := func(context.Context, *compose.ToolInput) (*compose.ToolOutput, error) {
		return &compose.ToolOutput{Result: "ok"}, nil
	}
	wd := newRun(b, watchdog.Budget{Idle: time.Hour})
	guarded := watchdogeino.New(watchdogeino.Config{}).ToolMiddleware().Invokable(bare)
	for name, call := range map[string]compose.InvokableToolEndpoint{"bare": bare, "guarded": guarded} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(wd.Context(), &compose.ToolInput{Name: "look", Arguments: `{"q":"x"}`}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
