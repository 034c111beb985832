package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestMemoryClone(t *testing.T) {
	ctx := t.Context()
	m := &session.Memory{}
	require.NoError(t, m.BeginLease(ctx, session.Lease{ID: "l-1", Beat: 1}))
	_, _, err := m.Attach(ctx, session.Session{RunID: "s-1", Lease: "l-1"})
	require.NoError(t, err)
	event := watchdog.Event{
		ID: "1", AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: "note", Payload: []byte(`{}`),
		Timestamp: time.Now(),
	}
	require.NoError(t, m.Append(ctx, event))
	c := m.Clone()

	require.NoError(t, m.RenewLease(ctx, session.Lease{ID: "l-1", Beat: 2}))
	_, _, err = m.Attach(ctx, session.Session{RunID: "s-1", Lease: "l-1"})
	require.NoError(t, err)
	event.ID = "2"
	require.NoError(t, m.Append(ctx, event))

	events, err := c.Read(ctx, watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	require.Len(t, events, 1)
	row, err := c.Session(ctx, "s-1")
	require.NoError(t, err)
	require.Equal(t, 1, row.Attempt)
	leases, err := c.ObserveLeases(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), leases[0].Beat)

	expired, _, err := c.ExpireLease(ctx, session.Lease{ID: "l-1", Beat: 1})
	require.NoError(t, err)
	require.True(t, expired)
	require.ErrorIs(t, c.RenewLease(ctx, session.Lease{ID: "l-1", Beat: 3}), session.ErrLeaseExpired)
	require.NoError(t, m.RenewLease(ctx, session.Lease{ID: "l-1", Beat: 3}))
}

func TestMemoryLocked(t *testing.T) {
	ctx := t.Context()
	locked := true
	m := &session.Memory{Locked: func(runID string) bool { return locked && runID == "s-1" }}
	require.NoError(t, m.BeginLease(ctx, session.Lease{ID: "l-1", Beat: 1}))
	var judged session.Session
	for _, runID := range []string{"s-1", "s-2"} {
		_, s, err := m.Attach(ctx, session.Session{RunID: runID, Lease: "l-1"})
		require.NoError(t, err, "there was no row to lock")
		if runID == "s-1" {
			judged = s
		}
	}
	_, _, err := m.Attach(ctx, judged)
	require.ErrorIs(t, err, session.ErrLocked)
	skipped, err := m.Freshen(ctx, "l-1", []session.Freshness{{RunID: "s-1", Attempt: 1}, {RunID: "s-2", Attempt: 1}})
	require.NoError(t, err)
	require.Equal(t, session.Skipped{Locked: []string{"s-1"}}, skipped)
	_, err = m.Claim(ctx, judged, session.ClaimRequest{})
	require.ErrorIs(t, err, session.ErrLocked)
	skipped, err = m.End(ctx, []session.Ending{{RunID: "s-1", Attempt: 1, Status: session.Finished}})
	require.NoError(t, err)
	require.Equal(t, []string{"s-1"}, skipped.Locked)
	expired, left, err := m.ExpireLease(ctx, session.Lease{ID: "l-1", Beat: 1})
	require.NoError(t, err)
	require.True(t, expired)
	require.Equal(t, 1, left)
	locked = false
	_, left, err = m.ExpireLease(ctx, session.Lease{ID: "l-1", Beat: 1})
	require.NoError(t, err)
	require.Zero(t, left)
}
