package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// BenchmarkAppend appends one event in each call, durably. Beside it runs the same insert written by hand: prepared
// once, one row in each transaction, the same driver and the same pragmas. Compare only results of one run, because
// most of the time is the disk's sync.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("by hand/writers=%d", writers), func(b *testing.B) {
			insert := byHand(b)
			eachWriter(b, writers, func(n int64) error { return insert(b.Context(), numbered(n)) })
		})
		b.Run(fmt.Sprintf("opened/writers=%d", writers), func(b *testing.B) {
			s := openNew(b)
			eachWriter(b, writers, func(n int64) error { return s.Append(b.Context(), numbered(n)) })
		})
		b.Run(fmt.Sprintf("host's database/writers=%d", writers), func(b *testing.B) {
			s := newStore(b, hostDatabase(b, filepath.Join(b.TempDir(), "host.db")))
			eachWriter(b, writers, func(n int64) error { return s.Append(b.Context(), numbered(n)) })
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

// byHand creates the table as Open does, and returns the insert that a program without this package would write.
func byHand(b *testing.B) func(context.Context, event.Event) error {
	b.Helper()
	file := filepath.Join(b.TempDir(), "events.db")
	s, err := sqlite.Open(b.Context(), file)
	require.NoError(b, err)
	require.NoError(b, s.Close())
	db := hostDatabase(b, file)
	insert, err := db.PrepareContext(b.Context(), `INSERT INTO events
		(id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id) VALUES (?, ?, ?, ?, ?, ?, ?)`)
	require.NoError(b, err)
	b.Cleanup(func() { insert.Close() })
	return func(ctx context.Context, e event.Event) error {
		_, err := insert.ExecContext(ctx, e.ID, e.AggregateType, e.AggregateID, e.Type, string(e.Payload),
			e.Timestamp.UTC().Format("2006-01-02 15:04:05.000000"), nil)
		return err
	}
}
