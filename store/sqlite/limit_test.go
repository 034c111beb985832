package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A row that became unreadable since it was judged is never cancelled.
func TestUnreadableThenCancel(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	s := newStore(t, db)
	judged := attach(t, s, "run-1", "", 0)
	mustExec(t, db, "UPDATE watchdog_sessions SET created_at = 'yesterday'")
	outcome, err := s.Cancel(t.Context(), judged, session.CancelRequest{
		Reason: watchdog.SessionIdleTimeout, Events: []watchdog.Event{ofType(1, watchdog.EventCancel)},
	})
	require.NoError(t, err)
	assert.Equal(t, session.Changed, outcome)
}

// Of two activities of one attempt in a batch that are equal the later one counts.
func TestFreshenEqual(t *testing.T) {
	t.Parallel()
	s := newStore(t, openPlain(t, newFile(t)))
	beginLease(t, s, "lease-1")
	attach(t, s, "run-1", "lease-1", 0)
	require.NoError(t, s.RenewLease(t.Context(), session.Lease{ID: "lease-1", Beat: 2, Vouched: time.Hour}))
	f := session.Freshness{RunID: "run-1", Attempt: 1, Activity: time.Minute}
	quiet := f
	quiet.Quiet = true
	for _, c := range []struct {
		fresh   []session.Freshness
		silence time.Duration
	}{{[]session.Freshness{f, quiet}, 59 * time.Minute}, {[]session.Freshness{quiet, f}, 0}} {
		_, err := s.Freshen(t.Context(), "lease-1", c.fresh)
		require.NoError(t, err)
		assert.Equal(t, c.silence, rowOf(t, s, "run-1").Silence)
	}
}
