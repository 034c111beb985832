package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Period is how long a shared limit counts before it begins again at zero.
type Period string

// The periods. An hour, a day and a month are those of local time in the zone of their limit, also where one is longer
// or shorter: a day has 23 hours when clocks are set forward, and an hour that occurs twice is one.
const (
	// PeriodNone counts for ever. It is the zero value.
	PeriodNone  Period = ""
	PeriodHour  Period = "hour"
	PeriodDay   Period = "day"
	PeriodMonth Period = "month"
)

// A Slice is a part of a shared limit that a process charges at once and then draws on in memory, so that few
// admissions wait for the store.
type Slice struct {
	// ID names the slice: a charge that is made again under one ID counts once. At most [MaxEventID] characters.
	ID string
	// Scope names what shares the limit, such as a tenant: at most [MaxAggregateID] characters, none of them a control
	// character.
	Scope string
	// Period and Zone, the IANA name of a time zone, say in which window the slice is charged: that of the store's clock.
	// An empty Zone is UTC.
	Period Period
	Zone   string
	// Currency is that of the Cost. A scope has one, that of its first slice with a currency. Empty is that of the scope.
	Currency string
	// Least is what has to fit, Limit what the scope may use in a window: [NoLimit] for what it does not limit.
	Least, Limit Totals
	// Force charges Least whether it fits or not: it has been used already.
	Force bool
}

// A Grant is what came of a [Slice].
type Grant struct {
	// Fits reports whether the slice was charged.
	Fits bool
	// Granted is what it was charged with: of each kind the least, or a sixty-fourth of what was left if that is more. It
	// is zero if the slice does not fit.
	Granted Totals
	// Charged is what the scope's window is charged with in all, this slice included if it fits.
	Charged Totals
	// Window is the name of that window, see [Slice.WindowAt].
	Window string
	// Ends is how long after the store's answer the window goes on, which is zero if it is over; [NoLimit] for one that
	// counts for ever. The slice must not be used after it.
	Ends time.Duration
}

// A SpendStore keeps what shared limits are charged with. It is optional: an [EventStore] may be one, too, and a host
// whose store is none names one in its [Config]. Package storetest says whether one is right. All methods are safe for
// concurrent use, from any number of processes.
//
// An error that does not wrap [ErrInvalid] says that the store could not be asked, or did not answer: the call may have
// been carried out, and can be made again under the same ID.
type SpendStore interface {
	// Take charges the scope's window with the slice, in one transaction, as [Slice.Fit] says; if that says that it does
	// not fit, nothing is charged, and the ID is free. A slice that was charged before under the ID is not charged again,
	// also if it was returned or asks for something else: the answer has what was granted then, and the window that it
	// was charged in. The window is that of the store's own clock, see [Slice.WindowAt]. The error wraps [ErrInvalid] as
	// [Slice.Validate] does, for an ID that was charged to another scope, and for a currency that is not the scope's.
	Take(ctx context.Context, s Slice) (Grant, error)
	// Return gives back what was not used of a slice, in the window that it was charged in. What is returned again under
	// one ID changes nothing. The error wraps [ErrInvalid] if no slice has the ID, or if unused is negative or more than
	// was granted.
	Return(ctx context.Context, id string, unused Totals) error
}

// Validate returns an error that wraps [ErrInvalid] and names the field that a slice cannot have.
func (s Slice) Validate() error {
	if flaw := record.TextFlaw(s.ID, MaxEventID); flaw != "" {
		return fmt.Errorf("%w slice: its ID %s", ErrInvalid, flaw)
	}
	if flaw := record.TextFlaw(s.Scope, MaxAggregateID); flaw != "" {
		return fmt.Errorf("%w slice %s: its Scope %s", ErrInvalid, s.ID, flaw)
	}
	if flaw := currencyFlaw(s.Currency); flaw != "" {
		return fmt.Errorf("%w slice %s: its Currency %s", ErrInvalid, s.ID, flaw)
	}
	for i, least := range s.Least.counts() {
		if limit := s.Limit.counts()[i]; least < 0 || limit < 0 {
			return fmt.Errorf("%w slice %s: its Least is %d %s of %d; neither can be negative", ErrInvalid, s.ID, least,
				verdict.Kind(i), limit)
		}
	}
	return s.Period.check(s.Zone)
}

func (p Period) check(zone string) error {
	switch p {
	case PeriodNone, PeriodHour, PeriodDay, PeriodMonth:
	default:
		return fmt.Errorf("%w period %q: use %q, %q or %q, or none", ErrInvalid, p, PeriodHour, PeriodDay, PeriodMonth)
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return fmt.Errorf("%w zone %q: use an IANA name that this machine knows, such as Europe/Berlin, or none for UTC",
			ErrInvalid, zone)
	}
	return nil
}

// currencyFlaw says what is wrong with a currency, or nothing. None is fine: money is not limited then.
func currencyFlaw(currency string) string {
	if len(currency) > 16 || record.TextFlaw(currency, 16) != "" && currency != "" {
		return fmt.Sprintf("is %q; use a short code such as EUR", currency)
	}
	return ""
}

// Fit says what to charge a window with that is charged with so much, and whether it fits. A [SpendStore] calls it
// inside its transaction. The slice is valid.
func (s Slice) Fit(charged Totals) (granted Totals, fits bool) {
	if s.Force {
		return s.Least, true
	}
	least, limit, used := s.Least.counts(), s.Limit.counts(), charged.counts()
	grant, fits := least.Slice(&limit, &used)
	return totalsOf(grant), fits
}

// WindowAt returns the window of the slice at a time of the store's clock: a name that tells it from the scope's other
// windows, empty for the one that counts for ever, and when it ends, zero for never. The slice is valid.
func (s Slice) WindowAt(now time.Time) (name string, ends time.Time) {
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		zone = time.UTC
	}
	begins, ends := verdict.Period(string(s.Period), now.In(zone))
	if ends.IsZero() {
		return "", ends
	}
	return string(s.Period) + " " + begins.UTC().Format(time.RFC3339), ends.UTC()
}

// CurrencyOf returns the currency of the slice's scope once the slice is charged, if known is what it has so far. The
// error wraps [ErrInvalid] if the slice has another one.
func (s Slice) CurrencyOf(known string) (string, error) {
	if known != "" && s.Currency != "" && known != s.Currency {
		return "", fmt.Errorf("%w slice %s: its Currency is %s, and scope %q counts in %s: use that, or another scope",
			ErrInvalid, s.ID, s.Currency, s.Scope, known)
	}
	return cmp.Or(known, s.Currency), nil
}

// CheckScope returns an error that wraps [ErrInvalid] unless the scope that the ID was charged to is the slice's own.
func (s Slice) CheckScope(charged string) error {
	if charged != s.Scope {
		return fmt.Errorf("%w slice %s: its Scope is %q, and its ID was charged to %q: give each slice an ID of its own",
			ErrInvalid, s.ID, s.Scope, charged)
	}
	return nil
}

// Until returns the grant with the Ends of a window that ends then, zero for never, where the store's clock shows now.
func (g Grant) Until(ends, now time.Time) Grant {
	g.Ends = max(ends.Sub(now), 0)
	if ends.IsZero() {
		g.Ends = NoLimit
	}
	return g
}
