package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// filter is what Select must return, from all events of the aggregate.
func filter(all []watchdog.Event, s watchdog.Selection) (selected []watchdog.Event) {
	latest := -1
	for i, e := range all {
		if !s.Since.IsZero() && e.Timestamp.Before(s.Since) && slices.Contains(s.LatestOf, e.Type) {
			latest = i
		}
	}
	for i, e := range all {
		isSince := !s.Since.IsZero() && !e.Timestamp.Before(s.Since)
		if isSince || i == latest || slices.Contains(s.IDs, e.ID) {
			selected = append(selected, e)
		}
	}
	return selected
}

func TestSelect(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Log("seed", seed)
			selectsAsFilter(t, open(t), rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// selectsAsFilter compares random selections with a filter. Many events have one time, and few types.
func selectsAsFilter(t *testing.T, s putter, random *rand.Rand) {
	t.Helper()
	var events []watchdog.Event
	var ids []string
	someTime := func() time.Time { return noon.Add(time.Duration(random.IntN(20_000))) }
	someType := func() string { return fmt.Sprint("type-", random.IntN(6)) }
	for i := range 300 {
		e := watchdog.Event{
			ID: fmt.Sprint([]string{"a", "A", "é", "~"}[random.IntN(4)], i), AggregateType: watchdog.AggregateType,
			AggregateID: fmt.Sprint("run-", random.IntN(3)), Type: someType(), Timestamp: someTime(),
			Payload: []byte(`{ "a":1}`),
		}
		events, ids = append(events, e), append(ids, e.ID)
	}
	require.NoError(t, s.Append(t.Context(), events...))
	var batch []*watchdog.Exchange
	for range 100 {
		selection := since1970(fmt.Sprint("run-", random.IntN(4)))
		selection.Since = time.Time{}
		for range random.IntN(4) {
			selection.IDs = append(selection.IDs, ids[random.IntN(len(ids))], "missing")
		}
		if random.IntN(4) > 0 {
			selection.Since = someTime().In(time.FixedZone("somewhere", 3600))
		}
		for range random.IntN(3) {
			selection.LatestOf = append(selection.LatestOf, someType())
		}
		all, err := s.Read(t.Context(), watchdog.AggregateType, selection.AggregateID)
		require.NoError(t, err)
		want := filter(all, selection)
		got, err := s.Select(t.Context(), selection)
		require.NoError(t, err)
		require.Equal(t, append([]watchdog.Event{}, want...), got, "%+v", selection)
		batch = append(batch, &watchdog.Exchange{
			Selection: selection,
			Decide: func(selected []watchdog.Event) []watchdog.Event {
				assert.Equal(t, got, selected)
				return nil
			},
		})
	}
	require.NoError(t, s.Transact(t.Context(), batch...))
}

func TestSelectFarTimes(t *testing.T) {
	t.Parallel()
	s := setups[opened](t)
	require.NoError(t, s.Append(t.Context(), numbered(1)))
	for year, want := range map[int]int{-400_000: 1, -1: 1, 1: 1, 9999: 0, 10_000: 0, 400_000: 0} {
		selection := since1970("run-1")
		selection.Since = time.Date(year, 2, 3, 4, 5, 6, 7, time.UTC)
		events, err := s.Select(t.Context(), selection)
		require.NoError(t, err, year)
		assert.Len(t, events, want, year)
		selection.LatestOf = []string{watchdog.EventWarning}
		events, err = s.Select(t.Context(), selection)
		require.NoError(t, err, year)
		assert.Len(t, events, 1, year)
	}
}

// TestSelectPassesOlderEvents protects that Select does not read the older events of the aggregate.
func TestSelectPassesOlderEvents(t *testing.T) {
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	mustExec(t, pool, `INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		SELECT 'older-' || n, 'runtime_control', 'run-1', CASE n WHEN 100000 THEN 'end' ELSE 'note' END, '{}',
			'2026-03-01Z'::timestamptz + n * interval '1 second' FROM generate_series(1, 100000) AS n`, "VACUUM ANALYZE events")
	took := func(selection watchdog.Selection, want int) time.Duration {
		selection.AggregateType, selection.AggregateID = watchdog.AggregateType, "run-1"
		began := time.Now()
		for range 20 {
			events, err := s.Select(t.Context(), selection)
			require.NoError(t, err)
			require.Len(t, events, want)
		}
		return time.Since(began)
	}
	bound := 10*took(watchdog.Selection{IDs: []string{"older-1"}}, 1) + 100*time.Millisecond
	assert.Less(t, took(watchdog.Selection{Since: noon}, 0), bound)
	assert.Less(t, took(watchdog.Selection{Since: noon, LatestOf: []string{"end"}}, 1), bound)
}
