package watchdogadk_test

import (
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool/functiontool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// each yields pieces with a pause before each.
func each(pause time.Duration, yield func(string, error) bool, pieces ...string) bool {
	for _, piece := range pieces {
		if time.Sleep(pause); !yield(piece, nil) {
			return false
		}
	}
	return true
}

// TestStreamTool checks what the model is told of a tool that streams.
func TestStreamTool(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(ctx agent.Context, args map[string]any, yield func(string, error) bool)
		took time.Duration
		told string
	}{
		{
			name: "its pieces, each a sign of life", took: 3 * time.Minute, told: `{"result":"onetwothree"}`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				each(time.Minute, yield, "one", "two", "three")
			},
		},
		{
			name: "an error", took: time.Second, told: `{"error":"broken"}`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				if each(time.Second, yield, "one") {
					yield("", errors.New("broken"))
				}
			},
		},
		{
			name: "a hang after a piece", took: time.Minute + time.Second,
			told: `{"result":"one\nThe call of the tool "tail" was ended: it gave no sign of life for its limit of 1m0s. Parts`,
			run: func(ctx agent.Context, _ map[string]any, yield func(string, error) bool) {
				if each(time.Second, yield, "one") {
					<-ctx.Done()
					yield("late", nil)
				}
			},
		},
		{
			name: "a hang that ignores its context", took: time.Minute + 5*time.Second, told: `may still be running`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				each(time.Hour, yield, "much too late", "even later")
			},
		},
		{
			name: "pieces for ever", took: 10*time.Minute + 3*time.Second, told: `did not finish within its limit of 10m0s`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				for each(3*time.Second, yield, ".") {
				}
			},
		},
		{
			name: "a panic", told: `{"error":"the tool "tail" panicked`,
			run: func(agent.Context, map[string]any, func(string, error) bool) { panic("boom") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quiet(t)
				wd, m := newRun(t, watchdog.Budget{Idle: time.Second}), scripted(calls("tail"))
				s := newGuarded(t, watchdogadk.New(limits), m, streamOf("tail", c.run))
				began := time.Now()
				last, err := s.ask(wd.Context(), "go")
				require.NoError(t, err)
				assert.Equal(t, "done", last)
				within(t, c.took, time.Since(began))
				assert.Contains(t, unescaped(m.asked(1)), c.told)
				time.Sleep(3 * time.Hour)
				assert.NotContains(t, s.history(), "late")
			})
		})
	}
}

// TestStreamFunctionTool checks that the SDK's own streaming tools can be guarded, and ask for approval.
func TestStreamFunctionTool(t *testing.T) {
	tail, err := functiontool.NewStreaming(functiontool.Config{Name: "tail", RequireConfirmation: true},
		func(_ agent.Context, _ map[string]any) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) { each(0, yield, "one", "two") }
		})
	require.NoError(t, err)
	wd, m := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Errors: 1}}), scripted(calls("tail"))
	s := newGuarded(t, watchdogadk.New(limits), m, tail)
	_, err = s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, 1, m.count())
	assert.Zero(t, wd.Usage()[0].Used, "no error")
	_, err = s.answer(wd.Context(), "adk_request_confirmation", map[string]any{"confirmed": true})
	require.NoError(t, err)
	assert.Contains(t, m.asked(m.count()-1), "onetwo")
}

// TestStreamToolUnread checks that the reader of a stream may leave.
func TestStreamToolUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, sent := newRun(t, watchdog.Budget{}), 0
		tail := streamOf("tail", func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
			each(time.Second, func(piece string, err error) bool {
				sent++
				return yield(piece, err)
			}, "one", "two", "three")
		})
		g := watchdogadk.New(limits)
		var pieces []string
		m := scripted(calls("drive"))
		s := newGuarded(t, g, m, toolOf("drive", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			stream := g.Tool(tail).(interface {
				RunStream(agent.Context, any) iter.Seq2[string, error]
			})
			for piece, err := range stream.RunStream(ctx, map[string]any{}) {
				if pieces = append(pieces, piece); len(pieces) == 2 {
					return map[string]any{}, err
				}
			}
			return nil, nil
		}))
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, []string{"one", "two"}, pieces)
		assert.Equal(t, 2, sent, "the tool was told")
	})
}
