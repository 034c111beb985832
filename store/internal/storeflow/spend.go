package storeflow

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
)

// SpendKinds are the columns of one watchdog.Totals, in the order of its fields.
var SpendKinds = func() []string {
	all := make([]string, reflect.TypeFor[watchdog.Totals]().NumField())
	for i := range all {
		all[i] = taxonomy.Counts[i].Name
	}
	return all
}()

// EachKind returns the form for each of the kinds, with the name of the kind in the place of KIND, separated by commas.
func EachKind(form string) string {
	all := make([]string, len(SpendKinds))
	for i, kind := range SpendKinds {
		all[i] = strings.ReplaceAll(form, "KIND", kind)
	}
	return strings.Join(all, ", ")
}

// KindsOf returns the counts in the order of [SpendKinds], to be read or written.
func KindsOf(t *watchdog.Totals) []any {
	fields := reflect.ValueOf(t).Elem()
	all := make([]any, fields.NumField())
	for i := range all {
		all[i] = fields.Field(i).Addr().Interface()
	}
	return all
}

// Process returns the name of this machine, empty if it has none, and the number of this process: they say who took a
// slice.
func Process() (host string, pid int) { return hostName(), os.Getpid() }

var hostName = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return strings.ToValidUTF8(name, "?") // as a database wants it
})

// SliceColumns is the SQL for a slice s and its window w in the order of [Slice.Into]. The form reads the window's end.
func SliceColumns(endsAt string) string {
	return `s.scope, s.window_name, ` + endsAt + `, s.returned_at IS NOT NULL, w.scope IS NULL, ` +
		EachKind("s.granted_KIND") + `, ` + EachKind("coalesce(w.KIND, 0)")
}

// A Slice is a row of watchdog_slices, with what its window is charged with.
type Slice struct {
	Scope, Window     string
	Ends              time.Time // zero for never
	Returned, Deleted bool      // the slice was, the window was
	Granted, Charged  watchdog.Totals
}

// Into returns the destinations for scanning a slice, with that of the window's end.
func (s *Slice) Into(ends any) []any {
	into := append([]any{&s.Scope, &s.Window, ends, &s.Returned, &s.Deleted}, KindsOf(&s.Granted)...)
	return append(into, KindsOf(&s.Charged)...)
}

// end returns when the window of the slice ends, zero for never. One that was deleted ended long ago.
func (s *Slice) end() time.Time {
	if s.Deleted && s.Window != "" {
		return time.Unix(0, 0)
	}
	return s.Ends
}

// A SpendTx is a transaction in which nobody else changes the scope of a slice.
type SpendTx interface {
	// Slice returns a slice, nil if there is none.
	Slice(id string) (*Slice, error)
	// Charged returns the currency of a scope, and what a window of it is charged with.
	Charged(scope, window string) (currency string, charged watchdog.Totals, err error)
	// Charge stores a slice that fits, the currency of its scope, and what its window is charged with now.
	Charge(s watchdog.Slice, currency string, t Taken) error
	// Return stores what was not used of a slice, and what its window is charged with now, if there still is one.
	Return(id string, s *Slice, charged, unused watchdog.Totals) error
}

// Taken is what came of a Take. A refusal is no error of the transaction, which others may share.
type Taken struct {
	watchdog.Grant
	Now, Ends time.Time
	Refusal   error
}

// Answer is what Take returns. Began is when the host's clock was read, not after the database's.
func (t Taken) Answer(began time.Time) (watchdog.Grant, error) {
	if t.Refusal != nil {
		return watchdog.Grant{}, t.Refusal
	}
	return t.Until(t.Ends, t.Now.Add(time.Since(began))), nil
}

// Take charges a slice, unless it is charged already or does not fit.
func Take(tx SpendTx, s watchdog.Slice, now time.Time) (t Taken, err error) {
	known, err := tx.Slice(s.ID)
	if err != nil {
		return t, err
	}
	if known != nil {
		g := watchdog.Grant{Fits: true, Granted: known.Granted, Charged: known.Charged, Window: known.Window}
		return Taken{Grant: g, Now: now, Ends: known.end(), Refusal: s.CheckScope(known.Scope)}, nil
	}
	t.Now = now
	t.Window, t.Ends = s.WindowAt(now)
	currency, charged, err := tx.Charged(s.Scope, t.Window)
	if err != nil {
		return t, err
	}
	if currency, t.Refusal = s.CurrencyOf(currency); t.Refusal != nil {
		return t, nil //nolint:nilerr // a refusal is no error of the transaction
	}
	t.Charged = charged
	if t.Granted, t.Fits = s.Fit(charged); !t.Fits {
		return t, nil
	}
	t.Charged = charged.Add(t.Granted)
	return t, tx.Charge(s, currency, t)
}

// Return gives back what was not used of a slice, unless that was done already. A refusal is no error of the
// transaction.
func Return(tx SpendTx, id string, unused watchdog.Totals) (refusal, err error) {
	s, err := tx.Slice(id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return NoSlice(id), nil
	}
	charged, refusal := s.Charged.GiveBack(s.Granted, unused)
	if refusal != nil || s.Returned {
		return refusal, nil
	}
	return nil, tx.Return(id, s, charged, unused)
}

// NoSlice is the error of Return for a slice that was never taken.
func NoSlice(id string) error {
	return fmt.Errorf("%w return: there is no slice %q", watchdog.ErrInvalid, id)
}
