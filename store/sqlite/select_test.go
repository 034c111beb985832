package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// foreignRow inserts an event of run-1 as another program would.
func foreignRow(id, kind, timestamp string) string {
	return fmt.Sprintf(`INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		VALUES ('%s', 'runtime_control', 'run-1', '%s', '{}', %s)`, id, kind, timestamp)
}

// Select finds the rows of other writers, whatever the form of their times.
func TestSelectForeignTimes(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	if err := s.Append(t.Context(), numbered(-60), numbered(0), numbered(60)); err != nil { // 11:59, 12:00, 12:01
		t.Fatal(err)
	}
	for id, timestamp := range map[string]string{
		"zulu":       "'2026-03-04T11:59:30Z'",
		"short":      "'2026-03-04 12:00'",
		"few digits": "'2026-03-04 12:00:00.5'",
		"west":       "'2026-03-03 22:00:01-14:00'",
		"east":       "'2026-03-05T01:59:59.9+14:00'",
		"spaced":     "'  2026-03-04 12:00:02  '",
		"of Go":      "'2026-03-04 07:00:03 -0500 EST'",
		"blob":       "x'323032362d30332d30342031323a30303a30342e303030303030'", // our form
	} {
		mustExec(t, db, foreignRow(id, "host."+id, timestamp))
	}
	for _, since := range []time.Time{
		noon.Add(-time.Minute), noon.Add(-time.Second), noon, noon.Add(time.Second), noon.Add(2*time.Second + time.Microsecond),
		noon.Add(4 * time.Second), noon.Add(5 * time.Second), noon.Add(time.Hour),
	} {
		for _, latest := range [][]string{nil, {"host.zulu", "host.east"}, {watchdog.EventCancel}, {"host.blob", "host.of Go"}} {
			comparesToRead(t, s, watchdog.Selection{Since: since, LatestOf: latest, IDs: []string{"west"}})
		}
	}
	t.Run("and without indexes", func(t *testing.T) {
		mustExec(t, db, "DROP INDEX watchdog_events_foreign_time", "DROP INDEX watchdog_events_aggregate")
		comparesToRead(t, s, watchdog.Selection{Since: noon, LatestOf: []string{"host.east"}, IDs: []string{"west"}})
	})
}

// comparesToRead checks that Select selects what a filter of Read does.
func comparesToRead(t *testing.T, s *sqlite.Store, selection watchdog.Selection) {
	t.Helper()
	selection.AggregateType, selection.AggregateID = watchdog.AggregateType, "run-1"
	var want []string
	latest := ""
	all := read(t, s)
	for _, e := range all {
		if e.Timestamp.Before(selection.Since) && slices.Contains(selection.LatestOf, e.Type) {
			latest = e.ID
		}
	}
	for _, e := range all {
		if !e.Timestamp.Before(selection.Since) || e.ID == latest || slices.Contains(selection.IDs, e.ID) {
			want = append(want, e.ID)
		}
	}
	got, err := s.Select(t.Context(), selection)
	require.NoError(t, err)
	require.Equal(t, want, ids(got))
}

func TestSelectUnreadable(t *testing.T) {
	t.Parallel()
	for name, timestamp := range map[string]string{"of another form": "'yesterday'", "that is NULL": "NULL", "number": "1"} {
		t.Run("a time "+name+" is an error that names the row", func(t *testing.T) {
			db := openPlain(t, newFile(t))
			mustExec(t, db, tableWith())
			s := newStore(t, db)
			mustExec(t, db, foreignRow("odd", "host.note", timestamp))
			_, err := s.Select(t.Context(), watchdog.Selection{
				AggregateType: watchdog.AggregateType, AggregateID: "run-1", Since: noon,
			})
			errorSays(t, err, "odd", "timestamp")
		})
	}
}

func TestLayersOfForeignRows(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	insert := `INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		VALUES ('%s', '%s', '%s', 'x', %s, 'any')`
	mustExec(t, db,
		fmt.Sprintf(insert, "1", "runtime_control", "text", `'{"parent":"run"}'`),
		fmt.Sprintf(insert, "2", "runtime_control", "blob", `CAST('{"parent":"run"}' AS BLOB)`),
		fmt.Sprintf(insert, "3", "runtime_control", "broken", `'{"parent":"run"'`), // the index must not refuse it
		fmt.Sprintf(insert, "4", "session", "broken", `'{"parent":"run"'`))
	for range 2 { // with an index, and without one
		layers, err := s.Layers(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, []string{"blob", "text"}, layers)
		mustExec(t, db, "DROP INDEX IF EXISTS watchdog_events_parent")
	}
}

// whileFollowed runs a test in a bubble while the store in a host's database is followed. The function told waits for
// the next look at the table, and returns the IDs that were told since.
func whileFollowed(t *testing.T, test func(t *testing.T, s *sqlite.Store, db *sql.DB, told func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, db := openHosted(t)
		require.NoError(t, s.Append(t.Context(), numbered(1), numbered(2), numbered(3)))
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended, events := make(chan struct{}), make(chan error, 1), make(chan watchdog.Event, 100)
		go func() {
			ended <- s.Follow(ctx, "", func() { close(ready) }, func(e watchdog.Event) { events <- e })
		}()
		<-ready
		test(t, s, db, func() (told []string) {
			time.Sleep(600 * time.Millisecond) // in the bubble
			synctest.Wait()
			for len(events) > 0 {
				told = append(told, (<-events).ID)
			}
			return told
		})
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func tells(t *testing.T, told func() []string, want ...string) {
	t.Helper()
	require.Equal(t, want, told())
}

func appends(t *testing.T, s *sqlite.Store, n int64) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), numbered(n)))
}

func TestFollow(t *testing.T) {
	t.Parallel()
	t.Run("tells of another program's events", func(t *testing.T) {
		whileFollowed(t, func(t *testing.T, _ *sqlite.Store, db *sql.DB, told func() []string) {
			mustExec(t, db, foreignRow("theirs", "host.note", "'2026-03-04T12:00:00Z'"))
			tells(t, told, "theirs")
			tells(t, told)
		})
	})
	t.Run("goes on when the rows get other numbers, as VACUUM may do", func(t *testing.T) {
		whileFollowed(t, func(t *testing.T, s *sqlite.Store, db *sql.DB, told func() []string) {
			mustExec(t, db, "DELETE FROM events WHERE id = 'event-1'", "UPDATE events SET rowid = rowid - 1")
			tells(t, told)
			appends(t, s, 4)
			tells(t, told, "event-4")
		})
	})
	t.Run("goes on when the last rows or all rows are deleted", func(t *testing.T) {
		whileFollowed(t, func(t *testing.T, s *sqlite.Store, db *sql.DB, told func() []string) {
			for n, statement := range []string{"DELETE FROM events WHERE id <> 'event-1'", "DELETE FROM events"} {
				mustExec(t, db, statement)
				tells(t, told)
				appends(t, s, int64(4+n))
				tells(t, told, ids([]watchdog.Event{numbered(int64(4 + n))})...)
			}
		})
	})
}

func TestFollowClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, openPlain(t, newFile(t)))
		err := s.Follow(t.Context(), "", func() {
			require.NoError(t, s.Close())
		}, func(watchdog.Event) {})
		require.ErrorIs(t, err, sqlite.ErrClosed)
	})
}

// Nothing is told once the store is closed, also of what was read before.
func TestFollowClosedWhileTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, openPlain(t, newFile(t)))
		var told []watchdog.Event
		err := s.Follow(t.Context(), "", func() {
			require.NoError(t, s.Append(t.Context(), numbered(1), numbered(2), numbered(3)))
		}, func(e watchdog.Event) {
			told = append(told, e)
			require.NoError(t, s.Close())
		})
		require.ErrorIs(t, err, sqlite.ErrClosed)
		require.Len(t, told, 1)
	})
}

func TestFollowWithoutRowID(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	mustExec(t, db, tableWith()+" WITHOUT ROWID")
	s := newStore(t, db)
	err := s.Follow(t.Context(), "", func() { t.Error("ready was called") }, func(watchdog.Event) {})
	require.ErrorContains(t, err, "WITHOUT ROWID")
	require.NoError(t, s.Transact(t.Context(), decides(numbered(1))))
}
