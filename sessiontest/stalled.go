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

var stalledRules = []rule{
	{
		"a session is stalled after more than the threshold, to the microsecond",
		"exceeded means more than: at exactly ten minutes a session is not stalled",
		func(ctx context.Context, store session.Store) error {
			row := func(runID string, now time.Time, beyond time.Duration) session.Session {
				return silentSession(runID, now, threshold+beyond)
			}
			return stalledAround(ctx, store, "threshold", row, unchanged, func(s session.Session, now time.Time) bool {
				return now.Sub(s.LastEventAt) > threshold
			})
		},
	},
	{
		"a session is old enough at its minimum age",
		"the minimum age is included",
		func(ctx context.Context, store session.Store) error {
			row := func(runID string, now time.Time, beyond time.Duration) session.Session {
				s := silentSession(runID, now, time.Hour)
				s.CreatedAt = now.Add(-minAge - beyond)
				return s
			}
			return stalledAround(ctx, store, "minimum age", row, unchanged, func(s session.Session, now time.Time) bool {
				return now.Sub(s.CreatedAt) >= minAge
			})
		},
	},
	{
		"a session without events is silent since its creation",
		"nobody else finds a run that never had an event",
		func(ctx context.Context, store session.Store) error {
			return finds(ctx, store, []string{"old"}, func(now time.Time) []session.Session {
				old, fresh := silentSession("old", now, 0), silentSession("new", now, 0)
				old.LastEventAt, fresh.LastEventAt = time.Time{}, time.Time{}
				old.CreatedAt, fresh.CreatedAt = now.Add(-threshold-time.Minute), now.Add(-threshold+time.Minute)
				return []session.Session{old, fresh}
			})
		},
	},
	{
		"a session with a threshold of its own is judged by that",
		"a run that is expected to be silent for an hour would be cancelled after ten minutes",
		func(ctx context.Context, store session.Store) error {
			return finds(ctx, store, []string{"long and silent", "short and silent"}, func(now time.Time) []session.Session {
				return []session.Session{
					withThreshold(silentSession("long", now, 50*time.Minute), time.Hour),
					withThreshold(silentSession("long and silent", now, 70*time.Minute), time.Hour),
					withThreshold(silentSession("short", now, 30*time.Second), time.Minute),
					withThreshold(silentSession("short and silent", now, 5*time.Minute), time.Minute),
				}
			})
		},
	},
	{
		"a session with the threshold NoLimit is never stalled",
		"a host can switch the sweeper off for a session",
		func(ctx context.Context, store session.Store) error {
			return finds(ctx, store, nil, func(now time.Time) []session.Session {
				never := withThreshold(silentSession("off", now, 1000*day), watchdog.NoLimit)
				never.CreatedAt = now.Add(-2000 * day)
				return []session.Session{never}
			})
		},
	},
	{
		"only active sessions are stalled",
		"an ended session has no more events, and every pass would cancel it again",
		func(ctx context.Context, store session.Store) error {
			return finds(ctx, store, []string{"active"}, func(now time.Time) []session.Session {
				rows := []session.Session{silentSession("active", now, time.Hour)}
				for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
					s := silentSession(string(status), now, time.Hour)
					s.Status = status
					rows = append(rows, s)
					s.RunID += " of its own"
					rows = append(rows, withThreshold(s, time.Minute))
				}
				return rows
			})
		},
	},
	{
		"sessions are ordered by when they exceeded their thresholds",
		"with ten cancels a pass, the last sessions wait: it must not always be the same ones",
		func(ctx context.Context, store session.Store) error {
			want := []string{"60", "50 own", "40", "30 own", "20", "10 own", "1"}
			return finds(ctx, store, want, func(now time.Time) []session.Session {
				beyond := func(runID string, minutes time.Duration, own time.Duration) session.Session {
					if own == 0 {
						return silentSession(runID, now, threshold+minutes*time.Minute)
					}
					return withThreshold(silentSession(runID, now, own+minutes*time.Minute), own)
				}
				return []session.Session{
					beyond("1", 1, 0), beyond("40", 40, 0), beyond("20", 20, 0), beyond("60", 60, 0),
					beyond("10 own", 10, 3*time.Hour), beyond("50 own", 50, time.Minute), beyond("30 own", 30, time.Hour),
				}
			})
		},
	},
	{
		"a stalled session is returned exactly as its row is",
		"the cancel compares with the judged row: a row that lost a digit could never be cancelled",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour+123_457*time.Microsecond)
			if err != nil {
				return err
			}
			s.Parent, s.Attempt, s.Threshold = "parent", 7, time.Minute
			if err := put(ctx, store, s); err != nil {
				return err
			}
			page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 10})
			if err == nil && len(page.Sessions) != 1 {
				err = fmt.Errorf("stalled are %q", names(page.Sessions))
			}
			if err != nil {
				return err
			}
			return errors.Join(differs(page.Sessions[0], s), looksLike(ctx, store, s))
		},
	},
	{
		"an unreadable session is reported, is not stalled and hides no other",
		"an error must never cancel a session, and one bad row must never stop a pass",
		func(ctx context.Context, store session.Store) error {
			spoilt := []string{"spoilt", "spoilt in a lease", "spoilt in a lease with a threshold"}
			if _, err := beginAt(ctx, store, homeLease, vouched); err != nil {
				return err
			}
			all := slices.Concat([]string{"before"}, spoilt, []string{"after"})
			err := finds(ctx, store, all, func(now time.Time) []session.Session {
				return []session.Session{
					silentSession("before", now, 6*time.Hour), silentSession(spoilt[0], now, 5*time.Hour),
					silentSession(spoilt[1], now, 4*time.Hour), withThreshold(silentSession(spoilt[2], now, 3*time.Hour), time.Minute),
					silentSession("after", now, time.Hour),
				}
			})
			if err != nil {
				return err
			}
			for _, runID := range spoilt[1:] {
				f := session.Freshness{RunID: runID, Attempt: 1, Activity: time.Hour, Quiet: true}
				err = errors.Join(err, freshens(ctx, store, homeLease, f))
			}
			for _, runID := range spoilt {
				err = errors.Join(err, store.(Putter).Spoil(ctx, runID))
			}
			if err != nil {
				return err
			}
			page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 10})
			if err != nil {
				return err
			}
			got := names(page.Sessions)
			if !slices.Equal(got, []string{"before", "after"}) || len(page.Unreadable) != len(spoilt) {
				return fmt.Errorf("stalled are %q, and unreadable %q", got, page.Unreadable)
			}
			return contract.Each(page.Unreadable, func(err error) error { return unreadable(err, "spoilt") })
		},
	},
}

func withThreshold(s session.Session, own time.Duration) session.Session {
	s.Threshold = own
	return s
}

// finds writes the rows and checks which of them are stalled.
func finds(ctx context.Context, store session.Store, want []string, rows func(now time.Time) []session.Session) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	if err := put(ctx, store, rows(now)...); err != nil {
		return err
	}
	return findsOnly(ctx, store, want...)
}

func unchanged([]session.Session) error { return nil }

// slowest is how many milliseconds stalledAround gives a store between the write of its rows and its page.
var slowest = 2000

// stalledAround writes rows close to a limit, on both sides of it, some with the query's threshold and some with
// their own, and calls written. It judges each row by the time of the page. So it tests the limit itself also with a
// clock that has only milliseconds, or that stands still.
func stalledAround(
	ctx context.Context, store session.Store, limit string,
	row func(runID string, now time.Time, beyond time.Duration) session.Session,
	written func(rows []session.Session) error, stalled func(s session.Session, now time.Time) bool,
) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	var rows []session.Session
	for n := -slowest; n <= 50; n++ {
		s := row(fmt.Sprintf("%+d ms", n), now, time.Duration(n)*time.Millisecond)
		rows = append(rows, s)
		s.RunID += " of its own"
		rows = append(rows, withThreshold(s, threshold))
	}
	rows = append(rows, row("+1 µs", now, time.Microsecond), row("-1 µs", now, -time.Microsecond))
	if err := put(ctx, store, rows...); err != nil {
		return err
	}
	if err := written(rows); err != nil {
		return err
	}
	page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: len(rows)})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, s := range page.Sessions {
		found[s.RunID] = true
	}
	return contract.Each(rows, func(s session.Session) error {
		if want := stalled(s, page.Now); found[s.RunID] != want {
			return fmt.Errorf("%s: created at %v, last active at %v: at %v stalled is %v, want %v",
				limit, s.CreatedAt, s.LastEventAt, page.Now, !want, want)
		}
		return nil
	})
}
