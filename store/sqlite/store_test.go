package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		os.Exit(runChild(job))
	}
	goleak.VerifyTestMain(m)
}

func TestAStoreOpenedFromAPathKeepsEveryRule(t *testing.T) {
	storetest.Run(t, func(t *testing.T) watchdog.EventStore { return openAt(t, newFile(t)) })
}

func TestAStoreInAHostsDatabaseKeepsEveryRule(t *testing.T) {
	storetest.Run(t, func(t *testing.T) watchdog.EventStore { return newStore(t, hostDatabase(t, newFile(t))) })
}

func TestAStoreInAPoolOfOneConnectionKeepsEveryRule(t *testing.T) {
	notUnderRace(t)
	storetest.Run(t, func(t *testing.T) watchdog.EventStore {
		db := openPlain(t, newFile(t), "busy_timeout(0)", "journal_mode(DELETE)")
		db.SetMaxOpenConns(1)
		return newStore(t, db)
	})
}

func TestAStoreInAForeignTableKeepsEveryRule(t *testing.T) {
	notUnderRace(t)
	storetest.Run(t, func(t *testing.T) watchdog.EventStore {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, foreignTable)
		return newStore(t, db)
	})
}

func TestAStoreUnderADriverWithoutContextsKeepsEveryRule(t *testing.T) {
	notUnderRace(t)
	storetest.Run(t, func(t *testing.T) watchdog.EventStore {
		db := hookedDatabase(t, newFile(t), func(string) error { return nil })
		mustExec(t, db, "PRAGMA journal_mode = WAL")
		return newStore(t, db)
	})
}

func TestAnOpenedFileIsDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func() (watchdog.EventStore, error) {
		file := newFile(t)
		return func() (watchdog.EventStore, error) { return sqlite.Open(t.Context(), file) }
	})
}

func TestAHostsDatabaseIsDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func() (watchdog.EventStore, error) {
		db := hostDatabase(t, newFile(t))
		return func() (watchdog.EventStore, error) { return sqlite.New(t.Context(), db) }
	})
}

func TestAClosedStore(t *testing.T) {
	t.Run("refuses appends and reads", func(t *testing.T) {
		s := openNew(t)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), numbered(1)); !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("Append returned %v", err)
		}
		if err := s.Append(t.Context()); !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("Append of nothing returned %v", err)
		}
		if _, err := s.Read(t.Context(), watchdog.AggregateType, "run-1"); !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("Read returned %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("a second Close returned %v", err)
		}
	})
	t.Run("leaves a host's database open", func(t *testing.T) {
		db := hostDatabase(t, newFile(t))
		if err := newStore(t, db).Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.PingContext(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWaitsForTheCallsThatAreUnderWay(t *testing.T) {
	s := openNew(t)
	var calls sync.WaitGroup
	for n := range int64(32) {
		calls.Go(func() {
			_, readErr := s.Read(t.Context(), watchdog.AggregateType, "run-1")
			for _, err := range []error{readErr, s.Append(t.Context(), numbered(n))} {
				if err != nil && !errors.Is(err, sqlite.ErrClosed) {
					t.Errorf("a call while the store closes: %v", err)
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
}

func TestConcurrentAppendsAndReadsFromManyGoroutines(t *testing.T) {
	const writers, each = 16, 8
	s := openNew(t)
	var all sync.WaitGroup
	for writer := range int64(writers) {
		all.Go(func() {
			for n := range int64(each) {
				if err := s.Append(t.Context(), numbered(writer*each+n)); err != nil {
					t.Error(err)
				}
				events, err := s.Read(t.Context(), watchdog.AggregateType, "run-1")
				if own := fmt.Sprintf("event-%d", writer*each+n); err != nil || !slices.Contains(ids(events), own) {
					t.Errorf("%s is not among %d events read after its append: %v", own, len(events), err)
				}
			}
		})
	}
	all.Wait()
	if events := read(t, s); len(events) != writers*each || !slices.IsSortedFunc(events, watchdog.Event.Compare) {
		t.Errorf("%d events, want %d in order", len(events), writers*each)
	}
}

func TestANilDatabaseIsAnError(t *testing.T) {
	if _, err := sqlite.New(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("New returned %v", err)
	}
}

// newFile names a file that does not exist yet.
func newFile(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "events.db")
}

func openNew(tb testing.TB) *sqlite.Store {
	tb.Helper()
	return openAt(tb, newFile(tb))
}

func openAt(tb testing.TB, file string) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), file)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// numbered returns the n-th event of run-1.
func numbered(n int64) watchdog.Event {
	return watchdog.Event{
		ID:            fmt.Sprintf("event-%d", n),
		AggregateType: watchdog.AggregateType,
		AggregateID:   "run-1",
		Type:          watchdog.EventCancel,
		Payload:       fmt.Appendf(nil, `{"reason":"wall_clock_exceeded","n":%d}`, n),
		Timestamp:     noon.Add(time.Duration(n) * time.Second),
	}
}

// read returns the events of run-1.
func read(tb testing.TB, s *sqlite.Store) []watchdog.Event {
	tb.Helper()
	events, err := s.Read(tb.Context(), watchdog.AggregateType, "run-1")
	if err != nil {
		tb.Fatal(err)
	}
	return events
}

func ids(events []watchdog.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.ID)
	}
	return names
}
