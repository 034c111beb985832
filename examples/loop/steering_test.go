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
		s.Tell(retry)
		require.ErrorIs(t, context.Cause(ctx), loop.ErrDirected)
	})
	t.Run("one that came between two requests ends the next, until it is heeded", func(t *testing.T) {
		var s loop.Steering
		s.Tell(retry)
		ctx, done := s.Steer(t.Context())
		require.ErrorIs(t, context.Cause(ctx), loop.ErrDirected)
		done()
		s.Heeded(retry)
		ctx, done = s.Steer(t.Context())
		defer done()
		require.NoError(t, ctx.Err())
	})
	t.Run("one that was heeded before it was told does not end a request", func(t *testing.T) {
		var s loop.Steering
		s.Heeded(retry)
		ctx, done := s.Steer(t.Context())
		defer done()
		s.Tell(retry)
		require.NoError(t, ctx.Err())
	})
	t.Run("directives that one reader lost are made up for by what the other did not", func(t *testing.T) {
		var s loop.Steering
		s.Tell(retry)
		s.Tell(retry)
		s.Heeded(watchdog.Directive{Kind: watchdog.DirectiveRetry, Dropped: 1})
		ctx, done := s.Steer(t.Context())
		defer done()
		require.NoError(t, ctx.Err())
	})
	t.Run("a cancel is the run's own business", func(t *testing.T) {
		var s loop.Steering
		ctx, done := s.Steer(t.Context())
		defer done()
		s.Tell(watchdog.Directive{Kind: watchdog.DirectiveCancel})
		require.NoError(t, ctx.Err())
	})
}
