package bench_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// handBatch is how many rows the inserts by hand write in one transaction, as many as the library.
const handBatch = 512

// BenchmarkTogetherByHand inserts the rows that the 50,000 runs of [BenchmarkTogether] leave, in batches that one
// statement of many rows inserts each. Nothing is read before, and the events are there already.
func BenchmarkTogetherByHand(b *testing.B) {
	b.Run("store=sqlite", func(b *testing.B) {
		file := filepath.Join(b.TempDir(), "sessions.db")
		store, err := sqlite.Open(b.Context(), file)
		must(b, err)
		must(b, store.Close())
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=synchronous(FULL)")
		must(b, err)
		insertTogether(b, db, func(int) string { return "?" }, func(at time.Time) any {
			return at.Format("2006-01-02 15:04:05.000000")
		})
	})
	b.Run("store=postgres", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		insertTogether(b, newPostgres(b, server).db, func(n int) string { return fmt.Sprintf("$%d", n) },
			func(at time.Time) any { return at })
	})
}

// insertTogether inserts the rows with the parameters and times of a database.
func insertTogether(b *testing.B, db *sql.DB, parameter func(n int) string, timeOf func(time.Time) any) {
	b.Helper()
	full := prepareRows(b, db, handBatch, parameter)
	rest := prepareRows(b, db, together%handBatch, parameter)
	var spent allocated
	for b.Loop() {
		b.StopTimer()
		events := cancels()
		b.StartTimer()
		spent.begin()
		for part := range slices.Chunk(events, handBatch) {
			insert := full
			if len(part) < handBatch {
				insert = rest
			}
			must(b, insertRows(b.Context(), db, insert, part, timeOf))
		}
		spent.end()
	}
	spent.report(b)
}

// prepareRows prepares the insert of so many rows.
func prepareRows(b *testing.B, db *sql.DB, rows int, parameter func(n int) string) *sql.Stmt {
	b.Helper()
	const columns = 7
	var values strings.Builder
	for n := range rows * columns {
		switch {
		case n == 0:
			values.WriteString("(")
		case n%columns == 0:
			values.WriteString("), (")
		default:
			values.WriteString(", ")
		}
		values.WriteString(parameter(n + 1))
	}
	insert, err := db.PrepareContext(b.Context(), `INSERT INTO events
		(id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id)
		VALUES `+values.String()+`) ON CONFLICT (id) DO NOTHING`)
	must(b, err)
	b.Cleanup(func() { must(b, insert.Close()) })
	return insert
}

func insertRows(
	ctx context.Context, db *sql.DB, insert *sql.Stmt, events []watchdog.Event, timeOf func(time.Time) any,
) error {
	var arguments []any
	for _, e := range events {
		arguments = append(arguments, e.ID, e.AggregateType, e.AggregateID, e.Type, string(e.Payload),
			timeOf(e.Timestamp), nil)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.StmtContext(ctx, insert).ExecContext(ctx, arguments...) //nolint:sqlclosecheck // it ends with the transaction
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// cancels are the events of runs that exceed their wall clock, with new IDs.
func cancels() []watchdog.Event {
	events := make([]watchdog.Event, together)
	at := time.Now().UTC().Truncate(time.Microsecond)
	for i := range events {
		id := fmt.Sprintf("%s %d", at.Format("05.000000"), i)
		events[i] = watchdog.Event{
			ID: id, AggregateType: watchdog.AggregateType, AggregateID: id, Type: watchdog.EventCancel, Timestamp: at,
			Payload: json.RawMessage(fmt.Sprintf(`{"reason":"wall_clock_exceeded","session_started_at":%q,"fired_at":%q,`+
				`"elapsed_seconds":3600,"configured_budget_seconds":3600,"event_version":1}`, at.Add(-time.Hour).Format(
				"2006-01-02T15:04:05.000000Z"), at.Format("2006-01-02T15:04:05.000000Z"))),
		}
	}
	return events
}
