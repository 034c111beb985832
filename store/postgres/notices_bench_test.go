package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// BenchmarkNotices claims and finishes a hundred notices beside a million that are delayed, and of a million that are
// due. Beside it runs the claim that finds nothing, of which a sender makes most.
func BenchmarkNotices(b *testing.B) {
	const batch, million = 100, 1_000_000
	own := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: []string{"shared_buffers=1GB"}})
	for name, delayed := range map[string]int{"delayed": million, "due": 0} {
		dsn := own.DSN(own.Database(b))
		s, pool := openAt(b, dsn, postgres.Config{Outbox: true}), hostPool(b, dsn)
		fillOutbox(b, pool, delayed, million-delayed)
		if name == "delayed" {
			b.Run(name+"/nothing to claim", func(b *testing.B) {
				for b.Loop() {
					all, err := s.ClaimNotices(b.Context(), batch, time.Hour)
					require.NoError(b, err)
					require.Empty(b, all)
				}
			})
		}
		b.Run(fmt.Sprintf("%s/claim and finish %d", name, batch), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				mustExec(b, pool, fmt.Sprintf(`
					INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
					SELECT gen_random_uuid(), 'runtime_control', 'run-' || n, 'runtime.watchdog.cancel', now()
					FROM generate_series(1, %d) AS n`, batch))
				b.StartTimer()
				all, err := s.ClaimNotices(b.Context(), batch, time.Hour)
				require.NoError(b, err)
				require.Len(b, all, batch)
				require.NoError(b, s.FinishNotices(b.Context(), all...))
			}
		})
	}
}
