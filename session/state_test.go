package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/session/sessiontest"
	"github.com/seed62658d38/watchdog/sweep"
)

// attachSpending has a run with the limits.
func (f *fixture) attachSpending(spend watchdog.Spend) *watchdog.Watchdog {
	f.Helper()
	cfg := f.config(f.keeper())
	cfg.Budget.Spend = spend
	cfg.Budget.Spend.Cost = watchdog.Money{Micros: 6_400_000, Currency: "EUR"}
	return f.attachAs("s-1", cfg)
}

// shows has the row of a run written with its next activity.
func (f *fixture) shows(wd *watchdog.Watchdog) {
	f.advance(time.Minute)
	wd.Activity()
	f.advance(time.Minute + awake)
}

func (f *fixture) state(runID string) (s session.State) {
	f.Helper()
	require.NoError(f, json.Unmarshal(f.row(runID).State, &s))
	return s
}

func TestSpendInRow(t *testing.T) {
	running(t, "shows what a run has used, with the activity that is written anyway", func(f *fixture) {
		wd := f.attachSpending(watchdog.Spend{Tokens: 1000, Tools: map[string]int64{"bash": 5}})
		bash := watchdog.Amount{
			InputTokens: 100, ToolCalls: 1, Tool: "bash", Cost: watchdog.Money{Micros: 50_000, Currency: "EUR"},
		}
		charge, err := wd.Admit(context.Background(), "", bash)
		require.NoError(f, err)
		require.NoError(f, charge.Settle(bash))
		_, err = wd.Admit(context.Background(), "", watchdog.Amount{OutputTokens: 30})
		require.NoError(f, err)
		f.shows(wd)
		require.JSONEq(f, `{"wall_clock_seconds":14400,"spent":[
			{"limit":"tokens","used":100,"admitted":30,"allowed":1000},
			{"limit":"cost","currency":"EUR","used":50000,"allowed":6400000},
			{"limit":"tool_calls","tool":"bash","used":1,"allowed":5}
		]}`, string(f.row("s-1").State))
	})
	running(t, "says where the run is warned and what is kept for wrapping up", func(f *fixture) {
		wd := f.attachSpending(watchdog.Spend{
			Tokens: 1000, CallInput: 500, Requests: 20, Reserve: watchdog.Totals{Tokens: 100}, WarnAt: []float64{0.9, 0.5},
		})
		f.shows(wd)
		require.Equal(f, []session.Spent{
			{Limit: "tokens", Allowed: 1000, Reserve: 100, WarnAt: []float64{0.5, 0.9}},
			{Limit: "call_input", Allowed: 500, WarnAt: []float64{}},
			{Limit: "cost", Currency: "EUR", Allowed: 6_400_000, WarnAt: []float64{0.5, 0.9}},
			{Limit: "requests", Allowed: 20, WarnAt: []float64{0.5, 0.9}},
		}, f.state("s-1").Spent)
	})
	running(t, "has a bounded number of warnings", func(f *fixture) {
		var at []float64
		for n := range 100 {
			at = append(at, float64(n+1)/101)
		}
		wd := f.attachSpending(watchdog.Spend{Tokens: 1000, WarnAt: at})
		f.shows(wd)
		require.Equal(f, at[len(at)-session.MaxWarnAt:], f.state("s-1").Spent[0].WarnAt, "those nearest to the limit")
	})
	running(t, "is not written for spend alone", func(f *fixture) {
		wd := f.attachSpending(watchdog.Spend{Tokens: 1000})
		f.advance(time.Minute)
		wd.Activity()
		f.advance(2 * time.Minute)
		f.db.takeCounts()
		for range 100 {
			charge, err := wd.Admit(context.Background(), "", watchdog.Amount{InputTokens: 1})
			require.NoError(f, err)
			require.NoError(f, charge.Settle(watchdog.Amount{InputTokens: 1}))
			f.advance(time.Second)
		}
		calls, written := f.db.takeCounts()
		require.Zero(f, calls["Freshen"])
		require.Zero(f, written)
	})
	running(t, "has a bounded number of limits and says how many more there are", func(f *fixture) {
		tools := map[string]int64{}
		for n := range session.MaxSpent + 2 {
			tools[fmt.Sprintf("tool-%02d", n)] = 1
		}
		wd := f.attachSpending(watchdog.Spend{Tools: tools})
		f.shows(wd)
		state := f.state("s-1")
		require.Len(f, state.Spent, session.MaxSpent)
		require.Equal(f, "tool-14", state.Spent[session.MaxSpent-1].Tool)
		require.Equal(f, 3, state.MoreSpent)
	})
}

func TestRunState(t *testing.T) {
	inBubble(t, func(f *fixture) {
		probes := 0
		f.cfg.RunState = func(w *watchdog.Watchdog, s *session.State) { s.Idle, s.Phase = 60, fmt.Sprint(w.ID(), " ", probes) }
		f.start()
		wd := f.attach("s-1")
		require.JSONEq(t, `{"wall_clock_seconds":14400,"idle_seconds":60,"phase":"s-1 0"}`, string(f.row("s-1").State))
		f.advance(2 * time.Minute)
		probes++
		wd.Activity()
		f.advance(awake)
		require.Equal(t, "s-1 1", f.state("s-1").Phase, "with the activity")
	})
	subtest(t, "of a run without signs of life is written when the host says that it has changed", func(f *fixture) {
		var ending *session.Escalation
		f.cfg.RunState = func(_ *watchdog.Watchdog, s *session.State) { s.Escalation = ending }
		f.start()
		wd := f.attach("s-1")
		f.advance(time.Hour) // it is dormant
		now := time.Now().UTC()
		ending = &session.Escalation{Signal: "SIGINT", SentAt: now, Next: "SIGTERM", NextAt: now.Add(10 * time.Second)}
		f.keeper().Refresh("s-1")
		f.keeper().Refresh("unknown")
		f.advance(session.DefaultPace)
		require.Equal(f, ending, f.state("s-1").Escalation)
		require.Equal(f, session.NoActivity, f.row("s-1").Activity, "it is no sign of life")
		f.db.takeCounts()
		f.advance(time.Minute)
		require.Zero(f, f.db.taken("Freshen"), "once")
		f.db.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		for range 2 {
			begun := time.Now()
			f.keeper().Refresh("s-1")
			require.Zero(f, time.Since(begun), "while the database hangs, too")
			f.advance(session.DefaultPace)
		}
		f.db.onCall(nil)
		f.advance(time.Minute)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
		require.NoError(f, err)
		require.NoError(f, wd.Close())
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
		require.Nil(f, f.state("s-1").Escalation, "it is not ending any more")
	})
}

// TestRunStateWithoutJSON checks that a run whose host adds what is no JSON keeps what else its row says.
func TestRunStateWithoutJSON(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.RunState = func(_ *watchdog.Watchdog, s *session.State) { s.Safety = math.NaN() }
		f.start()
		wd := f.attach("s-1")
		require.JSONEq(f, `{"wall_clock_seconds":14400}`, string(f.row("s-1").State))
		require.NoError(f, handle.Of(wd.Context()).CompleteCommand(record.CommandEnd{Outcome: "failed"}))
		require.True(f, f.row("s-1").Failed())
	})
}

// TestComplete protects that a run which has done its work is finished in its row, too, and stays so.
func TestComplete(t *testing.T) {
	running(t, "its row is finished, with the reason complete, and no sweeper touches it", func(f *fixture) {
		wd := f.attach("s-1")
		f.advance(time.Minute)
		require.NoError(f, wd.Complete())
		require.NoError(f, wd.Close())
		f.advance(2 * time.Second)
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Equal(f, watchdog.StopReason("complete"), f.row("s-1").Reason)
		require.Zero(f, f.keeper().Live())
		f.advance(time.Hour)
		sweeper, err := sweep.New(f.db, f.db, sweep.Config{Logger: f.cfg.Logger})
		require.NoError(f, err)
		_, err = sweeper.Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, session.Finished, f.row("s-1").Status)
		_, err = watchdog.New(f.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, f.config(f.keeper()))
		require.ErrorIs(f, err, watchdog.ErrComplete)
		require.Equal(f, 1, f.row("s-1").Attempt, "it was not begun")
	})
}

func TestCommandEndInRow(t *testing.T) {
	status := 7
	failed := record.CommandEnd{Outcome: "failed", ExitStatus: (*record.Count)(&status)}
	running(t, "the row of a run says with its end how its command ended", func(f *fixture) {
		wd := f.attach("s-1")
		wd.Note("tests")
		require.False(f, f.row("s-1").Failed())
		require.NoError(f, handle.Of(wd.Context()).CompleteCommand(failed))
		require.True(f, f.row("s-1").Failed())
		state := f.state("s-1")
		want := session.State{Phase: "tests", WallClock: state.WallClock, Outcome: "failed", ExitStatus: &status}
		require.Equal(f, want, state)
	})
	running(t, "a run that is complete without a command leaves the row's state alone", func(f *fixture) {
		wd := f.attach("s-1")
		before := f.row("s-1").State
		wd.Note("late")
		require.NoError(f, wd.Complete())
		require.Equal(f, before, f.row("s-1").State)
		require.False(f, f.row("s-1").Failed())
	})
}

func TestStoredState(t *testing.T) {
	end := watchdog.Event{
		Type: event.Complete, Payload: []byte(`{"reason":"complete","outcome":"failed","exit_status":"7","later":1}`),
	}
	for state, want := range map[string]string{
		"":                               `{"outcome":"failed","exit_status":7}`,
		`{"phase":"x","later":[1,2.50]}`: `{"phase":"x","later":[1,2.50],"outcome":"failed","exit_status":7}`,
		`{"outcome":"succeeded"}`:        `{"outcome":"failed","exit_status":7}`,
	} {
		require.JSONEq(t, want, string(session.StoredState([]byte(state), end)))
	}
	for _, state := range []string{`[1]`, `null`, `"text"`, `{`} {
		require.Nil(t, session.StoredState([]byte(state), end), "the state of another program is left alone")
	}
	for _, payload := range []string{`{"reason":"complete"}`, `{"outcome":7}`, `[]`, ``} {
		end.Payload = []byte(payload)
		require.Nil(t, session.StoredState(nil, end), payload)
	}
	end.Type, end.Payload = event.Cancel, []byte(`{"outcome":"failed"}`)
	require.Nil(t, session.StoredState(nil, end))
}

func TestSessionHostLost(t *testing.T) {
	active, expired := session.Session{Status: session.Active}, session.ExpiredLease{ID: "lease-1"}
	for name, c := range map[string]struct {
		change func(s *session.Session)
		want   bool
	}{
		"its lease expired":             {func(s *session.Session) { s.Expired = expired }, true},
		"a sweeper saw its process die": {func(s *session.Session) { s.Lost = true }, true},
		"it never had a lease":          {func(*session.Session) {}, false},
		"it has a lease":                {func(s *session.Session) { s.Lease = "lease-2" }, false},
		"it has another lease": {func(s *session.Session) {
			s.Lease, s.Expired, s.Lost = "lease-2", expired, true
		}, false},
		"it has ended": {func(s *session.Session) { s.Status, s.Expired = session.Finished, expired }, false},
	} {
		s := active
		c.change(&s)
		require.Equal(t, c.want, s.HostLost(), name)
	}
}

func TestMemory(t *testing.T) {
	t.Run("of sessions", func(t *testing.T) {
		sessiontest.Run(t, func(*testing.T) session.Store { return new(session.Memory) })
	})
	t.Run("of events", func(t *testing.T) {
		eventtest.Run(t, func(*testing.T) watchdog.EventStore { return new(session.Memory) })
	})
}

// A reason is counted as the databases count it: a text in a field of exactly that name.
func TestMemoryForeignHistory(t *testing.T) {
	m, at := new(session.Memory), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for id, payload := range map[string]string{"1": `{"reason":"a"}`, "2": `{"Reason":"a"}`, "3": `{"reason":5}`} {
		require.NoError(t, m.Append(t.Context(), watchdog.Event{
			ID: id, AggregateType: event.AggregateType, AggregateID: "run-1", Type: event.Cancel,
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
		ID: "1", AggregateType: event.AggregateType, AggregateID: "run-1", Type: event.Cancel,
		Payload: []byte("{}"), Timestamp: time.Unix(0, 0),
	}))
	_, err = m.History(t.Context(), session.HistoryQuery{To: time.Unix(1, 0), By: "weather"})
	require.ErrorContains(t, err, "weather")
}

var cancelRequest = session.CancelRequest{Reason: watchdog.SessionIdleTimeout, Events: []watchdog.Event{{
	ID: "end-1", AggregateType: event.AggregateType, AggregateID: "run-1", Type: event.Cancel,
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

func TestMemoryClone(t *testing.T) {
	ctx := t.Context()
	m := &session.Memory{}
	require.NoError(t, m.BeginLease(ctx, session.Lease{ID: "l-1", Beat: 1}))
	_, _, err := m.Attach(ctx, session.Session{RunID: "s-1", Lease: "l-1"})
	require.NoError(t, err)
	e := watchdog.Event{
		ID: "1", AggregateType: event.AggregateType, AggregateID: "s-1", Type: "note", Payload: []byte(`{}`),
		Timestamp: time.Now(),
	}
	require.NoError(t, m.Append(ctx, e))
	c := m.Clone()

	require.NoError(t, m.RenewLease(ctx, session.Lease{ID: "l-1", Beat: 2}))
	_, _, err = m.Attach(ctx, session.Session{RunID: "s-1", Lease: "l-1"})
	require.NoError(t, err)
	e.ID = "2"
	require.NoError(t, m.Append(ctx, e))

	events, err := c.Read(ctx, event.AggregateType, "s-1")
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
