package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var scopeRules = []spendRule{
	{"scopes are charged apart",
		"a tenant must not pay for another one",
		forEach([]string{tenant, "tenant-2", "Tenant-1", "tenant-1 ", "tenant"}, func(scope string) spendStep {
			return gets(inScope(asks("of "+scope, 20, 60), scope), 20, 20)
		})},
	{"an ID that was charged to another scope is ErrInvalid, and charges nothing",
		"two hosts that draw the same ID would both use the one slice", inTurn(
			takes(asks("a", 20, 60)),
			leaves(inScope(asks("", 0, 0), "tenant-2"),
				fails("take of an ID of another scope", watchdog.ErrInvalid, takes(inScope(asks("a", 20, 60), "tenant-2")))),
		)},
	{"a scope has one currency",
		"a sum of euros and dollars is no limit", inTurn(
			pays(tenant, "EUR"), paysNot(watchdog.PeriodNone),
			pays(tenant, "EUR"), pays(tenant, ""),
			paysNot(watchdog.PeriodNone), paysNot(watchdog.PeriodDay),
			pays("tenant-2", "USD"),
		)},
	{"a scope that had no currency has that of the first slice with one",
		"a host that begins to limit money uses the scope that it limited requests by",
		inTurn(pays(tenant, ""), pays(tenant, "EUR"), paysNot(watchdog.PeriodNone))},
	{"IDs and scopes are kept as they are",
		"a scope that is cut to fit is another tenant's, and a quote in a name must not end a statement", inTurn(
			keepsNames(`'0"; \`, `o'brien "x"; --`), keepsNames(longID("1"), `%_\`), keepsNames(`'2"; \`, "$1 ?1 :a @b"),
			keepsNames(longID("3"), "é"), keepsNames(`'4"; \`, "e\u0301"),
			keepsNames(longID("5"), longScope("a")), keepsNames(`'6"; \`, longScope("b")),
		)},
	{"IDs that differ in case are different slices",
		"IDs may be base64 or nanoids: the second slice would be used and never charged",
		inTurn(gets(asks("Ab", 20, 60), 20, 20), gets(asks("aB", 20, 60), 20, 40))},
	{"slices of one period are charged in one window, which ends within the period",
		"a limit of a day that begins with each slice is none, and one that never does ends all work",
		forEach(windows, isShared)},
	{"a slice without a period is charged for ever",
		"a limit of a whole run must not begin again at midnight",
		forEach([]string{"a", "a", "b"}, func(id string) spendStep { return takes(asks(id, 20, 60), neverEnds) })},
	{"the periods of a scope are charged apart",
		"what counts for the hour is not what is left of the day", forEach([]watchdog.Period{
			watchdog.PeriodNone, watchdog.PeriodHour, watchdog.PeriodDay, watchdog.PeriodMonth,
		}, func(period watchdog.Period) spendStep {
			return gets(inPeriod(asks("slice-"+string(period), 20, 60), period), 20, 20)
		})},
	{"what is given back is given back in its own window",
		"a rest of yesterday must not be today's", inTurn(
			gets(asks("for ever", 10, 60), 10, 10),
			gets(ofDay, 20, 20),
			givesBack(ofDay.ID, 15),
			uses(10),
			takes(ofDay, func(g watchdog.Grant) { // in the window that it was charged in, also if that is over
				equal("charged", g.Charged, requests(5))
			}),
		)},
	{"a grant names the window that it is of",
		"a run tells windows by their names: what was granted in one is not drawn on in another",
		forEach(append([]window{{}}, windows...), namesItself)},
}

// keepsNames takes a slice of a scope, again, and gives some of it back.
func keepsNames(id, scope string) spendStep {
	slice := inScope(asks(id, 20, 60), scope)
	return inTurn(gets(slice, 20, 20), gets(slice, 20, 20), givesBack(id, 5), isCharged(slice, requests(15)))
}

// longID and longScope return texts as long as they may be, which differ at the end.
func longID(end string) string    { return strings.Repeat("é", watchdog.MaxEventID-1) + end }
func longScope(end string) string { return strings.Repeat("語", watchdog.MaxAggregateID-1) + end }

// pays takes a slice whose cost is in a currency.
func pays(scope, currency string) spendStep {
	return func(e *spendEnv) { takes(costing(scope, watchdog.PeriodNone, currency), fits)(e) }
}

// paysNot takes one in dollars that must be refused, and checks that the window without an end is charged as before.
func paysNot(period watchdog.Period) spendStep {
	return func(e *spendEnv) {
		leaves(costing(tenant, watchdog.PeriodNone, ""),
			fails("take in USD of a scope that counts in EUR", watchdog.ErrInvalid, takes(costing(tenant, period, "USD"))),
		)(e)
	}
}

// costing returns a slice with an ID of its own.
func costing(scope string, period watchdog.Period, currency string) watchdog.Slice {
	return watchdog.Slice{
		ID: freshID(), Scope: scope, Period: period, Currency: currency,
		Least: watchdog.Totals{Cost: 2}, Limit: watchdog.Totals{Cost: 60},
	}
}

var ofDay = inPeriod(asks("of the day", 20, 60), watchdog.PeriodDay)

func inPeriod(s watchdog.Slice, period watchdog.Period) watchdog.Slice {
	s.Period = period
	return s
}

func neverEnds(g watchdog.Grant) { equal("ends", g.Ends, watchdog.NoLimit) }

// A window is a period in a zone, and how long it lasts at most.
type window struct {
	period watchdog.Period
	zone   string
	most   time.Duration
}

const day = 24 * time.Hour

// windows are in zones without a daylight saving time.
var windows = []window{
	{watchdog.PeriodHour, "", time.Hour}, {watchdog.PeriodHour, "Asia/Kathmandu", time.Hour},
	{watchdog.PeriodDay, "", day}, {watchdog.PeriodDay, "Pacific/Kiritimati", day},
	{watchdog.PeriodMonth, "", 31 * day}, {watchdog.PeriodMonth, "Asia/Kolkata", 31 * day},
}

// asks returns a slice of the window.
func (w window) asks(id, scope string, least int64) watchdog.Slice {
	s := inPeriod(inScope(asks(id, least, 60), fmt.Sprintf("%s %s %s", scope, w.period, w.zone)), w.period)
	s.Zone = w.zone
	return s
}

// isShared takes two slices of a window. If the window ends between them, it begins again.
func isShared(w window) spendStep {
	return func(e *spendEnv) {
		const tries = 3
		for try := range tries {
			scope := fmt.Sprint("shared ", try)
			first, second := take(e, w.asks(freshID(), scope, 20)), take(e, w.asks(freshID(), scope, 20))
			if second.Ends > first.Ends && try < tries-1 {
				continue
			}
			in(func() { w.has(first, second) }, "the window of period %q in zone %q", w.period, w.zone)
			return
		}
	}
}

func (w window) has(first, second watchdog.Grant) {
	for _, g := range []watchdog.Grant{first, second} {
		contract.Require(g.Ends > 0 && g.Ends <= w.most, "it ends after %v, want up to %v", g.Ends, w.most)
	}
	equal("charged after a second slice", second.Charged, first.Charged.Add(second.Granted))
}

// storeSkew is how wrong the clock of a store under test may be.
const storeSkew = 10 * time.Minute

// namesItself takes a slice, again, and one that does not fit, and looks at the name of the window.
func namesItself(w window) spendStep {
	slice := w.asks("named "+w.zone+string(w.period), "named", 20)
	return func(e *spendEnv) {
		earliest, _ := slice.WindowAt(time.Now().Add(-storeSkew))
		named := func(g watchdog.Grant) {
			latest, _ := slice.WindowAt(time.Now().Add(storeSkew))
			contract.Require(g.Window == earliest || g.Window == latest, "it is of window %q, want %q", g.Window, latest)
		}
		inTurn(takes(slice, named), takes(slice, named), takes(w.asks("more", "named", 61), named))(e)
	}
}
