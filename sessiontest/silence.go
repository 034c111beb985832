package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// vouched is the instant through which leases vouch in these rules. Without a clock of the host's or the database's
// anywhere near it, only the lease can tell how long a run was silent.
const vouched = 1000 * day

var silenceRules = []rule{
	{
		"a quiet session is silent as far as its lease vouches for it, and another is not silent",
		"what is not vouched for may not be written yet",
		func(ctx context.Context, store session.Store) error {
			silences := []time.Duration{vouched - 1, 0, 0, 0, 0}
			return inLease(ctx, store, []session.Freshness{
				{Activity: 1, Quiet: true}, {Activity: 1}, {Activity: session.NoActivity, Quiet: true},
				{Activity: vouched, Quiet: true}, {Activity: vouched + day, Quiet: true},
			}, func(sessions []session.Session) error {
				for i, s := range sessions {
					if s.Silence != silences[i] {
						return fmt.Errorf("the silence of %+v is %v, want %v", s, s.Silence, silences[i])
					}
				}
				return nil
			})
		},
	},
	{
		"each renewal vouches for more silence",
		"the row of a silent run is not written, only the lease of its process",
		func(ctx context.Context, store session.Store) error {
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour, Quiet: true})
			if err != nil {
				return err
			}
			if _, err := vouch(ctx, store, l, vouched); err != nil {
				return err
			}
			s.Silence = vouched - time.Hour
			return looksLike(ctx, store, s)
		},
	},
	{
		"a session of a lease is stalled after more than its threshold, to the nanosecond",
		"exceeded means more than, by the clock of the lease as well",
		func(ctx context.Context, store session.Store) error {
			const long = 500 * day
			own := map[string]time.Duration{
				"run-2": time.Minute, "run-3": time.Minute, "run-4": long, "run-5": long, "run-6": watchdog.NoLimit,
				"run-7": long,
			}
			return stalledInLease(ctx, store, []session.Freshness{
				{Activity: vouched - threshold - 1, Quiet: true}, {Activity: vouched - threshold, Quiet: true},
				{Activity: vouched - time.Minute - 1, Quiet: true}, {Activity: vouched - time.Minute, Quiet: true},
				{Activity: vouched - long - 1, Quiet: true}, {Activity: vouched - long, Quiet: true},
				{Activity: 0, Quiet: true}, {Activity: 0, Quiet: true},
			}, own, "run-0", "run-2", "run-4", "run-7")
		},
	},
	{
		"a session of a lease that is not quiet is not stalled",
		"its run had something new a moment ago, which may not be written yet",
		func(ctx context.Context, store session.Store) error {
			fresh := []session.Freshness{{Activity: 0}, {Activity: time.Hour, Quiet: true}}
			return stalledInLease(ctx, store, fresh, nil, "run-1")
		},
	},
	{
		"a session becomes quiet with the activity that it has, and awake with the next",
		"a keeper writes the last activity at once, and that nothing came after it a minute later",
		func(ctx context.Context, store session.Store) error {
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour})
			if err != nil {
				return err
			}
			f := session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: time.Hour, Quiet: true}
			s.Silence = l.Vouched - f.Activity
			err = errors.Join(
				freshens(ctx, store, l.ID, f), looksLike(ctx, store, s), findsOnly(ctx, store, s.RunID))
			f.Activity, f.Quiet = f.Activity+time.Minute, false
			s.Activity, s.Silence = f.Activity, 0
			return errors.Join(err,
				freshens(ctx, store, l.ID, f), looksLike(ctx, store, s), findsOnly(ctx, store))
		},
	},
	{
		"a session of a lease that has not signalled is never stalled",
		"a run that never signals is alive as long as its process is",
		func(ctx context.Context, store session.Store) error {
			return stalledInLease(ctx, store, []session.Freshness{
				{Activity: session.NoActivity}, {Activity: session.NoActivity, Quiet: true},
			}, map[string]time.Duration{"run-1": time.Microsecond})
		},
	},
	{
		"the database's clock says nothing about the silence of a session of a lease",
		"a clock that is set forward by more than the threshold would cancel every live run",
		func(ctx context.Context, store session.Store) error {
			now, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			s := silentSession(homeRun, now, 400*day)
			s.CreatedAt = now.Add(-500 * day)
			if err := put(ctx, store, s); err != nil {
				return err
			}
			if _, err := beginAt(ctx, store, homeLease, time.Hour); err != nil {
				return err
			}
			f := session.Freshness{RunID: homeRun, Attempt: 1, Activity: time.Hour - time.Minute, Quiet: true}
			return errors.Join(freshens(ctx, store, homeLease, f), findsOnly(ctx, store))
		},
	},
	{
		"a session of a lease is old enough at its minimum age, by the database's clock",
		"the age is that of the row, and not that of the lease",
		func(ctx context.Context, store session.Store) error {
			if _, err := beginAt(ctx, store, homeLease, vouched); err != nil {
				return err
			}
			row := func(runID string, now time.Time, beyond time.Duration) session.Session {
				s := silentSession(runID, now, time.Hour)
				s.CreatedAt = now.Add(-minAge - beyond)
				return s
			}
			freshen := func(rows []session.Session) error {
				var fresh []session.Freshness
				for _, s := range rows {
					fresh = append(fresh, session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Quiet: true})
				}
				for part := range slices.Chunk(fresh, 1000) {
					if err := freshens(ctx, store, homeLease, part...); err != nil {
						return err
					}
				}
				return nil
			}
			return stalledAround(ctx, store, "minimum age", row, freshen, func(s session.Session, now time.Time) bool {
				return now.Sub(s.CreatedAt) >= minAge
			})
		},
	},
	{
		"a stalled session of a lease is returned exactly as its row is, with its silence",
		"a cancel compares with the judged row, and its event says how long the run was silent",
		func(ctx context.Context, store session.Store) error {
			_, s, err := vouchedFor(ctx, store,
				session.Freshness{Activity: time.Hour + 1, Quiet: true, State: []byte(`{"phase":"tests"}`)})
			if err != nil {
				return err
			}
			page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 10})
			if err == nil && len(page.Sessions) != 1 {
				err = fmt.Errorf("stalled are %q", names(page.Sessions))
			}
			if err != nil {
				return err
			}
			return differs(page.Sessions[0], s)
		},
	},
	{
		"sessions with a lease and without one are ordered by when they exceeded their thresholds",
		"sessions of one kind would wait for ever behind those of the other",
		func(ctx context.Context, store session.Store) error {
			return mixed(ctx, store, 7, func(rows []session.Session) error {
				return findsOnly(ctx, store, names(rows)...)
			})
		},
	},
	{
		"pages of sessions with a lease and without one follow each other without a gap and without a repeat",
		"a session between two pages would never be found, and one on both would be judged twice",
		func(ctx context.Context, store session.Store) error {
			return mixed(ctx, store, 24, func(rows []session.Session) error {
				return contract.Each([]int{1, 4, 5}, func(limit int) error {
					return pagesThrough(ctx, store, limit, names(rows))
				})
			})
		},
	},
	oneTime("with the query's threshold", 0),
	oneTime("with a threshold of their own", time.Hour),
}

// oneTime is the rule of the pages of sessions of one lease, with such a threshold of their own, of which several
// exceeded their thresholds in one microsecond.
func oneTime(name string, own time.Duration) rule {
	return rule{
		"pages of sessions of one lease " + name + " follow each other, whenever they exceeded it",
		"sessions that fell silent in one microsecond must not hide each other",
		func(ctx context.Context, store session.Store) error {
			if _, err := beginAt(ctx, store, homeLease, vouched); err != nil {
				return err
			}
			var fresh []session.Freshness
			var rows []session.Session
			for i, activity := range []time.Duration{0, 1999, 1000, 1000, 1000, 2000, 2999, 5000} {
				s := silentSession(fmt.Sprint("run-", i), noon, 0)
				rows = append(rows, withThreshold(s, own))
				fresh = append(fresh, session.Freshness{RunID: s.RunID, Attempt: 1, Activity: activity, Quiet: true})
			}
			if err := put(ctx, store, rows...); err != nil {
				return err
			}
			if err := freshens(ctx, store, homeLease, fresh...); err != nil {
				return err
			}
			return contract.Each([]int{1, 2, 3, 4}, func(limit int) error {
				return pagesThrough(ctx, store, limit, names(rows))
			})
		},
	}
}

// inLease attaches to a run for each freshness, run-0 the first, under a lease that vouches for a long time. It checks
// the rows.
func inLease(
	ctx context.Context, store session.Store, fresh []session.Freshness, check func([]session.Session) error,
) error {
	if _, err := beginAt(ctx, store, homeLease, vouched); err != nil {
		return err
	}
	var sessions []session.Session
	for i, f := range fresh {
		f.RunID, f.Attempt = fmt.Sprint("run-", i), 1
		if _, err := attach(ctx, store, underLease(newSession(f.RunID), homeLease)); err != nil {
			return err
		}
		if err := freshens(ctx, store, homeLease, f); err != nil {
			return err
		}
		s, err := look(ctx, store, f.RunID)
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
	}
	return check(sessions)
}

// stalledInLease checks which of the sessions of a lease are stalled. Some have a threshold of their own.
func stalledInLease(
	ctx context.Context, store session.Store, fresh []session.Freshness, own map[string]time.Duration, want ...string,
) error {
	if _, err := beginAt(ctx, store, homeLease, vouched); err != nil {
		return err
	}
	for i, f := range fresh {
		f.RunID, f.Attempt = fmt.Sprint("run-", i), 1
		s := underLease(withThreshold(newSession(f.RunID), own[f.RunID]), homeLease)
		if _, err := attach(ctx, store, s); err != nil {
			return err
		}
		if err := freshens(ctx, store, homeLease, f); err != nil {
			return err
		}
	}
	page, err := find(ctx, store, session.Query{Threshold: threshold, Limit: 100})
	got := names(page.Sessions)
	slices.Sort(got)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("stalled are %q, want %q", got, want)
	}
	return err
}

// mixed writes stalled sessions, in the order in which they exceeded their thresholds, and checks them. One in two has
// a lease, and one in three a threshold of its own.
func mixed(ctx context.Context, store session.Store, count int, check func([]session.Session) error) error {
	l, err := beginAt(ctx, store, homeLease, vouched)
	if err != nil {
		return err
	}
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	var rows []session.Session
	var fresh []session.Freshness
	for i := range count {
		s := silentSession(fmt.Sprintf("run %02d", i), now, 0)
		limit := threshold
		if i%3 == 0 {
			limit = 3 * time.Hour
			s = withThreshold(s, limit)
		}
		silence := limit + time.Duration(count-i)*10*time.Minute
		if s.LastEventAt = now.Add(-silence); i%2 == 0 {
			s.LastEventAt = now
			fresh = append(fresh,
				session.Freshness{RunID: s.RunID, Attempt: 1, Activity: l.Vouched - silence, Quiet: true})
		}
		rows = append(rows, s)
	}
	if err := put(ctx, store, rows...); err != nil {
		return err
	}
	if err := freshens(ctx, store, homeLease, fresh...); err != nil {
		return err
	}
	return check(rows)
}

// pagesThrough reads all pages and checks that they have each of the sessions once.
func pagesThrough(ctx context.Context, store session.Store, limit int, want []string) error {
	var found []string
	for after, more := "", true; more && len(found) <= len(want); {
		page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: limit, After: after})
		if err != nil {
			return err
		}
		found = append(found, names(page.Sessions)...)
		after, more = page.Next, page.Next != ""
	}
	slices.Sort(found)
	if !slices.Equal(found, want) {
		return fmt.Errorf("pages of %d have %q, want each of %q once", limit, found, want)
	}
	return nil
}
