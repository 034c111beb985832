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
		"a session that is as it was judged is cancelled, with its reason and its resumes",
		"the row is what its own watchdog and the operators look at",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			done, err := store.Cancel(ctx, s, session.CancelRequest{Reason: "watchdog_idle_timeout", Resumes: 3})
			if err == nil && !done {
				err = errors.New("the cancel reported false")
			}
			s.Status, s.Reason, s.Resumes = session.Cancelled, "watchdog_idle_timeout", 3
			return errors.Join(err, looksLike(ctx, store, s))
		},
	},
	{
		"the events of a cancel are stored with it",
		"a session that ended and whose run has no cancel is resumed as if nothing had been",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			advisory := cancelEvent("advisory", homeRun, noon)
			advisory.Type = watchdog.EventWarning
			_, err = store.Cancel(ctx, s, session.CancelRequest{Reason: why, Events: []watchdog.Event{advisory, cancelEvent("terminal", homeRun, noon.Add(time.Second))}})
			return errors.Join(err, recorded(ctx, store, homeRun, "advisory", "terminal"))
		},
	},
	{
		"a cancel with an invalid event is an error and changes nothing",
		"it is one transaction: a row that is cancelled without its events has no reason that anybody could find",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			c := cancelOf(homeRun)
			c.Events = append(c.Events, cancelEvent("", homeRun, noon))
			done, err := store.Cancel(ctx, s, c)
			if done || !errors.Is(err, watchdog.ErrInvalid) {
				return fmt.Errorf("the cancel reported %v and the error %w, want watchdog.ErrInvalid", done, err)
			}
			return errors.Join(looksLike(ctx, store, s), recorded(ctx, store, homeRun))
		},
	},
	{
		"an event of a cancel that is stored already does not stand in its way",
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
		"a guard that compares nothing with nothing finds them different: such a session would be judged by every pass, and ended by none",
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
		"between the judgement and the cancel a run may come back to life",
		func(ctx context.Context, store session.Store) error {
			return spares(ctx, store, func(s session.Session) (session.Session, error) {
				_, err := freshen(ctx, store, session.Fresh{RunID: s.RunID, Attempt: s.Attempt, Age: time.Minute})
				return s, err
			})
		},
	},
	{
		"a session that had its first event meanwhile is not cancelled, and nothing is written",
		"nothing is another last event than something",
		func(ctx context.Context, store session.Store) error {
			s, err := putEventless(ctx, store)
			if err != nil {
				return err
			}
			if _, err := freshen(ctx, store, session.Fresh{RunID: homeRun, Attempt: 1}); err != nil {
				return err
			}
			return untouched(ctx, store, s)
		},
	},
	{
		"a session in another attempt is not cancelled, and nothing is written",
		"another host has taken the run over since it was judged",
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
		"somebody deleted the row while it was judged",
		func(ctx context.Context, store session.Store) error {
			s := silentSession("never heard of", noon, time.Hour)
			return errors.Join(cancels(ctx, store, s, false), recorded(ctx, store, s.RunID))
		},
	},
	{
		"of two cancels of one session one counts",
		"a pass that is done again after an error must not cancel again",
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
				err = errors.New("the second cancel reported true")
			}
			s.Status, s.Reason = session.Cancelled, why
			return errors.Join(err, looksLike(ctx, store, s), recorded(ctx, store, homeRun, "cancel of "+homeRun))
		},
	},
	{
		"of eight cancels at once one counts, and its events are there alone",
		"several sweepers on several hosts judge one session in the same second",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			const callers = 8
			won := make([]bool, callers)
			err = atOnce(callers, func(caller int) (err error) {
				c := cancelOf(homeRun)
				c.Events[0].ID = fmt.Sprint("of caller ", caller)
				won[caller], err = store.Cancel(ctx, s, c)
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
				err = fmt.Errorf("the cancels of %q reported true", winners)
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

// spares changes something about a session before it is cancelled.
func spares(ctx context.Context, store session.Store, change func(session.Session) (judged session.Session, err error)) error {
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

// untouched cancels what was judged, which must do nothing.
func untouched(ctx context.Context, store session.Store, judged session.Session) error {
	before, err := look(ctx, store, judged.RunID)
	if err != nil {
		return err
	}
	return errors.Join(cancels(ctx, store, judged, false), looksLike(ctx, store, before), recorded(ctx, store, judged.RunID))
}
