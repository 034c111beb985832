package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// active returns the number of active sessions: a million if WATCHDOG_LONG is set.
func active() int {
	if os.Getenv("WATCHDOG_LONG") != "" {
		return 1_000_000
	}
	return 100_000
}

var benched = session.Query{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute, Limit: 10}

// BenchmarkStalled finds 10 of 50 stalled sessions, and none, among the active ones. Beside it run the best query
// that a program without this package would write, prepared, on a column of text; and what such programs usually do:
// list the active sessions and judge each.
func BenchmarkStalled(b *testing.B) {
	for _, stalled := range []int{50, 0} {
		s, db := crowded(b, active(), stalled)
		want := min(stalled, benched.Limit)
		for name, columns := range map[string]string{
			"bare query": "run_id, last_event_at",
			"bare query of whole rows": "run_id, last_event_at, parent, status, created_at, threshold, " +
				"started_at, host, attempt, resumes, reason, lease, activity, warned_at, claim, stop_failed, state",
		} {
			b.Run(fmt.Sprintf("active=%d/stalled=%d/%s", active(), stalled, name), func(b *testing.B) {
				benchmarkBare(b, db, columns, want)
			})
		}
		b.Run(fmt.Sprintf("active=%d/stalled=%d/Stalled", active(), stalled), func(b *testing.B) {
			for b.Loop() {
				page, err := s.Stalled(b.Context(), benched)
				if err != nil || len(page.Sessions) != want || len(page.Unreadable) > 0 {
					b.Fatal(len(page.Sessions), page.Unreadable, err)
				}
			}
		})
		b.Run(fmt.Sprintf("active=%d/stalled=%d/listing all", active(), stalled), func(b *testing.B) {
			for b.Loop() {
				if found := judgeAll(b, db); found != stalled {
					b.Fatal(found)
				}
			}
		})
	}
}

// BenchmarkStalledLeased finds 10 of 50 stalled sessions, and none, among the active ones, which are in 1,000 leases.
func BenchmarkStalledLeased(b *testing.B) {
	s, db := leased(b, active())
	for _, stalled := range []int{50, 0} {
		mustExec(b, db, "UPDATE watchdog_sessions SET quiet_since = NULL",
			fmt.Sprint("UPDATE watchdog_sessions SET quiet_since = activity WHERE run_id < '", runNumber(stalled), "'"))
		b.Run(fmt.Sprintf("active=%d/stalled=%d", active(), stalled), func(b *testing.B) {
			for b.Loop() {
				page, err := s.Stalled(b.Context(), benched)
				if err != nil || len(page.Sessions) != min(stalled, benched.Limit) || len(page.Unreadable) > 0 {
					b.Fatal(len(page.Sessions), page.Unreadable, err)
				}
			}
		})
	}
}

// BenchmarkObserve observes 1,000 leases.
func BenchmarkObserve(b *testing.B) {
	s, _ := leased(b, 1000)
	var suspects []string
	for i := range 1000 {
		suspects = append(suspects, fmt.Sprint("lease-", i))
	}
	for b.Loop() {
		if all, err := s.ObserveLeases(b.Context(), suspects); err != nil || len(all) != 1000 {
			b.Fatal(len(all), err)
		}
	}
}

// BenchmarkList lists the ten newest sessions of a host.
func BenchmarkList(b *testing.B) {
	s, _ := crowded(b, active(), 0)
	for b.Loop() {
		page, err := s.List(b.Context(), session.ListQuery{Live: true, Host: "host-1", Limit: 10})
		if err != nil || len(page.Sessions) != 10 {
			b.Fatal(len(page.Sessions), err)
		}
	}
}

// leased returns a store with active sessions in 1,000 leases, which vouch for two hours.
func leased(b *testing.B, active int) (*sqlite.Store, *sql.DB) {
	b.Helper()
	file := newFile(b)
	s := openAt(b, file)
	db := openPlain(b, file, "busy_timeout(10000)", "synchronous(OFF)")
	for i := range 1000 {
		mustExec(b, db, fmt.Sprintf(`INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, renewed_at)
			VALUES ('lease-%d', 'host-1', 10000000000, 1, 7200000000000, 7200000000000, '2026-03-04 12:00:00.000000')`, i))
	}
	fillLease(b, db, "", active)
	mustExec(b, db, "UPDATE watchdog_sessions SET lease = 'lease-' || (substr(run_id, -3) + 0), activity = 3600000000000")
	return s, db
}

func benchmarkBare(b *testing.B, db *sql.DB, columns string, want int) {
	b.Helper()
	mustExec(b, db, "CREATE INDEX bare ON watchdog_sessions (status, last_event_at)")
	defer mustExec(b, db, "DROP INDEX bare")
	bare, err := db.PrepareContext(b.Context(), `SELECT `+columns+` FROM watchdog_sessions
		WHERE status = 'active' AND last_event_at < ? ORDER BY last_event_at LIMIT 10`)
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	for b.Loop() {
		rows, err := bare.QueryContext(b.Context(), sqlite.FormatTime(time.Now().Add(-benched.Threshold)))
		countRows(b, rows, err, want)
	}
}

// BenchmarkFreshen freshens 10,000 of the active sessions in one call.
func BenchmarkFreshen(b *testing.B) {
	s, _ := crowded(b, active(), 0)
	beginLease(b, s, "lease-1")
	fresh := make([]session.Freshness, 10_000)
	for i := range fresh {
		fresh[i] = session.Freshness{RunID: runNumber(i * (active() / 10_000)), Attempt: 1}
	}
	for b.Loop() {
		for i := range fresh {
			fresh[i].Activity++
		}
		if skipped, err := s.Freshen(b.Context(), "lease-1", fresh); err != nil || len(skipped.Gone) > 0 {
			b.Fatal(len(skipped.Gone), err)
		}
	}
}

// BenchmarkCancel cancels one session after another, each with two events.
func BenchmarkCancel(b *testing.B) {
	s, db := crowded(b, active(), 0)
	now := time.Now()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		stalled := silentSince(runNumber(n%active()), now.Add(-time.Hour))
		if err := (putter{Store: s, other: db}).Put(b.Context(), stalled); err != nil {
			b.Fatal(err)
		}
		advisory, terminal := numbered(int64(2*n)), numbered(int64(2*n+1))
		b.StartTimer()
		outcome, err := s.Cancel(b.Context(), stalled, session.CancelRequest{
			Reason: "watchdog_idle_timeout", Events: []watchdog.Event{advisory, terminal},
		})
		if err != nil || outcome != session.Done {
			b.Fatal(outcome, err)
		}
	}
}

// crowded returns a store with active sessions, some of which are stalled.
func crowded(b *testing.B, active, stalled int) (*sqlite.Store, *sql.DB) {
	b.Helper()
	file := newFile(b)
	s := openAt(b, file)
	db := openPlain(b, file, "busy_timeout(10000)", "synchronous(OFF)")
	b.Cleanup(func() { db.Close() })
	now := time.Now()
	rows := make([]session.Session, active)
	for i := range rows {
		at := now.Add(24*time.Hour + time.Duration(i)*time.Microsecond) // stays fresh for as long as the benchmark takes
		if i >= active-stalled {
			at = now.Add(-time.Hour)
		}
		rows[i] = silentSince(runNumber(i), at)
	}
	if err := (putter{Store: s, other: db}).Put(b.Context(), rows...); err != nil {
		b.Fatal(err)
	}
	return s, db
}

func runNumber(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n) }

func silentSince(runID string, at time.Time) session.Session {
	return session.Session{
		RunID: runID, Status: session.Active, CreatedAt: at.Add(-time.Hour), LastEventAt: at,
		StartedAt: at, Host: "host-1", Attempt: 1,
	}
}

func countRows(b *testing.B, rows *sql.Rows, err error, want int) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	columns, _ := rows.Columns()
	row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range row {
		into[i] = &row[i]
	}
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			b.Fatal(err)
		}
	}
	if rows.Err() != nil || n != want {
		b.Fatal(n, rows.Err())
	}
}

// judgeAll lists the active sessions and judges each, as hosts do.
func judgeAll(b *testing.B, db *sql.DB) (stalled int) {
	b.Helper()
	rows, err := db.QueryContext(b.Context(),
		"SELECT run_id, last_event_at FROM watchdog_sessions WHERE status = 'active'")
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for now := time.Now(); rows.Next(); {
		var runID, text string
		if err := rows.Scan(&runID, &text); err != nil {
			b.Fatal(err)
		}
		at, err := time.Parse("2006-01-02 15:04:05.000000", text)
		if err != nil {
			b.Fatal(err)
		}
		if now.Sub(at) > benched.Threshold {
			stalled++
		}
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return stalled
}
