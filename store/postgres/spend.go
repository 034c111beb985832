package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
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
		if err != nil {
			return err
		}
		g, err = taken.Answer(began)
		return err
	})
	return g, err
}

// hostClock is for tests of hosts whose clock is wrong.
var hostClock = time.Now

// errIDTaken says that another transaction charged the ID to another scope at the same moment.
var errIDTaken = errors.New("its ID was charged to another scope at the same moment: try again")

func (s *Store) take(ctx context.Context, slice watchdog.Slice) (taken storeflow.Taken, err error) {
	err = s.onConn(ctx, func(conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginLimited})
		if err != nil {
			return err
		}
		defer rollback(ctx, tx)
		t := &spendTx{sender: tx, ctx: ctx, store: s}
		t.guess, _ = slice.WindowAt(hostClock()) // nearly always the database's, too
		if err := t.look(slice); err != nil {
			return err
		}
		if taken, err = storeflow.Take(t, slice, t.now); err != nil || !taken.Fits || taken.Refusal != nil {
			return err
		}
		// Of a slice that is known this writes no row. It locked one, so that it waits for a synchronous standby, which the
		// first take may have given up.
		return tx.Commit(ctx)
	})
	return taken, err
}

// A spendTx is the transaction of a Take or a Return.
type spendTx struct {
	sender
	ctx   context.Context
	store *Store

	now     time.Time // of the database
	guess   string    // the window that was locked first
	windows []spendRow
	known   []*storeflow.Slice // none or one
}

// look locks the scope and a window of it, and reads the slice, if it is known, and then the clock. Each statement sees
// what was committed while the one before it waited.
func (t *spendTx) look(slice watchdog.Slice) error {
	s := t.store
	var clock []instant
	err := s.send(t.ctx, t,
		running(s, lockScope, slice.Scope, s.scopeLocks()),
		running(s, insertScope, slice.Scope),
		reading(s, &t.windows, scanSpend, lockSpend, slice.Scope, []string{"", t.guess}),
		reading(s, &t.known, scanSlice, selectSlice, slice.ID),
		reading(s, &clock, pgx.RowTo[instant], readClock),
	)
	if err != nil {
		return err
	}
	if len(t.windows) == 0 {
		return fmt.Errorf("the row of scope %q was deleted by another program: try again", slice.Scope)
	}
	t.now = clock[0].Time
	return nil
}

// Slice implements [storeflow.SpendTx], as the next methods do.
func (t *spendTx) Slice(string) (*storeflow.Slice, error) {
	if len(t.known) == 0 {
		return nil, nil
	}
	return t.known[0], nil
}

// Charged locks the window if another one was guessed.
func (t *spendTx) Charged(scope, window string) (currency string, charged watchdog.Totals, err error) {
	if window != t.guess {
		again := reading(t.store, &t.windows, scanSpend, lockSpend, scope, []string{"", window})
		if err := t.store.send(t.ctx, t, again); err != nil {
			return "", charged, err
		}
	}
	for _, row := range t.windows {
		if row.window == window {
			charged = row.charged
		}
	}
	return t.windows[0].currency, charged, nil
}

// Charge fails if another transaction has charged the ID meanwhile.
func (t *spendTx) Charge(s watchdog.Slice, currency string, taken storeflow.Taken) error {
	var inserted int64
	host, pid := storeflow.Process()
	charged := append([]any{s.Scope, taken.Window, nullTime(taken.Ends)}, storeflow.KindsOf(&taken.Charged)...)
	granted := append([]any{s.ID, s.Scope, taken.Window, host, pid}, storeflow.KindsOf(&taken.Granted)...)
	steps := []step{
		running(t.store, setCharged, charged...),
		{t.store.qualify(insertSlice), granted, counting(&inserted)},
	}
	if currency != t.windows[0].currency {
		steps = append(steps, running(t.store, setCurrency, s.Scope, currency))
	}
	err := t.store.send(t.ctx, t, steps...)
	if err == nil && inserted == 0 {
		err = errIDTaken
	}
	return err
}

func (t *spendTx) Return(id string, s *storeflow.Slice, charged, unused watchdog.Totals) error {
	steps := []step{running(t.store, returnSlice, append([]any{id}, storeflow.KindsOf(&unused)...)...)}
	if !s.Deleted {
		arguments := append([]any{s.Scope, s.Window}, storeflow.KindsOf(&charged)...)
		steps = append(steps, running(t.store, updateCharged, arguments...))
	}
	return t.store.send(t.ctx, t, steps...)
}

// Return implements [watchdog.SpendStore], in one transaction and four round trips, as Take.
func (s *Store) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return s.write(ctx, "return slice "+id+" to", func(ctx context.Context) error {
		if !isText(id) {
			return storeflow.NoSlice(id)
		}
		return s.inTransaction(ctx, func(tx pgx.Tx) error { return s.giveBack(ctx, tx, id, unused) })
	})
}

// scopeLocks is the seed of the numbers of the advisory locks for the scopes of a schema.
func (s *Store) scopeLocks() int64 {
	return int64(hashOf("watchdog_spend", s.schema)) //nolint:gosec // any number will do
}

// giveBack locks the scope of the slice, the slice and its window. If the slice was taken after the statements that
// lock them, and before the one that reads them, they are locked and read again: its window may have changed since.
func (s *Store) giveBack(ctx context.Context, tx pgx.Tx, id string, unused watchdog.Totals) error {
	t := &spendTx{sender: tx, ctx: ctx, store: s}
	var locked, windows []string
	for len(t.known) == 0 || len(windows) == 0 && !t.known[0].Deleted {
		err := s.send(ctx, tx,
			running(s, lockScopeOfSlice, id, s.scopeLocks()),
			reading(s, &locked, pgx.RowTo[string], lockSlice, id),
			reading(s, &windows, pgx.RowTo[string], lockSliceWindow, id),
			reading(s, &t.known, scanSlice, selectSlice, id),
		)
		if err != nil {
			return err
		}
		if len(t.known) == 0 {
			return storeflow.NoSlice(id)
		}
	}
	refusal, err := storeflow.Return(t, id, unused)
	return cmp.Or(err, refusal)
}
