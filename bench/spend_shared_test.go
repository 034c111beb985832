package bench_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// BenchmarkAdmitShared is an admission and its settling on a scope that 16 callers share, durably, in PostgreSQL: by
// slices, and by the bare guarded UPDATE for each call. The calls use five sixths of the limit, so that slices get
// smaller as they do in life.
func BenchmarkAdmitShared(b *testing.B) {
	const callers, cost = 16, 5
	dsn := server(b)
	store, err := postgres.Open(b.Context(), fmt.Sprintf("%s&pool_max_conns=%d", dsn, callers), postgres.Config{})
	must(b, err)
	defer store.Close()
	b.Run("by=guarded UPDATE", func(b *testing.B) { guardedUpdates(b, "pgx", dsn, callers) })
	b.Run("by=slices", func(b *testing.B) {
		wd, err := watchdog.New(b.Context(), watchdog.Run{ID: rand.Text(), StartedAt: time.Now()}, watchdog.Config{
			Store: store, Scopes: []watchdog.SharedSpend{{Scope: rand.Text(), Spend: watchdog.Spend{
				Requests: watchdog.NoLimit, WarnAt: []float64{},
				Cost: watchdog.Money{Micros: int64(b.N)*cost*6/5 + callers*cost, Currency: "EUR"},
			}}},
		})
		must(b, err)
		defer wd.Close()
		amount := watchdog.Amount{Requests: 1, Cost: watchdog.Money{Micros: cost, Currency: "EUR"}}
		fromMany(b, callers, func() error {
			c, err := wd.Admit(context.Background(), "", amount)
			if err != nil {
				return err
			}
			return c.Settle(amount)
		})
	})
}

func server(b *testing.B) string {
	b.Helper()
	s := pgtest.Start(b, pgtest.Options{Fsync: true})
	return s.DSN(s.Database(b))
}
