package sessiontest

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var endRules = []rule{
	{
		"an attempt ends as it is told to",
		"a session that finished and is still active is cancelled ten minutes later, in everybody's statistics",
		func(ctx context.Context, store session.Store) error {
			return endsEach(ctx, store, func(s session.Session, e session.Ending) session.Session {
				s.Status, s.Reason = e.Status, e.Reason
				return s
			}, 0)
		},
	},
	{
		"another attempt than the row's ends nothing",
		"a host that comes back to tell how its lost attempt ended would end the run that another has taken over",
		func(ctx context.Context, store session.Store) error {
			return endsEach(ctx, store, func(s session.Session, _ session.Ending) session.Session { return s }, 1)
		},
	},
	{
		"a session that has ended keeps its end",
		"of cancel and finish the first counts: a cancel that its own watchdog overwrites has no reason any more",
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

// endsEach ends three sessions in one call, as attempts so much later than theirs, and checks what becomes of them.
func endsEach(ctx context.Context, store session.Store, becomes func(session.Session, session.Ending) session.Session, later int) error {
	var ends []session.Ending
	var want []session.Session
	for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
		s, err := attach(ctx, store, newSession(string(status)))
		if err != nil {
			return err
		}
		e := session.Ending{RunID: s.RunID, Attempt: s.Attempt + later, Status: status}
		if status == session.Cancelled {
			e.Reason = "watchdog_hold_exceeded"
		}
		ends, want = append(ends, e), append(want, becomes(s, e))
	}
	if err := end(ctx, store, ends...); err != nil {
		return err
	}
	return each(want, func(s session.Session) error { return looksLike(ctx, store, s) })
}
