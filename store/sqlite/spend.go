package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// Take implements [watchdog.SpendStore]. Like Append it shares a transaction with other writes and waits for its
// commit. If it returns an error that does not wrap [watchdog.ErrInvalid], the slice may be charged all the same: take
// it again under the same ID.
func (s *Store) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	if err := slice.Validate(); err != nil {
		return watchdog.Grant{}, err
	}
	var taken takenSlice
	err := s.change(ctx, "take slice "+slice.ID, 1, func(t *transaction) (err error) {
		taken, err = t.take(slice, time.Now())
		return err
	})
	if err == nil {
		err = taken.refusal
	}
	if err != nil {
		return watchdog.Grant{}, err
	}
	return taken.Until(taken.ends, taken.now.Add(time.Since(taken.now))), nil
}

// A takenSlice is what came of a Take. A refusal is not the error of its transaction, which others share.
type takenSlice struct {
	watchdog.Grant
	now, ends time.Time
	refusal   error
}

func (t *transaction) take(s watchdog.Slice, now time.Time) (taken takenSlice, err error) {
	known, err := t.slice(s.ID)
	switch {
	case err == nil:
		taken = takenSlice{now: now, ends: known.ends, refusal: s.CheckScope(known.scope)}
		taken.Grant = watchdog.Grant{Fits: true, Granted: known.granted, Charged: known.charged, Window: known.window}
		return taken, nil
	case !errors.Is(err, sql.ErrNoRows):
		return takenSlice{}, err
	}
	name, ends := s.WindowAt(now)
	taken = takenSlice{Grant: watchdog.Grant{Window: name}, now: now, ends: ends}
	currency, charged, err := t.charged(s.Scope, name)
	if err != nil {
		return takenSlice{}, err
	}
	if currency, taken.refusal = s.CurrencyOf(currency); taken.refusal == nil {
		taken.Charged = charged
		err = t.charge(s, name, currency, &taken)
	}
	return taken, err
}

// A storedSlice is a row of watchdog_slices, with what its window is charged with.
type storedSlice struct {
	scope, window    string
	ends             time.Time
	returned         bool
	deleted          bool // the window was
	granted, charged watchdog.Totals
}

var selectSlice = `
	SELECT s.scope, s.window_name, coalesce(w.ends_at, ''), s.returned_at IS NOT NULL, w.scope IS NULL, ` +
	storerows.EachKind("s.granted_KIND") + `, ` + storerows.EachKind("coalesce(w.KIND, 0)") + `
	FROM main.watchdog_slices AS s
	LEFT JOIN main.watchdog_spend AS w ON w.scope = s.scope AND w.window_name = s.window_name
	WHERE s.id = ?1`

// slice returns [sql.ErrNoRows] if no slice has the ID.
func (t *transaction) slice(id string) (s storedSlice, err error) {
	prepared, err := t.prepare(selectSlice) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return s, err
	}
	var ends string
	into := append([]any{&s.scope, &s.window, &ends, &s.returned, &s.deleted}, kindsOf(&s.granted)...)
	err = prepared.QueryRowContext(context.Background(), id).Scan(append(into, kindsOf(&s.charged)...)...)
	switch {
	case err == nil && ends != "":
		s.ends, err = time.Parse(timeLayout, ends)
	case s.deleted && s.window != "":
		s.ends = time.Unix(0, 0) // long ago
	}
	return s, err
}

// kindsOf returns the counts in the order of [storerows.SpendKinds], to be read or written.
func kindsOf(t *watchdog.Totals) []any {
	return []any{&t.InputTokens, &t.OutputTokens, &t.Tokens, &t.Cost, &t.Requests, &t.Turns, &t.ToolCalls}
}

var selectCharged = `
	SELECT coalesce((SELECT currency FROM main.watchdog_spend WHERE scope = ?1 AND window_name = ''), ''), ` +
	storerows.EachKind("coalesce(max(KIND), 0)") + `
	FROM main.watchdog_spend WHERE scope = ?1 AND window_name = ?2`

// charged returns the currency of a scope, and what a window of it is charged with.
func (t *transaction) charged(scope, window string) (currency string, charged watchdog.Totals, err error) {
	prepared, err := t.prepare(selectCharged) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return "", charged, err
	}
	into := append([]any{&currency}, kindsOf(&charged)...)
	err = prepared.QueryRowContext(context.Background(), scope, window).Scan(into...)
	return currency, charged, err
}

const setCurrency = `
	INSERT INTO main.watchdog_spend (scope, window_name, currency) VALUES (?1, '', ?2)
	ON CONFLICT (scope, window_name) DO UPDATE SET currency = excluded.currency WHERE currency <> excluded.currency`

var (
	setCharged = `
	INSERT INTO main.watchdog_spend (scope, window_name, ends_at, ` + storerows.EachKind("KIND") + `)
	VALUES (?, ?, ?, ` + storerows.EachKind("?") + `)
	ON CONFLICT (scope, window_name) DO UPDATE SET ` + storerows.EachKind("KIND = excluded.KIND")

	insertSlice = `
	INSERT INTO main.watchdog_slices (id, scope, window_name, taken_at, host, pid,
		` + storerows.EachKind("granted_KIND") + `)
	VALUES (?, ?, ?, ?, ?, ?, ` + storerows.EachKind("?") + `)`
)

// charge writes a slice down, and what its window is charged with, if it fits.
func (t *transaction) charge(s watchdog.Slice, window, currency string, taken *takenSlice) error {
	if taken.Granted, taken.Fits = s.Fit(taken.Charged); !taken.Fits {
		return nil
	}
	taken.Charged = taken.Charged.Add(taken.Granted)
	if err := t.run(setCurrency, s.Scope, currency); err != nil {
		return err
	}
	if err := t.setCharged(s.Scope, window, taken.ends, &taken.Charged); err != nil {
		return err
	}
	host, pid := storerows.Process()
	row := []any{s.ID, s.Scope, window, formatTime(taken.now), host, pid}
	return t.run(insertSlice, append(row, kindsOf(&taken.Granted)...)...)
}

func (t *transaction) setCharged(scope, window string, ends time.Time, charged *watchdog.Totals) error {
	return t.run(setCharged, append([]any{scope, window, nullTime(ends)}, kindsOf(charged)...)...)
}

var returnSlice = `
	UPDATE main.watchdog_slices SET returned_at = ?, ` + storerows.EachKind("returned_KIND = ?") + ` WHERE id = ?`

// Return implements [watchdog.SpendStore]. It shares a transaction as Take does.
func (s *Store) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	var refusal error
	err := s.change(ctx, "return slice "+id, 1, func(t *transaction) (err error) {
		refusal, err = t.giveBack(id, unused)
		return err
	})
	if err != nil {
		return err
	}
	return refusal
}

func (t *transaction) giveBack(id string, unused watchdog.Totals) (refusal, err error) {
	s, err := t.slice(id)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w return: there is no slice %q", watchdog.ErrInvalid, id), nil
	}
	if err != nil {
		return nil, err
	}
	charged, refusal := s.charged.GiveBack(s.granted, unused)
	if refusal != nil || s.returned {
		return refusal, nil
	}
	if !s.deleted {
		if err := t.setCharged(s.scope, s.window, s.ends, &charged); err != nil {
			return nil, err
		}
	}
	return nil, t.run(returnSlice, append(append([]any{formatTime(time.Now())}, kindsOf(&unused)...), id)...)
}
