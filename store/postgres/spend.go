package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
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
		if err == nil {
			g, err = taken.Answer(began)
		}
		return err
	})
	return g, err
}

// hostClock is for tests of hosts whose clock is wrong.
var hostClock = time.Now

// errIDTaken says that another transaction charged the ID to another scope at the same moment.
var errIDTaken = errors.New("its ID was charged to another scope at the same moment: try again")

func (s *Store) take(ctx context.Context, slice watchdog.Slice) (taken storeflow.Taken, err error) {
	err = s.inTransaction(ctx, func(tx *transaction) (err error) {
		t := &spendTx{transaction: tx}
		t.guess, _ = slice.WindowAt(hostClock()) // nearly always the database's, too
		if err := t.look(slice); err != nil {
			return err
		}
		taken, err = storeflow.Take(t, slice, t.now)
		// The commit of a slice that is known writes no row. It locked one, so that it waits for a synchronous standby, which
		// the first take may have given up.
		t.undone = !taken.Fits || taken.Refusal != nil
		return err
	})
	return taken, err
}

type spendTx struct {
	*transaction
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
	err := t.send(running(s, lockScope, slice.Scope, s.scopeLocks()),
		running(s, insertScope, slice.Scope),
		reading(s, &t.windows, scanSpend, lockSpend, slice.Scope, []string{"", t.guess}),
		reading(s, &t.known, scanSlice, selectSlice, slice.ID),
		reading(s, &clock, pgx.RowTo[instant], readClock))
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
		if err := t.send(again); err != nil {
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
	steps := []step{running(t.store, setCharged, charged...),
		{t.store.qualify(insertSlice), granted, counting(&inserted)}}
	if currency != t.windows[0].currency {
		steps = append(steps, running(t.store, setCurrency, s.Scope, currency))
	}
	err := t.send(steps...)
	if err == nil && inserted == 0 {
		err = errIDTaken
	}
	return err
}

func (t *spendTx) Return(id string, s *storeflow.Slice, charged, unused watchdog.Totals) error {
	steps := []step{running(t.store, returnSlice, append([]any{id}, storeflow.KindsOf(&unused)...)...)}
	if !s.Deleted {
		arguments := append([]any{s.Scope, s.Window, nullTime(s.Ends)}, storeflow.KindsOf(&charged)...)
		steps = append(steps, running(t.store, setCharged, arguments...))
	}
	return t.send(steps...)
}

// Return implements [watchdog.SpendStore], in one transaction and four round trips, as Take.
func (s *Store) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return s.write(ctx, "return slice "+id+" to", func(ctx context.Context) error {
		if !isText(id) {
			return storeflow.NoSlice(id)
		}
		return s.inTransaction(ctx, func(t *transaction) error { return (&spendTx{transaction: t}).giveBack(id, unused) })
	})
}

// scopeLocks is the seed of the numbers of the advisory locks for the scopes of a schema.
func (s *Store) scopeLocks() int64 {
	return int64(hashOf("watchdog_spend", s.schema)) //nolint:gosec // any number will do
}

// giveBack locks the scope of the slice, the slice and its window. If the slice was taken after the statements that
// lock them, and before the one that reads them, they are locked and read again: its window may have changed since.
func (t *spendTx) giveBack(id string, unused watchdog.Totals) error {
	s := t.store
	var locked, windows []string
	for len(t.known) == 0 || len(windows) == 0 && !t.known[0].Deleted {
		err := t.send(running(s, lockScopeOfSlice, id, s.scopeLocks()),
			reading(s, &locked, pgx.RowTo[string], lockSlice, id),
			reading(s, &windows, pgx.RowTo[string], lockSliceWindow, id),
			reading(s, &t.known, scanSlice, selectSlice, id))
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

// Who charges a scope, or gives back to it, takes its advisory lock first. The wait for that has no limit, as in
// lockBuckets: only this package takes the lock, and many callers may queue for one scope. The hash is the server's, so
// that a return can take the lock of a scope that it does not know yet.
var (
	lockScope = `
	WITH locked AS MATERIALIZED (SELECT ` + lockHashOf("$1::{text}") + ` WHERE ` + withoutLimit + `) ` + limitAgain
	lockScopeOfSlice = `WITH locked AS MATERIALIZED (SELECT ` + lockHashOf("s.scope::{text}") + `
		FROM SCHEMA.watchdog_slices AS s WHERE s.id {=} $1 AND ` + withoutLimit + `) ` + limitAgain
	// limitAgain is when all are locked.
	limitAgain = limitLocks + ` FROM (SELECT pg_catalog.count(*) FROM locked) AS all_locked`
)

func lockHashOf(scope string) string {
	return `pg_catalog.pg_advisory_xact_lock(
			pg_catalog.hashtextextended(` + scope + ` COLLATE pg_catalog."C", $2::bigint))`
}

const withoutLimit = `(SELECT pg_catalog.set_config('lock_timeout', '0', true)) IS NOT NULL`

const (
	insertScope = `INSERT INTO SCHEMA.watchdog_spend (scope, window_name) VALUES ($1, '')
	ON CONFLICT (scope, window_name) DO NOTHING`

	setCurrency = `UPDATE SCHEMA.watchdog_spend SET currency = $2 WHERE scope {=} $1 AND window_name {=} ''`
	readClock   = `SELECT {send}(pg_catalog.clock_timestamp())`
	lockSlice   = `SELECT id FROM SCHEMA.watchdog_slices WHERE id {=} $1 FOR UPDATE`

	lockSliceWindow = `SELECT w.scope FROM SCHEMA.watchdog_slices AS s
	JOIN SCHEMA.watchdog_spend AS w ON w.scope {=} s.scope AND w.window_name {=} s.window_name
	WHERE s.id {=} $1 FOR UPDATE OF w`
)

var (
	// lockSpend returns the row of the scope first: its window has no name.
	lockSpend = `SELECT window_name, currency, ` + storeflow.EachKind("KIND") + ` FROM SCHEMA.watchdog_spend
	WHERE scope {=} $1 AND window_name {=} ANY ($2::{text}[]) ORDER BY window_name FOR UPDATE`

	setCharged = `INSERT INTO SCHEMA.watchdog_spend (scope, window_name, ends_at, ` + storeflow.EachKind("KIND") + `)
	VALUES ($1, $2, $3, ` + numbered(4) + `)
	ON CONFLICT (scope, window_name) DO UPDATE SET ` + storeflow.EachKind("KIND = excluded.KIND")

	insertSlice = `INSERT INTO SCHEMA.watchdog_slices
		(id, scope, window_name, taken_at, host, pid, ` + storeflow.EachKind("granted_KIND") + `)
	VALUES ($1, $2, $3, pg_catalog.clock_timestamp(), $4, $5::bigint, ` + numbered(6) + `) ON CONFLICT (id) DO NOTHING`

	returnSlice = `UPDATE SCHEMA.watchdog_slices SET returned_at = pg_catalog.clock_timestamp(),
		(` + storeflow.EachKind("returned_KIND") + `) = ROW (` + numbered(2) + `) WHERE id {=} $1`

	selectSlice = `SELECT ` + storeflow.SliceColumns("{send}(w.ends_at)") + ` FROM SCHEMA.watchdog_slices AS s
	LEFT JOIN SCHEMA.watchdog_spend AS w ON w.scope {=} s.scope AND w.window_name {=} s.window_name WHERE s.id {=} $1`
)

func numbered(from int) string {
	var all []string
	for i := range storeflow.SpendKinds {
		all = append(all, fmt.Sprintf("$%d::bigint", from+i))
	}
	return strings.Join(all, ", ")
}

type spendRow struct {
	window, currency string
	charged          watchdog.Totals
}

func scanSpend(row pgx.CollectableRow) (r spendRow, err error) {
	err = row.Scan(append([]any{&r.window, &r.currency}, storeflow.KindsOf(&r.charged)...)...)
	return r, err
}

func scanSlice(row pgx.CollectableRow) (*storeflow.Slice, error) {
	s := new(storeflow.Slice)
	var ends instant
	err := row.Scan(s.Into(&ends)...)
	s.Ends = ends.Time
	return s, err
}

// isText reports whether a column of the database can hold the text.
func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }
