package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// sliceOf returns a slice that needs so many requests of so many.
func sliceOf(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{
		ID: id, Scope: "tenant-1", Least: watchdog.Totals{Requests: least}, Limit: watchdog.Totals{Requests: limit},
	}
}

// A take that fails because the database is locked charges nothing, and can be made again under the same ID.
func TestSpendLocked(t *testing.T) {
	t.Parallel()
	withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Take(ctx, sliceOf("slice-1", 5, 60))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.ErrorContains(t, err, "locked by another writer")
		require.NotErrorIs(t, err, watchdog.ErrInvalid)
		unlock()
		g, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.NoError(t, err)
		assert.Equal(t, watchdog.Totals{Requests: 5}, g.Charged)
	})
}

// A slice whose window was deleted has ended, and is charged nowhere when it is returned.
func TestSpendOfDeletedWindow(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	slice := sliceOf("slice-1", 5, 60)
	slice.Period = watchdog.PeriodDay
	first, err := s.Take(t.Context(), slice)
	require.NoError(t, err)
	mustExec(t, db, "DELETE FROM watchdog_spend WHERE window_name <> ''")
	g, err := s.Take(t.Context(), slice)
	require.NoError(t, err)
	assert.Equal(t, watchdog.Grant{Fits: true, Granted: watchdog.Totals{Requests: 5}, Window: first.Window}, g)
	require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 2}))
	assert.Empty(t, queryAll(t, db, "SELECT scope FROM watchdog_spend WHERE window_name <> ''"))
}

// Whoever finds a slice that was never given back sees whose it is.
func TestSliceHasItsProcess(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, []string{fmt.Sprintf("%s %d", host, os.Getpid())},
		queryAll(t, openPlain(t, file), "SELECT host || ' ' || pid FROM watchdog_slices"))
}
