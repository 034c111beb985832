package sqlite_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestHostLost has a sweeper say why each of six runs ended: one whose lease expired, one that its process claimed
// back, one that an earlier version claimed back, one whose lease an earlier version expired, one that a program
// without leases had taken over, and one that never had a lease.
func TestHostLost(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	db := openPlain(t, file)
	ctx := t.Context()
	dead := session.Lease{ID: "lease-dead", Host: "host-1", Promise: time.Minute, Beat: 1}
	live := session.Lease{ID: "lease-live", Host: "host-2", Promise: time.Minute, Beat: 1}
	require.NoError(t, s.BeginLease(ctx, dead))
	require.NoError(t, s.BeginLease(ctx, live))
	for _, runID := range []string{"dead", "back", "back before", "dead before", "over"} {
		_, _, err := s.Attach(ctx, session.Session{RunID: runID, StartedAt: noon, Lease: dead.ID})
		require.NoError(t, err)
	}
	_, _, err := s.Attach(ctx, session.Session{RunID: "never", StartedAt: noon})
	require.NoError(t, err)
	mustExec(t, db, "UPDATE watchdog_sessions SET attempt = 2, threshold = 0 WHERE run_id = 'over'")
	dead.Looks, dead.RenewedAt, dead.Lost = 4, noon.Add(time.Microsecond), true
	_, left, err := s.ExpireLease(ctx, dead)
	require.NoError(t, err)
	require.Zero(t, left)
	_, err = s.Freshen(ctx, live.ID, []session.Freshness{{RunID: "back", Attempt: 1, Activity: time.Second, Quiet: true}})
	require.NoError(t, err)
	live.Beat, live.Clock, live.Vouched = 2, 2*time.Hour, 2*time.Hour
	mustExec(t, db,
		"UPDATE watchdog_sessions SET expired_lease = NULL WHERE run_id = 'dead before'",
		`UPDATE watchdog_sessions SET lease = 'lease-live', leased = attempt, threshold = 9223372036854775807,
			own_threshold = 0, activity = 1, quiet_since = 1 WHERE run_id = 'back before'`,
		`UPDATE watchdog_sessions SET created_at = '2026-03-04 12:00:00.000000',
			last_event_at = '2026-03-04 12:00:00.000000'`)
	require.NoError(t, s.RenewLease(ctx, live))
	for runID, want := range map[string]session.ExpiredLease{
		"dead": {ID: dead.ID, Looks: 4, RenewedAt: dead.RenewedAt}, "dead before": {}, "back": {}, "back before": {},
		"over": {}, "never": {},
	} {
		row, err := s.Session(ctx, runID)
		require.NoError(t, err)
		assert.Equal(t, want, row.Expired, runID)
	}

	finder := struct{ sweep.Finder }{s} // neither can observe leases, which takes promises
	canceller := struct {
		sweep.Canceller
		session.BatchCanceller
	}{s, s}
	cfg := sweep.Config{StalledThreshold: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	sweeper, err := sweep.New(finder, canceller, cfg)
	require.NoError(t, err)
	p, err := sweeper.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 6, p.Cancelled)
	for runID, want := range map[string]watchdog.StopReason{
		"dead": watchdog.SessionHostLost, "dead before": watchdog.SessionHostLost, "back": watchdog.SessionIdleTimeout,
		"back before": watchdog.SessionIdleTimeout, "over": watchdog.SessionIdleTimeout,
		"never": watchdog.SessionIdleTimeout,
	} {
		row, err := s.Session(ctx, runID)
		require.NoError(t, err)
		assert.Equal(t, want, row.Reason, runID)
		events, err := s.Read(ctx, watchdog.AggregateType, runID)
		require.NoError(t, err)
		end := events[len(events)-1]
		_, reason := session.StoredEnd(end)
		assert.Equal(t, want, reason, runID)
		assert.Equal(t, runID == "dead", strings.Contains(string(end.Payload), `"lease":`), "%s: %s", runID, end.Payload)
	}
	page, err := s.List(ctx, session.ListQuery{Reason: watchdog.SessionHostLost, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 2)
}

// TestExpiredLeaseAdded: a table of a version before gets the column, and its rows are as they were.
func TestExpiredLeaseAdded(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	db := openPlain(t, file)
	ctx := t.Context()
	before, after, err := s.Attach(ctx, session.Session{RunID: "run-1", StartedAt: noon})
	require.NoError(t, err)
	require.Zero(t, before.Attempt)
	require.NoError(t, s.Close())
	mustExec(t, db, "ALTER TABLE watchdog_sessions DROP COLUMN expired_lease")
	s = openAt(t, file)
	row, err := s.Session(ctx, "run-1")
	require.NoError(t, err)
	require.Equal(t, after, row)
	l := session.Lease{ID: "lease-1", Promise: time.Minute, Beat: 1, Looks: 4, RenewedAt: noon}
	require.NoError(t, s.BeginLease(ctx, l))
	_, _, err = s.Attach(ctx, session.Session{RunID: "run-1", StartedAt: noon, Lease: l.ID})
	require.NoError(t, err)
	_, _, err = s.ExpireLease(ctx, l)
	require.NoError(t, err)
	row, err = s.Session(ctx, "run-1")
	require.NoError(t, err)
	require.Equal(t, session.ExpiredLease{ID: "lease-1", Looks: 4, RenewedAt: noon}, row.Expired)
}
