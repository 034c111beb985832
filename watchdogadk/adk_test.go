package watchdogadk_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/tool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var limits = watchdogadk.Config{Tools: watchdogadk.Limits{Limit: 10 * time.Minute, Grace: 5 * time.Second}}

// TestStream checks that a stream that stalls is ended by the run's idle, with its code.
func TestStream(t *testing.T) {
	for _, c := range []struct {
		name string
		turn turn
		took time.Duration
	}{
		{name: "before the first piece", turn: stalls(0), took: time.Minute},
		{name: "after a piece", turn: stalls(0, partial("well")), took: time.Minute},
		{
			name: "after pieces, each a sign of life", took: 3*50*time.Second + time.Minute,
			turn: stalls(50*time.Second, partial("a"), partial("b"), partial("c")),
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			wd, m := newRun(t, watchdog.Budget{Idle: time.Minute}), &script{turns: []turn{c.turn}}
			s := newGuarded(t, watchdogadk.New(limits), m)
			began := time.Now()
			_, err := s.ask(wd.Context(), "go")
			var stop *watchdog.Stop
			require.ErrorAs(t, err, &stop)
			assert.Equal(t, watchdog.IdleExceeded, stop.Code)
			assert.Equal(t, wd.ID(), stop.RunID)
			within(t, c.took, time.Since(began))
			assert.Equal(t, 1, m.count())

			_, err = s.ask(wd.Context(), "go on")
			require.ErrorIs(t, err, watchdog.IdleExceeded)
			assert.Equal(t, 1, m.count(), "in a run that has ended no call is made")
		})
	}
}

// TestAgain checks that a stream that stalls is asked for again where the run's ladder says so, with its words, once.
func TestAgain(t *testing.T) {
	for kind, says := range map[watchdog.DirectiveKind]string{
		watchdog.DirectiveRetry:   "Do it again, in smaller parts",
		watchdog.DirectiveUnstuck: "Leave that and try another way",
	} {
		bubble(t, string(kind), func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{
				Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{kind}},
			})
			m := &script{turns: []turn{stalls(0, partial("half")), calls("work"), speaks("whole")}}
			s := newGuarded(t, watchdogadk.New(limits), m, toolOf("work", ok))
			began := time.Now()
			last, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Equal(t, "whole", last)
			within(t, time.Minute, time.Since(began))
			require.Equal(t, 3, m.count())
			assert.NotContains(t, m.asked(0), says)
			assert.Equal(t, 1, strings.Count(m.asked(1), says))
			assert.NotContains(t, m.asked(2), says, "it is said once")
			assert.NotContains(t, s.history(), "half")
			assert.NotContains(t, s.history(), says, "the words are not part of the session")
			assert.Nil(t, wd.Stop())
		})
	}
}

// TestKept checks that an answer of which the session has a part is not asked for again.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		m := &script{turns: []turn{stalls(0, whole(genai.NewPartFromText("all of it")))}}
		last, err := newGuarded(t, watchdogadk.New(limits), m).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "all of it", last)
		assert.Equal(t, 1, m.count())
		assert.Nil(t, wd.Stop())
	})
}

// TestWrapUp checks that what the run asks for between two calls of the model is in the request of the second.
func TestWrapUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute})
		m := &script{turns: []turn{calls("work"), speaks("so far")}}
		cfg := watchdogadk.Config{Tools: watchdogadk.Limits{Limit: 2 * time.Hour}}
		began := time.Now()
		last, err := newGuarded(t, watchdogadk.New(cfg), m, toolOf("work", until)).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "so far", last)
		within(t, 50*time.Minute, time.Since(began))
		assert.Contains(t, m.asked(1), `within its limit of 50m0s`, "the tool is ended before the reserve")
		assert.Contains(t, m.asked(1), "Call no more tools")
	})
}

// TestTool checks that the model reads why its tool was ended, that the agent goes on, and that the hold is closed.
func TestTool(t *testing.T) {
	cfg := limits
	cfg.Tool = map[string]watchdogadk.Limits{"quiet": {Idle: time.Minute}, "long": {Limit: time.Hour}}
	const slow, silent = "it did not finish within its limit of 10m0s", "it gave no sign of life for its limit of 1m0s"
	for _, c := range []struct {
		name  string
		tool  tool.Tool
		took  time.Duration
		reads []string
	}{
		{name: "that answers", tool: toolOf("work", ok), reads: []string{`{"result":"ok"}`}},
		{name: "that fails", tool: toolOf("work", fail), reads: []string{`{"error":"no such file"}`}},
		{name: "that is silent for long", tool: sleeps("long", 59*time.Minute), took: 59 * time.Minute, reads: []string{`{"result":"ok"}`}},
		{name: "that hangs", tool: toolOf("work", until), took: 10 * time.Minute, reads: []string{slow, "may have been done"}},
		{
			name: "that ignores its context", tool: sleeps("work", 3*time.Hour), took: 10*time.Minute + 5*time.Second,
			reads: []string{slow, "may still be running"},
		},
		{name: "that goes silent", tool: toolOf("quiet", signs), took: 3 * time.Minute, reads: []string{silent}},
		{name: "that streams", tool: streamOf("work", "a", "b"), took: 100 * time.Second, reads: []string{`{"result":"ab"}`}},
		{
			name: "that streams and goes silent", tool: streamOf("quiet", "a", "b", ""),
			took: 160 * time.Second, reads: []string{silent},
		},
		{name: "of the SDK", tool: function(t, "work", false), reads: []string{`{"result":"done"}`}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{Idle: time.Second})
			m := &script{turns: []turn{calls(c.tool.Name()), speaks("I leave that")}}
			s := newGuarded(t, watchdogadk.New(cfg), m, c.tool)
			began := time.Now()
			last, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Equal(t, "I leave that", last)
			within(t, c.took, time.Since(began))
			for _, text := range c.reads {
				assert.Contains(t, m.asked(1), text)
			}
			assert.Nil(t, wd.Stop())
			time.Sleep(time.Second + 1)
			assert.NotNil(t, wd.Stop(), "the run's own idle counts again")
			time.Sleep(3 * time.Hour) // what was left behind returns
		})
	}
}

// TestParallel checks that the calls of one answer run side by side, each with a limit of its own, also of one tool.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Second})
		hangs := make(chan bool, 3)
		hangs <- true
		m := &script{turns: []turn{calls("work", "work", "work", "other"), speaks("done")}}
		once := toolOf("work", func(ctx agent.Context, args map[string]any) (map[string]any, error) {
			select {
			case <-hangs:
				return until(ctx, args)
			default:
				return ok(ctx, args)
			}
		})
		began := time.Now()
		_, err := newGuarded(t, watchdogadk.New(limits), m, once, sleeps("other", 9*time.Minute)).ask(wd.Context(), "go")
		require.NoError(t, err)
		within(t, 10*time.Minute, time.Since(began))
		assert.Equal(t, 1, strings.Count(m.asked(1), "was ended"))
		assert.Equal(t, 3, strings.Count(m.asked(1), `{"result":"ok"}`))
		assert.Nil(t, wd.Stop())
	})
}

// TestToolset checks that the tools of a set are guarded, and that the set keeps what it adds to requests.
func TestToolset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Idle: time.Second}), watchdogadk.New(limits)
		m := &script{turns: []turn{calls("work"), speaks("done")}}
		a := newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: g.Toolsets(&set{toolOf("work", until)})})
		_, err := newStage(t, a).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Contains(t, m.asked(0), "the set was here")
		assert.Contains(t, m.asked(1), `\"work\" was ended`)
	})
}

// TestActions checks that what a tool does to its context counts, and that of one that was left behind nothing does.
func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		for _, late := range []time.Duration{0, time.Hour} {
			m := &script{turns: []turn{calls("work"), speaks("done")}}
			s := newGuarded(t, watchdogadk.New(limits), m, toolOf("work",
				func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
					time.Sleep(late)
					ctx.Actions().SkipSummarization = true
					return map[string]any{}, ctx.State().Set("color", "red")
				}))
			_, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Equal(t, late == 0, strings.Contains(s.history(), `"color":"red"`))
			assert.Equal(t, late == 0, m.count() == 1, "it wants no answer of the model")
			time.Sleep(time.Hour)
		}
	})
}

// TestApproval checks that a run holds while a person thinks, that its wall clock stands still, and no longer than that.
func TestApproval(t *testing.T) {
	for name, c := range map[string]struct {
		approval time.Duration
		answer   map[string]any
		code     watchdog.StopReason
		took     time.Duration
	}{
		"yes":          {0, map[string]any{"confirmed": true}, watchdog.IdleExceeded, 10*time.Hour + time.Minute},
		"no":           {0, map[string]any{"confirmed": false}, watchdog.IdleExceeded, 10*time.Hour + time.Minute},
		"not answered": {0, nil, watchdog.HoldExceeded, 24 * time.Hour},
		"with a limit": {time.Hour, nil, watchdog.HoldExceeded, time.Hour},
		"without":      {watchdog.None, nil, watchdog.IdleExceeded, time.Minute},
	} {
		bubble(t, name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{WallClock: 2 * time.Hour, Idle: time.Minute})
			m := &script{turns: []turn{calls("work"), speaks("so be it")}}
			g, began := watchdogadk.New(watchdogadk.Config{Approval: c.approval}), time.Now()
			s := newGuarded(t, g, m, function(t, "work", true))
			_, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			if c.answer != nil {
				time.Sleep(10 * time.Hour)
				last, err := s.answer(wd.Context(), c.answer)
				require.NoError(t, err)
				assert.Equal(t, "so be it", last)
				assert.Equal(t, name == "yes", strings.Contains(m.asked(1), `{"result":"done"}`))
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
	synctest.Test(t, func(t *testing.T) {
		g := watchdogadk.New(limits)
		retry := watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}}
		stuck := &script{turns: []turn{stalls(0), stalls(0)}}
		slow := &script{turns: []turn{stalls(0), calls("long"), speaks("done")}}
		var both sync.WaitGroup
		for m, code := range map[*script]error{stuck: watchdog.IdleExceeded, slow: nil} {
			both.Go(func() {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute, Ladders: retry})
				_, err := newGuarded(t, g, m, sleeps("long", 5*time.Minute)).ask(wd.Context(), "go")
				assert.ErrorIs(t, err, code)
				assert.Equal(t, code != nil, wd.Stop() != nil)
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
	synctest.Test(t, func(t *testing.T) {
		run, cfg := watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Hour}, Logger: slog.New(slog.DiscardHandler),
		}
		m := &script{turns: []turn{calls("work"), speaks("done")}}
		s := newGuarded(t, watchdogadk.New(limits), m, toolOf("work", until))
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
			last, err := s.ask(wd.Context(), "go")
			assert.Equal(t, life.calls, m.count())
			if m.count() == 1 {
				var stop *watchdog.Stop
				require.ErrorAs(t, err, &stop)
				assert.Equal(t, watchdog.StopReason("user_cancelled"), stop.Code)
			} else {
				require.NoError(t, err)
				assert.Equal(t, "done", last)
			}
			require.NoError(t, wd.Close())
		}
	})
}

// newRun begins a run that is kept in memory and closed with the test.
func newRun(tb testing.TB, budget watchdog.Budget) *watchdog.Watchdog {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{}, watchdog.Config{
		Budget: budget, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, wd.Close()) })
	return wd
}

// within checks a time that a limit took: it is exceeded a nanosecond after it.
func within(t *testing.T, want, took time.Duration) {
	t.Helper()
	require.InDelta(t, want, took, 4)
}

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
