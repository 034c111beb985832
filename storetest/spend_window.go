package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendWindowRules = []spendRule{
	{
		"slices of one period are charged in one window, which ends within the period",
		"a limit of a day that begins again with each slice is none, and one that never begins again ends all work",
		func(s spender) error {
			return contract.Each(windows, func(w window) error {
				if err := s.share(w); err != nil {
					return fmt.Errorf("period %q in zone %q: %w", w.period, w.zone, err)
				}
				return nil
			})
		},
	},
	{
		"a slice without a period is charged for ever",
		"a limit of a whole run must not begin again at midnight",
		func(s spender) error {
			for _, id := range []string{"a", "a", "b"} {
				g, err := s.take(asks(id, 20, 60))
				if err != nil {
					return err
				}
				if g.Ends != watchdog.NoLimit {
					return fmt.Errorf("slice %s ends after %v, want never", id, g.Ends)
				}
			}
			return nil
		},
	},
	{
		"the periods of a scope are charged apart",
		"a limit of an hour beside one of a day: what counts for the hour is not what is left of the day",
		func(s spender) error {
			for i, period := range []watchdog.Period{
				watchdog.PeriodNone, watchdog.PeriodHour, watchdog.PeriodDay, watchdog.PeriodMonth,
			} {
				slice := asks(fmt.Sprint("slice-", i), 20, 60)
				slice.Period = period
				if err := s.gets(slice, 20, 20); err != nil {
					return fmt.Errorf("period %q: %w", period, err)
				}
			}
			return nil
		},
	},
	{
		"what is given back is given back in its own window",
		"a rest of yesterday must not be today's",
		func(s spender) error {
			day := asks("of the day", 20, 60)
			day.Period = watchdog.PeriodDay
			forever := asks("for ever", 10, 60)
			return inTurn(
				func() error { return s.gets(forever, 10, 10) },
				func() error { return s.gets(day, 20, 20) },
				func() error { return s.giveBack(day.ID, 15) },
				func() error { return s.holds(forever, requests(10)) },
				func() error {
					g, err := s.take(day) // in the window that it was charged in, also if that is over
					if err == nil && g.Charged != requests(5) {
						err = fmt.Errorf("the window of the day is charged with %+v, want 5 requests", g.Charged)
					}
					return err
				},
			)
		},
	},
	{
		"a grant names the window that it is of",
		"a run tells windows by their names: what was granted in one is not drawn on in another",
		func(s spender) error {
			return contract.Each(append([]window{{}}, windows...), func(w window) error {
				if err := s.names(w); err != nil {
					return fmt.Errorf("period %q in zone %q: %w", w.period, w.zone, err)
				}
				return nil
			})
		},
	},
}

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

// share takes two slices of a window. If the window ends between them, share begins again.
func (s spender) share(w window) error {
	const tries = 3
	for try := range tries {
		slice := asks(freshID(), 20, 60)
		slice.Period, slice.Zone = w.period, w.zone
		slice.Scope = fmt.Sprintf("%s %s %d", w.period, w.zone, try)
		other := slice
		other.ID = freshID()
		first, err := s.take(slice)
		if err != nil {
			return err
		}
		second, err := s.take(other)
		if err != nil {
			return err
		}
		if second.Ends > first.Ends && try < tries-1 {
			continue
		}
		return errors.Join(w.lasts(first), w.lasts(second), adds(first, second))
	}
	return nil
}

func (w window) lasts(g watchdog.Grant) error {
	if g.Ends <= 0 || g.Ends > w.most {
		return fmt.Errorf("the window ends after %v, want up to %v", g.Ends, w.most)
	}
	return nil
}

func adds(first, second watchdog.Grant) error {
	if want := first.Charged.Add(second.Granted); second.Charged != want {
		return fmt.Errorf("after a second slice the window is charged with %+v, want %+v", second.Charged, want)
	}
	return nil
}

// storeSkew is how wrong the clock of a store under test may be.
const storeSkew = 10 * time.Minute

// names takes a slice, again, and one that does not fit, and looks at the name of the window.
func (s spender) names(w window) error {
	slice := asks(freshID(), 20, 60)
	slice.Period, slice.Zone, slice.Scope = w.period, w.zone, fmt.Sprintf("named %s %s", w.period, w.zone)
	more := slice
	more.ID, more.Least = freshID(), requests(61)
	earliest, _ := slice.WindowAt(time.Now().Add(-storeSkew))
	for _, one := range []watchdog.Slice{slice, slice, more} {
		g, err := s.take(one)
		if err != nil {
			return err
		}
		latest, _ := slice.WindowAt(time.Now().Add(storeSkew))
		if g.Window != earliest && g.Window != latest {
			return fmt.Errorf("slice %s is of window %q, want %q, as WindowAt says", asked(one), g.Window, latest)
		}
	}
	return nil
}
