package bench_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// BenchmarkSpendTake charges one shared scope, durably, in each call. Beside it runs what a host writes by hand: one
// guarded UPDATE of a row, prepared, with the same settings of commit and as many connections. A run takes a slice for
// many calls, and the guarded UPDATE is one for each.
func BenchmarkSpendTake(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("in=SQLite/callers=%d", callers), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "spend.db")
			store, err := sqlite.Open(b.Context(), file)
			must(b, err)
			defer store.Close()
			b.Run("by=Take", func(b *testing.B) { takes(b, store, callers) })
			b.Run("by=guarded UPDATE", func(b *testing.B) {
				pragmas := "?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
				guardedUpdates(b, "sqlite", "file:"+file+pragmas, callers)
			})
		})
	}
	b.Run("in=PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
				dsn := server.DSN(server.Database(b))
				store, err := postgres.Open(b.Context(), fmt.Sprintf("%s&pool_max_conns=%d", dsn, callers), postgres.Config{})
				must(b, err)
				defer store.Close()
				b.Run("by=Take", func(b *testing.B) { takes(b, store, callers) })
				b.Run("by=guarded UPDATE", func(b *testing.B) { guardedUpdates(b, "pgx", dsn, callers) })
			})
		}
	})
}

func takes(b *testing.B, store watchdog.SpendStore, callers int) {
	b.Helper()
	fromMany(b, callers, func() error {
		g, err := store.Take(context.Background(), watchdog.Slice{
			ID: rand.Text(), Scope: "tenant-1", Currency: "EUR", Period: watchdog.PeriodDay, Zone: "Europe/Berlin",
			Least: watchdog.Totals{Requests: 1, Cost: 5},
			Limit: watchdog.Totals{Requests: watchdog.NoLimit, Cost: watchdog.NoLimit},
		})
		if err == nil && !g.Fits {
			err = fmt.Errorf("does not fit: %+v", g)
		}
		return err
	})
}

const guardedUpdate = `UPDATE by_hand SET requests = requests + $2, cost = cost + $3
	WHERE scope = $1 AND requests + $2 <= $4 AND cost + $3 <= $4`

func guardedUpdates(b *testing.B, driver, source string, connections int) {
	b.Helper()
	db, err := sql.Open(driver, source)
	must(b, err)
	defer db.Close()
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS by_hand (scope VARCHAR(255) PRIMARY KEY, requests BIGINT NOT NULL, cost BIGINT NOT NULL)`,
		`INSERT INTO by_hand VALUES ('tenant-1', 0, 0) ON CONFLICT DO NOTHING`,
	} {
		_, err := db.ExecContext(b.Context(), statement)
		must(b, err)
	}
	update, err := db.PrepareContext(b.Context(), guardedUpdate) //nolint:sqlclosecheck // with db
	must(b, err)
	fromMany(b, connections, func() error {
		result, err := update.ExecContext(context.Background(), "tenant-1", 1, 5, int64(1)<<60)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n != 1 {
			return fmt.Errorf("%d rows were charged: %w", n, err)
		}
		return nil
	})
}

// fromMany divides b.N calls among the callers.
func fromMany(b *testing.B, callers int, call func() error) {
	b.Helper()
	var all sync.WaitGroup
	var calls atomic.Int64
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}
