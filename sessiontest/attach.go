package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var attachRules = []rule{
	{
		"a new run gets a row that is active, made now and last active now, with its first attempt",
		"a row without a beginning can never be judged, and one that begins in the past is cancelled at once",
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
		"a run without a row has attempt 0 before it is attached",
		"a watchdog records that the attempt before was lost where there was one and it did not end",
		func(ctx context.Context, store session.Store) error {
			before, _, err := store.Attach(ctx, newSession(homeRun))
			if err == nil && before.Attempt != 0 {
				err = fmt.Errorf("before the first attempt there was %+v", before)
			}
			return err
		},
	},
	{
		"attaching again counts the attempt",
		"what a lost attempt still says must not be taken for what the new one does",
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
		"a row that was still active belongs to an attempt that ended without a word: nobody else can tell",
		func(ctx context.Context, store session.Store) error {
			first, err := attach(ctx, store, session.Session{RunID: homeRun, Parent: "p", Threshold: time.Hour, StartedAt: noon, Host: "first"})
			if err != nil {
				return err
			}
			before, _, err := store.Attach(ctx, newSession(homeRun))
			return errors.Join(err, differs(before, first))
		},
	},
	{
		"attaching again makes a session active that had ended, without its reason",
		"a run that was resumed and whose row stays cancelled is ended again by its own watchdog",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, newSession(homeRun))
			if err != nil {
				return err
			}
			if err := end(ctx, store, session.Ending{RunID: homeRun, Attempt: s.Attempt, Status: session.Cancelled, Reason: why}); err != nil {
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
		"attaching again keeps when the row was made, and how often the run was resumed",
		"the policy that resumes a run three times and no more counts in its row",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if _, err := store.Cancel(ctx, s, session.CancelRequest{Reason: why, Resumes: 2}); err != nil {
				return err
			}
			after, err := attach(ctx, store, newSession(homeRun))
			if err == nil && (!after.CreatedAt.Equal(s.CreatedAt) || after.Resumes != 2) {
				err = fmt.Errorf("it was made at %v and resumed %d times, want %v and 2", after.CreatedAt, after.Resumes, s.CreatedAt)
			}
			return err
		},
	},
	{
		"attaching again takes parent, threshold, window and host anew, and the time as the last event",
		"a run that moved to another host is looked for there, and is not stalled because the host before was",
		func(ctx context.Context, store session.Store) error {
			old, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			want := session.Session{RunID: homeRun, Parent: "other", Threshold: watchdog.NoLimit, StartedAt: noon.Add(time.Hour), Host: "host-2"}
			got, err := attach(ctx, store, want)
			if err != nil {
				return err
			}
			if got.Parent != want.Parent || got.Threshold != want.Threshold || !got.StartedAt.Equal(want.StartedAt) || got.Host != want.Host {
				err = fmt.Errorf("the row is %+v", got)
			}
			return errors.Join(err, within("LastEventAt", got.LastEventAt, old.LastEventAt.Add(time.Hour), old.LastEventAt.Add(2*time.Hour)))
		},
	},
	{
		"many that attach to one run at once have an attempt each",
		"two attempts of one number are one to the store: each then keeps the other's row fresh",
		func(ctx context.Context, store session.Store) error {
			const callers = 8
			attempts := make([]int, callers)
			err := atOnce(callers, func(caller int) error {
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
