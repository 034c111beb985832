package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var expireRules = []rule{
	{
		"a lease that was renewed since it was observed does not expire",
		"between the last look and the end of a lease its process may write",
		func(ctx context.Context, store session.Store) error {
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour})
			if err != nil {
				return err
			}
			next, err := vouch(ctx, store, l, l.Vouched+time.Second)
			if err != nil {
				return err
			}
			return errors.Join(
				expires(ctx, store, l, false, 1), leaseIs(ctx, store, next), looksLike(ctx, store, s))
		},
	},
	{
		"a lease that is not there has expired",
		"two sweepers may expire one lease, and the second finds nothing",
		func(ctx context.Context, store session.Store) error {
			return expires(ctx, store, session.Lease{ID: "unknown", Beat: 1}, true, 0)
		},
	},
	{
		"a session leaves its lease with the time of its last activity",
		"the silence of a run counts from there, by the database's clock: its process can take it up again until then",
		func(ctx context.Context, store session.Store) error {
			return leaves(ctx, store, day, session.Freshness{Activity: 9*time.Hour + 30*time.Minute, Quiet: true},
				func(s session.Session, renewedAt time.Time) time.Time { return renewedAt.Add(-30*time.Minute - lag) })
		},
	},
	{
		"a session that has not signalled leaves its lease with the time of its attach",
		"no activity is not the activity at the start of the lease",
		func(ctx context.Context, store session.Store) error {
			return leaves(ctx, store, day, session.Freshness{Activity: session.NoActivity},
				func(s session.Session, _ time.Time) time.Time { return s.LastEventAt })
		},
	},
	{
		"a session whose last activity was before its attach keeps the time of that",
		"an attach is a sign of life, too",
		func(ctx context.Context, store session.Store) error {
			return leaves(ctx, store, time.Hour, session.Freshness{Activity: 0},
				func(s session.Session, _ time.Time) time.Time { return s.LastEventAt })
		},
	},
	{
		"a session without events leaves its lease with its first",
		"in SQLite the greater one of NULL and a time is NULL",
		func(ctx context.Context, store session.Store) error {
			s, err := putEventless(ctx, store)
			if err != nil {
				return err
			}
			l, err := beginAt(ctx, store, homeLease, 2*time.Hour)
			if err != nil {
				return err
			}
			f := session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: time.Hour}
			if err := freshens(ctx, store, homeLease, f); err != nil {
				return err
			}
			seen, err := observe(ctx, store, homeLease)
			if err != nil {
				return err
			}
			s.LastEventAt = seen.RenewedAt.Add(-time.Hour - lag)
			return errors.Join(expires(ctx, store, l, true, 0), looksLike(ctx, store, s))
		},
	},
	{
		"a session that left its lease is judged by its own threshold again, and others by the query's",
		"nobody else ends the sessions of a dead process",
		func(ctx context.Context, store session.Store) error {
			now, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			long := withThreshold(silentSession("long", now, 30*time.Minute), time.Hour)
			short := withThreshold(silentSession("short", now, 5*time.Minute), time.Minute)
			if err := put(ctx, store, long, short, silentSession("usual", now, time.Hour)); err != nil {
				return err
			}
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			err = contract.Each([]string{"long", "short", "usual"}, func(runID string) error {
				return freshens(ctx, store, homeLease,
					session.Freshness{RunID: runID, Attempt: 1, Activity: session.NoActivity})
			})
			return errors.Join(err,
				expires(ctx, store, l, true, 0), findsOnly(ctx, store, "usual", "short"), looksLike(ctx, store, long))
		},
	},
	{
		"an expired lease takes only its own active sessions with it, and is deleted after the last",
		"leases of dead processes would pile up, and each of them is observed at every promise",
		func(ctx context.Context, store session.Store) error {
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			for _, runID := range []string{"dead", "ended"} {
				if _, err := attach(ctx, store, underLease(newSession(runID), homeLease)); err != nil {
					return err
				}
			}
			if err := end(ctx, store, session.Ending{RunID: "ended", Attempt: 1, Status: session.Finished}); err != nil {
				return err
			}
			ended, err := look(ctx, store, "ended")
			if err != nil {
				return err
			}
			live, err := attachLeased(ctx, store, "lease-2", "live")
			if err != nil {
				return err
			}
			return errors.Join(
				expires(ctx, store, l, true, 0), looksLike(ctx, store, ended), looksLike(ctx, store, live),
				noLease(ctx, store, homeLease), leads(ctx, store, "lease-2", session.AttemptID{RunID: "live", Attempt: 1}))
		},
	},
	{
		"an unreadable session leaves its lease like others",
		"it would keep the lease of a dead process for ever",
		func(ctx context.Context, store session.Store) error {
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour})
			if err != nil {
				return err
			}
			if _, err := attach(ctx, store, underLease(newSession("run-2"), l.ID)); err != nil {
				return err
			}
			if err := store.(Putter).Spoil(ctx, s.RunID); err != nil {
				return err
			}
			return errors.Join(expires(ctx, store, l, true, 0), noLease(ctx, store, l.ID))
		},
	},
	{
		"sessions leave an expired lease in batches, whatever beat the later calls name",
		"ten thousand rows in one transaction would hold up all others",
		func(ctx context.Context, store session.Store) error {
			l, err := beginMany(ctx, store)
			if err != nil {
				return err
			}
			if err := expires(ctx, store, l, true, 1); err != nil {
				return err
			}
			if left, err := store.LeaseSessions(ctx, l.ID); err != nil || len(left) != 1 {
				return fmt.Errorf("after the first batch %+v name the lease, want one session: %w", left, err)
			}
			l.Beat++
			return errors.Join(expires(ctx, store, l, true, 0), noLease(ctx, store, l.ID))
		},
	},
	{
		"a lease that has expired never lives again",
		"its process begins another, and knows from then on that its runs may have been cancelled",
		func(ctx context.Context, store session.Store) error {
			l, left, err := expireMost(ctx, store)
			if err != nil {
				return err
			}
			next := l
			next.Beat++
			l.Expired = true
			return errors.Join(
				refused("BeginLease", store.BeginLease(ctx, l)), refused("RenewLease", store.RenewLease(ctx, next)),
				leaseIs(ctx, store, l), looksLike(ctx, store, left))
		},
	},
	{
		"nothing is attached under a lease that does not live, and nothing freshened",
		"the run would be guarded by nobody: the process thinks that its lease lives, and sweepers know that it does not",
		func(ctx context.Context, store session.Store) error {
			l, left, err := expireMost(ctx, store)
			if err != nil {
				return err
			}
			return contract.Each([]string{l.ID, "unknown"}, func(lease string) error {
				_, _, again := store.Attach(ctx, underLease(newSession(left.RunID), lease))
				_, _, first := store.Attach(ctx, underLease(newSession("new"), lease))
				_, fresh := store.Freshen(ctx, lease,
					[]session.Freshness{{RunID: left.RunID, Attempt: left.Attempt, Activity: time.Hour}})
				if s, err := store.Session(ctx, "new"); err == nil {
					return fmt.Errorf("the new run has the row %+v", s)
				}
				return errors.Join(refused("Attach", again), refused("Attach", first), refused("Freshen", fresh),
					looksLike(ctx, store, left))
			})
		},
	},
	{
		"a keeper claims back the sessions that still name its expired lease",
		"a process that was stopped for a minute and goes on has its runs again",
		func(ctx context.Context, store session.Store) error {
			l, left, err := expireMost(ctx, store)
			if err != nil {
				return err
			}
			if _, err := begin(ctx, store, "lease-2"); err != nil {
				return err
			}
			f := session.Freshness{RunID: left.RunID, Attempt: left.Attempt, Activity: time.Second}
			left.Lease, left.Activity, left.Silence = "lease-2", f.Activity, 0
			return errors.Join(
				freshens(ctx, store, "lease-2", f), expires(ctx, store, l, true, 0), looksLike(ctx, store, left),
				leads(ctx, store, "lease-2", session.AttemptID{RunID: left.RunID, Attempt: left.Attempt}))
		},
	},
	{
		"a session that still names an expired lease is not stalled, and is not cancelled",
		"its silence is not vouched for any more, and the database's clock does not count yet",
		func(ctx context.Context, store session.Store) error {
			l, err := beginMany(ctx, store)
			if err != nil {
				return err
			}
			stalled, err := find(ctx, store, session.Query{Threshold: threshold, Limit: 2 * session.ExpireBatch})
			if err == nil && len(stalled.Sessions) != session.ExpireBatch+1 {
				err = fmt.Errorf("before, %d sessions are stalled, want %d", len(stalled.Sessions), session.ExpireBatch+1)
			}
			if err != nil {
				return err
			}
			left, err := expireBatch(ctx, store, l)
			if err != nil {
				return err
			}
			for _, judged := range stalled.Sessions {
				if judged.RunID == left.RunID {
					return errors.Join(cancels(ctx, store, judged, session.Changed), looksLike(ctx, store, left),
						missing(ctx, store, left.RunID))
				}
			}
			return fmt.Errorf("%s was not stalled before", left.RunID)
		},
	},
}

// vouchedFor writes a session that was silent for an hour, puts it into a lease, and vouches for all before ten hours
// of the lease's clock.
func vouchedFor(
	ctx context.Context, store session.Store, f session.Freshness,
) (session.Lease, session.Session, error) {
	return vouchedAfter(ctx, store, time.Hour, f)
}

// vouchedAfter is vouchedFor with another silence before the lease.
func vouchedAfter(
	ctx context.Context, store session.Store, silence time.Duration, f session.Freshness,
) (session.Lease, session.Session, error) {
	l, err := beginAt(ctx, store, homeLease, 10*time.Hour)
	if err != nil {
		return session.Lease{}, session.Session{}, err
	}
	if _, err := putSilent(ctx, store, homeRun, silence); err != nil {
		return session.Lease{}, session.Session{}, err
	}
	f.RunID, f.Attempt = homeRun, 1
	if err := freshens(ctx, store, l.ID, f); err != nil {
		return session.Lease{}, session.Session{}, err
	}
	s, err := look(ctx, store, homeRun)
	return l, s, err
}

// leaves expires the lease of a session that was silent before the lease, and checks its row.
func leaves(
	ctx context.Context, store session.Store, silence time.Duration, f session.Freshness,
	lastEvent func(s session.Session, renewedAt time.Time) time.Time,
) error {
	l, s, err := vouchedAfter(ctx, store, silence, f)
	if err != nil {
		return err
	}
	seen, err := observe(ctx, store, l.ID)
	if err != nil {
		return err
	}
	s.LastEventAt = lastEvent(s, seen.RenewedAt)
	s.Lease, s.Activity, s.Silence = "", 0, 0
	return errors.Join(expires(ctx, store, l, true, 0), looksLike(ctx, store, s))
}

// beginMany begins a lease with one session more than leave it at once. They have been silent for nine hours.
func beginMany(ctx context.Context, store session.Store) (session.Lease, error) {
	now, err := clockOf(ctx, store)
	if err != nil {
		return session.Lease{}, err
	}
	var rows []session.Session
	var fresh []session.Freshness
	for i := range session.ExpireBatch + 1 {
		s := silentSession(fmt.Sprintf("run-%04d", i), now, time.Minute)
		rows = append(rows, s)
		fresh = append(fresh, session.Freshness{RunID: s.RunID, Attempt: 1, Activity: time.Hour, Quiet: true})
	}
	if err := put(ctx, store, rows...); err != nil {
		return session.Lease{}, err
	}
	l, err := beginAt(ctx, store, homeLease, 10*time.Hour)
	if err != nil {
		return session.Lease{}, err
	}
	return l, freshens(ctx, store, l.ID, fresh...)
}

// expireMost returns an expired lease that one session still names, and the session.
func expireMost(ctx context.Context, store session.Store) (session.Lease, session.Session, error) {
	l, err := beginMany(ctx, store)
	if err != nil {
		return session.Lease{}, session.Session{}, err
	}
	left, err := expireBatch(ctx, store, l)
	return l, left, err
}

// expireBatch expires a lease, and returns the session that still names it.
func expireBatch(ctx context.Context, store session.Store, l session.Lease) (session.Session, error) {
	if _, _, err := store.ExpireLease(ctx, l); err != nil {
		return session.Session{}, fmt.Errorf("expire the lease %s: %w", l.ID, err)
	}
	left, err := store.LeaseSessions(ctx, l.ID)
	if err != nil {
		return session.Session{}, err
	}
	if len(left) != 1 {
		return session.Session{}, fmt.Errorf("%d sessions still name the lease, want 1", len(left))
	}
	return look(ctx, store, left[0].RunID)
}

// refused checks that a call found a lease that does not live.
func refused(call string, err error) error {
	if !errors.Is(err, session.ErrLeaseExpired) {
		return fmt.Errorf("%s returned the error %w, want ErrLeaseExpired", call, err)
	}
	return nil
}

// missing checks that a session is not stalled.
func missing(ctx context.Context, store session.Store, runID string) error {
	page, err := find(ctx, store, session.Query{Threshold: threshold, Limit: 2 * session.ExpireBatch})
	for _, s := range page.Sessions {
		if s.RunID == runID {
			err = fmt.Errorf("%s is stalled", runID)
		}
	}
	return err
}
