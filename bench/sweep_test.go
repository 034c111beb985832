package bench_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

const stalledAtFirst = 50

var (
	smallCrowds = []int{10_000, 100_000}
	// largeCrowd is the number of active sessions with WATCHDOG_LONG set.
	largeCrowd = 1_000_000
)

// BenchmarkSweep finds stalled sessions among many active ones. It compares the sweeper with the bare query for the same
// columns, and for two, prepared and with an index of its own, and with what hosts write: list all active sessions and
// judge each.
func BenchmarkSweep(b *testing.B) {
	crowds := smallCrowds
	if os.Getenv("WATCHDOG_LONG") != "" {
		crowds = append(crowds, largeCrowd)
	}
	for _, active := range crowds {
		b.Run(fmt.Sprintf("in=SQLite/active=%d", active), func(b *testing.B) { newSQLite(b).bench(b, active) })
	}
	b.Run("in=PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		for _, active := range crowds {
			b.Run(fmt.Sprintf("active=%d", active), func(b *testing.B) { newPostgres(b, server).bench(b, active) })
		}
	})
}

// A crowd is a database with many active sessions.
type crowd struct {
	store interface {
		session.Store
		io.Closer
	}
	db      *sql.DB
	dialect dialect
}

// A dialect has the SQL that differs between the databases. Rows that are not stalled stay fresh during a benchmark.
type dialect struct {
	rows, bare, tidy string
}

// Columns are those that Stalled returns, and of which a page of it is made.
const (
	columns = `run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason,
		lease, activity, quiet_since, warned_at, claim, stop_failed, state`
	twoColumns = `run_id, last_event_at`
)

var inSQLite = dialect{
	rows: `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
			times(i, at) AS (SELECT i, CASE
				WHEN i <= ?2 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', -(900 + 60 * i) || ' seconds')
			ELSE strftime('%Y-%m-%d %H:%M:%f000', 'now', '1 day', (i / 1000.0) || ' seconds') END FROM n)
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT printf('run-%07d', i), 'active', '2026-01-01 00:00:00.000000', at, '2026-01-01 00:00:00.000000',
				'host-' || (i % 3), 1 FROM times`,
	bare: `SELECT %s FROM watchdog_sessions
		WHERE status = 'active' AND last_event_at < strftime('%%Y-%%m-%%d %%H:%%M:%%f000', 'now', '-600 seconds')
		ORDER BY last_event_at LIMIT 10`,
	tidy: `ANALYZE watchdog_sessions`,
}

var inPostgres = dialect{
	rows: `INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT format('run-%s', lpad(i::text, 7, '0')), 'active', '2026-01-01Z',
				CASE WHEN i <= $2::int THEN now() - (900 + 60 * i) * interval '1 second'
					ELSE now() + interval '1 day' + i * interval '1 millisecond' END, '2026-01-01Z', 'host-' || (i % 3), 1
				FROM generate_series(1, $1::int) AS n(i)`,
	bare: `SELECT %s FROM watchdog_sessions
		WHERE status = 'active' AND last_event_at < now() - interval '600 seconds' ORDER BY last_event_at LIMIT 10`,
	tidy: `VACUUM ANALYZE watchdog_sessions`,
}

const listing = `SELECT run_id, last_event_at FROM watchdog_sessions WHERE status = 'active'`

func newSQLite(b *testing.B) *crowd {
	b.Helper()
	file := filepath.Join(b.TempDir(), "sessions.db")
	store, err := sqlite.Open(b.Context(), file)
	check(b, err)
	db := &crowd{store: store, dialect: inSQLite}
	return db.open(b, "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=synchronous(OFF)")
}

func newPostgres(b *testing.B, server *pgtest.Server) *crowd {
	b.Helper()
	dsn := server.DSN(server.Database(b))
	store, err := postgres.Open(b.Context(), dsn, postgres.Config{})
	check(b, err)
	return (&crowd{store: store, dialect: inPostgres}).open(b, "pgx", dsn)
}

func (c *crowd) open(b *testing.B, driver, source string) *crowd {
	b.Helper()
	db, err := sql.Open(driver, source)
	check(b, err)
	c.db = db
	b.Cleanup(func() { check(b, cmp.Or(db.Close(), c.store.Close())) })
	return c
}

func (c *crowd) exec(b *testing.B, statement string, arguments ...any) {
	b.Helper()
	_, err := c.db.ExecContext(b.Context(), statement, arguments...)
	check(b, err)
}

func (c *crowd) bench(b *testing.B, active int) {
	b.Helper()
	c.exec(b, c.dialect.rows, active, stalledAtFirst)
	c.exec(b, c.dialect.tidy)
	c.find(b, 10, stalledAtFirst)
	b.Run("pass=cancels 10", c.pass)
	lastStalled := fmt.Sprintf("run-%07d", stalledAtFirst)
	c.exec(b, "UPDATE watchdog_sessions SET status = 'finished' WHERE run_id <= $1", lastStalled)
	c.exec(b, c.dialect.tidy)
	c.find(b, 0, 0)
}

// find asks for ten stalled sessions.
func (c *crowd) find(b *testing.B, want, stalled int) {
	b.Helper()
	q := session.Query{Threshold: sweep.DefaultStalledThreshold, MinAge: sweep.DefaultMinAge, Limit: 10}
	b.Run(fmt.Sprintf("find=%d of %d/with=Stalled", want, stalled), func(b *testing.B) {
		for b.Loop() {
			page, err := c.store.Stalled(b.Context(), q)
			mustBe(b, want, len(page.Sessions), err)
		}
	})
	c.exec(b, "CREATE INDEX bare ON watchdog_sessions (status, last_event_at)")
	c.exec(b, c.dialect.tidy)
	for name, columns := range map[string]string{"bare query": columns, "bare query, two columns": twoColumns} {
		b.Run(fmt.Sprintf("find=%d of %d/with=%s", want, stalled, name), func(b *testing.B) {
			bare, err := c.db.PrepareContext(b.Context(), fmt.Sprintf(c.dialect.bare, columns))
			check(b, err)
			defer bare.Close()
			for b.Loop() {
				found, err := count(bare.QueryContext(b.Context()))
				mustBe(b, want, found, err)
			}
		})
	}
	c.exec(b, "DROP INDEX bare")
	b.Run(fmt.Sprintf("find=%d of %d/with=listing", want, stalled), func(b *testing.B) {
		for b.Loop() {
			found, err := each(c.db.QueryContext(b.Context(), listing))(isStalled)
			mustBe(b, stalled, found, err)
		}
	})
}

// pass measures a whole pass of a sweeper.
func (c *crowd) pass(b *testing.B) {
	sweeper, err := sweep.New(c.store, c.store, sweep.Config{Logger: quiet})
	check(b, err)
	for b.Loop() {
		p, err := sweeper.Sweep(context.Background())
		mustBe(b, 10, p.Cancelled, err)
		b.StopTimer()
		c.exec(b, "UPDATE watchdog_sessions SET status = 'active', reason = '' WHERE status = 'cancelled'")
		c.exec(b, "DELETE FROM events")
		b.StartTimer()
	}
}

// each returns a function that counts the rows of a query, each a run and a time, that satisfy a condition.
func each(rows *sql.Rows, err error) func(counts func(lastEventAt any) bool) (int, error) {
	return func(counts func(lastEventAt any) bool) (n int, _ error) {
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		var runID string
		var lastEventAt any
		for rows.Next() {
			if err := rows.Scan(&runID, &lastEventAt); err != nil {
				return 0, err
			}
			if counts(lastEventAt) {
				n++
			}
		}
		return n, rows.Err()
	}
}

// count scans the rows of a query, whatever their columns are, and counts them.
func count(rows *sql.Rows, err error) (n int, _ error) {
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range into {
		into[i] = &values[i]
	}
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

// isStalled judges a session as a host would.
func isStalled(lastEventAt any) bool {
	return time.Since(timeOf(lastEventAt)) > sweep.DefaultStalledThreshold
}

// timeOf converts the driver's value, which is a text for SQLite.
func timeOf(value any) time.Time {
	if at, ok := value.(time.Time); ok {
		return at
	}
	at, err := time.Parse("2006-01-02 15:04:05.000000", value.(string))
	if err != nil {
		panic(err)
	}
	return at
}

func mustBe(b *testing.B, want, got int, err error) {
	b.Helper()
	if err != nil || got != want {
		b.Fatal(got, "instead of", want, err)
	}
}

// BenchmarkSnapshot finds 50 stalled sessions, all there are, after an hour of 10,000 runs, in which a stranger held a
// snapshot, so that no version of a row that the hour left behind could be removed, and without the stranger. What the
// runs did:
//
//   - busy: each has a lease, and had its activity written once a minute;
//   - waking: each has a lease, fell quiet, and woke up again, every five minutes;
//   - without-lease: another program wrote the time of each one's last event once a minute.
func BenchmarkSnapshot(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{}) // its writes are not measured
	for _, kind := range []struct {
		name string
		hour func(b *testing.B, c *crowd)
	}{{"busy", busyHour}, {"waking", wakingHour}, {"without-lease", hourWithoutLease}} {
		for _, held := range []bool{false, true} {
			b.Run(fmt.Sprintf("runs=%s/snapshot=%v", kind.name, held), func(b *testing.B) {
				c := newPostgres(b, server)
				c.exec(b, c.dialect.rows, liveRuns, stalledAtFirst)
				c.exec(b, c.dialect.tidy)
				if held {
					defer c.holdSnapshot(b)()
				}
				kind.hour(b, c)
				c.exec(b, c.dialect.tidy)
				c.exec(b, "VACUUM ANALYZE watchdog_leases")
				b.ResetTimer()
				q := session.Query{Threshold: sweep.DefaultStalledThreshold, MinAge: sweep.DefaultMinAge, Limit: 100}
				for b.Loop() {
					page, err := c.store.Stalled(b.Context(), q)
					mustBe(b, stalledAtFirst, len(page.Sessions), err)
				}
			})
		}
	}
}

// holdSnapshot opens a transaction that sees the database as it is now.
func (c *crowd) holdSnapshot(b *testing.B) (end func()) {
	b.Helper()
	conn, err := c.db.Conn(b.Context())
	check(b, err)
	for _, statement := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM watchdog_sessions"} {
		_, err = conn.ExecContext(b.Context(), statement)
		check(b, err)
	}
	return func() {
		_, err := conn.ExecContext(b.Context(), "ROLLBACK")
		check(b, err)
		check(b, conn.Close())
	}
}

// A leased crowd is one whose runs have the lease of a process, but for those that are stalled.
type leased struct {
	*crowd
	session.Lease
}

func lease(b *testing.B, c *crowd) *leased {
	b.Helper()
	l := &leased{crowd: c, Lease: session.Lease{ID: "lease-1", Host: "host-1", Promise: 10 * time.Second, Beat: 1}}
	check(b, c.store.BeginLease(b.Context(), l.Lease))
	return l
}

// write writes the activity of each run as it is now, in batches as a keeper does.
func (l *leased) write(b *testing.B, quiet bool) {
	b.Helper()
	var fresh []session.Freshness
	for i := stalledAtFirst + 1; i <= liveRuns; i++ {
		fresh = append(fresh, session.Freshness{
			RunID: fmt.Sprintf("run-%07d", i), Attempt: 1, Activity: l.Clock, Quiet: quiet,
		})
	}
	skipped, err := l.store.Freshen(b.Context(), l.ID, fresh)
	mustBe(b, 0, len(skipped.Gone)+len(skipped.Locked)+len(skipped.Failed), err)
}

// renew has a time go by, in which the lease is renewed.
func (l *leased) renew(b *testing.B, d time.Duration) {
	b.Helper()
	for ; d > 0; d -= 3333 * time.Millisecond {
		l.Beat++
		l.Clock += 3333 * time.Millisecond
		l.Vouched = l.Clock
		check(b, l.store.RenewLease(b.Context(), l.Lease))
	}
}

func busyHour(b *testing.B, c *crowd) {
	b.Helper()
	l := lease(b, c)
	for range 60 {
		l.renew(b, time.Minute)
		l.write(b, false)
	}
}

func wakingHour(b *testing.B, c *crowd) {
	b.Helper()
	l := lease(b, c)
	for range 12 {
		l.renew(b, time.Minute)
		l.write(b, true)
		l.renew(b, 4*time.Minute)
		l.write(b, false)
	}
}

func hourWithoutLease(b *testing.B, c *crowd) {
	b.Helper()
	for minute := range 60 {
		c.exec(b, `UPDATE watchdog_sessions SET last_event_at = now() - $1 * interval '1 minute' WHERE run_id > $2`,
			59-minute, fmt.Sprintf("run-%07d", stalledAtFirst))
	}
}
