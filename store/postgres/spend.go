package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
)

// Take implements [watchdog.SpendStore], in one transaction and four round trips; more, if the store cannot use the
// pool's default_query_exec_mode. Takes and returns of one scope wait for one another, as long as the context allows,
// and for no other lock for longer than [session.LockWait]. If Take returns an error that does not wrap
// [watchdog.ErrInvalid], the slice may be charged all the same: take it again under the same ID.
func (s *Store) Take(ctx context.Context, slice watchdog.Slice) (g watchdog.Grant, err error) {
	if err := slice.Validate(); err != nil {
		return g, err
	}
	err = s.write(ctx, "take slice "+slice.ID+" in", func(ctx context.Context) error {
		began := time.Now() // before the database's clock is read, so that no window ends too late
		taken, err := s.take(ctx, slice)
		if errors.Is(err, errIDTaken) {
			taken, err = s.take(ctx, slice)
		}
		g = taken.Until(taken.ends, taken.now.Add(time.Since(began)))
		return err
	})
	if err != nil {
		return watchdog.Grant{}, err
	}
	return g, nil
}

// hostClock is for tests of hosts whose clock is wrong.
var hostClock = time.Now

// errIDTaken says that another transaction charged the ID to another scope at the same moment.
var errIDTaken = errors.New("its ID was charged to another scope at the same moment: try again")

// A takenSlice is what came of a Take.
type takenSlice struct {
	watchdog.Grant
	now, ends time.Time
}

func (s *Store) take(ctx context.Context, slice watchdog.Slice) (taken takenSlice, err error) {
	err = s.onConn(ctx, func(conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginLimited})
		if err != nil {
			return err
		}
		defer rollback(ctx, tx)
		t := &taking{Tx: tx, store: s, slice: slice}
		if taken, err = t.take(ctx); err != nil || !taken.Fits {
			return err
		}
		// Of a slice that is known this writes no row. It locked one, so that it waits for a synchronous standby, which the
		// first take may have given up.
		return tx.Commit(ctx)
	})
	return taken, err
}

// A taking is the transaction of a Take.
type taking struct {
	pgx.Tx
	store *Store
	slice watchdog.Slice

	now      time.Time // of the database
	windows  []spendRow
	currency string
	known    []sliceRow // none or one
}

func (t *taking) take(ctx context.Context) (taken takenSlice, err error) {
	guess, _ := t.slice.WindowAt(hostClock()) // nearly always the database's, too
	if err := t.look(ctx, guess); err != nil {
		return taken, err
	}
	if len(t.known) > 0 {
		return t.takenBefore(t.known[0])
	}
	if t.currency, err = t.slice.CurrencyOf(t.windows[0].currency); err != nil {
		return taken, err
	}
	name, ends := t.slice.WindowAt(t.now)
	if name != guess {
		if err := t.lock(ctx, name); err != nil {
			return taken, err
		}
	}
	taken = takenSlice{Grant: watchdog.Grant{Window: name}, now: t.now, ends: ends}
	taken.Charged = t.charged(name)
	if taken.Granted, taken.Fits = t.slice.Fit(taken.Charged); !taken.Fits {
		return taken, nil
	}
	taken.Charged = taken.Charged.Add(taken.Granted)
	return taken, t.charge(ctx, name, taken)
}

// look locks the scope and a window of it, and reads the slice, if it is known, and then the clock. Each statement sees
// what was committed while the one before it waited.
func (t *taking) look(ctx context.Context, window string) error {
	s := t.store
	var clock []instant
	err := s.send(ctx, t,
		step{statement: s.qualify(lockScope), arguments: []any{t.slice.Scope, s.scopeLocks()}},
		step{statement: s.qualify(insertScope), arguments: []any{t.slice.Scope}},
		reading(s, &t.windows, scanSpend, lockSpend, t.slice.Scope, []string{"", window}),
		reading(s, &t.known, scanSlice, selectSlice, t.slice.ID),
		reading(s, &clock, pgx.RowTo[instant], readClock),
	)
	if err != nil {
		return err
	}
	if len(t.windows) == 0 {
		return fmt.Errorf("the row of scope %q was deleted by another program: try again", t.slice.Scope)
	}
	t.now = clock[0].Time
	return nil
}

// lock locks another window than the one that was guessed.
func (t *taking) lock(ctx context.Context, window string) error {
	return t.store.send(ctx, t,
		reading(t.store, &t.windows, scanSpend, lockSpend, t.slice.Scope, []string{"", window}))
}

func (t *taking) charged(window string) watchdog.Totals {
	for _, row := range t.windows {
		if row.window == window {
			return row.charged
		}
	}
	return watchdog.Totals{}
}

func (t *taking) takenBefore(known sliceRow) (takenSlice, error) {
	if err := t.slice.CheckScope(known.scope); err != nil {
		return takenSlice{}, err
	}
	g := watchdog.Grant{Fits: true, Granted: known.granted, Charged: known.charged, Window: known.window}
	return takenSlice{Grant: g, now: t.now, ends: known.end()}, nil
}

// charge writes the slice down, and what its window is charged with.
func (t *taking) charge(ctx context.Context, window string, taken takenSlice) error {
	s, scope := t.store, t.slice.Scope
	var inserted int64
	steps := []step{
		{statement: s.qualify(setCharged), arguments: chargedArguments(scope, window, taken)},
		{s.qualify(insertSlice), sliceArguments(t.slice, window, taken), counting(&inserted)},
	}
	if t.currency != t.windows[0].currency {
		steps = append(steps, step{statement: s.qualify(setCurrency), arguments: []any{scope, t.currency}})
	}
	err := s.send(ctx, t, steps...)
	if err == nil && inserted == 0 {
		err = errIDTaken
	}
	return err
}

// Return implements [watchdog.SpendStore], in one transaction and four round trips, as Take.
func (s *Store) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return s.write(ctx, "return slice "+id+" to", func(ctx context.Context) error {
		if !isText(id) {
			return noSlice(id)
		}
		return s.onConn(ctx, func(conn *pgx.Conn) error {
			return s.transaction(ctx, conn, func(tx pgx.Tx) error { return s.giveBack(ctx, tx, id, unused) })
		})
	})
}

func noSlice(id string) error {
	return fmt.Errorf("%w return: there is no slice %q", watchdog.ErrInvalid, id)
}

// scopeLocks is the seed of the numbers of the advisory locks for the scopes of a schema.
func (s *Store) scopeLocks() int64 {
	return int64(hashOf("watchdog_spend", s.schema)) //nolint:gosec // any number will do
}

// giveBack locks the scope of the slice, the slice and its window. If the slice was taken after the statements that
// lock them, and before the one that reads them, they are locked and read again: its window may have changed since.
func (s *Store) giveBack(ctx context.Context, tx pgx.Tx, id string, unused watchdog.Totals) error {
	var locked, windows []string
	var found []sliceRow
	for len(found) == 0 || len(windows) == 0 && !found[0].deleted {
		err := s.send(ctx, tx,
			step{statement: s.qualify(lockScopeOfSlice), arguments: []any{id, s.scopeLocks()}},
			reading(s, &locked, pgx.RowTo[string], lockSlice, id),
			reading(s, &windows, pgx.RowTo[string], lockSliceWindow, id),
			reading(s, &found, scanSlice, selectSlice, id),
		)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return noSlice(id)
		}
	}
	one := found[0]
	charged, err := one.charged.GiveBack(one.granted, unused)
	if err != nil || one.returned {
		return err
	}
	steps := []step{{statement: s.qualify(returnSlice), arguments: append([]any{id}, valuesOf(unused)...)}}
	if !one.deleted {
		arguments := append([]any{one.scope, one.window}, valuesOf(charged)...)
		steps = append(steps, step{statement: s.qualify(updateCharged), arguments: arguments})
	}
	return s.send(ctx, tx, steps...)
}
