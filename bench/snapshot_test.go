package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

// BenchmarkSnapshot finds 50 stalled sessions, all there are, after an hour of 10,000 runs, in which a stranger held a snapshot, so
// that no version of a row that the hour left behind could be removed, and without the stranger. What the runs did:
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
	must(b, err)
	for _, statement := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM watchdog_sessions"} {
		_, err = conn.ExecContext(b.Context(), statement)
		must(b, err)
	}
	return func() {
		_, err := conn.ExecContext(b.Context(), "ROLLBACK")
		must(b, err)
		must(b, conn.Close())
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
	must(b, c.store.BeginLease(b.Context(), l.Lease))
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
		must(b, l.store.RenewLease(b.Context(), l.Lease))
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
