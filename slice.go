package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Totals count what was used up, one number for each kind. Tokens are those in and out; Cost is in micro-units of one
// currency.
type Totals struct {
	InputTokens, OutputTokens, Tokens int64
	Cost                              int64
	Requests, Turns, ToolCalls        int64
}

// A Period is how long a shared limit counts before it begins again at zero.
type Period string

// The periods. Those of the calendar begin and end at midnight in the zone of their limit; an hour and a day that the
// zone makes longer or shorter are so.
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
	// Currency is that of the Cost. A scope has one, that of its first slice.
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
	// Granted is what it was charged with: the least, or a sixty-fourth of what was left if that is more.
	Granted Totals
	// Charged is what the scope's window is charged with in all, this slice included.
	Charged Totals
	// Ends is how long after the store's answer the window goes on; [NoLimit] for one that counts for ever. The slice must
	// not be used after it.
	Ends time.Duration
}

// A SpendStore is an [EventStore] that also keeps what shared limits are charged with. It is optional: a host whose
// store is none names one in its [Config]. Package storetest says whether one is right. All methods are safe for
// concurrent use, from any number of processes.
type SpendStore interface {
	// Take charges the scope's window with the slice, in one transaction, as [Slice.Grant] says; if that says that it does
	// not fit, nothing is charged. A slice that was charged before under the ID is not charged again: the answer has what
	// was granted then. The window is that of the store's own clock, see [Slice.WindowAt]. The error wraps [ErrInvalid]
	// as [Slice.Validate] does, and for a currency that is not the scope's.
	Take(ctx context.Context, s Slice) (Grant, error)
	// Return gives back what was not used of a slice, in the window that it was charged in. What is returned again under
	// one ID changes nothing. The error wraps [ErrInvalid] if no slice has the ID, or if unused is negative or more than
	// was granted.
	Return(ctx context.Context, id string, unused Totals) error
}

// Validate returns an error that wraps [ErrInvalid] and names the field that a slice cannot have.
func (s Slice) Validate() error {
	if flaw := textFlaw(s.ID, MaxEventID); flaw != "" {
		return fmt.Errorf("%w slice: its ID %s", ErrInvalid, flaw)
	}
	if flaw := textFlaw(s.Scope, MaxAggregateID); flaw != "" {
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
	if len(currency) > 16 || textFlaw(currency, 16) != "" && currency != "" {
		return fmt.Sprintf("is %q; use a short code such as EUR", currency)
	}
	return ""
}

// Grant says what to charge a window with that is charged with so much. The store sets Charged and Ends.
func (s Slice) Grant(charged Totals) (granted Totals, fits bool) {
	before, least, limit := charged.counts(), s.Least.counts(), s.Limit.counts()
	var grant verdict.Counts
	fits = true
	for i := range grant {
		grant[i] = verdict.SliceOf(least[i], limit[i], before[i])
		fits = fits && verdict.Fits(least[i], limit[i], before[i])
	}
	switch {
	case s.Force:
		return s.Least, true
	case !fits:
		return Totals{}, false
	}
	return totalsOf(grant), true
}

// WindowAt returns the window of the slice at a time of the store's clock: a name that tells it from the scope's other
// windows, and when it ends, zero for never. The slice is valid.
func (s Slice) WindowAt(now time.Time) (name string, ends time.Time) {
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		zone = time.UTC
	}
	begins, ends := verdict.Period(string(s.Period), now.In(zone))
	if ends.IsZero() {
		return "", ends
	}
	return begins.UTC().Format(time.RFC3339), ends
}

// Add returns the sum of both, kind by kind. What is too much for a number is [NoLimit].
func (t Totals) Add(other Totals) Totals {
	sum, more := t.counts(), other.counts()
	for i := range sum {
		sum[i] = verdict.AddCount(sum[i], more[i])
	}
	return totalsOf(sum)
}

// Sub returns what is left of t without other.
func (t Totals) Sub(other Totals) Totals {
	rest, less := t.counts(), other.counts()
	for i := range rest {
		rest[i] -= less[i]
	}
	return totalsOf(rest)
}

func (t Totals) counts() verdict.Counts {
	return verdict.Counts{t.InputTokens, t.OutputTokens, t.Tokens, t.Cost, t.Requests, t.Turns, t.ToolCalls}
}

func totalsOf(c verdict.Counts) Totals {
	return Totals{c[0], c[1], c[2], c[3], c[4], c[5], c[6]}
}
