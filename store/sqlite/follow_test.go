package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// whileFollowed runs a test in a bubble while the store in a host's database is followed. The function told waits for
// the next look at the table, and returns the IDs that were told since.
func whileFollowed(t *testing.T, test func(t *testing.T, s *sqlite.Store, db *sql.DB, told func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := openPlain(t, newFile(t))
		s := newStore(t, db)
		if err := s.Append(t.Context(), numbered(1), numbered(2), numbered(3)); err != nil {
			t.Fatal(err)
		}
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
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
}

func tells(t *testing.T, told func() []string, want ...string) {
	t.Helper()
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("the follower was told of %q, want %q", got, want)
	}
}

func appends(t *testing.T, s *sqlite.Store, n int64) {
	t.Helper()
	if err := s.Append(t.Context(), numbered(n)); err != nil {
		t.Fatal(err)
	}
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
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}, func(watchdog.Event) {})
		if !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("Follow of a store that was closed returned %v", err)
		}
	})
}

// Nothing is told once the store is closed, also of what was read before.
func TestFollowClosedWhileTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, openPlain(t, newFile(t)))
		var told []watchdog.Event
		err := s.Follow(t.Context(), "", func() {
			if err := s.Append(t.Context(), numbered(1), numbered(2), numbered(3)); err != nil {
				t.Error(err)
			}
		}, func(e watchdog.Event) {
			told = append(told, e)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, sqlite.ErrClosed) || len(told) != 1 {
			t.Errorf("Follow told of %q and returned %v", ids(told), err)
		}
	})
}

func TestFollowWithoutRowID(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	mustExec(t, db, tableWith()+" WITHOUT ROWID")
	s := newStore(t, db)
	err := s.Follow(t.Context(), "", func() { t.Error("ready was called") }, func(watchdog.Event) {})
	if !errorHas(err, "WITHOUT ROWID") {
		t.Errorf("Follow returned %v", err)
	}
	if err := s.Transact(t.Context(), decides(numbered(1))); err != nil {
		t.Error(err)
	}
}
