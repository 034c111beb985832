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

var attachRules = []rule{
	{
		"a new run gets an active row, created now and last active now, with attempt 1",
		"a row without a start time cannot be judged, and one that starts in the past is cancelled at once",
		func(ctx context.Context, store session.Store) error {
			from, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			s, err := attach(ctx, store, newSession(homeRun))
			if err != nil {
				return err
			}
			to, err := clockOf(ctx, store)
			if s.Status != session.Active || s.Attempt != 1 || s.Reason != "" || s.Resumes != 0 {
				err = errors.Join(err, fmt.Errorf("the row is %+v", s))
			}
			return errors.Join(err, within("CreatedAt", s.CreatedAt, from, to), within("LastEventAt", s.LastEventAt, from, to))
		},
	},
	{
		"before the first attach the attempt is 0",
		"a watchdog records a lost attempt if there was an attempt before and it did not end",
		func(ctx context.Context, store session.Store) error {
			before, _, err := store.Attach(ctx, newSession(homeRun))
			if err == nil && before.Attempt != 0 {
				err = fmt.Errorf("before the first attempt the row was %+v", before)
			}
			return err
		},
	},
	{
		"attaching again counts the attempt",
		"writes of a lost attempt must not count as writes of the new one",
		func(ctx context.Context, store session.Store) error {
			for n := range 3 {
				s, err := attach(ctx, store, newSession(homeRun))
				if err == nil && s.Attempt != n+1 {
					err = fmt.Errorf("attempt %d has the number %d", n+1, s.Attempt)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"attaching again returns the row as it was",
		"if the row was still active, the attempt before was lost: nothing else shows that",
		func(ctx context.Context, store session.Store) error {
			first, err := attach(ctx, store, session.Session{
				RunID: homeRun, Parent: "p", Threshold: time.Hour, StartedAt: noon, Host: "first",
			})
			if err != nil {
				return err
			}
			before, _, err := store.Attach(ctx, newSession(homeRun))
			return errors.Join(err, differs(before, first))
		},
	},
	{
		"attaching again makes an ended session active and clears its reason",
		"if the row of a resumed run stays cancelled, its own watchdog ends the run again",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, newSession(homeRun))
			if err != nil {
				return err
			}
			ending := session.Ending{RunID: homeRun, Attempt: s.Attempt, Status: session.Cancelled, Reason: why}
			if err := end(ctx, store, ending); err != nil {
				return err
			}
			s, err = attach(ctx, store, newSession(homeRun))
			if err == nil && (s.Status != session.Active || s.Reason != "") {
				err = fmt.Errorf("it is %s with the reason %q", s.Status, string(s.Reason))
			}
			return err
		},
	},
	{
		"attaching again keeps the creation time and the number of resumes",
		"a policy that resumes a run at most three times counts in its row",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			c := cancelOf(homeRun)
			c.Resumes = 2
			if err := cancelsAs(ctx, store, s, c, session.Done); err != nil {
				return err
			}
			after, err := attach(ctx, store, newSession(homeRun))
			if err == nil && (!after.CreatedAt.Equal(s.CreatedAt) || after.Resumes != 2) {
				err = fmt.Errorf("it was created at %v and resumed %d times, want %v and 2",
					after.CreatedAt, after.Resumes, s.CreatedAt)
			}
			return err
		},
	},
	{
		"attaching again sets parent, threshold, window and host, and the last event to now",
		"a run that moved to another host must be found there, and the silence of its old host must not make it stalled",
		func(ctx context.Context, store session.Store) error {
			old, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			want := session.Session{
				RunID: homeRun, Parent: "other", Threshold: watchdog.NoLimit, StartedAt: noon.Add(time.Hour), Host: "host-2",
			}
			got, err := attach(ctx, store, want)
			if err != nil {
				return err
			}
			if got.Parent != want.Parent || got.Threshold != want.Threshold ||
				!got.StartedAt.Equal(want.StartedAt) || got.Host != want.Host {
				err = fmt.Errorf("the row is %+v", got)
			}
			from := old.LastEventAt.Add(time.Hour)
			return errors.Join(err, within("LastEventAt", got.LastEventAt, from, from.Add(time.Hour)))
		},
	},
	{
		"callers that attach to one run at once get different attempts",
		"two attempts with one number would keep each other's row fresh",
		func(ctx context.Context, store session.Store) error {
			const callers = 8
			attempts := make([]int, callers)
			err := contract.AtOnce(callers, func(caller int) error {
				s, err := attach(ctx, store, newSession(homeRun))
				attempts[caller] = s.Attempt
				return err
			})
			slices.Sort(attempts)
			if want := []int{1, 2, 3, 4, 5, 6, 7, 8}; err == nil && !slices.Equal(attempts, want) {
				err = fmt.Errorf("the attempts are %v, want %v", attempts, want)
			}
			return err
		},
	},
}

func within(what string, at, from, to time.Time) error {
	if at.Before(from) || at.After(to) {
		return fmt.Errorf("%s is %v, want a time from %v to %v", what, at, from, to)
	}
	return nil
}
