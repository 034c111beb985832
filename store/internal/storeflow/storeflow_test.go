package storeflow_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

var (
	errRefused = errors.New("the host's trigger refuses it")
	errDown    = errors.New("no server listens there")
)

func TestWriteEach(t *testing.T) {
	writeEach := func(n int, refuses func(int) bool, down func(calls int) bool) (written, refused []int, calls int, err error) {
		batch := make([]int, n)
		for i := range batch {
			batch[i] = i
		}
		found, err := storeflow.WriteEach(batch, strconv.Itoa, func(part []int) error {
			calls++
			switch {
			case down(calls):
				return errDown
			case slices.ContainsFunc(part, refuses):
				return errRefused
			}
			written = append(written, part...)
			return nil
		}, func(err error) bool { return errors.Is(err, errRefused) })
		for runID, why := range found {
			require.EqualError(t, why, "run "+runID+": the host's trigger refuses it")
			i, _ := strconv.Atoi(runID)
			refused = append(refused, i)
		}
		slices.Sort(refused)
		return written, refused, calls, err
	}
	never := func(int) bool { return false }
	t.Run("all but the refused rows are written, each once", func(t *testing.T) {
		for _, bad := range [][]int{nil, {0}, {999}, {0, 1, 2}, {17, 500, 501, 998}} {
			written, refused, calls, err := writeEach(1000, func(i int) bool { return slices.Contains(bad, i) }, never)
			require.NoError(t, err)
			require.Equal(t, bad, refused)
			slices.Sort(written)
			require.Len(t, slices.Compact(written), 1000-len(bad))
			require.LessOrEqual(t, calls, 1+20*len(bad), "two for each halving")
		}
	})
	t.Run("one refusal too many is an error, and the rest is not tried", func(t *testing.T) {
		_, refused, calls, err := writeEach(10_000, func(int) bool { return true }, never)
		require.ErrorIs(t, err, errRefused)
		require.ErrorContains(t, err, "more than 16 rows are refused, such as run 16: ")
		require.Len(t, refused, 17)
		require.Less(t, calls, 100)
	})
	t.Run("another error ends it", func(t *testing.T) {
		_, refused, calls, err := writeEach(1000, func(i int) bool { return i == 0 }, func(calls int) bool { return calls > 3 })
		require.ErrorIs(t, err, errDown)
		require.Empty(t, refused)
		require.Equal(t, 4, calls)
	})
	t.Run("an empty batch is written, too", func(t *testing.T) {
		_, _, calls, err := writeEach(0, never, never)
		require.NoError(t, err)
		require.Equal(t, 1, calls)
	})
}

func eventColumns(more ...storeflow.EventColumn) (columns []storeflow.EventColumn) {
	for _, name := range storeflow.EventColumns {
		columns = append(columns, storeflow.EventColumn{Name: name})
	}
	return append(columns, more...)
}

var uniqueID = []storeflow.EventIndex{{Unique: true, Columns: []string{"id"}}}

func TestTableProblems(t *testing.T) {
	change := func(name string, change func(*storeflow.EventColumn)) []storeflow.EventColumn {
		columns := eventColumns()
		change(&columns[slices.Index(storeflow.EventColumns, name)])
		return columns
	}
	for name, test := range map[string]struct {
		columns []storeflow.EventColumn
		indexes []storeflow.EventIndex
		want    []string
	}{
		"a table of ours has none":              {eventColumns(), uniqueID, nil},
		"a column beyond ours that may be NULL": {eventColumns(storeflow.EventColumn{Name: "note"}), uniqueID, nil},
		"a column beyond ours with a default": {
			eventColumns(storeflow.EventColumn{Name: "n", NotNull: true, HasDefault: true}), uniqueID, nil,
		},
		"a column beyond ours that needs a value": {
			eventColumns(storeflow.EventColumn{Name: "n", NotNull: true}), uniqueID,
			[]string{"column n is NOT NULL and has no default"},
		},
		"a missing column": {eventColumns()[1:], uniqueID, []string{"column id is missing"}},
		"a generated column": {
			change("payload", func(c *storeflow.EventColumn) { c.Generated = true }), uniqueID,
			[]string{"column payload is generated"},
		},
		"a consensus ID that is NOT NULL": {
			change("consensus_id", func(c *storeflow.EventColumn) { c.NotNull = true }), uniqueID,
			[]string{"column consensus_id must allow NULL"},
		},
		"a type that changes values": {
			change("timestamp", func(c *storeflow.EventColumn) { c.Problem = "is a number" }), uniqueID,
			[]string{"column timestamp is a number"},
		},
		"IDs that are unique only with another column": {
			eventColumns(), []storeflow.EventIndex{{Unique: true, Columns: []string{"id", "event_type"}}},
			[]string{"column id is not unique: make it the primary key, compared byte by byte and not deferrable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, storeflow.TableProblems(test.columns, test.indexes))
		})
	}
}

func TestMissingIndexes(t *testing.T) {
	names := func(existing ...storeflow.EventIndex) (names []string) {
		for _, i := range storeflow.MissingIndexes(existing) {
			names = append(names, i.Name)
		}
		return names
	}
	both := []string{"watchdog_events_aggregate", "watchdog_events_type"}
	require.Equal(t, both, names())
	require.Equal(t, both, names(storeflow.EventIndex{Columns: []string{"aggregate_type", "aggregate_id"}}),
		"one column is missing")
	require.Equal(t, both, names(storeflow.EventIndex{Columns: []string{"", "event_type"}}), "it begins with an expression")
	require.Equal(t, both[:1], names(storeflow.EventIndex{Columns: []string{"event_type", "timestamp"}}),
		"it has one column more")
	require.Equal(t, both[1:], names(storeflow.EventIndex{Columns: []string{"aggregate_type", "aggregate_id", "timestamp"}}))
}

// The first that holds decides: what was done, that the session is another, that it is locked, that it is claimed.
func TestJudged(t *testing.T) {
	for judged, want := range map[storeflow.Judged]session.Outcome{
		{AsJudged: true, Locked: true, Free: true, Done: true}: session.Done,
		{AsJudged: true, Locked: true, Free: true}:             "",
		{AsJudged: true, Locked: true}:                         session.Taken,
		{Locked: true, Free: true}:                             session.Changed,
		{}:                                                     session.Changed,
	} {
		if got, err := judged.Outcome(); got != want || err != nil {
			t.Errorf("%+v: %q, %v, want %q", judged, got, err, want)
		}
	}
	if got, err := (storeflow.Judged{AsJudged: true}).Outcome(); got != "" || !errors.Is(err, session.ErrLocked) {
		t.Errorf("locked: %q, %v", got, err)
	}
}

func TestExpiredLease(t *testing.T) {
	lease := session.ExpiredLease{ID: "lease-1", Looks: 4, RenewedAt: time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)}
	t.Run("what was written is read, with a name that has spaces and a time that is none", func(t *testing.T) {
		for _, want := range []session.ExpiredLease{lease, {ID: " a b  c"}, {ID: "9", Looks: 1, RenewedAt: lease.RenewedAt}} {
			require.Equal(t, want, storeflow.ReadExpired(storeflow.ExpiredText(session.Lease{
				ID: want.ID, Looks: want.Looks, RenewedAt: want.RenewedAt,
			})))
		}
	})
	t.Run("a text of another program says nothing", func(t *testing.T) {
		for _, text := range []string{"", "4", "4 5", "x 5 lease", "4 x lease", `{"a":1}`} {
			require.Zero(t, storeflow.ReadExpired(text), text)
		}
	})
}

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second - 1: 1_000_000,
		math.MaxInt64: math.MaxInt64/1000 + 1,
	} {
		require.Equal(t, want, storeflow.RoundUp(d), d)
	}
}
