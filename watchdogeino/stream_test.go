package watchdogeino_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// stream calls the tool "hammer", as eino does.
func stream(
	ctx context.Context, t *testing.T, cfg watchdogeino.Config, run func(context.Context, func(string) bool) error,
) (*schema.StreamReader[string], error) {
	t.Helper()
	hammer := streamable{"hammer", run}
	call, err := watchdogeino.New(cfg).WrapStreamableToolCall(ctx, hammer.StreamableRun, &adk.ToolContext{Name: "hammer"})
	require.NoError(t, err)
	return call(ctx, `{}`)
}

// inBubble runs a subtest with a run of an idle of a minute.
func inBubble(t *testing.T, name string, test func(t *testing.T, wd *watchdog.Watchdog)) {
	t.Helper()
	bubble(t, name, func(t *testing.T) { test(t, newRun(t, watchdog.Budget{Idle: time.Minute})) })
}

func TestStream(t *testing.T) {
	silent := limits
	silent.Tools.Idle = time.Minute
	inBubble(t, "each piece is a sign of life", func(t *testing.T, wd *watchdog.Watchdog) {
		in, err := stream(wd.Context(), t, silent, func(_ context.Context, send func(string) bool) error {
			for range 8 {
				time.Sleep(time.Minute)
				send("nail")
			}
			return nil
		})
		require.NoError(t, err)
		all, err := pieces(in)
		require.NoError(t, err)
		assert.Len(t, all, 8)
	})
	inBubble(t, "the call lasts until the stream ends", func(t *testing.T, wd *watchdog.Watchdog) {
		began := time.Now()
		in, err := stream(wd.Context(), t, silent, func(ctx context.Context, send func(string) bool) error {
			send("nail")
			return until(ctx)
		})
		require.NoError(t, err)
		within(t, 0, time.Since(began))
		all, err := pieces(in)
		require.NoError(t, err)
		require.Len(t, all, 2)
		assert.Contains(t, all[1], "it gave no sign of life for its limit of 1m0s")
		within(t, time.Minute, time.Since(began))
		assert.Nil(t, wd.Stop())
	})
	inBubble(t, "a tool that ignores its context is told with its next piece", func(t *testing.T, wd *watchdog.Watchdog) {
		var sent atomic.Int64
		in, err := stream(wd.Context(), t, limits, func(_ context.Context, send func(string) bool) error {
			for closed := false; !closed; sent.Add(1) {
				time.Sleep(time.Minute - 2*time.Second)
				closed = send("nail")
			}
			return nil
		})
		require.NoError(t, err)
		all, err := pieces(in)
		require.NoError(t, err)
		require.Len(t, all, 11)
		assert.Contains(t, all[10], "within its limit of 10m0s")
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, sent.Load(), int64(13))
	})
	inBubble(t, "a slow reader is not a tool that hangs", func(t *testing.T, wd *watchdog.Watchdog) {
		in, err := stream(wd.Context(), t, silent, func(_ context.Context, send func(string) bool) error {
			for range 100 {
				send("nail")
			}
			return nil
		})
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wd.Activity()
		time.Sleep(59 * time.Second)
		all, err := pieces(in)
		require.NoError(t, err)
		assert.Len(t, all, 100)
		_, err = in.Recv()
		assert.Equal(t, io.EOF, err, "again")
		in.Close()
	})
	inBubble(t, "an error passes through, with what came before", func(t *testing.T, wd *watchdog.Watchdog) {
		boom := errors.New("boom")
		in, err := stream(wd.Context(), t, silent, func(_ context.Context, send func(string) bool) error {
			send("nail")
			return boom
		})
		require.NoError(t, err)
		all, err := pieces(in)
		assert.Equal(t, boom, err)
		assert.Equal(t, []string{"nail"}, all)
		_, err = in.Recv()
		assert.Equal(t, io.EOF, err)
	})
	inBubble(t, "a reader that closes early ends the tool at once", func(t *testing.T, wd *watchdog.Watchdog) {
		ended := make(chan error, 1)
		in, err := stream(wd.Context(), t, silent, func(ctx context.Context, send func(string) bool) error {
			send("nail")
			ended <- until(ctx)
			return nil
		})
		require.NoError(t, err)
		_, err = in.Recv()
		require.NoError(t, err)
		in.Close()
		synctest.Wait()
		select {
		case why := <-ended:
			assert.ErrorContains(t, why, "the stream of the answer was closed")
		default:
			t.Error("the tool was not told")
		}
		assert.Nil(t, wd.Stop())
		time.Sleep(time.Minute + 1)
		assert.NotNil(t, wd.Stop(), "the hold is closed")
	})
	inBubble(t, "a reader that never comes holds nothing once the run is over", func(t *testing.T, wd *watchdog.Watchdog) {
		ctx, cancel := context.WithCancel(wd.Context())
		in, err := stream(ctx, t, silent, func(_ context.Context, send func(string) bool) error {
			send("nail")
			return nil
		})
		require.NoError(t, err)
		synctest.Wait()
		cancel()
		synctest.Wait() // the bubble fails if a goroutine is left
		_, err = in.Recv()
		require.ErrorIs(t, err, context.Canceled, "what was not read is not lost in silence")
		_, err = in.Recv()
		assert.Equal(t, io.EOF, err)
	})
}

// TestStreamPanics checks that a panic in a stream is one of its reader, and not the end of the process.
func TestStreamPanics(t *testing.T) {
	broken := func(any) (string, error) { panic("the handle broke") }
	for _, c := range []struct {
		name string
		open func(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error)
	}{
		{"before it begins", func(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error) {
			panic("the handle broke")
		}},
		{"within", func(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error) {
			return schema.StreamReaderWithConvert(schema.StreamReaderFromArray([]any{1}), broken), nil
		}},
	} {
		inBubble(t, c.name, func(t *testing.T, wd *watchdog.Watchdog) {
			call, err := watchdogeino.New(limits).WrapStreamableToolCall(wd.Context(), c.open, &adk.ToolContext{Name: "hammer"})
			require.NoError(t, err)
			assert.Panics(t, func() {
				in, err := call(wd.Context(), `{}`)
				require.NoError(t, err)
				_, _ = in.Recv()
			})
		})
	}
}
