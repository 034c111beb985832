package watchdogadk_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestModelStalls checks that a stream that stalls is ended by the run's idle, with why.
func TestModelStalls(t *testing.T) {
	for _, c := range []struct {
		name string
		turn turn
		took time.Duration
	}{
		{name: "before the first piece", turn: stalls(0), took: time.Minute},
		{name: "after a piece", turn: stalls(0, partial("well")), took: time.Minute},
		{name: "and ignores its context", turn: stalls(time.Hour, partial("well")), took: time.Minute + 5*time.Second},
		{
			name: "after pieces, each a sign of life", took: 4 * time.Minute,
			turn: after(answers(time.Minute, partial("a"), partial("b"), partial("c")), stalls(0)),
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			quiet(t)
			wd, m := newRun(t, watchdog.Budget{Idle: time.Minute}), scripted(c.turn)
			s := newGuarded(t, watchdogadk.New(limits), m)
			began := time.Now()
			_, err := s.ask(wd.Context(), "go")
			require.ErrorIs(t, err, watchdog.IdleExceeded)
			within(t, c.took, time.Since(began))
			assert.Equal(t, 1, m.count())
			time.Sleep(2 * time.Hour)
			assert.NotContains(t, s.history(), "too late")
		})
	}
}

// after answers with one turn and then another.
func after(turns ...turn) turn {
	return func(ctx context.Context, req *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) {
			for _, one := range turns {
				for r, err := range one(ctx, req) {
					if !yield(r, err) {
						return
					}
				}
			}
		}
	}
}

// TestModelAgain checks that a stream that stalls is asked for again where the run's ladder says so, with its words,
// and that the session has the second answer alone.
func TestModelAgain(t *testing.T) {
	for _, c := range []struct {
		kind watchdog.DirectiveKind
		says string
	}{
		{watchdog.DirectiveRetry, "Do it again, in smaller parts"},
		{watchdog.DirectiveUnstuck, "Leave that and try another way"},
	} {
		bubble(t, string(c.kind), func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{
				Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{c.kind}},
			})
			m := scripted(stalls(0, partial("half")), answers(0, partial("wh"), whole(genai.NewPartFromText("whole"))))
			s := newGuarded(t, watchdogadk.New(limits), m)
			began := time.Now()
			last, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Equal(t, "whole", last)
			within(t, time.Minute, time.Since(began))
			assert.Equal(t, 2, m.count())
			assert.NotContains(t, m.asked(0), c.says)
			assert.Contains(t, m.asked(1), c.says)
			assert.NotContains(t, s.history(), "half")
			assert.NotContains(t, s.history(), c.says, "the words are not part of the session")
			assert.Nil(t, wd.Stop())
		})
	}
}

// TestModelKept checks that an answer of which the session has a part is not asked for again.
func TestModelKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		m := scripted(stalls(0, whole(genai.NewPartFromText("all of it"))))
		s := newGuarded(t, watchdogadk.New(limits), m)
		last, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "all of it", last)
		assert.Equal(t, 1, m.count())
		assert.Nil(t, wd.Stop())
	})
}

// TestModelSilentEnd checks that a model which ends without a word when its context does has not answered, however the
// two are seen.
func TestModelSilentEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			quiet(t)
			g, wd := watchdogadk.New(limits), newRun(t, watchdog.Budget{Idle: time.Minute})
			m := g.Model(scripted(func(ctx context.Context, _ *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
				return func(func(*model.LLMResponse, error) bool) { <-ctx.Done() }
			}))
			yielded := 0
			for _, err := range m.GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
				require.ErrorIs(t, err, watchdog.IdleExceeded)
				yielded++
			}
			assert.Equal(t, 1, yielded)
		})
	}
}

// TestModelPanics checks that a panic of the model is one where the SDK handles it, which makes an error of it.
func TestModelPanics(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000, Errors: 5}})
	m := scripted(func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] { panic("boom") })
	_, err := newGuarded(t, watchdogadk.New(limits), m).ask(wd.Context(), "go")
	require.ErrorContains(t, err, "panicked")
	assert.EqualValues(t, 1, usage(wd, watchdog.ErrorsExceeded).Used)
	assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
}

// TestModelCancelled checks that a call ends with its caller, though the model ignores that.
func TestModelCancelled(t *testing.T) {
	for _, ignore := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			wd, gone := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), errors.New("the client has gone")
			ctx, cancel := context.WithCancelCause(wd.Context())
			time.AfterFunc(time.Second, func() { cancel(gone) })
			began := time.Now()
			m := scripted(stalls(ignore, partial("well")))
			_, err := newGuarded(t, watchdogadk.New(limits), m).ask(ctx, "go")
			require.ErrorIs(t, err, gone)
			assert.LessOrEqual(t, time.Since(began), 6*time.Second+2)
			assert.NotZero(t, usage(wd, watchdog.TokensExceeded).Used, "it may be billed")
			assert.Nil(t, wd.Stop())
			time.Sleep(2 * time.Hour)
		})
	}
}

// TestModelUnread checks that the caller of the runner may leave in the middle of a stream.
func TestModelUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
		g, left := watchdogadk.New(limits), false
		m := scripted(func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
			return func(yield func(*model.LLMResponse, error) bool) {
				for yield(partial("a"), nil) {
					time.Sleep(time.Second)
				}
				left = true
			}
		})
		for r, err := range g.Model(m).GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
			require.NoError(t, err)
			assert.True(t, r.Partial)
			break
		}
		assert.True(t, left, "the model was told, and had ended")
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
		assert.NotZero(t, usage(wd, watchdog.TokensExceeded).Used, "it may be billed")
	})
}

// TestModelReaderPanics checks that a reader that panics leaves neither a goroutine nor an open charge.
func TestModelReaderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
		m := watchdogadk.New(limits).Model(scripted(stalls(0, partial("a"))))
		assert.PanicsWithValue(t, "boom", func() {
			for range m.GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
				panic("boom")
			}
		})
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
	})
}

// A googleScript is a model of Google, which can be asked for live sessions.
type googleScript struct{ script }

func (*googleScript) GetGoogleLLMVariant() genai.Backend { return genai.BackendVertexAI }
func (*googleScript) Client() *genai.Client              { return &genai.Client{} }

// TestModelKinds checks that the SDK finds in a guarded model what it asks a model for.
func TestModelKinds(t *testing.T) {
	type (
		variant interface{ GetGoogleLLMVariant() genai.Backend }
		client  interface{ Client() *genai.Client }
	)
	g := watchdogadk.New(limits)
	plain, live := g.Model(scripted()), g.Model(&googleScript{})
	assert.Equal(t, "scripted", plain.Name())
	assert.NotImplements(t, (*variant)(nil), plain)
	assert.NotImplements(t, (*client)(nil), plain)
	assert.Equal(t, genai.BackendVertexAI, live.(variant).GetGoogleLLMVariant())
	assert.NotNil(t, live.(client).Client())
	onlyVariant := g.Model(struct {
		model.LLM
		variant
	}{scripted(), &googleScript{}})
	assert.Implements(t, (*variant)(nil), onlyVariant)
	assert.NotImplements(t, (*client)(nil), onlyVariant)
	for _, m := range []model.LLM{plain, live, onlyVariant} {
		assert.Same(t, m, g.Model(m), "it is wrapped once")
	}
}

// TestModelSpend checks what a call counts.
func TestModelSpend(t *testing.T) {
	boom, busy := errors.New("boom"), genai.APIError{Code: http.StatusTooManyRequests}
	for _, c := range []struct {
		name           string
		turn           turn
		used           int64
		errors         int64
		err            error
		admittedCounts bool
	}{
		{name: "what the answer says", turn: answers(0, used(whole(genai.NewPartFromText("a")), 100, 20)), used: 120},
		{
			name: "what the last piece says", used: 105,
			turn: answers(0, used(partial("a"), 100, 2), used(whole(genai.NewPartFromText("abc")), 100, 5)),
		},
		{
			name: "thoughts and the results of tools", used: 15,
			turn: answers(0, &model.LLMResponse{
				Content: genai.NewContentFromText("a", genai.RoleModel), TurnComplete: true,
				UsageMetadata: &genai.GenerateContentResponseUsageMetadata{
					PromptTokenCount: 1, ToolUsePromptTokenCount: 2, CandidatesTokenCount: 4, ThoughtsTokenCount: 8,
				},
			}),
		},
		{name: "an answer that says nothing counts as admitted", turn: says("a"), admittedCounts: true},
		{name: "a failure before an answer is free", turn: fails(boom), err: boom, errors: 1},
		{
			name: "a failure within an answer counts as admitted", turn: fails(boom, partial("a")), err: boom, errors: 1,
			admittedCounts: true,
		},
		{name: "or as it says", turn: fails(boom, used(partial("a"), 7, 1)), err: boom, errors: 1, used: 8},
		{name: "what goes away by itself is no error", turn: fails(busy), err: busy},
		{
			name: "a response that is none is an error", errors: 1, used: 3,
			turn: answers(0, used(&model.LLMResponse{ErrorCode: "SAFETY"}, 3, 0)),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000, Errors: 5}})
			cfg := watchdogadk.Config{MaxOutput: 400}
			_, err := newGuarded(t, watchdogadk.New(cfg), scripted(c.turn)).ask(wd.Context(), "go")
			if c.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err.Error())
			}
			tokens := usage(wd, watchdog.TokensExceeded)
			if c.admittedCounts {
				assert.Greater(t, tokens.Used, int64(1024+400), "the envelope and the output, besides the request")
				assert.Less(t, tokens.Used, int64(2048+400))
			} else {
				assert.Equal(t, c.used, tokens.Used)
			}
			assert.Zero(t, tokens.Admitted)
			assert.Equal(t, c.errors, usage(wd, watchdog.ErrorsExceeded).Used)
		})
	}
}

// TestModelAdmits checks what a call is admitted with: the bytes of everything that is in the request, and the most
// that it may answer.
func TestModelAdmits(t *testing.T) {
	const size = 1000
	long := strings.Repeat("x", size)
	of := func(p *genai.Part) *model.LLMRequest {
		return &model.LLMRequest{Contents: []*genai.Content{nil, {Parts: []*genai.Part{nil, p}}}}
	}
	config := func(cfg genai.GenerateContentConfig) *model.LLMRequest { return &model.LLMRequest{Config: &cfg} }
	admitted := func(t *testing.T, req *model.LLMRequest) (tokens int64) {
		t.Helper()
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
		m := scripted(func(ctx context.Context, req *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
			tokens = usage(wd, watchdog.TokensExceeded).Admitted
			return says("ok")(ctx, req)
		})
		for _, err := range watchdogadk.New(limits).Model(m).GenerateContent(wd.Context(), req, true) {
			require.NoError(t, err)
		}
		return tokens
	}
	empty := admitted(t, &model.LLMRequest{})
	for name, req := range map[string]*model.LLMRequest{
		"text":       of(genai.NewPartFromText(long)),
		"data":       of(genai.NewPartFromBytes([]byte(long), "image/png")),
		"a call":     of(genai.NewPartFromFunctionCall("look", map[string]any{"at": long})),
		"an answer":  of(genai.NewPartFromFunctionResponse("look", map[string]any{"at": long})),
		"a thought":  of(&genai.Part{ThoughtSignature: []byte(long)}),
		"code":       of(genai.NewPartFromExecutableCode(long, genai.LanguagePython)),
		"its output": of(genai.NewPartFromCodeExecutionResult(genai.OutcomeOK, long)),
		"the system's instruction": config(genai.GenerateContentConfig{
			SystemInstruction: genai.NewContentFromText(long, genai.RoleUser),
		}),
		"a tool": config(genai.GenerateContentConfig{Tools: []*genai.Tool{
			{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "look", Description: long}}},
		}}),
		"a schema":           config(genai.GenerateContentConfig{ResponseSchema: &genai.Schema{Description: long}}),
		"the output":         config(genai.GenerateContentConfig{MaxOutputTokens: size}),
		"output of many":     config(genai.GenerateContentConfig{MaxOutputTokens: size / 4, CandidateCount: 4}),
		"a schema as a text": config(genai.GenerateContentConfig{ResponseJsonSchema: long}),
	} {
		more := admitted(t, req) - empty
		assert.GreaterOrEqual(t, more, int64(size), name)
		assert.Less(t, more, int64(size+200), name)
	}
}
