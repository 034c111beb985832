package sqlite_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

const allInOutbox = "SELECT event_id, aggregate_type, aggregate_id, event_type FROM watchdog_outbox ORDER BY id"

// ofType returns the n-th event with another type.
func ofType(n int64, kind string) watchdog.Event {
	e := numbered(n)
	e.Type = kind
	return e
}

func inOutbox(n, kind string) []string { return []string{n, watchdog.AggregateType, "run-1", kind} }

func TestOutbox(t *testing.T) {
	t.Parallel()
	t.Run("has each end of a window once, however it was stored", func(t *testing.T) {
		file := newFile(t)
		s, err := sqlite.Config{Outbox: true}.Open(t.Context(), file)
		require.NoError(t, err)
		defer s.Close()
		foreign := numbered(7)
		foreign.AggregateType = "another"
		require.NoError(t, s.Append(t.Context(), ofType(0, watchdog.EventExtend), numbered(1), numbered(1), foreign))
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.NoError(t, s.Transact(t.Context(), &watchdog.Exchange{
			Selection: watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: "run-1"},
			Decide: func([]watchdog.Event) []watchdog.Event {
				return []watchdog.Event{numbered(1), ofType(2, watchdog.EventComplete)}
			},
		}))
		run := attach(t, s, "run-1", "", 0)
		outcome, err := s.Cancel(t.Context(), run, session.CancelRequest{Events: cancels(3)})
		require.NoError(t, err)
		require.Equal(t, session.Done, outcome)
		assert.Equal(t, slices.Concat(inOutbox("event-1", watchdog.EventCancel),
			inOutbox("event-2", watchdog.EventComplete), inOutbox("event-3", watchdog.EventCancel)),
			queryAll(t, openPlain(t, file), allInOutbox))
	})
	t.Run("is written in the transaction of the event", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		s, err := sqlite.Config{Outbox: true}.New(t.Context(), db)
		require.NoError(t, err)
		defer s.Close()
		mustExec(t, db,
			"CREATE TRIGGER refuse BEFORE INSERT ON watchdog_outbox BEGIN SELECT RAISE(ABORT, 'the outbox is full'); END")
		require.ErrorContains(t, s.Append(t.Context(), numbered(1)), "the outbox is full")
		assert.Empty(t, read(t, s))
		mustExec(t, db, "DROP TRIGGER refuse", `CREATE TRIGGER refuse BEFORE INSERT ON events WHEN new.id = 'event-2'
			BEGIN SELECT RAISE(ABORT, 'no more events'); END`)
		require.ErrorContains(t, s.Append(t.Context(), numbered(1), numbered(2)), "no more events")
		assert.Empty(t, queryAll(t, db, allInOutbox))
	})
	t.Run("is empty if it is off", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Append(t.Context(), numbered(1)))
		assert.Empty(t, queryAll(t, openPlain(t, file), allInOutbox))
	})
}
