package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMemory(t *testing.T) {
	t.Run("of sessions", func(t *testing.T) {
		sessiontest.Run(t, func(*testing.T) session.Store { return new(session.Memory) })
	})
	t.Run("of sessions, with an outbox", func(t *testing.T) {
		sessiontest.Run(t, func(*testing.T) session.Store { return &session.Memory{Outbox: true} })
	})
	t.Run("of events", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) watchdog.EventStore { return new(session.Memory) })
	})
	t.Run("of shared limits", func(t *testing.T) {
		storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return new(session.Memory) })
	})
}

// A standing clock shows the time that a test sets.
type standing struct{ now time.Time }

func (c *standing) Now() time.Time { return c.now }

// A reason is counted as the databases count it: a text in a field of exactly that name.
func TestMemoryForeignHistory(t *testing.T) {
	m, at := new(session.Memory), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for id, payload := range map[string]string{"1": `{"reason":"a"}`, "2": `{"Reason":"a"}`, "3": `{"reason":5}`} {
		require.NoError(t, m.Append(t.Context(), watchdog.Event{
			ID: id, AggregateType: watchdog.AggregateType, AggregateID: "run-1", Type: watchdog.EventCancel,
			Payload: []byte(payload), Timestamp: at,
		}))
	}
	counts, err := m.History(t.Context(), session.HistoryQuery{From: at, To: at.Add(time.Second), By: session.ByReason})
	require.NoError(t, err)
	require.Equal(t, []session.CancelCount{{Key: "", Count: 2}, {Key: "a", Count: 1}}, counts)
}

func TestMemoryInvalid(t *testing.T) {
	m := new(session.Memory)
	_, err := m.Stalled(t.Context(), session.Query{})
	require.ErrorContains(t, err, "ask for at least 1")
	_, err = m.Stalled(t.Context(), session.Query{Limit: 1, After: "nowhere"})
	require.ErrorContains(t, err, "nowhere")
	_, err = m.End(t.Context(), []session.Ending{{RunID: "run-1", Attempt: 1, Status: session.Active}})
	require.ErrorContains(t, err, `"active" is not how an attempt ends`)
	require.NoError(t, m.Append(t.Context(), watchdog.Event{
		ID: "1", AggregateType: watchdog.AggregateType, AggregateID: "run-1", Type: watchdog.EventCancel,
		Payload: []byte("{}"), Timestamp: time.Unix(0, 0),
	}))
	_, err = m.History(t.Context(), session.HistoryQuery{To: time.Unix(1, 0), By: "weather"})
	require.ErrorContains(t, err, "weather")
}

var cancelRequest = session.CancelRequest{Reason: watchdog.SessionIdleTimeout, Events: []watchdog.Event{{
	ID: "end-1", AggregateType: watchdog.AggregateType, AggregateID: "run-1", Type: watchdog.EventCancel,
	Payload: []byte(`{"reason":"idle_timeout"}`), Timestamp: time.Unix(0, 0),
}}}

func TestMemoryUnreadable(t *testing.T) {
	m := new(session.Memory)
	require.NoError(t, m.Put(t.Context(), session.Session{RunID: "run-1", Status: session.Active, Attempt: 1}))
	require.NoError(t, m.Spoil(t.Context(), "run-1"))
	outcome, err := m.Cancel(t.Context(), session.Session{RunID: "run-1", Attempt: 1}, cancelRequest)
	require.NoError(t, err)
	require.Equal(t, session.Changed, outcome)
}

// A page of a list has at most its limit of rows, those that cannot be read among them. They take no place on the first
// page of the stalled.
func TestMemoryUnreadablePages(t *testing.T) {
	m, old := new(session.Memory), time.Unix(0, 0).UTC()
	for _, runID := range []string{"run-1", "run-2", "run-3"} {
		require.NoError(t, m.Put(t.Context(), session.Session{RunID: runID, Status: session.Active, CreatedAt: old}))
	}
	require.NoError(t, m.Spoil(t.Context(), "run-2"))
	for after, left := "", 3; left > 0; left-- {
		page, err := m.List(t.Context(), session.ListQuery{Limit: 1, After: after})
		require.NoError(t, err)
		require.Equal(t, 1, len(page.Sessions)+len(page.Unreadable))
		require.Equal(t, left == 1, page.Next == "")
		after = page.Next
	}
	first, err := m.Stalled(t.Context(), session.Query{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "run-1", first.Sessions[0].RunID)
	require.Len(t, first.Unreadable, 1)
	next, err := m.Stalled(t.Context(), session.Query{Limit: 1, After: first.Next})
	require.NoError(t, err)
	require.Equal(t, "run-3", next.Sessions[0].RunID)
	require.Empty(t, next.Next)
	require.Empty(t, next.Unreadable)
}

// A warning of a session without a lease is void when its run's end is at a later time than the row's, as in SQL.
func TestMemoryEndVoidsWarning(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := &session.Memory{Clock: func() time.Time { return now }}
	_, s, err := m.Attach(ctx, session.Session{RunID: "s-1"})
	require.NoError(t, err)
	now = now.Add(time.Hour)
	outcome, err := m.Warn(ctx, s, nil)
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
	_, err = m.End(ctx, []session.Ending{{RunID: "s-1", Attempt: 1, Status: session.Interrupted}})
	require.NoError(t, err)
	s, err = m.Session(ctx, "s-1")
	require.NoError(t, err)
	require.Equal(t, now, s.LastEventAt)
	require.Zero(t, s.WarnedAt)
}

// A lease that there is none of expires no session without a lease.
func TestMemoryExpiresNoLease(t *testing.T) {
	ctx := t.Context()
	m := &session.Memory{}
	_, before, err := m.Attach(ctx, session.Session{RunID: "s-1"})
	require.NoError(t, err)
	for _, id := range []string{"", "l-1"} {
		expired, left, err := m.ExpireLease(ctx, session.Lease{ID: id, Lost: true})
		require.NoError(t, err)
		require.True(t, expired)
		require.Zero(t, left)
	}
	after, err := m.Session(ctx, "s-1")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

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
		require.Empty(t, claimAll(t, m))
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
		require.Equal(t, []session.Notice{want}, claimAll(t, m))
		clock.now = clock.now.Add(time.Minute - time.Microsecond)
		require.Empty(t, claimAll(t, m))
		clock.now = clock.now.Add(time.Microsecond)
		want.Tries = 2
		require.Equal(t, []session.Notice{want}, claimAll(t, m))
		require.NoError(t, m.DelayNotice(t.Context(), want, 24*time.Hour))
		clock.now = clock.now.Add(24*time.Hour - time.Microsecond)
		require.Empty(t, claimAll(t, m))
		clock.now = clock.now.Add(time.Microsecond)
		require.Len(t, claimAll(t, m), 1)
	})
	t.Run("has no notice of an end whose ID another event has", func(t *testing.T) {
		m := &session.Memory{Outbox: true}
		note := end
		note.AggregateType, note.AggregateID = "another", "theirs"
		require.NoError(t, m.Append(t.Context(), note, end))
		require.NoError(t, m.Append(t.Context(), end))
		require.Empty(t, claimAll(t, m))
	})
	t.Run("of a copy is a copy, and knows what is stored", func(t *testing.T) {
		m := &session.Memory{Outbox: true}
		require.NoError(t, m.Append(t.Context(), end))
		c := m.Clone()
		require.NoError(t, m.FinishNotices(t.Context(), claimAll(t, m)...))
		copied := claimAll(t, c)
		require.Len(t, copied, 1)
		require.Equal(t, 1, copied[0].Tries)
		require.NoError(t, c.FinishNotices(t.Context(), copied...))
		require.NoError(t, c.Append(t.Context(), end))
		require.Empty(t, claimAll(t, c))
	})
}

// claimAll claims for a minute.
func claimAll(t *testing.T, box session.Outbox) []session.Notice {
	t.Helper()
	claimed, err := box.ClaimNotices(t.Context(), 100, time.Minute)
	require.NoError(t, err)
	return claimed
}

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

// What a caller does to a lease that it wrote or read changes no other.
func TestMemoryLeaseIsCopied(t *testing.T) {
	ctx := t.Context()
	m := &session.Memory{}
	want := session.RowBehind{RunID: "s-1", Attempt: 1, Written: 1}
	behind := func() session.RowBehind {
		leases, err := m.ObserveLeases(ctx, nil)
		require.NoError(t, err)
		got := leases[0].Behind[0]
		leases[0].Behind[0].RunID = "read"
		return got
	}
	written := session.Lease{ID: "l-1", Beat: 1, Covered: 1, Behind: []session.RowBehind{want}}
	require.NoError(t, m.BeginLease(ctx, written))
	written.Behind[0].RunID = "written"
	require.Equal(t, want, behind())
	require.Equal(t, want, behind())
}
