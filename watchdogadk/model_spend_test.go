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

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestModelRefused checks that a call that does not fit is not made, and with a reserve only to wrap up.
func TestModelRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		reserve int64
		made    int
	}{{name: "without a reserve", made: 2}, {name: "with one", reserve: 1, made: 3}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quiet(t)
				wd := newRun(t, watchdog.Budget{
					Spend: watchdog.Spend{Requests: 2 + c.reserve, Reserve: watchdog.Totals{Requests: c.reserve}},
				})
				m := scripted(calls("look"), calls("look"), calls("look"), calls("look"))
				s := newGuarded(t, watchdogadk.New(watchdogadk.Config{}), m,
					toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
						time.Sleep(time.Second) // what the run asks for is on record
						return map[string]any{"at": time.Now().String()}, nil
					}))
				_, err := s.ask(wd.Context(), "go")
				var refused *watchdog.Refused
				require.ErrorAs(t, err, &refused)
				assert.Equal(t, c.made, m.count())
				if c.reserve > 0 {
					assert.Contains(t, m.asked(2), "Call no more tools")
				}
				<-wd.Context().Done()
				require.ErrorIs(t, context.Cause(wd.Context()), watchdog.RequestsExceeded)
			})
		})
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

// TestModelSettles checks that a call counts before the tools that it asks for run, though its stream is still open.
func TestModelSettles(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
	looked := false
	ask := used(whole(genai.NewPartFromFunctionCall("look", map[string]any{})), 100, 20)
	m := scripted(answers(0, ask), answers(0, used(whole(genai.NewPartFromText("done")), 1, 1)))
	s := newGuarded(t, watchdogadk.New(limits), m,
		toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
			looked = true
			assert.EqualValues(t, 120, usage(wd, watchdog.TokensExceeded).Used)
			assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
			return map[string]any{}, nil
		}))
	_, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.True(t, looked)
}
