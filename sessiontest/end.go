package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var endRules = []rule{
	{
		"an attempt ends with the given status and reason",
		"if a finished session stays active, a sweeper cancels it ten minutes later, and counts it",
		func(ctx context.Context, store session.Store) error {
			return endsEach(ctx, store, func(s session.Session, e session.Ending) session.Session {
				s.Status, s.Reason = e.Status, e.Reason
				return s
			}, 0)
		},
	},
	{
		"an end writes the state that it brings, and without one leaves the row's",
		"how a command ended, and how far its limits were used, is all that a page knows of a run that is over",
		func(ctx context.Context, store session.Store) error {
			for _, state := range []string{"", `{"outcome":"failed","exit_status":7,"phase":"<tests>"}`} {
				s := newSession("with " + state)
				s.State = []byte(`{"phase":"build"}`)
				s, err := attach(ctx, store, s)
				if err != nil {
					return err
				}
				e := session.Ending{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished, Reason: "complete", Age: day}
				if s.Status, s.Reason = e.Status, e.Reason; state != "" {
					e.State, s.State = []byte(state), []byte(state)
				}
				if err := errors.Join(end(ctx, store, e), looksLike(ctx, store, s)); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"an end of another attempt than the row's changes nothing",
		"a host that returns and reports the end of its lost attempt would end the run that another host took over",
		func(ctx context.Context, store session.Store) error {
			return endsEach(ctx, store, func(s session.Session, _ session.Ending) session.Session { return s }, 1)
		},
	},
	{
		"a session that has ended keeps its end",
		"of cancel and finish the first counts: if the watchdog overwrote a cancel, its reason would be lost",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			s.Status, s.Reason = session.Cancelled, why
			if err := put(ctx, store, s); err != nil {
				return err
			}
			err = end(ctx, store, session.Ending{RunID: homeRun, Attempt: 1, Status: session.Finished})
			return errors.Join(err, looksLike(ctx, store, s))
		},
	},
	{
		"the last event of a session that ended is as old as the caller says, by the clock of the store",
		"if a host's clock is two minutes slow, its sessions would have ended before they began",
		func(ctx context.Context, store session.Store) error {
			return endsAfter(ctx, store, day, func(_, s session.Session, from, to time.Time) error {
				return within("LastEventAt", s.LastEventAt, from.Add(-90*time.Minute), to.Add(-90*time.Minute))
			})
		},
	},
	{
		"a session that has ended says when, by the clock of the store, however old its last event is",
		"a run that was silent for an hour before it ended would seem to have taken no time",
		func(ctx context.Context, store session.Store) error {
			for name, ends := range waysToEnd(ctx, store) {
				if err := saysWhenItEnded(ctx, store, name, ends); err != nil {
					return fmt.Errorf("by %s: %w", name, err)
				}
			}
			return nil
		},
	},
	{
		"an end never moves the last event back",
		"two writes in the wrong order would make a session older than it is",
		func(ctx context.Context, store session.Store) error {
			return endsAfter(ctx, store, time.Minute, func(before, s session.Session, _, _ time.Time) error {
				return within("LastEventAt", s.LastEventAt, before.LastEventAt, before.LastEventAt)
			})
		},
	},
	{
		"a session that ends leaves its lease, with the time of its last activity",
		"the row of an ended session must not keep the lease of its process",
		func(ctx context.Context, store session.Store) error {
			for name, ends := range waysToEnd(ctx, store) {
				if err := endsInLease(ctx, store, name, ends); err != nil {
					return fmt.Errorf("by %s: %w", name, err)
				}
			}
			return nil
		},
	},
}

// waysToEnd are those of a session that was judged, with its attempt 1.
func waysToEnd(ctx context.Context, store session.Store) map[string]func(session.Session) error {
	return map[string]func(session.Session) error{
		"end": func(s session.Session) error {
			e := session.Ending{RunID: s.RunID, Attempt: 1, Status: session.Finished, Age: day}
			return end(ctx, store, e)
		},
		"cancel": func(s session.Session) error { return cancels(ctx, store, s, session.Done) },
		"stored end": func(s session.Session) error {
			return errors.Join(store.Append(ctx, ownEnd(s.RunID, true)), claims(ctx, store, s, by, session.EndStored))
		},
	}
}

// saysWhenItEnded ends a session that was silent for a day, and then begins another attempt, which has not ended.
func saysWhenItEnded(ctx context.Context, store session.Store, runID string, ends func(session.Session) error) error {
	s, err := putSilent(ctx, store, runID, day)
	if err != nil {
		return err
	}
	from, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	if err := ends(s); err != nil {
		return err
	}
	to, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	ended, err := look(ctx, store, runID)
	if err != nil {
		return err
	}
	next, nextErr := attach(ctx, store, newSession(runID))
	if nextErr == nil && !next.EndedAt.IsZero() {
		nextErr = fmt.Errorf("the attempt after it has ended at %v, before it began", next.EndedAt)
	}
	return errors.Join(err, nextErr, within("EndedAt", ended.EndedAt, from, to.Add(time.Second)))
}

// endsAfter ends a session that was silent for a time, whose host says that its last event was 90 minutes ago. It
// checks the row before and after the end, with the times of both.
func endsAfter(
	ctx context.Context, store session.Store, silence time.Duration,
	check func(before, s session.Session, from, to time.Time) error,
) error {
	before, err := putSilent(ctx, store, homeRun, silence)
	if err != nil {
		return err
	}
	from, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	e := session.Ending{RunID: homeRun, Attempt: 1, Status: session.Finished, Age: 90 * time.Minute}
	if err := end(ctx, store, e); err != nil {
		return err
	}
	to, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	s, err := look(ctx, store, homeRun)
	return errors.Join(err, check(before, s, from, to))
}

// endsInLease ends a session of a lease, and checks its row.
func endsInLease(ctx context.Context, store session.Store, runID string, ends func(session.Session) error) error {
	if _, err := putSilent(ctx, store, runID, day); err != nil {
		return err
	}
	if _, err := beginAt(ctx, store, runID, 10*time.Hour); err != nil {
		return err
	}
	f := session.Freshness{RunID: runID, Attempt: 1, Activity: 9 * time.Hour, Quiet: true}
	if err := freshens(ctx, store, runID, f); err != nil {
		return err
	}
	s, err := look(ctx, store, runID)
	if err != nil {
		return err
	}
	l, err := observe(ctx, store, runID)
	if err != nil {
		return err
	}
	if err := ends(s); err != nil {
		return err
	}
	got, err := look(ctx, store, runID)
	at := l.RenewedAt.Add(-time.Hour - lag)
	if err == nil && (got.Lease != "" || got.Activity != 0 || got.Silence != 0) {
		err = fmt.Errorf("the row is %+v", got)
	}
	return errors.Join(err, within("LastEventAt", got.LastEventAt, at, at), leads(ctx, store, runID))
}

// endsEach ends three sessions in one call and checks their rows. The endings have later added to the attempts.
func endsEach(
	ctx context.Context, store session.Store, becomes func(session.Session, session.Ending) session.Session, later int,
) error {
	var ends []session.Ending
	var want []session.Session
	for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
		s, err := attach(ctx, store, newSession(string(status)))
		if err != nil {
			return err
		}
		e := session.Ending{RunID: s.RunID, Attempt: s.Attempt + later, Status: status, Age: time.Hour}
		if status == session.Cancelled {
			e.Reason = "watchdog_hold_exceeded"
		}
		ends, want = append(ends, e), append(want, becomes(s, e))
	}
	if err := end(ctx, store, ends...); err != nil {
		return err
	}
	return contract.Each(want, func(s session.Session) error { return looksLike(ctx, store, s) })
}
