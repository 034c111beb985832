package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var cancelRules = []rule{
	{
		"a session that has not changed is cancelled, with its reason and its resumes",
		"the run's own watchdog and the operators read the row",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			done, err := store.Cancel(ctx, s, session.CancelRequest{Reason: "watchdog_idle_timeout", Resumes: 3})
			if err == nil && !done {
				err = errors.New("the cancel returned false")
			}
			s.Status, s.Reason, s.Resumes = session.Cancelled, "watchdog_idle_timeout", 3
			return errors.Join(err, looksLike(ctx, store, s))
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
			_, err = store.Cancel(ctx, s, session.CancelRequest{Reason: why, Events: []watchdog.Event{advisory, terminal}})
			return errors.Join(err, recorded(ctx, store, homeRun, "advisory", "terminal"))
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
			done, err := store.Cancel(ctx, s, c)
			if done || !errors.Is(err, watchdog.ErrInvalid) {
				return fmt.Errorf("the cancel returned %v and the error %w, want watchdog.ErrInvalid", done, err)
			}
			return errors.Join(looksLike(ctx, store, s), recorded(ctx, store, homeRun))
		},
	},
	{
		"a cancel succeeds if its event is already stored",
		"the watchdog of the run and the sweeper may both record the one cancel of a window",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if err := store.Append(ctx, cancelOf(homeRun).Events...); err != nil {
				return err
			}
			err = cancels(ctx, store, s, true)
			s.Status, s.Reason = session.Cancelled, why
			return errors.Join(err, looksLike(ctx, store, s), recorded(ctx, store, homeRun, "cancel of "+homeRun))
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
			return cancels(ctx, store, s, true)
		},
	},
}

var guardRules = []rule{
	{
		"a session that woke up is not cancelled, and nothing is written",
		"between the judgement and the cancel a run may continue",
		func(ctx context.Context, store session.Store) error {
			return spares(ctx, store, func(s session.Session) (session.Session, error) {
				_, err := freshen(ctx, store, session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Age: time.Minute})
				return s, err
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
			if _, err := freshen(ctx, store, session.Freshness{RunID: homeRun, Attempt: 1}); err != nil {
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
			return errors.Join(cancels(ctx, store, s, false), recorded(ctx, store, s.RunID))
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
			if err := cancels(ctx, store, s, true); err != nil {
				return err
			}
			second := cancelOf(homeRun)
			second.Reason, second.Events[0].ID = "another", "another"
			done, err := store.Cancel(ctx, s, second)
			if err == nil && done {
				err = errors.New("the second cancel returned true")
			}
			s.Status, s.Reason = session.Cancelled, why
			return errors.Join(err, looksLike(ctx, store, s), recorded(ctx, store, homeRun, "cancel of "+homeRun))
		},
	},
	{
		"of eight cancels at once one counts, and only its events are stored",
		"several sweepers on several hosts may judge one session in the same second",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			const callers = 8
			won := make([]bool, callers)
			err = contract.AtOnce(callers, func(caller int) (err error) {
				c := cancelOf(homeRun)
				c.Events[0].ID = fmt.Sprint("of caller ", caller)
				won[caller], err = store.Cancel(ctx, s, c)
				if errors.Is(err, session.ErrLocked) {
					err = nil // by the winner, which may not have committed yet
				}
				return err
			})
			if err != nil {
				return err
			}
			var winners []string
			for caller, won := range won {
				if won {
					winners = append(winners, fmt.Sprint("of caller ", caller))
				}
			}
			if len(winners) != 1 {
				err = fmt.Errorf("the cancels of %q returned true", winners)
			}
			return errors.Join(err, recorded(ctx, store, homeRun, winners...))
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
		cancels(ctx, store, judged, false), looksLike(ctx, store, before), recorded(ctx, store, judged.RunID))
}
