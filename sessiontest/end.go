package sessiontest

import (
	"context"
	"errors"
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
