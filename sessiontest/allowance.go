package sessiontest

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// allowed is how long a run may be silent in these rules, and beside what sweepers of earlier versions wait meanwhile.
const (
	allowed = 500 * day
	beside  = 600 * day
	more    = time.Millisecond
)

var allowanceRules = []rule{
	{
		"an allowance is read as it was written, and there is no threshold beside it",
		"sweepers leave it to the run's own limits to end it, and the threshold beside it is for those that cannot",
		func(ctx context.Context, store session.Store) error {
			s, err := attachAllowed(ctx, store)
			if err != nil {
				return err
			}
			write := func(allowance, want time.Duration) error {
				f := session.Freshness{
					RunID: s.RunID, Attempt: 1, Activity: allowance, Quiet: true, Allowance: allowance, Threshold: beside,
				}
				if err := freshens(ctx, store, homeLease, f); err != nil {
					return err
				}
				return allows(ctx, store, s.RunID, want)
			}
			return inOrder(
				func() error { return allows(ctx, store, s.RunID, allowed) },
				func() error { return write(allowed+more, allowed+more) },
				func() error { return write(allowed+2*more, allowed+2*more) },
			)
		},
	},
	{
		"an allowance ends with the attempt, and where the keeper has none any more",
		"the next process may keep other limits",
		func(ctx context.Context, store session.Store) error {
			s, err := attachAllowed(ctx, store)
			if err != nil {
				return err
			}
			f := session.Freshness{RunID: s.RunID, Attempt: 1, Activity: more, Quiet: true}
			again := underLease(newSession(s.RunID), homeLease)
			return inOrder(
				func() error { return freshens(ctx, store, homeLease, f) },
				func() error { return allows(ctx, store, s.RunID, 0) },
				func() error { _, _, err := store.Attach(ctx, s); return err },
				func() error { return allows(ctx, store, s.RunID, allowed) },
				func() error { _, _, err := store.Attach(ctx, again); return err },
				func() error { return allows(ctx, store, s.RunID, 0) },
			)
		},
	},
	{
		"a session that leaves its lease leaves its allowance behind",
		"the process that kept the run's limits is dead",
		func(ctx context.Context, store session.Store) error {
			s, err := attachAllowed(ctx, store)
			if err != nil {
				return err
			}
			return inOrder(
				func() error { return expires(ctx, store, session.Lease{ID: homeLease, Beat: 2}, true, 0) },
				func() error { return allows(ctx, store, s.RunID, 0) },
			)
		},
	},
	{
		"a session is stalled after more than its allowance and more than the threshold",
		"a live run is never ended for a silence that its own limits allow",
		func(ctx context.Context, store session.Store) error {
			quiet := func(silence, allowance time.Duration) session.Freshness {
				return session.Freshness{Activity: vouched - silence, Quiet: true, Allowance: allowance, Threshold: beside}
			}
			return stalledInLease(ctx, store, []session.Freshness{
				quiet(allowed, allowed), quiet(allowed+more, allowed), quiet(threshold-more, time.Minute),
				quiet(threshold+more, time.Minute), quiet(threshold+more, allowed), quiet(beside+more, beside+2*more),
				quiet(vouched, beside),
			}, nil, "run-1", "run-3", "run-6")
		},
	},
	{
		"a session is not cancelled for a silence that its allowance covers",
		"its limits may have been raised after a sweeper had found it",
		func(ctx context.Context, store session.Store) error {
			s, err := attachAllowed(ctx, store)
			if err != nil {
				return err
			}
			other := s
			other.RunID = "exceeded"
			if _, err := attach(ctx, store, other); err != nil {
				return err
			}
			ends := func(runID string, allowance time.Duration, want session.Outcome) error {
				f := session.Freshness{
					RunID: runID, Attempt: 1, Activity: vouched - allowed - more, Quiet: true, Allowance: allowance, Threshold: beside,
				}
				if err := freshens(ctx, store, homeLease, f); err != nil {
					return err
				}
				judged, err := look(ctx, store, runID)
				if err != nil {
					return err
				}
				return cancels(ctx, store, judged, want)
			}
			return inOrder(
				func() error { return ends(s.RunID, allowed+more, session.Changed) },
				func() error { return ends(other.RunID, allowed, session.Done) },
			)
		},
	},
}

// attachAllowed begins the lease, and attaches to a run with an allowance.
func attachAllowed(ctx context.Context, store session.Store) (session.Session, error) {
	if _, err := beginAt(ctx, store, homeLease, vouched); err != nil {
		return session.Session{}, err
	}
	s := underLease(newSession("allowed"), homeLease)
	s.Allowance, s.Threshold = allowed, beside
	_, err := attach(ctx, store, s)
	return s, err
}

// allows checks the allowance of a run, which has no threshold.
func allows(ctx context.Context, store session.Store, runID string, want time.Duration) error {
	s, err := look(ctx, store, runID)
	if err == nil && (s.Allowance != want || s.Threshold != 0) {
		err = fmt.Errorf("the allowance is %v and the threshold %v, want %v and none", s.Allowance, s.Threshold, want)
	}
	return err
}
