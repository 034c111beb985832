package main_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	loop "github.com/seed62658d38/watchdog/examples/loop"
)

func TestSteering(t *testing.T) {
	retry := watchdog.Directive{Kind: watchdog.DirectiveRetry}
	t.Run("a directive ends the request under way", func(t *testing.T) {
		var s loop.Steering
		ctx, done := s.Steer(t.Context())
		defer done()
		require.NoError(t, ctx.Err())
		s.Notify(retry)
		require.ErrorIs(t, context.Cause(ctx), loop.ErrDirected)
	})
	t.Run("a directive between two requests ends the next ones until it is polled", func(t *testing.T) {
		var s loop.Steering
		s.Notify(retry)
		ctx, done := s.Steer(t.Context())
		require.ErrorIs(t, context.Cause(ctx), loop.ErrDirected)
		done()
		s.Polled(retry)
		ctx, done = s.Steer(t.Context())
		defer done()
		require.NoError(t, ctx.Err())
	})
	t.Run("a directive polled before its notification ends no request", func(t *testing.T) {
		var s loop.Steering
		s.Polled(retry)
		ctx, done := s.Steer(t.Context())
		defer done()
		s.Notify(retry)
		require.NoError(t, ctx.Err())
	})
	t.Run("a poll counts the directives that it reports as dropped", func(t *testing.T) {
		var s loop.Steering
		s.Notify(retry)
		s.Notify(retry)
		s.Polled(watchdog.Directive{Kind: watchdog.DirectiveRetry, Dropped: 1})
		ctx, done := s.Steer(t.Context())
		defer done()
		require.NoError(t, ctx.Err())
	})
	t.Run("a cancel does not end a request: it ends the run", func(t *testing.T) {
		var s loop.Steering
		ctx, done := s.Steer(t.Context())
		defer done()
		s.Notify(watchdog.Directive{Kind: watchdog.DirectiveCancel})
		require.NoError(t, ctx.Err())
	})
}
