package watchdogadk_test

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolconfirmation"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// act does everything that a tool can do to its context, under names of its own.
func act(ctx agent.Context, name string) error {
	if err := ctx.State().Set("set-"+name, name); err != nil {
		return err
	}
	ctx.Actions().StateDelta["delta-"+name] = name
	_, err := ctx.Artifacts().Save(ctx, "file-"+name, genai.NewPartFromText("content"))
	return err
}

// TestActions checks that what a tool does to its context reaches the session when it has returned in time, and that
// the tool sees it before.
func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, m := newRun(t, watchdog.Budget{}), scripted(calls("write"), calls("read"))
		var found []string
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("write", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				if err := act(ctx, "a"); err != nil {
					return nil, err
				}
				for _, key := range []string{"set-a", "delta-a"} {
					value, err := ctx.State().Get(key)
					found = append(found, fmt.Sprint(value, " ", err))
				}
				for key, value := range ctx.State().All() {
					found = append(found, fmt.Sprint(key, "=", value))
				}
				return nil, assert.AnError // an error in time is an answer, too
			}),
			toolOf("read", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				value, err := ctx.State().Get("set-a")
				return map[string]any{"read": value}, err
			}))
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, []string{"a <nil>", "a <nil>", "set-a=a"}, found)
		assert.Contains(t, m.asked(2), `{"read":"a"}`)
		assert.Equal(t, "a", s.state("set-a"))
		assert.Equal(t, "a", s.state("delta-a"))
		assert.Contains(t, s.history(), `"artifactDelta":{"file-a":1}`)
	})
}

// TestActionsLate checks that what a tool does after it was given up reaches nobody, and does not race with the runner.
func TestActionsLate(t *testing.T) {
	for _, stream := range []bool{false, true} {
		bubble(t, fmt.Sprintf("stream is %v", stream), func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{})
			turns := []turn{calls("hang")}
			for range 30 {
				turns = append(turns, answers(time.Second, whole(genai.NewPartFromFunctionCall("look", map[string]any{}))))
			}
			m, late := scripted(turns...), make(chan error, 1)
			work := func(ctx agent.Context, args map[string]any) error {
				derived, cancel := ctx.WithAgentCancel()
				defer cancel()
				for i := range 120 { // a minute until it is given up, and one more
					time.Sleep(time.Second)
					args["late"] = i
					ctx.Actions().TransferToAgent, ctx.Actions().Escalate = "nobody", true
					if err := act(ctx, "late"); err != nil {
						return err
					}
					if err := act(derived, "late-derived"); err != nil {
						return err
					}
					_ = ctx.RequestConfirmation("late", nil)
				}
				return nil
			}
			look := toolOf("look", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				value, _ := ctx.State().Get("set-late") // the runner's own copy of the session
				return map[string]any{"at": time.Now().String(), "value": value}, ctx.State().Set("seen", "yes")
			})
			cfg := limits
			cfg.Class = func(string) loop.Class { return loop.Wait }
			s := newGuarded(t, watchdogadk.New(cfg), m, hanging(stream, func(ctx agent.Context, args map[string]any) {
				late <- work(ctx, args)
			}), look)
			_, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Contains(t, m.asked(1), "may still be running")
			require.NoError(t, <-late)
			synctest.Wait()
			assert.Equal(t, "yes", s.state("seen"))
			for _, key := range []string{"set-late", "delta-late", "set-late-derived", "delta-late-derived"} {
				assert.Nil(t, s.state(key), key)
			}
			assert.NotContains(t, s.history(), "late")
			assert.NotContains(t, s.history(), "nobody")
		})
	}
}

// TestActionsEnded checks that nothing is kept of what a tool did that was ended, though it heeded its context: the
// model is told that it was ended.
func TestActionsEnded(t *testing.T) {
	for _, stream := range []bool{false, true} {
		bubble(t, fmt.Sprintf("stream is %v", stream), func(t *testing.T) {
			quiet(t)
			wd, m := newRun(t, watchdog.Budget{}), scripted(calls("hang"))
			s := newGuarded(t, watchdogadk.New(limits), m, hanging(stream, func(ctx agent.Context, _ map[string]any) {
				assert.NoError(t, act(ctx, "before"))
				<-ctx.Done()
				assert.NoError(t, act(ctx, "after"))
			}))
			_, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Contains(t, m.asked(1), "was ended")
			for _, when := range []string{"before", "after"} {
				assert.Nil(t, s.state("set-"+when))
				assert.NotContains(t, s.history(), `"delta-`+when)
				assert.NotContains(t, s.history(), `"file-`+when)
			}
		})
	}
}

// TestActionsCut checks that a tool which goes on after its run has ended does not race with the runner.
func TestActionsCut(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			quiet(t)
			wd, late := newRun(t, watchdog.Budget{WallClock: time.Minute}), make(chan error, 1)
			s := newGuarded(t, watchdogadk.New(limits), scripted(calls("hang")),
				hanging(stream, func(ctx agent.Context, _ map[string]any) {
					time.Sleep(time.Hour)
					late <- act(ctx, "late")
				}))
			_, err := s.ask(wd.Context(), "go")
			require.ErrorIs(t, err, watchdog.WallClockExceeded)
			require.NoError(t, <-late)
			assert.NotContains(t, s.history(), "late")
		})
	}
}

// hanging is a tool, or one that streams, that does the work whatever its context says.
func hanging(stream bool, work func(agent.Context, map[string]any)) tool.Tool {
	if !stream {
		return toolOf("hang", func(ctx agent.Context, args map[string]any) (map[string]any, error) {
			work(ctx, args)
			return map[string]any{"result": "late"}, nil
		})
	}
	return streamOf("hang", func(ctx agent.Context, args map[string]any, yield func(string, error) bool) {
		work(ctx, args)
		yield("late", nil)
	})
}

// TestActionsKept checks that each field of the actions is merged, also those of a later version of the SDK.
func TestActionsKept(t *testing.T) {
	want := session.EventActions{
		StateDelta: map[string]any{"s": "v"}, ArtifactDelta: map[string]int64{"a": 7}, SkipSummarization: true,
		RequestedToolConfirmations: map[string]toolconfirmation.ToolConfirmation{"c": {Hint: "h"}},
		TransferToAgent:            "other", Escalate: true,
	}
	all := reflect.ValueOf(want)
	for i := range all.NumField() {
		require.False(t, all.Field(i).IsZero(), "fill in %s", all.Type().Field(i).Name)
	}
	var got session.EventActions
	after := func(ctx agent.Context, _ tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
		got = *ctx.Actions()
		return nil, nil
	}
	g := watchdogadk.New(limits)
	a := newAgent(t, llmagent.Config{
		Model: g.Model(scripted(calls("all"))), AfterToolCallbacks: []llmagent.AfterToolCallback{after},
		Tools: g.Tools(toolOf("all", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			*ctx.Actions() = want
			return map[string]any{}, nil
		})),
	})
	_, _ = newStage(t, a).ask(newRun(t, watchdog.Budget{}).Context(), "go") // there is no such agent
	assert.Equal(t, want, got)
}

// TestConfirmation checks that a tool can ask for a person's approval, which is no error of the tool, and is called
// when it is there.
func TestConfirmation(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Errors: 1}})
	m, called := scripted(calls("deploy")), 0
	g := watchdogadk.New(limits)
	deploy := toolOf("deploy", func(agent.Context, map[string]any) (map[string]any, error) {
		called++
		return map[string]any{"result": "deployed"}, nil
	})
	sets := g.Toolsets(tool.WithConfirmation(set{deploy}, true, nil))
	s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: sets}))
	_, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Zero(t, called)
	assert.Zero(t, wd.Usage()[0].Used, "no error")
	_, err = s.answer(wd.Context(), toolconfirmation.FunctionCallName, map[string]any{"confirmed": true})
	require.NoError(t, err)
	assert.Equal(t, 1, called)
	assert.Contains(t, m.asked(m.count()-1), "deployed")
}
