package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// decides returns an exchange of run-1 that decides the same whatever is stored.
func decides(events ...watchdog.Event) *watchdog.Exchange {
	return exchange(func([]watchdog.Event) []watchdog.Event { return events })
}

func exchange(decide func(selected []watchdog.Event) []watchdog.Event) *watchdog.Exchange {
	return &watchdog.Exchange{
		Selection: watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: "run-1", Since: noon},
		Decide:    decide,
	}
}

func transactLater(ctx context.Context, s *sqlite.Store, exchanges ...*watchdog.Exchange) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Transact(ctx, exchanges...) }()
	return done
}

// Transactions that arrive during a commit share the next one with appends. One that cannot be stored fails alone.
func TestSharedTransactions(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		unwanted := numbered(4)
		unwanted.ID = ""
		good := decides(numbered(1))
		results := []<-chan error{
			transactLater(t.Context(), s, good), appendLater(t.Context(), s, numbered(2)),
			transactLater(t.Context(), s, decides(numbered(3)), decides(unwanted)),
		}
		synctest.Wait()
		g.release()
		require.NoError(t, errors.Join(<-results[0], <-results[1]))
		require.ErrorIs(t, <-results[2], watchdog.ErrInvalid)
		require.Equal(t, []string{"event-0", "event-1", "event-2"}, ids(read(t, s)))
		require.Equal(t, []string{"event-1"}, ids(good.Kept))
	})
}

// When Transact returns because its context is done, Decide is not called later.
func TestAbandonedTransaction(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		ctx, cancel := context.WithCancel(t.Context())
		result := transactLater(ctx, s, exchange(func([]watchdog.Event) []watchdog.Event {
			t.Error("Decide was called")
			return nil
		}))
		synctest.Wait()
		cancel()
		err := <-result
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "nothing was written")
		g.release()
	})
}

func TestDecideFails(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for name, test := range map[string]struct {
		fail func()
		want any
	}{
		"panics":           {func() { panic("flaw") }, "flaw"},
		"ends a goroutine": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var calls int
			failing := exchange(func([]watchdog.Event) []watchdog.Event {
				calls++
				test.fail()
				return nil
			})
			var err error
			panicked := func() (value any) {
				defer func() { value = recover() }()
				err = s.Transact(t.Context(), decides(numbered(1)), failing)
				return nil
			}()
			if panicked != test.want || (err == nil) != (panicked != nil) || calls != 1 {
				t.Errorf("Transact panicked with %v and returned %v after %d calls of Decide", panicked, err, calls)
			}
			require.Empty(t, read(t, s))
		})
	}
	require.NoError(t, s.Transact(t.Context(), decides(numbered(2))))
}

// A host's trigger may drop a row without an error.
func TestDroppedEvent(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	mustExec(t, db, tableWith(),
		"CREATE TRIGGER drop_it BEFORE INSERT ON events WHEN NEW.id = 'event-2' BEGIN SELECT RAISE(IGNORE); END")
	s := newStore(t, db)
	require.ErrorContains(t, s.Transact(t.Context(), decides(numbered(1), numbered(2))), "event-2 was not stored")
	require.Empty(t, read(t, s))
}

// TestTransactSelectsAsSelect checks that many exchanges in one call select what each would alone, also rows whose time
// another program wrote in a form of its own.
func TestTransactSelectsAsSelect(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for run := range 20 {
		for i := range 6 {
			err := s.Append(t.Context(), watchdog.Event{
				ID: fmt.Sprintf("e-%d-%d", run, i), AggregateType: watchdog.AggregateType, AggregateID: fmt.Sprint("run-", run),
				Type: watchdog.EventWarning, Payload: []byte(`{}`), Timestamp: start.Add(time.Duration(i) * time.Hour),
			})
			require.NoError(t, err)
		}
	}
	mustExec(t, openPlain(t, file), `UPDATE events SET timestamp = replace(timestamp, ' ', 'T') WHERE id LIKE '%-4'`)
	var exchanges []*watchdog.Exchange
	got := map[int][]watchdog.Event{}
	for run := range 20 {
		selection := watchdog.Selection{
			AggregateType: watchdog.AggregateType, AggregateID: fmt.Sprint("run-", run),
			IDs: []string{fmt.Sprintf("e-%d-0", run), fmt.Sprintf("e-%d-5", run), fmt.Sprintf("e-%d-1", run+1)},
		}
		if run%3 > 0 {
			selection.Since = start.Add(time.Duration(run%5) * time.Hour)
		}
		exchanges = append(exchanges, &watchdog.Exchange{Selection: selection, Decide: func(selected []watchdog.Event) []watchdog.Event {
			got[run] = selected
			return nil
		}})
	}
	require.NoError(t, s.Transact(t.Context(), exchanges...))
	for run, x := range exchanges {
		want, err := s.Select(t.Context(), x.Selection)
		require.NoError(t, err)
		if len(got[run])+len(want) > 0 && !reflect.DeepEqual(got[run], want) {
			t.Errorf("run %d: selected %v, want %v", run, got[run], want)
		}
	}
}

// TestPauseUnderLock protects that a run ends on time whose approval closes, or opens, while a stranger has the
// database locked for longer than the record timeout, and that both are stored afterwards though nobody polls.
func TestPauseUnderLock(t *testing.T) {
	t.Parallel()
	limit := watchdog.HoldLimit{Cap: time.Minute, PausesWallClock: true}
	for name, locked := range map[string]time.Duration{
		"when it opens": 18 * time.Second, "when it closes": 6500 * time.Millisecond,
		"from when it closes until the run has to end": 10500 * time.Millisecond,
	} {
		opensLocked := name == "when it opens"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := newFile(t)
				s := openAt(t, file)
				holder := openOne(t, file)
				begun := time.Now()
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: begun}, watchdog.Config{
					Store: s, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{WallClock: 10 * time.Second},
				})
				require.NoError(t, err)
				defer wd.Close()
				lock := func() {
					mustExec(t, holder, "BEGIN IMMEDIATE")
					time.AfterFunc(locked, func() { mustExec(t, holder, "ROLLBACK") })
				}
				if opensLocked {
					lock()
				}
				h, err := wd.Hold(t.Context(), "approval", limit)
				require.NoError(t, err)
				time.Sleep(20 * time.Second)
				if !opensLocked {
					lock()
				}
				h.Close()
				<-wd.Context().Done()
				if lasted := time.Since(begun); lasted < 30*time.Second || lasted > 31*time.Second {
					t.Errorf("the run lasted %v, and 20 s of them were an approval; it has 10 s", lasted)
				}
				require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
				events, err := s.Read(t.Context(), watchdog.AggregateType, "s-1")
				require.NoError(t, err)
				for _, kind := range []string{watchdog.EventHold, watchdog.EventRelease, watchdog.EventCancel} {
					if !slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.Type == kind }) {
						t.Errorf("%s is not stored", kind)
					}
				}
			})
		})
	}
}
