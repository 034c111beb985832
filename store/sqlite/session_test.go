package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestUnreadableRow(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"for a last event in words":                  "last_event_at = 'yesterday'",
		"for a last event that is empty":             "last_event_at = ''",
		"for a last event in another form":           "last_event_at = '2020-01-01T00:00:00Z'",
		"for a last event of too few digits":         "last_event_at = '2020-01-01 00:00:00.000'",
		"for a last event on the 31st of February":   "last_event_at = '2020-02-31 00:00:00.000000'",
		"for a last event at 25 o'clock":             "last_event_at = '2020-02-01 25:00:00.000000'",
		"for a last event in a BLOB":                 "last_event_at = x'00ff'",
		"for a creation in words":                    "created_at = 'now'",
		"for a threshold below zero":                 "threshold = -1",
		"for the start of its window, while stalled": "started_at = 'noon'",
		"for its attempt, while stalled":             "attempt = 'first'",
	} {
		t.Run(name+" is reported, never stalled and hides no other", func(t *testing.T) {
			db := openPlain(t, newFile(t))
			s := newStore(t, db)
			old := time.Now().Add(-24 * time.Hour)
			err := (putter{Store: s, other: db}).Put(t.Context(),
				silentSince("before", old), silentSince("spoilt", old), silentSince("x after", old))
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, db, "UPDATE watchdog_sessions SET "+spoil+" WHERE run_id = 'spoilt'")
			page, err := s.Stalled(t.Context(), benched)
			if err != nil || len(page.Sessions) != 2 ||
				page.Sessions[0].RunID != "before" || page.Sessions[1].RunID != "x after" {
				t.Errorf("stalled are %+v; %v", page.Sessions, err)
			}
			if len(page.Unreadable) != 1 || !unreadable(page.Unreadable[0], "spoilt") {
				t.Errorf("unreadable are %q", page.Unreadable)
			}
			if _, err := s.Session(t.Context(), "spoilt"); !unreadable(err, "spoilt") {
				t.Errorf("Session returned %v", err)
			}
			if _, _, err := s.Attach(t.Context(), session.Session{RunID: "spoilt"}); !unreadable(err, "spoilt") {
				t.Errorf("Attach returned %v", err)
			}
		})
	}
}

func unreadable(err error, runID string) bool {
	return errors.Is(err, session.ErrUnreadable) && strings.Contains(err.Error(), runID)
}

// Only the first page reports unreadable rows, and not all of them.
func TestUnreadableRowsOnce(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	s := newStore(t, db)
	var rows []session.Session
	old := time.Now().Add(-24 * time.Hour)
	for i := range 150 {
		rows = append(rows, silentSince(runNumber(i), old))
	}
	if err := (putter{Store: s, other: db}).Put(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "UPDATE watchdog_sessions SET last_event_at = 'never' WHERE run_id >= '"+runNumber(20)+"'")
	first, err := s.Stalled(t.Context(), benched)
	if err != nil || len(first.Sessions) != 10 || len(first.Unreadable) != storerows.MaxUnreadable {
		t.Fatalf("%d sessions and %d unreadable; %v", len(first.Sessions), len(first.Unreadable), err)
	}
	q := benched
	q.After = first.Next
	second, err := s.Stalled(t.Context(), q)
	if err != nil || len(second.Sessions) != 10 || len(second.Unreadable) != 0 || second.Next != "" {
		t.Errorf("%d sessions, %d unreadable and %q; %v", len(second.Sessions), len(second.Unreadable), second.Next, err)
	}
}

// calls are all calls of a store about sessions.
var calls = map[string]func(ctx context.Context, s *sqlite.Store) error{
	"Attach": func(ctx context.Context, s *sqlite.Store) error {
		_, _, err := s.Attach(ctx, session.Session{RunID: "run-1"})
		return err
	},
	"Freshen": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.Freshen(ctx, "lease-1", []session.Freshness{{RunID: "run-1"}})
		return notExpired(err)
	},
	"End": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.End(ctx, []session.Ending{{RunID: "run-1", Status: session.Finished}})
		return err
	},
	"Cancel": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.Cancel(ctx, session.Session{RunID: "run-1"}, session.CancelRequest{Events: cancels(1)})
		return err
	},
	"CancelAll": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.CancelAll(ctx, []session.BatchedCancel{{
			Judged: session.Session{RunID: "run-1"}, Request: session.CancelRequest{Events: cancels(1)},
		}})
		return err
	},
	"Claim": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.Claim(ctx, session.Session{RunID: "run-1"}, session.ClaimRequest{By: "pass"})
		return err
	},
	"Warn": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.Warn(ctx, session.Session{RunID: "run-1"}, nil)
		return err
	},
	"BeginLease": func(ctx context.Context, s *sqlite.Store) error {
		return s.BeginLease(ctx, session.Lease{ID: "lease-2"})
	},
	"RenewLease": func(ctx context.Context, s *sqlite.Store) error {
		return notExpired(s.RenewLease(ctx, session.Lease{ID: "lease-1"}))
	},
	"ObserveLeases": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.ObserveLeases(ctx, []string{"lease-1"})
		return err
	},
	"ObserveLeases without suspects": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.ObserveLeases(ctx, nil)
		return err
	},
	"ExpireLease": func(ctx context.Context, s *sqlite.Store) error {
		_, _, err := s.ExpireLease(ctx, session.Lease{ID: "lease-1"})
		return err
	},
	"LeaseSessions": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.LeaseSessions(ctx, "lease-1")
		return err
	},
	"List": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.List(ctx, session.ListQuery{Limit: 1})
		return err
	},
	"Session": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.Session(ctx, "run-1")
		if errors.Is(err, session.ErrNotFound) {
			err = nil
		}
		return err
	},
	"Stalled": func(ctx context.Context, s *sqlite.Store) error { _, err := s.Stalled(ctx, benched); return err },
	"Ended":   func(ctx context.Context, s *sqlite.Store) error { _, err := s.Ended(ctx, "lease-1", nil); return err },
	"History": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.History(ctx, session.HistoryQuery{By: session.ByHost})
		return err
	},
}

var writes = []string{
	"Attach", "Freshen", "End", "Cancel", "CancelAll", "Claim", "Warn", "BeginLease", "RenewLease", "ObserveLeases",
	"ExpireLease",
}

// notExpired returns no error for a lease that does not live.
func notExpired(err error) error {
	if errors.Is(err, session.ErrLeaseExpired) {
		return nil
	}
	return err
}

// cancels returns cancel events of run-1.
func cancels(n int64) []watchdog.Event { return []watchdog.Event{numbered(n)} }

// A closed store refuses every call about sessions.
func TestClosedSessions(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	if err := calls["Stalled"](t.Context(), s); err != nil { // it keeps a prepared statement
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if err := call(t.Context(), s); !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

func TestLockedSessions(t *testing.T) {
	t.Parallel()
	t.Run("can be read", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			defer unlock()
			for name, call := range calls {
				if !slices.Contains(writes, name) && call(t.Context(), s) != nil {
					t.Errorf("%s returned %v", name, call(t.Context(), s))
				}
			}
		})
	})
}

// If the database becomes read-only, the error of a write says what to do.
func TestReadOnlySessions(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	db.SetMaxOpenConns(1)
	s := newStore(t, db)
	mustExec(t, db, "PRAGMA query_only = 1")
	for _, name := range writes {
		if err := calls[name](t.Context(), s); !errorHas(err, "nothing can be stored in it") {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

// A cancel whose events cannot be stored does not change the row.
func TestFailedCancel(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	s := newStore(t, db)
	_, run, err := s.Attach(t.Context(), session.Session{RunID: "run-1"})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no more events'); END")
	outcome, err := s.Cancel(t.Context(), run, session.CancelRequest{
		Reason: "watchdog_idle_timeout", Events: cancels(1),
	})
	if outcome != "" || !errorHas(err, "no more events") {
		t.Errorf("Cancel returned %q and %v", outcome, err)
	}
	if after, err := s.Session(t.Context(), "run-1"); err != nil || !reflect.DeepEqual(after, run) {
		t.Errorf("the session is %+v, was %+v; %v", after, run, err)
	}
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	_, none := s.Stalled(t.Context(), session.Query{})
	_, nowhere := s.Stalled(t.Context(), session.Query{Limit: 1, After: "nowhere"})
	_, weather := s.History(t.Context(), session.HistoryQuery{By: "weather"})
	_, live := s.End(t.Context(), []session.Ending{{RunID: "run-1", Status: session.Active}})
	for want, err := range map[string]error{
		"ask for at least 1": none, "nowhere": nowhere, "weather": weather,
		"is not how an attempt ends": live,
	} {
		if !errorHas(err, want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}

// A history counts the cancels of other writers.
func TestForeignHistory(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	s := newStore(t, db)
	for id, values := range map[string]string{
		"zone":   `'{"reason":"a"}', '2026-03-04T01:00:00+02:00'`,
		"digits": `'{"reason":"a"}', '2026-03-03 23:00:00'`,
		"none":   `'{}', '2026-03-04 12:00:00.000000'`,
		"broken": `'not JSON', '2026-03-04 12:00:00.000000'`,
		"number": `'{"reason":5}', '2026-03-04 12:00:00.000000'`,
		"object": `'{"reason":{"reason":"a"}}', '2026-03-04 12:00:00.000000'`,
		"when":   `'{"reason":"a"}', 'yesterday'`,
	} {
		mustExec(t, db, `INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
			VALUES ('`+id+`', 'runtime_control', 'run-1', 'runtime.watchdog.cancel', `+values+`)`)
	}
	stretch := session.HistoryQuery{From: noon.Add(-24 * time.Hour), To: noon.Add(24 * time.Hour), By: session.ByReason}
	got, err := s.History(t.Context(), stretch)
	if want := []session.CancelCount{{Key: "", Count: 4}, {Key: "a", Count: 2}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("counted are %+v, want %+v; %v", got, want, err)
	}
	stretch.By = session.ByDay
	got, err = s.History(t.Context(), stretch)
	want := []session.CancelCount{{Key: "2026-03-03", Count: 2}, {Key: "2026-03-04", Count: 4}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("counted are %+v, want %+v; %v", got, want, err)
	}
}

// If a session is freshened twice in one call, the latest activity counts.
func TestFreshenTwice(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	beginLease(t, s, "lease-1")
	if _, _, err := s.Attach(t.Context(), session.Session{RunID: "run-1", Lease: "lease-1"}); err != nil {
		t.Fatal(err)
	}
	skipped, err := s.Freshen(t.Context(), "lease-1", []session.Freshness{
		{RunID: "run-1", Attempt: 1, Activity: 2 * time.Hour, State: json.RawMessage(`{"phase":"first"}`)},
		{RunID: "run-1", Attempt: 1, Activity: 3 * time.Hour},
		{RunID: "run-1", Attempt: 1, Activity: time.Hour, State: json.RawMessage(`{"phase":"late"}`)},
		{RunID: "run-1", Attempt: 2},
	})
	if err != nil || !slices.Equal(skipped.Gone, []string{"run-1"}) {
		t.Errorf("gone are %q; %v", skipped.Gone, err)
	}
	after, err := s.Session(t.Context(), "run-1")
	if err != nil || after.Activity != 3*time.Hour || string(after.State) != `{"phase":"first"}` {
		t.Errorf("the row is %+v; %v", after, err)
	}
}

// A row that a trigger of the host's refuses does not take its batch with it.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	s := newStore(t, db)
	var fresh []session.Freshness
	var ends []session.Ending
	for _, runID := range []string{"run-1", "run-2", "run-3", "run-4"} {
		if err := (putter{Store: s, other: db}).Put(t.Context(), silentSince(runID, time.Now().Add(-24*time.Hour))); err != nil {
			t.Fatal(err)
		}
		fresh = append(fresh, session.Freshness{RunID: runID, Attempt: 1})
		ends = append(ends, session.Ending{RunID: runID, Attempt: 1, Status: session.Finished})
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER refuses BEFORE UPDATE ON watchdog_sessions
		WHEN new.run_id = 'run-2' BEGIN SELECT raise(ABORT, 'CHECK constraint failed: the host keeps it'); END`); err != nil {
		t.Fatal(err)
	}
	check := func(skipped session.Skipped, err error) {
		t.Helper()
		if err != nil || len(skipped.Gone) > 0 || len(skipped.Failed) != 1 || !errorHas(skipped.Failed["run-2"], "the host keeps it") {
			t.Errorf("skipped are %+v; %v", skipped, err)
		}
	}
	beginLease(t, s, "lease-1")
	check(s.Freshen(t.Context(), "lease-1", fresh))
	check(s.End(t.Context(), ends[:3]))
	for runID, want := range map[string]session.Status{
		"run-1": session.Finished, "run-2": session.Active, "run-3": session.Finished, "run-4": session.Active,
	} {
		row, err := s.Session(t.Context(), runID)
		if err != nil || row.Status != want || (row.Lease == "lease-1") != (runID == "run-4") {
			t.Errorf("the row of %s is %+v; %v", runID, row, err)
		}
	}
}

var benched = session.Query{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute, Limit: 10}

func runNumber(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n) }

func silentSince(runID string, at time.Time) session.Session {
	return session.Session{
		RunID: runID, Status: session.Active, CreatedAt: at.Add(-time.Hour), LastEventAt: at,
		StartedAt: at, Host: "host-1", Attempt: 1,
	}
}

// toStart has a run cancelled that is to be started again.
func toStart(t *testing.T, s *sqlite.Store, runID string, claim time.Duration) session.Session {
	t.Helper()
	_, row, err := s.Attach(t.Context(), session.Session{RunID: runID, StartedAt: noon})
	require.NoError(t, err)
	e := cancels(1)[0]
	e.ID, e.AggregateID = "cancel "+runID, runID
	outcome, err := s.Cancel(t.Context(), row, session.CancelRequest{Events: []watchdog.Event{e}, StartFor: claim})
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
	return rowOf(t, s, runID)
}

// TestStartAfterClockSetBack: a start of a clock that was days ahead is not waited for.
func TestStartAfterClockSetBack(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	toStart(t, s, "run-1", 20*time.Hour)
	_, err := s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
	mustExec(t, db, "UPDATE watchdog_sessions SET start_due = start_due + 86400000000")
	claimed, err := s.ClaimStart(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, "run-1", claimed.RunID)
	_, err = s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
}
