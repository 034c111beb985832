package sqlite

import (
	"cmp"
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// Take implements [watchdog.SpendStore]. Like Append it shares a transaction with other writes and waits for its
// commit. If it returns an error that does not wrap [watchdog.ErrInvalid], the slice may be charged all the same: take
// it again under the same ID.
func (s *Store) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	if err := slice.Validate(); err != nil {
		return watchdog.Grant{}, err
	}
	taken, err := changed(ctx, s, "take slice "+slice.ID, 1, func(t *transaction) storeflow.Taken {
		taken, err := storeflow.Take(spendTx{t}, slice, time.Now())
		t.fail(err)
		return taken
	})
	if err != nil {
		return watchdog.Grant{}, err
	}
	return taken.Answer(taken.Now)
}

// Return implements [watchdog.SpendStore]. It shares a transaction as Take does.
func (s *Store) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	refusal, err := changed(ctx, s, "return slice "+id, 1, func(t *transaction) error {
		refusal, err := storeflow.Return(spendTx{t}, id, unused)
		t.fail(err)
		return refusal
	})
	return cmp.Or(err, refusal)
}

// A spendTx is a transaction of Take or Return. It has the write lock, so that nobody else charges the scope.
type spendTx struct{ *transaction }

var selectSlice = `SELECT ` + storeflow.SliceColumns("coalesce(w.ends_at, '')") + ` FROM main.watchdog_slices AS s
	LEFT JOIN main.watchdog_spend AS w ON w.scope = s.scope AND w.window_name = s.window_name WHERE s.id = ?1`

// Slice implements [storeflow.SpendTx], as the next methods do.
func (t spendTx) Slice(id string) (*storeflow.Slice, error) {
	var s storeflow.Slice
	var ends string
	if !t.look(selectSlice, []any{id}, s.Into(&ends)...) {
		return nil, t.err
	}
	if ends != "" {
		s.Ends, t.err = time.Parse(timeLayout, ends)
	}
	return &s, t.err
}

var selectCharged = `
	SELECT coalesce((SELECT currency FROM main.watchdog_spend WHERE scope = ?1 AND window_name = ''), ''), ` +
	storeflow.EachKind("coalesce(max(KIND), 0)") + ` FROM main.watchdog_spend WHERE scope = ?1 AND window_name = ?2`

func (t spendTx) Charged(scope, window string) (currency string, charged watchdog.Totals, err error) {
	t.look(selectCharged, []any{scope, window}, append([]any{&currency}, storeflow.KindsOf(&charged)...)...)
	return currency, charged, t.err
}

const setCurrency = `INSERT INTO main.watchdog_spend (scope, window_name, currency) VALUES (?1, '', ?2)
	ON CONFLICT (scope, window_name) DO UPDATE SET currency = excluded.currency WHERE currency <> excluded.currency`

var (
	setCharged = `INSERT INTO main.watchdog_spend (scope, window_name, ends_at, ` + storeflow.EachKind("KIND") + `)
	VALUES (?, ?, ?, ` + storeflow.EachKind("?") + `)
	ON CONFLICT (scope, window_name) DO UPDATE SET ` + storeflow.EachKind("KIND = excluded.KIND")

	insertSlice = `INSERT INTO main.watchdog_slices (id, scope, window_name, taken_at, host, pid,
		` + storeflow.EachKind("granted_KIND") + `) VALUES (?, ?, ?, ?, ?, ?, ` + storeflow.EachKind("?") + `)`
)

func (t spendTx) Charge(s watchdog.Slice, currency string, taken storeflow.Taken) error {
	t.do(setCurrency, s.Scope, currency)
	t.setCharged(s.Scope, taken.Window, taken.Ends, &taken.Charged)
	host, pid := storeflow.Process()
	row := []any{s.ID, s.Scope, taken.Window, formatTime(taken.Now), host, pid}
	t.do(insertSlice, append(row, storeflow.KindsOf(&taken.Granted)...)...)
	return t.err
}

func (t spendTx) setCharged(scope, window string, ends time.Time, charged *watchdog.Totals) {
	t.do(setCharged, append([]any{scope, window, nullTime(ends)}, storeflow.KindsOf(charged)...)...)
}

var returnSlice = `
	UPDATE main.watchdog_slices SET returned_at = ?, ` + storeflow.EachKind("returned_KIND = ?") + ` WHERE id = ?`

func (t spendTx) Return(id string, s *storeflow.Slice, charged, unused watchdog.Totals) error {
	if !s.Deleted {
		t.setCharged(s.Scope, s.Window, s.Ends, &charged)
	}
	arguments := append([]any{formatTime(time.Now())}, storeflow.KindsOf(&unused)...)
	t.do(returnSlice, append(arguments, id)...)
	return t.err
}
