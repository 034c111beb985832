package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

// BenchmarkNotices claims and finishes a hundred notices beside a million that are delayed, and of a million that are
// due. Beside it runs the claim that finds nothing, of which a sender makes most.
func BenchmarkNotices(b *testing.B) {
	const batch, million = 100, 1_000_000
	for name, due := range map[string]string{"delayed": "'2999-01-01 00:00:00.000000'", "due": "''"} {
		file := newFile(b)
		s, db := openWith(b, file, withOutbox), openPlain(b, file, "busy_timeout(10000)", "synchronous(OFF)")
		fill := func(n int, due string) {
			mustExec(b, db, fmt.Sprintf(`
				WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d)
				INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at, due_at)
				SELECT lower(hex(randomblob(16))), '%s', 'run-' || n, '%s', '2026-03-04 12:00:00.000000', %s FROM numbers`,
				n, watchdog.AggregateType, watchdog.EventCancel, due))
		}
		fill(million, due)
		if name == "delayed" {
			b.Run(name+"/nothing to claim", func(b *testing.B) {
				for b.Loop() {
					if all, err := s.ClaimNotices(b.Context(), batch, time.Hour); err != nil || len(all) != 0 {
						b.Fatal(len(all), err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("%s/claim and finish %d", name, batch), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				fill(batch, "''")
				b.StartTimer()
				all, err := s.ClaimNotices(b.Context(), batch, time.Hour)
				if err != nil || len(all) != batch {
					b.Fatal(len(all), err)
				}
				if err := s.FinishNotices(b.Context(), all...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
