package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"gotest.tools/v3/golden"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
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
			s, db := openHosted(t)
			old := time.Now().Add(-24 * time.Hour)
			err := (putter{Store: s, other: db}).Put(t.Context(),
				silentSince("before", old), silentSince("spoilt", old), silentSince("x after", old))
			require.NoError(t, err)
			mustExec(t, db, "UPDATE watchdog_sessions SET "+spoil+" WHERE run_id = 'spoilt'")
			page, err := s.Stalled(t.Context(), benched)
			require.NoError(t, err)
			require.Len(t, page.Sessions, 2)
			require.Equal(t, "before", page.Sessions[0].RunID)
			require.Equal(t, "x after", page.Sessions[1].RunID)
			require.Len(t, page.Unreadable, 1)
			_, _, attachErr := s.Attach(t.Context(), session.Session{RunID: "spoilt"})
			for _, err := range []error{page.Unreadable[0], second(s.Session(t.Context(), "spoilt")), attachErr} {
				isUnreadable(t, err, "spoilt")
			}
		})
	}
}

func isUnreadable(t *testing.T, err error, runID string) {
	t.Helper()
	require.ErrorIs(t, err, session.ErrUnreadable)
	require.ErrorContains(t, err, runID)
}

// Only the first page reports unreadable rows, and not all of them.
func TestUnreadableRowsOnce(t *testing.T) {
	t.Parallel()
	s, db := openHosted(t)
	var rows []session.Session
	old := time.Now().Add(-24 * time.Hour)
	for i := range 150 {
		rows = append(rows, silentSince(runNumber(i), old))
	}
	require.NoError(t, (putter{Store: s, other: db}).Put(t.Context(), rows...))
	mustExec(t, db, "UPDATE watchdog_sessions SET last_event_at = 'never' WHERE run_id >= '"+runNumber(20)+"'")
	first, err := s.Stalled(t.Context(), benched)
	require.NoError(t, err)
	require.Len(t, first.Sessions, 10)
	require.Len(t, first.Unreadable, session.MaxUnreadable)
	q := benched
	q.After = first.Next
	second, err := s.Stalled(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, second.Sessions, 10)
	require.Empty(t, second.Unreadable)
	require.Empty(t, second.Next)
}

// callsOf are all calls of a store, of which some do without an error.
func callsOf(ctx context.Context, s *sqlite.Store) map[string]func() error {
	run := session.Session{RunID: "run-1"}
	cancel := session.CancelRequest{Events: cancels(1)}
	selection := event.Selection{AggregateType: event.AggregateType, AggregateID: "run-1", Since: noon}
	return map[string]func() error{
		"Append":            func() error { return s.Append(ctx, numbered(2)) },
		"Append of nothing": func() error { return s.Append(ctx) },
		"Transact":          func() error { return s.Transact(ctx, decides()) },
		"Transact nothing":  func() error { return s.Transact(ctx) },
		"Read":              func() error { return second(s.Read(ctx, event.AggregateType, "run-1")) },
		"Select":            func() error { return second(s.Select(ctx, selection)) },
		"Layers":            func() error { return second(s.Layers(ctx, "run-1")) },
		"Attach":            func() error { return third(s.Attach(ctx, run)) },
		"Freshen": func() error {
			return without(session.ErrLeaseExpired, second(s.Freshen(ctx, "lease-1", []session.Freshness{{RunID: "run-1"}})))
		},
		"End": func() error {
			return second(s.End(ctx, []session.Ending{{RunID: "run-1", Status: session.Finished}}))
		},
		"Cancel": func() error { return second(s.Cancel(ctx, run, cancel)) },
		"CancelAll": func() error {
			return second(s.CancelAll(ctx, []session.BatchedCancel{{Judged: run, Request: cancel}}))
		},
		"Claim":      func() error { return second(s.Claim(ctx, run, session.ClaimRequest{By: "pass"})) },
		"Warn":       func() error { return second(s.Warn(ctx, run, nil)) },
		"BeginLease": func() error { return s.BeginLease(ctx, session.Lease{ID: "lease-2"}) },
		"RenewLease": func() error {
			return without(session.ErrLeaseExpired, s.RenewLease(ctx, session.Lease{ID: "lease-1"}))
		},
		"ObserveLeases":                  func() error { return second(s.ObserveLeases(ctx, []string{"lease-1"})) },
		"ObserveLeases without suspects": func() error { return second(s.ObserveLeases(ctx, nil)) },
		"ExpireLease":                    func() error { return third(s.ExpireLease(ctx, session.Lease{ID: "lease-1"})) },
		"LeaseSessions":                  func() error { return second(s.LeaseSessions(ctx, "lease-1")) },
		"List":                           func() error { return second(s.List(ctx, session.ListQuery{Limit: 1})) },
		"Session":                        func() error { return without(session.ErrNotFound, second(s.Session(ctx, "run-1"))) },
		"Stalled":                        func() error { return second(s.Stalled(ctx, benched)) },
		"Ended":                          func() error { return second(s.Ended(ctx, "lease-1", nil)) },
		"History":                        func() error { return second(s.History(ctx, session.HistoryQuery{By: session.ByHost})) },
	}
}

// reading are the calls that only read.
var reading = []string{
	"Ended", "History", "Layers", "LeaseSessions", "List", "ObserveLeases without suspects", "Read", "Select",
	"Session", "Stalled",
}

func second[A, B any](_ A, b B) B        { return b }
func third[A, B, C any](_ A, _ B, c C) C { return c }

// without returns no error for one that is expected.
func without(expected, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// readsOnly makes all calls. Those that read have to work, and the others to fail as it is told.
func readsOnly(t *testing.T, s *sqlite.Store, fails func(name string, err error)) {
	t.Helper()
	for name, call := range callsOf(t.Context(), s) {
		if err := call(); slices.Contains(reading, name) {
			require.NoError(t, err, name)
		} else if !strings.HasSuffix(name, "nothing") {
			fails(name, err)
		}
	}
}

// cancels returns cancel events of run-1.
func cancels(n int64) []event.Event { return []event.Event{numbered(n)} }

func TestClosedStore(t *testing.T) {
	t.Parallel()
	t.Run("refuses every call", func(t *testing.T) {
		s := openNew(t)
		calls := callsOf(t.Context(), s)
		require.NoError(t, calls["Stalled"](), "it keeps a prepared statement")
		require.NoError(t, s.Close())
		for name, call := range calls {
			require.ErrorIs(t, call(), sqlite.ErrClosed, name)
		}
		require.NoError(t, s.Close())
	})
	t.Run("leaves a host's database open", func(t *testing.T) {
		db := hostDatabase(t, newFile(t))
		require.NoError(t, newStore(t, db).Close())
		require.NoError(t, db.PingContext(t.Context()))
	})
}

// A locked database can be read. What is to be written waits for the lock, and what the contract says of a locked row
// is what a locked database is.
func TestLockedCalls(t *testing.T) {
	t.Parallel()
	judging := []string{"Attach", "Claim", "Warn", "Cancel", "CancelAll", "ExpireLease"}
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s, holder := openAt(t, file), openOne(t, file)
		mustExec(t, holder, "BEGIN IMMEDIATE")
		began := time.Now()
		readsOnly(t, s, func(name string, err error) {
			errorSays(t, err, "locked by another writer", "events.db", "another program is writing to it")
			require.Equal(t, slices.Contains(judging, name), errors.Is(err, session.ErrLocked), name)
			require.GreaterOrEqual(t, time.Since(began), sqlite.LockWait, name)
			require.Less(t, time.Since(began), 2*sqlite.LockWait, name)
			began = time.Now()
		})
		mustExec(t, holder, "ROLLBACK")
	})
}

// If the database becomes read-only, the error of a write says what to do.
func TestReadOnlyCalls(t *testing.T) {
	t.Parallel()
	db := openOne(t, newFile(t))
	s := newStore(t, db)
	mustExec(t, db, "PRAGMA query_only = 1")
	readsOnly(t, s, func(name string, err error) { require.ErrorContains(t, err, "nothing can be stored in it", name) })
}

// A cancel whose events cannot be stored does not change the row.
func TestFailedCancel(t *testing.T) {
	t.Parallel()
	s, db := openHosted(t)
	run := attach(t, s, "run-1", "", 0)
	mustExec(t, db, "CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no more events'); END")
	outcome, err := s.Cancel(t.Context(), run, session.CancelRequest{
		Reason: "watchdog_idle_timeout", Events: cancels(1),
	})
	require.ErrorContains(t, err, "no more events")
	require.Empty(t, outcome)
	require.Equal(t, run, rowOf(t, s, "run-1"))
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for want, err := range map[string]error{
		"the *sql.DB is nil":         second(sqlite.New(t.Context(), nil)),
		"ask for at least 1":         second(s.Stalled(t.Context(), session.Query{})),
		"nowhere":                    second(s.Stalled(t.Context(), session.Query{Limit: 1, After: "nowhere"})),
		"weather":                    second(s.History(t.Context(), session.HistoryQuery{By: "weather"})),
		"is not how an attempt ends": second(s.End(t.Context(), []session.Ending{{RunID: "run-1", Status: session.Active}})),
	} {
		require.ErrorContains(t, err, want)
	}
}

// A history counts the cancels of other writers.
func TestForeignHistory(t *testing.T) {
	t.Parallel()
	s, db := openHosted(t)
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
	require.NoError(t, err)
	require.Equal(t, []session.CancelCount{{Key: "", Count: 4}, {Key: "a", Count: 2}}, got)
	stretch.By = session.ByDay
	got, err = s.History(t.Context(), stretch)
	want := []session.CancelCount{{Key: "2026-03-03", Count: 2}, {Key: "2026-03-04", Count: 4}}
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// If a session is freshened twice in one call, the latest activity counts.
func TestFreshenTwice(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	beginLease(t, s, "lease-1")
	attach(t, s, "run-1", "lease-1", 0)
	skipped, err := s.Freshen(t.Context(), "lease-1", []session.Freshness{
		{RunID: "run-1", Attempt: 1, Activity: 2 * time.Hour, State: json.RawMessage(`{"phase":"first"}`)},
		{RunID: "run-1", Attempt: 1, Activity: 3 * time.Hour},
		{RunID: "run-1", Attempt: 1, Activity: time.Hour, State: json.RawMessage(`{"phase":"late"}`)},
		{RunID: "run-1", Attempt: 2},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"run-1"}, skipped.Gone)
	after, err := s.Session(t.Context(), "run-1")
	require.NoError(t, err)
	require.Equal(t, 3*time.Hour, after.Activity)
	require.JSONEq(t, `{"phase":"first"}`, string(after.State))
}

var benched = session.Query{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute, Limit: 10}

func runNumber(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n) }

func silentSince(runID string, at time.Time) session.Session {
	return session.Session{
		RunID: runID, Status: session.Active, CreatedAt: at.Add(-time.Hour), LastEventAt: at,
		StartedAt: at, Host: "host-1", Attempt: 1,
	}
}

// TestQueryPlans checks the plans of the statements whose cost must not depend on the active sessions, or on the events
// of other runs. None of them may scan these tables. The index of the unreadable rows may be scanned, because it has no others.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	db := openPlain(t, file)
	mustExec(t, db, "CREATE INDEX of_the_host ON watchdog_sessions (status, last_event_at)") // SQLite would prefer it
	for name, test := range sqlite.Planned {
		t.Run(name, func(t *testing.T) {
			plan := planOf(t, db, test.Statement, test.Arguments)
			for line := range strings.Lines(plan) {
				unreadable := strings.Contains(line, "USING INDEX watchdog_sessions_unreadable")
				scan := strings.Contains(line, "SCAN main.watchdog_sessions") && !unreadable
				if scan || strings.Contains(line, "SCAN s") || strings.Contains(line, "SCAN main.events") {
					t.Errorf("the plan scans the rows: %s", line)
				}
			}
			golden.Assert(t, plan, filepath.Join("plans", strings.ReplaceAll(name, " ", "_")+".txt"))
		})
	}
}

// planOf returns the plan as indented text. It leaves out the numbers, which change with each version of SQLite.
func planOf(t *testing.T, db *sql.DB, statement string, arguments []any) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, arguments...)
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	depths := map[int]int{}
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		depths[id] = depths[parent] + 1
		plan.WriteString(strings.Repeat("  ", depths[id]-1) + detail + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

// TestLikeMemory makes random calls to the store and to [session.Memory], the plain form of what every store does, and
// compares the answers and the rows. Times are not compared: each store has a clock of its own.
func TestLikeMemory(t *testing.T) {
	t.Parallel()
	for seed := range testrun.Rounds(uint64(3), 12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newStore(t, openOne(t, ":memory:"))
			p := pair{t: t, rand: rand.New(rand.NewPCG(seed, 0)), stores: []session.Store{&session.Memory{}, s}}
			for range 250 {
				p.step()
				p.compareAll()
			}
		})
	}
}

// A pair is two stores that get the same calls.
type pair struct {
	t      *testing.T
	rand   *rand.Rand
	stores []session.Store
	told   map[string][]session.AttemptID // by lease, what it was told
	events int64
	stages []string // for an error
}

// both makes a call to both stores and compares what it returns, as text.
func (p *pair) both(what string, call func(i int, s session.Store) (any, error)) {
	p.t.Helper()
	var got []string
	for i, s := range p.stores {
		value, err := call(i, s)
		expired := without(session.ErrLeaseExpired, err) == nil && err != nil
		if err != nil && !expired {
			got = append(got, "an error")
			continue
		}
		got = append(got, fmt.Sprintf("%+v, lease expired: %v", value, expired))
	}
	p.stages = append(p.stages, what+": "+got[0])
	if got[0] != got[1] {
		for _, stage := range p.stages {
			p.t.Log(stage)
		}
	}
	require.Equal(p.t, got[0], got[1], what)
}

func pick[T any](p *pair, of ...T) T { return of[p.rand.IntN(len(of))] }

func (p *pair) runID() string { return fmt.Sprint("run-", p.rand.IntN(6)) }
func (p *pair) lease() string { return fmt.Sprint("lease-", p.rand.IntN(3)) }

func (p *pair) step() {
	ctx := p.t.Context()
	runID, lease, attempt := p.runID(), p.lease(), 1+p.rand.IntN(4)
	beat, clock := int64(p.rand.IntN(40)), time.Duration(p.rand.IntN(40))*time.Second
	l := session.Lease{
		ID: lease, Host: "host", Promise: time.Second, Beat: beat, Clock: clock, Vouched: clock / 2, Behind: p.behind(),
		Covered: pick(p, 0, clock/2, clock*2/3),
	}
	switch p.rand.IntN(13) {
	case 0:
		p.both(fmt.Sprintf("BeginLease %+v", l), func(_ int, s session.Store) (any, error) { return nil, s.BeginLease(ctx, l) })
	case 1, 2:
		p.both(fmt.Sprintf("RenewLease %+v", l), func(_ int, s session.Store) (any, error) { return nil, s.RenewLease(ctx, l) })
	case 3:
		p.both(fmt.Sprintf("ExpireLease %+v", l), func(_ int, s session.Store) (any, error) {
			expired, left, err := s.ExpireLease(ctx, l)
			return fmt.Sprint(expired, left), err
		})
	case 4, 5:
		run := session.Session{
			RunID: runID, Lease: pick(p, "", lease, lease), Attempt: pick(p, 0, 0, 0, attempt), StartedAt: noon, Host: "host",
			Threshold: pick(p, 0, time.Second, 10*time.Second, watchdog.NoLimit), State: p.state(),
		}
		p.both(fmt.Sprintf("Attach %+v", run), func(_ int, s session.Store) (any, error) {
			before, after, err := s.Attach(ctx, run)
			return []string{timeless(before), timeless(after)}, err
		})
	case 6, 7, 8:
		p.freshen(lease)
	case 9:
		e := session.Ending{
			RunID: runID, Attempt: attempt, Status: pick(p, session.Finished, session.Cancelled, session.Interrupted), Age: time.Hour + clock,
		}
		p.both(fmt.Sprintf("End %+v", e), func(_ int, s session.Store) (any, error) {
			skipped, err := s.End(ctx, []session.Ending{e})
			return skipped.Gone, err
		})
	case 10:
		e := p.event(runID, event.Complete)
		p.both("Append "+e.ID, func(_ int, s session.Store) (any, error) { return nil, s.Append(ctx, e) })
	case 11:
		p.start(runID)
	default:
		p.judge(runID)
	}
}

// start puts off the start of a run, which may be due then, and claims the one that is.
func (p *pair) start(runID string) {
	ctx, pause, stale := p.t.Context(), pick(p, 0, 0, time.Hour, session.NoMoreStarts), p.rand.IntN(5) == 0
	p.both(fmt.Sprintf("PutOffStart %s %v", runID, pause), func(_ int, s session.Store) (any, error) {
		row, err := s.Session(ctx, runID)
		if errors.Is(err, session.ErrNotFound) {
			return nil, nil
		}
		if stale {
			row.Start.Tries--
		}
		done, putOffErr := s.PutOffStart(ctx, row, pause)
		return done, errors.Join(err, putOffErr)
	})
	p.both("ClaimStart", func(_ int, s session.Store) (any, error) {
		claimed, err := s.ClaimStart(ctx, time.Hour)
		if errors.Is(err, session.ErrNotFound) {
			return "none", nil
		}
		return timeless(claimed), err
	})
}

// behind returns rows that a lease names, few or none.
func (p *pair) behind() (all []session.RowBehind) {
	for runID := range p.rand.IntN(12) - 6 {
		all = append(all, session.RowBehind{
			RunID: fmt.Sprint("run-", runID), Attempt: 1 + p.rand.IntN(4), Written: time.Duration(p.rand.IntN(20)) * time.Second,
		})
	}
	return all
}

func (p *pair) state() json.RawMessage {
	if p.rand.IntN(3) > 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"warned":%d}`, p.rand.IntN(100))
}

func (p *pair) freshen(lease string) {
	var fresh []session.Freshness
	for range p.rand.IntN(6) {
		f := session.Freshness{
			RunID: p.runID(), Attempt: 1 + p.rand.IntN(4), Quiet: p.rand.IntN(2) == 0, State: p.state(),
			Activity: max(time.Duration(p.rand.IntN(20)-2)*time.Second, session.NoActivity),
		}
		if !slices.ContainsFunc(fresh, func(g session.Freshness) bool { return g.RunID == f.RunID }) {
			fresh = append(fresh, f)
		}
	}
	p.both(fmt.Sprintf("Freshen %s %+v", lease, fresh), func(_ int, s session.Store) (any, error) {
		skipped, err := s.Freshen(p.t.Context(), lease, fresh)
		slices.Sort(skipped.Gone)
		return skipped.Gone, err
	})
}

// event returns an event of a run, with one of a few IDs.
func (p *pair) event(runID, kind string) event.Event {
	p.events++
	e := numbered(p.events)
	e.ID, e.AggregateID, e.Type = fmt.Sprint(runID, "-end-", p.rand.IntN(20)), runID, kind
	return e
}

// judge claims, warns or cancels a session as it is now, or as it was with another activity.
func (p *pair) judge(runID string) {
	ctx := p.t.Context()
	by, older, more := pick(p, "", "a", "b"), p.rand.IntN(5) == 0, time.Duration(p.rand.IntN(5)/4)
	judged := func(s session.Store) session.Session {
		row, _ := s.Session(ctx, runID)
		if older {
			row.Activity--
		}
		if row.Lease != "" {
			row.Silence += more // of a judgement before the lease named the row
		}
		return row
	}
	e, advisory := p.event(runID, event.Cancel), p.event(runID, event.Warning)
	switch p.rand.IntN(3) {
	case 0:
		c := session.ClaimRequest{By: by, For: pick(p, -time.Hour, time.Hour), EndID: e.ID}
		p.both(fmt.Sprintf("Claim %s %+v", runID, c), func(_ int, s session.Store) (any, error) { return s.Claim(ctx, judged(s), c) })
	case 1:
		p.both("Warn "+runID, func(_ int, s session.Store) (any, error) {
			return s.Warn(ctx, judged(s), []event.Event{advisory})
		})
	default:
		c := session.CancelRequest{
			By: by, Reason: "r", Resumes: 1, StopFailed: p.rand.IntN(2) == 0, Events: []event.Event{advisory, e},
			StartFor: pick(p, 0, time.Hour),
		}
		p.both(fmt.Sprintf("Cancel %s by %q with %s", runID, by, e.ID), func(_ int, s session.Store) (any, error) {
			return s.Cancel(ctx, judged(s), c)
		})
	}
}

// compareAll compares everything that can be read.
func (p *pair) compareAll() {
	ctx := p.t.Context()
	p.both("List", func(_ int, s session.Store) (any, error) {
		page, err := s.(session.Lister).List(ctx, session.ListQuery{Limit: 100})
		return timelessAll(page.Sessions), err
	})
	p.both("leases", func(_ int, s session.Store) (any, error) {
		all, err := s.ObserveLeases(ctx, nil)
		for i := range all {
			all[i].RenewedAt = time.Time{}
		}
		return all, err
	})
	lease := p.lease()
	p.both("LeaseSessions "+lease, func(_ int, s session.Store) (any, error) {
		named, err := s.LeaseSessions(ctx, lease)
		slices.SortFunc(named, func(a, b session.AttemptID) int { return cmp.Compare(a.RunID, b.RunID) })
		return named, err
	})
	told := p.told[lease]
	p.both("Ended "+lease, func(_ int, s session.Store) (any, error) {
		ended, err := s.Ended(ctx, lease, told)
		p.told = map[string][]session.AttemptID{lease: ended[:min(len(ended), 1)]}
		return ended, err
	})
	threshold, limit := pick(p, time.Second, 5*time.Second, watchdog.NoLimit), 1+p.rand.IntN(3)
	p.both("Stalled", func(_ int, s session.Store) (any, error) {
		var all []session.Session
		for q := (session.Query{Threshold: threshold, Limit: limit}); ; {
			page, err := s.Stalled(ctx, q)
			all = append(all, slices.DeleteFunc(page.Sessions, func(s session.Session) bool { return s.Lease == "" })...)
			if q.After = page.Next; q.After == "" {
				return timelessAll(all), err
			}
		}
	})
}

func timelessAll(sessions []session.Session) (all []string) {
	for _, s := range sessions {
		all = append(all, timeless(s))
	}
	slices.Sort(all)
	return all
}

// timeless returns a session as text, with what the clock of the store does not decide.
func timeless(s session.Session) string {
	s.CreatedAt, s.LastEventAt, s.EndedAt = time.Time{}, time.Time{}, time.Time{}
	if !s.WarnedAt.IsZero() {
		s.WarnedAt = noon
	}
	s.Start.Due = time.Time{}
	return fmt.Sprintf("%+v %s", s, s.State)
}
