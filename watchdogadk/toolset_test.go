package watchdogadk_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/geminitool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// A set of tools.
type set []tool.Tool

func (set) Name() string                                       { return "set" }
func (s set) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return s, nil }

// A tellingSet adds words to the requests of the model.
type tellingSet struct{ set }

func (tellingSet) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	req.Contents = append(req.Contents, genai.NewContentFromText("the set's words", genai.RoleUser))
	return nil
}

// A brokenSet cannot list its tools.
type brokenSet struct{ set }

func (brokenSet) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return nil, assert.AnError }

// TestToolset checks that the tools of a set are guarded, that a set adds its words, and that its error is one.
func TestToolset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		g, m := watchdogadk.New(limits), scripted(calls("hang"))
		sets := g.Toolsets(set{toolOf("hang", until)}, tellingSet{set{toolOf("look", ok)}})
		s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: sets}))
		began := time.Now()
		_, err := s.ask(newRun(t, watchdog.Budget{}).Context(), "go")
		require.NoError(t, err)
		within(t, time.Minute, time.Since(began))
		assert.Contains(t, unescaped(m.asked(1)), `The call of the tool "hang" was ended`)
		assert.Contains(t, m.asked(1), "the set's words")
		assert.Same(t, sets[0], g.Toolset(sets[0]), "it is wrapped once")

		s = newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: g.Toolsets(brokenSet{})}))
		_, err = s.ask(newRun(t, watchdog.Budget{}).Context(), "go")
		require.ErrorIs(t, err, assert.AnError)
	})
}

// A lazyTool leaves its answer to somebody else.
type lazyTool struct{ bareTool }

func (*lazyTool) DefersResponse() bool { return true }

// TestToolKinds checks that a tool which does not run here is left alone, and that the others are wrapped once and tell
// what they are.
func TestToolKinds(t *testing.T) {
	g := watchdogadk.New(limits)
	assert.Equal(t, geminitool.GoogleSearch{}, g.Tool(geminitool.GoogleSearch{}))
	type deferrer interface{ DefersResponse() bool }
	for _, bare := range []tool.Tool{
		toolOf("a", ok), &bareTool{name: "b", run: ok, long: true}, &lazyTool{bareTool{name: "c", run: ok}},
		streamOf("d", nil),
	} {
		guarded := g.Tool(bare)
		assert.NotSame(t, bare, guarded)
		assert.Same(t, guarded, g.Tool(guarded))
		assert.Equal(t, bare.Name(), guarded.Name())
		assert.Equal(t, bare.IsLongRunning(), guarded.IsLongRunning())
		_, defers := bare.(deferrer)
		assert.Equal(t, defers, guarded.(deferrer).DefersResponse())
	}
}

// TestToolLong checks that a tool which is finished later is answered later.
func TestToolLong(t *testing.T) {
	m := scripted(calls("ticket"))
	s := newGuarded(t, watchdogadk.New(limits), m, &bareTool{name: "ticket", long: true,
		run: func(agent.Context, map[string]any) (map[string]any, error) { return nil, nil }})
	wd := newRun(t, watchdog.Budget{})
	_, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, 1, m.count())
	_, err = s.answer(wd.Context(), "ticket", map[string]any{"result": "finished"})
	require.NoError(t, err)
	assert.Contains(t, m.asked(1), "finished")
}
