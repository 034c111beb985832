package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// onOutbox are the calls of an outbox.
var onOutbox = map[string]func(ctx context.Context, box session.Outbox) error{
	"PutNotices": func(ctx context.Context, box session.Outbox) error {
		return box.PutNotices(ctx, session.Notice{ID: "1", AggregateType: "a", AggregateID: "b", Type: "c"})
	},
	"ClaimNotices": func(ctx context.Context, box session.Outbox) error {
		_, err := box.ClaimNotices(ctx, 1, time.Hour)
		return err
	},
	"FinishNotices": func(ctx context.Context, box session.Outbox) error { return box.FinishNotices(ctx) },
	"DelayNotice": func(ctx context.Context, box session.Outbox) error {
		return box.DelayNotice(ctx, session.Notice{ID: "1"}, time.Hour)
	},
}

func TestMemoryOutbox(t *testing.T) {
	end := cancelRequest.Events[0]
	t.Run("that is off keeps nothing, and says how to set it", func(t *testing.T) {
		m := new(session.Memory)
		require.NoError(t, m.Append(t.Context(), end))
		for name, call := range onOutbox {
			err := call(t.Context(), m)
			require.ErrorIs(t, err, session.ErrNoOutbox, name)
			require.ErrorContains(t, err, "set Outbox", name)
		}
		m.Outbox = true
		assert.Empty(t, claimAll(t, m))
	})
	t.Run("has notices due by the clock of the database", func(t *testing.T) {
		clock := &standing{time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
		m := &session.Memory{Clock: clock.Now, Outbox: true}
		put := clock.now
		require.NoError(t, m.Append(t.Context(), end))
		clock.now = put.Add(time.Hour)
		want := session.Notice{
			ID: "end-1", AggregateType: watchdog.AggregateType, AggregateID: "run-1", Type: watchdog.EventCancel,
			CreatedAt: put, Tries: 1,
		}
		assert.Equal(t, []session.Notice{want}, claimAll(t, m))
		clock.now = clock.now.Add(time.Minute - time.Microsecond)
		assert.Empty(t, claimAll(t, m))
		clock.now = clock.now.Add(time.Microsecond)
		want.Tries = 2
		assert.Equal(t, []session.Notice{want}, claimAll(t, m))
		require.NoError(t, m.DelayNotice(t.Context(), want, 24*time.Hour))
		clock.now = clock.now.Add(24*time.Hour - time.Microsecond)
		assert.Empty(t, claimAll(t, m))
		clock.now = clock.now.Add(time.Microsecond)
		assert.Len(t, claimAll(t, m), 1)
	})
	t.Run("has no notice of an end whose ID another event has", func(t *testing.T) {
		m := &session.Memory{Outbox: true}
		note := end
		note.AggregateType, note.AggregateID = "another", "theirs"
		require.NoError(t, m.Append(t.Context(), note, end))
		require.NoError(t, m.Append(t.Context(), end))
		assert.Empty(t, claimAll(t, m))
	})
	t.Run("of a copy is a copy, and knows what is stored", func(t *testing.T) {
		m := &session.Memory{Outbox: true}
		require.NoError(t, m.Append(t.Context(), end))
		c := m.Clone()
		require.NoError(t, m.FinishNotices(t.Context(), claimAll(t, m)...))
		copied := claimAll(t, c)
		require.Len(t, copied, 1)
		assert.Equal(t, 1, copied[0].Tries)
		require.NoError(t, c.FinishNotices(t.Context(), copied...))
		require.NoError(t, c.Append(t.Context(), end))
		assert.Empty(t, claimAll(t, c))
	})
}

// claimAll claims for a minute.
func claimAll(t *testing.T, box session.Outbox) []session.Notice {
	t.Helper()
	claimed, err := box.ClaimNotices(t.Context(), 100, time.Minute)
	require.NoError(t, err)
	return claimed
}
