package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var cancelRules = []rule{
	{
		"a session that has not changed is cancelled, as requested",
		"the run's own watchdog and the operators read the row",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			c := cancelOf(homeRun)
			c.Reason, c.Resumes, c.StopFailed = "watchdog_idle_timeout", 3, true
			if err := cancelsAs(ctx, store, s, c, session.Done); err != nil {
				return err
			}
			s.Status, s.Reason, s.Resumes, s.StopFailed, s.Claim = session.Cancelled, c.Reason, 3, true, by
			return looksLike(ctx, store, s)
		},
	},
	{
		"the events of a cancel are stored with it",
		"if a session ended and its run has no cancel event, the next start continues the run",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			advisory := cancelEvent("advisory", homeRun, noon)
			advisory.Type = watchdog.EventWarning
			terminal := cancelEvent("terminal", homeRun, noon.Add(time.Second))
			c := cancelOf(homeRun)
			c.Events = []watchdog.Event{advisory, terminal}
			return errors.Join(
				cancelsAs(ctx, store, s, c, session.Done), recorded(ctx, store, homeRun, "advisory", "terminal"))
		},
	},
	{
		"a cancel with an invalid event is an error and changes nothing",
		"it is one transaction: nobody could find out why a row without its events was cancelled",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			c := cancelOf(homeRun)
			c.Events = append(c.Events, cancelEvent("", homeRun, noon))
			outcome, err := store.Cancel(ctx, s, c)
			if outcome != "" || !errors.Is(err, watchdog.ErrInvalid) {
				return fmt.Errorf("the outcome is %q and the error %w, want watchdog.ErrInvalid", outcome, err)
			}
			return errors.Join(looksLike(ctx, store, s), recorded(ctx, store, homeRun))
		},
	},
	{
		"a cancel without an event is an error and changes nothing",
		"the row would say that the run was cancelled, and its events that it runs",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			outcome, err := store.Cancel(ctx, s, session.CancelRequest{By: by, Reason: why})
			if outcome != "" || err == nil {
				return fmt.Errorf("the outcome is %q and the error %w, want an error", outcome, err)
			}
			return looksLike(ctx, store, s)
		},
	},
	{
		"a session without events is cancelled like others",
		"in SQL NULL = NULL is not true: every pass would judge such a session, and none would end it",
		func(ctx context.Context, store session.Store) error {
			s, err := putEventless(ctx, store)
			if err != nil {
				return err
			}
			return cancels(ctx, store, s, session.Done)
		},
	},
}

var guardRules = []rule{
	{
		"a session that woke up is not cancelled, and nothing is written",
		"between the judgement and the cancel a run may continue",
		func(ctx context.Context, store session.Store) error {
			return spares(ctx, store, func(s session.Session) (session.Session, error) {
				awake := s
				awake.LastEventAt = s.LastEventAt.Add(time.Microsecond)
				return s, put(ctx, store, awake)
			})
		},
	},
	{
		"a session that had its first event meanwhile is not cancelled, and nothing is written",
		"a first event is a change as well: NULL is not equal to it",
		func(ctx context.Context, store session.Store) error {
			s, err := putEventless(ctx, store)
			if err != nil {
				return err
			}
			awake := s
			awake.LastEventAt = s.CreatedAt
			if err := put(ctx, store, awake); err != nil {
				return err
			}
			return untouched(ctx, store, s)
		},
	},
	{
		"a session in another attempt is not cancelled, and nothing is written",
		"another host took the run over after it was judged",
		func(ctx context.Context, store session.Store) error {
			return spares(ctx, store, func(s session.Session) (session.Session, error) {
				judged := s
				judged.Attempt--
				return judged, nil
			})
		},
	},
	{
		"a session that has ended is not cancelled, and nothing is written",
		"a run that finished while it was judged did not stall",
		func(ctx context.Context, store session.Store) error {
			return spares(ctx, store, func(s session.Session) (session.Session, error) {
				ended := s
				ended.Status = session.Finished
				return s, put(ctx, store, ended)
			})
		},
	},
	{
		"a run without a row is not cancelled, and nothing is written",
		"somebody may delete a row while it is judged",
		func(ctx context.Context, store session.Store) error {
			s := silentSession("unknown", noon, time.Hour)
			return errors.Join(cancels(ctx, store, s, session.Changed), recorded(ctx, store, s.RunID))
		},
	},
	{
		"of two cancels of one session the first counts",
		"a pass that is repeated after an error must not cancel again",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if err := cancels(ctx, store, s, session.Done); err != nil {
				return err
			}
			second := cancelOf(homeRun)
			second.By, second.Reason, second.Events[0].ID = "pass-2", "another", "another"
			err = cancelsAs(ctx, store, s, second, session.Changed)
			s.Status, s.Reason, s.Claim = session.Cancelled, why, by
			return errors.Join(err, looksLike(ctx, store, s), recorded(ctx, store, homeRun, "cancel of "+homeRun))
		},
	},
}

// putEventless writes a session that never had an event.
func putEventless(ctx context.Context, store session.Store) (session.Session, error) {
	now, err := clockOf(ctx, store)
	if err != nil {
		return session.Session{}, err
	}
	s := silentSession(homeRun, now, 0)
	s.LastEventAt = time.Time{}
	return s, put(ctx, store, s)
}

// spares checks that a cancel does nothing if the session was changed after it was judged.
func spares(
	ctx context.Context, store session.Store, change func(session.Session) (judged session.Session, err error),
) error {
	s, err := putSilent(ctx, store, homeRun, time.Hour)
	if err != nil {
		return err
	}
	s.Attempt = 3
	if err := put(ctx, store, s); err != nil {
		return err
	}
	judged, err := change(s)
	if err != nil {
		return err
	}
	return untouched(ctx, store, judged)
}

// untouched checks that a cancel of the judged session does nothing.
func untouched(ctx context.Context, store session.Store, judged session.Session) error {
	before, err := look(ctx, store, judged.RunID)
	if err != nil {
		return err
	}
	return errors.Join(
		cancels(ctx, store, judged, session.Changed), looksLike(ctx, store, before), recorded(ctx, store, judged.RunID))
}
