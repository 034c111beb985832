package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var takeoverRules = []rule{
	{
		"attaching under a lease names it, without an activity",
		"the activity of the attempt before was by another clock",
		func(ctx context.Context, store session.Store) error {
			for range 2 {
				s, err := attachLeased(ctx, store, homeLease, homeRun)
				if err == nil && (s.Lease != homeLease || s.Activity != session.NoActivity || s.Silence != 0) {
					err = fmt.Errorf("attached as %+v", s)
				}
				f := session.Freshness{RunID: homeRun, Attempt: s.Attempt, Activity: time.Hour, Quiet: true}
				if err = errors.Join(err, looksLike(ctx, store, s), freshens(ctx, store, homeLease, f)); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"attaching again clears the lease, the warning, the claim and the state of the attempt before",
		"the new attempt would be cancelled after the warning of the old one",
		func(ctx context.Context, store session.Store) error {
			_, s, err := vouchedFor(ctx, store,
				session.Freshness{Activity: time.Hour, Quiet: true, State: json.RawMessage(`{"phase":"first"}`)})
			if err != nil {
				return err
			}
			if err := inOrder(
				func() error { return warns(ctx, store, s, session.Done) },
				func() error { return claims(ctx, store, s, by, session.Done) },
			); err != nil {
				return err
			}
			if s, err = attach(ctx, store, newSession(homeRun)); err != nil {
				return err
			}
			want := session.Session{
				RunID: homeRun, Status: session.Active, CreatedAt: s.CreatedAt, LastEventAt: s.LastEventAt, StartedAt: noon,
				Host: host, Attempt: 2,
			}
			return errors.Join(
				differs(s, want), looksLike(ctx, store, want), claims(ctx, store, s, "pass-2", session.Done))
		},
	},
	{
		"attaching again clears that the agents could not be stopped",
		"it says nothing about the new attempt",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			c := cancelOf(homeRun)
			c.StopFailed = true
			if err := cancelsAs(ctx, store, s, c, session.Done); err != nil {
				return err
			}
			s, err = attach(ctx, store, newSession(homeRun))
			if err == nil && (s.StopFailed || s.Claim != "") {
				err = fmt.Errorf("the row is %+v", s)
			}
			return errors.Join(err, looksLike(ctx, store, s))
		},
	},
	{
		"attaching with an attempt makes a lost row again, with that attempt",
		"after a failover the database may have forgotten the row of a live run, or its latest attempt",
		func(ctx context.Context, store session.Store) error {
			for _, attempt := range []int{3, 7} { // without a row, and with an older one
				lost := newSession(homeRun)
				lost.Attempt = attempt
				s, err := attach(ctx, store, lost)
				if err == nil && (s.Attempt != attempt || s.Status != session.Active) {
					err = fmt.Errorf("the row is %+v, want the attempt %d", s, attempt)
				}
				if err = errors.Join(err, looksLike(ctx, store, s)); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"attaching with an attempt that is in the row, or is over, changes nothing",
		"the row was not lost: a process that has been taken over would take its run back",
		func(ctx context.Context, store session.Store) error {
			for _, status := range []session.Status{session.Active, session.Cancelled} {
				now, err := clockOf(ctx, store)
				if err != nil {
					return err
				}
				s := silentSession(string(status), now, time.Hour)
				s.Status, s.Attempt = status, 3
				if err := put(ctx, store, s); err != nil {
					return err
				}
				err = contract.Each([]int{3, 2}, func(attempt int) error {
					lost := session.Session{RunID: s.RunID, Host: "host-2", Attempt: attempt, StartedAt: noon}
					before, after, err := store.Attach(ctx, lost)
					return errors.Join(err, differs(before, s), differs(after, s), looksLike(ctx, store, s))
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"a lease is told of an attempt that is followed by another before it ended",
		"two processes run one run until the first learns that it was taken over",
		func(ctx context.Context, store session.Store) error {
			before, err := attachEach(ctx, store, homeLease, "again", "lost", "ended")
			if err != nil {
				return err
			}
			lost := newSession("lost")
			lost.Attempt = 4
			return inOrder(
				func() error {
					return end(ctx, store, session.Ending{RunID: "ended", Attempt: 1, Status: session.Interrupted})
				},
				func() error { _, err := attachEach(ctx, store, awayLease, "again", "ended", "new"); return err },
				func() error { _, err := attach(ctx, store, lost); return err },
				func() error { return tells(ctx, store, homeLease, nil, attemptsOf(before[:2])...) },
				func() error { return tells(ctx, store, awayLease, nil) },
			)
		},
	},
	{
		"a listener is notified of each takeover, and of no other attach",
		"a process whose run goes on elsewhere must end it now; but each start of a run would wake every host",
		func(ctx context.Context, store session.Store) error {
			if err := finishes(ctx, store, "ended"); err != nil {
				return err
			}
			return listening(ctx, store, func(told <-chan string) error {
				for _, runID := range []string{"ended", "new", "taken over"} {
					if _, err := attach(ctx, store, newSession(runID)); err != nil {
						return err
					}
				}
				if _, err := attach(ctx, store, newSession("taken over")); err != nil {
					return err
				}
				return receives(ctx, told, "taken over")
			})
		},
	},
	{
		"a state is read as it was written",
		"a page shows the runs of other hosts by it",
		func(ctx context.Context, store session.Store) error {
			states := []string{
				"", `{}`, `{"phase":"tests","wall_clock_seconds":14400.5,"warned":2,"wrapped_up":true}`,
				`{"phase":"it's \"quoted\" \\ and\nbroken — über 日本語 🜁"}`,
				`{"n":12345678901234567890.125,"a":[1,null,{"b":[]}]}`,
			}
			for i, state := range states {
				s := newSession(fmt.Sprint("run-", i))
				if s.State = json.RawMessage(state); state == "" {
					s.State = nil
				}
				after, err := attach(ctx, store, s)
				if err == nil && string(canonical(after.State)) != string(canonical(s.State)) {
					err = fmt.Errorf("the state is %q, want %q", after.State, state)
				}
				if err = errors.Join(err, looksLike(ctx, store, after)); err != nil {
					return err
				}
			}
			return nil
		},
	},
}

// claims checks what becomes of a claim for an hour.
func claims(ctx context.Context, store session.Store, judged session.Session, by string, want session.Outcome) error {
	return claimsFor(ctx, store, judged, by, time.Hour, want)
}

func claimsFor(
	ctx context.Context, store session.Store, judged session.Session, by string, length time.Duration,
	want session.Outcome,
) error {
	got, err := store.Claim(ctx, judged, session.ClaimRequest{By: by, For: length, EndID: "cancel of " + judged.RunID})
	return came("claim", judged.RunID, got, want, err)
}

// warns checks what becomes of a warning.
func warns(ctx context.Context, store session.Store, judged session.Session, want session.Outcome) error {
	got, err := store.Warn(ctx, judged, []watchdog.Event{warning(judged.RunID)})
	return came("warn", judged.RunID, got, want, err)
}

func warning(runID string) watchdog.Event {
	e := cancelEvent("warning of "+runID, runID, noon)
	e.Type = watchdog.EventWarning
	return e
}
