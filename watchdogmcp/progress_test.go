package watchdogmcp_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// report works for ten minutes, tells its progress every 30 seconds, and answers with its token.
func report(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for n := range 20 {
		time.Sleep(30 * time.Second)
		if err := progress(ctx, req, n); err != nil {
			return nil, err
		}
	}
	token, _ := req.Params.GetProgressToken().(string)
	return answer(token), nil
}

// TestProgress checks that progress renews a call, whose the token is, and what the host is shown of it.
func TestProgress(t *testing.T) {
	var shown []any
	handler := func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		shown = append(shown, req.Params.ProgressToken)
	}
	for _, c := range []struct {
		name  string
		meta  mcp.Meta
		show  bool
		token any // that the host is shown, "watchdog-" for one of the guard
		count int
	}{
		{name: "without a token of the host"},
		{name: "which the host may see", show: true, token: "watchdog-", count: 20},
		{name: "with a token of the host", meta: mcp.Meta{"progressToken": "mine"}, token: "mine", count: 20},
		{name: "that is a number", meta: mcp.Meta{"progressToken": 7, "more": "x"}, token: 7.0, count: 20},
		{name: "that is a large number", meta: mcp.Meta{"progressToken": int64(1) << 40}, token: float64(1 << 40), count: 20},
	} {
		for _, protocol := range protocols {
			bubble(t, c.name+" in "+protocol, func(t *testing.T) {
				shown = nil
				f := &fixture{
					guard:    watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}, ShowProgress: c.show},
					client:   mcp.ClientOptions{ProgressNotificationHandler: handler},
					protocol: protocol, tools: map[string]tool{"report": report},
				}
				session := f.connect(t)
				wd := newRun(t, watchdog.Budget{})
				params := &mcp.CallToolParams{Name: "report", Meta: c.meta}
				before := len(c.meta)
				result, err := session.CallTool(wd.Context(), params)
				require.NoError(t, err)
				require.False(t, result.IsError, textOf(t, result))
				if protocol == protocols[0] { // the SDK adds to the caller's with the other one
					assert.Len(t, params.Meta, before, "what the caller gave is not changed")
				}
				if c.meta == nil {
					assert.Nil(t, params.GetProgressToken())
					assert.Regexp(t, "^watchdog-[A-Z2-7]+-1$", textOf(t, result))
				}
				synctest.Wait()
				require.Len(t, shown, c.count)
				for _, token := range shown {
					if c.token == "watchdog-" {
						assert.True(t, strings.HasPrefix(token.(string), "watchdog-"))
						continue
					}
					assert.Equal(t, c.token, token)
				}
			})
		}
	}
}

// TestProgressOfOthers checks that a call lives by its own progress alone, and that the progress of a call that was
// given up is shown to nobody.
func TestProgressOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := 0
		f := &fixture{
			guard: watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}},
			client: mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
				shown++
			}},
			tools: map[string]tool{
				"report": report,
				"hang":   tools["hang"],
				"late": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					time.Sleep(2 * time.Minute)
					return answer("late"), progress(context.Background(), req, 1)
				},
			},
		}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{})
		lived := make(chan bool)
		go func() {
			result, err := f.use(wd.Context(), "report")
			lived <- err == nil && !result.IsError
		}()
		for _, tool := range []string{"hang", "late"} {
			result, err := f.use(wd.Context(), tool)
			require.NoError(t, err)
			assert.Contains(t, textOf(t, result), "no sign of life for its limit of 1m0s")
		}
		assert.True(t, <-lived)
		assert.Zero(t, shown)
	})
}

// TestProgressOfEqualTokens checks that calls to which a host gave one token at once live by it both.
func TestProgressOfEqualTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{
			guard: watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}},
			tools: map[string]tool{"report": report, "silent": tools["silent"], "answer": tools["answer"]},
		}
		session := f.connect(t)
		wd := newRun(t, watchdog.Budget{})
		call := func(tool string) *mcp.CallToolResult {
			result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{
				Name: tool, Meta: mcp.Meta{"progressToken": "both"},
			})
			require.NoError(t, err)
			return result
		}
		go func() { assert.False(t, call("report").IsError) }()
		synctest.Wait()
		assert.False(t, call("answer").IsError, "whose end is not that of the others")
		began := time.Now()
		assert.True(t, call("silent").IsError)
		assert.InDelta(t, 11*time.Minute, time.Since(began), 2, "a minute after the last progress")
	})
}

// TestProgressOfSessions checks that equal tokens in two sessions are two tokens, and that calls that have ended are not
// remembered.
func TestProgressOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := watchdogmcp.New(watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}})
		wd := newRun(t, watchdog.Budget{})
		failed := make(chan bool, 2)
		for _, name := range []string{"report", "silent"} {
			f := &fixture{shared: guard, tools: map[string]tool{"report": report, "silent": tools["silent"]}}
			session := f.connect(t)
			go func() {
				result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: name, Meta: mcp.Meta{"progressToken": 1}})
				assert.NoError(t, err)
				failed <- result.IsError
			}()
			synctest.Wait()
		}
		assert.Equal(t, 2, guard.Followed())
		assert.True(t, <-failed, "the silent one, after a minute")
		assert.Equal(t, 1, guard.Followed())
		assert.False(t, <-failed)
		assert.Zero(t, guard.Followed())
	})
}

// TestProgressWithoutToken checks that what is no token, and progress that nobody asked for, harm nobody.
func TestProgressWithoutToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: map[string]tool{
			"odd": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for _, token := range []any{nil, map[string]any{"a": 1}, []any{1}, true, "unknown", 1.5} {
					err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token})
					if err != nil {
						return nil, err
					}
				}
				return answer("ok"), nil
			},
		}}
		session := f.connect(t)
		for _, token := range []any{nil, map[string]any{"a": 1}, true} {
			result, err := session.CallTool(newRun(t, watchdog.Budget{}).Context(), &mcp.CallToolParams{
				Name: "odd", Meta: mcp.Meta{"progressToken": token},
			})
			require.NoError(t, err)
			assert.Equal(t, "ok", textOf(t, result))
		}
	})
}
