package postgres_test

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// durable returns a store on a server of its own that syncs its writes to disk, and a pool.
func durable(b *testing.B, parameters string) (*postgres.Store, *pgxpool.Pool) {
	b.Helper()
	own := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: []string{"shared_buffers=1GB"}})
	dsn := own.DSN(own.Database(b))
	return openAt(b, dsn+parameters, postgres.Config{}), hostPool(b, dsn+parameters)
}

// BenchmarkAppend appends one event in each call, durably. Beside it runs the same insert written by hand, which pgx
// prepares once for each connection.
func BenchmarkAppend(b *testing.B) {
	s, pool := durable(b, "&pool_max_conns=16")
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("by hand/writers=%d", writers), func(b *testing.B) {
			mustExec(b, pool, "TRUNCATE events")
			eachWriter(b, writers, func(n int64) error {
				e := numbered(n)
				_, err := pool.Exec(b.Context(), `INSERT INTO events VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
					e.ID, e.AggregateType, e.AggregateID, e.Type, string(e.Payload), e.Timestamp, nil)
				return err
			})
		})
		b.Run(fmt.Sprintf("opened/writers=%d", writers), func(b *testing.B) {
			mustExec(b, pool, "TRUNCATE events")
			eachWriter(b, writers, func(n int64) error { return s.Append(b.Context(), numbered(n)) })
		})
	}
}

// BenchmarkTransact reads the last five of a run's hundred events and appends one, in each exchange. Beside it runs
// Append of as many events.
func BenchmarkTransact(b *testing.B) {
	s, pool := durable(b, "&pool_max_conns=16")
	fillRuns(b, pool, 1000, 100)
	for _, size := range []int{1, 128} {
		for _, writers := range []int{1, 16} {
			name := fmt.Sprintf("exchanges=%d/writers=%d", size, writers)
			b.Run("Append/"+name, func(b *testing.B) {
				eachWriter(b, writers, func(int64) error { return s.Append(b.Context(), freshEvents(size)...) })
			})
			b.Run("Transact/"+name, func(b *testing.B) {
				eachWriter(b, writers, func(int64) error { return s.Transact(b.Context(), tripsOf(freshEvents(size))...) })
			})
		}
	}
}

// fillRuns writes the events of runs, a second apart.
func fillRuns(tb testing.TB, pool *pgxpool.Pool, runs, events int) {
	tb.Helper()
	mustExec(tb, pool, fmt.Sprintf(`
		INSERT INTO events
		SELECT 'filled-' || run || '-' || n, 'runtime_control', 'run-' || run, 'type-' || n %% 9, '{"n":1}',
			timestamptz '2026-03-04 12:00:00Z' + n * interval '1 second'
		FROM generate_series(1, %d) AS n, generate_series(1, %d) AS run`, events, runs), "VACUUM ANALYZE events")
}

// freshEvents returns events of different runs, with new IDs.
func freshEvents(count int) (events []watchdog.Event) {
	for _, run := range rand.Perm(1000)[:count] {
		e := numbered(int64(run))
		e.ID, e.AggregateID = crand.Text(), fmt.Sprint("run-", run+1)
		events = append(events, e)
	}
	return events
}

// tripsOf returns an exchange for each event.
func tripsOf(events []watchdog.Event) (exchanges []*watchdog.Exchange) {
	for _, e := range events {
		one := appending(e.AggregateID, e)
		one.Since, one.LatestOf = noon.Add(95*time.Second), []string{"type-1"}
		exchanges = append(exchanges, one)
	}
	return exchanges
}

// BenchmarkSelect reads the last ten of a hundred thousand events of one run, and two more. Beside it runs Read.
func BenchmarkSelect(b *testing.B) {
	s, pool := durable(b, "&pool_max_conns=1")
	fillRuns(b, pool, 1, 100_000)
	selection := watchdog.Selection{
		AggregateType: watchdog.AggregateType, AggregateID: "run-1", Since: noon.Add(99_991 * time.Second),
		LatestOf: []string{"type-1"}, IDs: []string{"filled-1-7"},
	}
	b.Run("Select", func(b *testing.B) {
		finds(b, 12, func() int {
			events, err := s.Select(b.Context(), selection)
			require.NoError(b, err)
			return len(events)
		})
	})
	b.Run("Read", func(b *testing.B) {
		finds(b, 100_000, func() int {
			events, err := s.Read(b.Context(), watchdog.AggregateType, "run-1")
			require.NoError(b, err)
			return len(events)
		})
	})
}

// BenchmarkFollow polls a table of a million events, of which none is new.
func BenchmarkFollow(b *testing.B) {
	s, pool := durable(b, "&pool_max_conns=1")
	fillRuns(b, pool, 10_000, 100)
	for _, test := range []struct{ name, aggregateID, before string }{
		{"nothing written", "", "SELECT"},
		{"other tables written", "", "SELECT pg_current_xact_id()"},
		{"one run", "run-7", "SELECT pg_current_xact_id()"},
	} {
		b.Run(test.name, func(b *testing.B) {
			mark := texts(b, pool, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text")[0]
			mustExec(b, pool, test.before)
			statement, arguments := s.FollowStatement(test.aggregateID, mark)
			for b.Loop() {
				_, err := pool.Exec(b.Context(), statement, arguments...)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkStalled finds ten of fifty stalled sessions, and none, among the active ones. Beside it run the bare
// query, prepared and with an index; and what hosts usually do: list the active sessions and judge each.
func BenchmarkStalled(b *testing.B) {
	active := 100_000
	if os.Getenv("WATCHDOG_LONG") != "" {
		active = 1_000_000
	}
	s, pool := durable(b, "&pool_max_conns=1")
	fill(b, pool, active, 50)
	for _, want := range []int{10, 0} {
		if want == 0 {
			mustExec(b, pool, "DELETE FROM watchdog_sessions WHERE run_id LIKE 'stalled%'", "VACUUM ANALYZE watchdog_sessions")
		}
		name := fmt.Sprintf("active=%d/found=%d", active, want)
		b.Run(name+"/the bare query", func(b *testing.B) {
			finds(b, want, func() int { return bareQuery(b, pool) })
		})
		b.Run(name+"/Stalled", func(b *testing.B) {
			finds(b, want, func() int {
				page, err := s.Stalled(b.Context(), session.Query{Threshold: threshold, MinAge: minAge, Limit: 10})
				require.NoError(b, err)
				return len(page.Sessions)
			})
		})
		b.Run(name+"/all of them, judged in Go", func(b *testing.B) {
			finds(b, want, func() int { return min(10, judgeAll(b, pool)) })
		})
	}
}

func finds(b *testing.B, want int, find func() int) {
	b.Helper()
	for b.Loop() {
		require.Equal(b, want, find())
	}
}

func bareQuery(b *testing.B, pool *pgxpool.Pool) (found int) {
	b.Helper()
	rows, err := pool.Query(b.Context(), `SELECT run_id, silent FROM watchdog_sessions
		WHERE status = 'active' AND readable AND threshold = 0 AND silent < $1
		ORDER BY silent, run_id LIMIT 10`, time.Now().Add(-threshold))
	require.NoError(b, err)
	defer rows.Close()
	for rows.Next() {
		found++
	}
	return found
}

func judgeAll(b *testing.B, pool *pgxpool.Pool) (found int) {
	b.Helper()
	rows, err := pool.Query(b.Context(), `SELECT run_id, created_at, last_event_at, threshold
		FROM watchdog_sessions WHERE status = 'active'`)
	require.NoError(b, err)
	defer rows.Close()
	for rows.Next() {
		var runID string
		var created, last time.Time
		var own time.Duration
		require.NoError(b, rows.Scan(&runID, &created, &last, &own))
		if time.Since(last) > max(own, threshold) && time.Since(created) >= minAge {
			found++
		}
	}
	return found
}

// BenchmarkFreshen freshens ten thousand sessions among a hundred thousand.
func BenchmarkFreshen(b *testing.B) {
	s, pool := durable(b, "")
	fill(b, pool, 100_000, 0)
	begin(b, s, lease1)
	fresh := make([]session.Freshness, 10_000)
	for i := range fresh {
		fresh[i] = session.Freshness{RunID: fmt.Sprintf("run-%08d", i*10+1), Attempt: 1}
	}
	for b.Loop() {
		for i := range fresh {
			fresh[i].Activity++
		}
		skipped, err := s.Freshen(b.Context(), lease1, fresh)
		require.NoError(b, err)
		require.Empty(b, slices.Concat(skipped.Gone, skipped.Locked))
		require.Empty(b, skipped.Failed)
	}
}

// BenchmarkCancel cancels attached sessions, each with one event.
func BenchmarkCancel(b *testing.B) {
	s, _ := durable(b, "&pool_max_conns=16")
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			judged := make([]session.Session, b.N+1)
			for i := range judged {
				judged[i] = attach(b, s, fmt.Sprintf("%d-%d-%d", writers, b.N, i))
			}
			eachWriter(b, writers, func(n int64) error {
				_, err := s.Cancel(context.WithoutCancel(b.Context()), judged[n], cancelOf("c"+judged[n].RunID, judged[n].RunID))
				return err
			})
		})
	}
}

// eachWriter divides b.N calls among the writers.
func eachWriter(b *testing.B, writers int, call func(n int64) error) {
	b.Helper()
	var all sync.WaitGroup
	var calls atomic.Int64
	b.ResetTimer()
	for range writers {
		all.Go(func() {
			for n := calls.Add(1); n <= int64(b.N); n = calls.Add(1) {
				if err := call(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}
