package sqlite_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

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
		if err := errors.Join(<-results[0], <-results[1]); err != nil {
			t.Error(err)
		}
		if err := <-results[2]; !errors.Is(err, watchdog.ErrInvalid) {
			t.Errorf("a transaction with an invalid event returned %v", err)
		}
		if got := ids(read(t, s)); !slices.Equal(got, []string{"event-0", "event-1", "event-2"}) {
			t.Errorf("stored are %q", got)
		}
		if got := ids(good.Kept); !slices.Equal(got, []string{"event-1"}) {
			t.Errorf("Kept has %q", got)
		}
	})
}

// When Transact returns because its context is done, Decide is not called later.
func TestAbandonedTransaction(t *testing.T) {
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		ctx, cancel := context.WithCancel(t.Context())
		result := transactLater(ctx, s, exchange(func([]watchdog.Event) []watchdog.Event {
			t.Error("Decide was called")
			return nil
		}))
		synctest.Wait()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || !errorHas(err, "nothing was written") {
			t.Errorf("Transact returned %v", err)
		}
		g.release()
	})
}

func TestDecideFails(t *testing.T) {
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
			if got := read(t, s); len(got) != 0 {
				t.Errorf("stored are %q", ids(got))
			}
		})
	}
	if err := s.Transact(t.Context(), decides(numbered(2))); err != nil {
		t.Errorf("the transaction after them: %v", err)
	}
}

// A host's trigger may drop a row without an error.
func TestDroppedEvent(t *testing.T) {
	db := openPlain(t, newFile(t))
	mustExec(t, db, tableWith(),
		"CREATE TRIGGER drop_it BEFORE INSERT ON events WHEN NEW.id = 'event-2' BEGIN SELECT RAISE(IGNORE); END")
	s := newStore(t, db)
	if err := s.Transact(t.Context(), decides(numbered(1), numbered(2))); !errorHas(err, "event-2 was not stored") {
		t.Errorf("Transact returned %v", err)
	}
	if got := read(t, s); len(got) != 0 {
		t.Errorf("stored are %q", ids(got))
	}
}
