package sessiontest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var endedRules = []rule{
	{
		"an empty mark is now: no run is returned",
		"a process that has just started would read every session that ever ended",
		func(ctx context.Context, store session.Store) error {
			if err := finish(ctx, store, "a", "b"); err != nil {
				return err
			}
			runIDs, mark, err := store.Ended(ctx, "")
			if err == nil && (len(runIDs) > 0 || mark == "") {
				err = fmt.Errorf("returned are %q, and the mark %q", runIDs, mark)
			}
			return err
		},
	},
	{
		"what ended since a mark is returned, however it ended",
		"a keeper that does not learn of a cancel lets its run continue",
		func(ctx context.Context, store session.Store) error {
			return since(ctx, store, func() error {
				for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
					if err := endAs(ctx, store, string(status), status); err != nil {
						return err
					}
				}
				return nil
			}, "cancelled", "interrupted", "finished")
		},
	},
	{
		"what was cancelled since a mark is returned",
		"this is how a cancel reaches a live run on another host",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			return since(ctx, store, func() error { return cancels(ctx, store, s, session.Done) }, homeRun)
		},
	},
	{
		"what has not ended is not returned",
		"a keeper would read the events of all its runs again and again",
		func(ctx context.Context, store session.Store) error {
			_, mark, err := store.Ended(ctx, "")
			if err != nil {
				return err
			}
			if _, err := attachLeased(ctx, store, homeLease, "live"); err != nil {
				return err
			}
			if err := freshens(ctx, store, homeLease, session.Freshness{RunID: "live", Attempt: 1}); err != nil {
				return err
			}
			runIDs, _, err := store.Ended(ctx, mark)
			if err == nil && slices.Contains(runIDs, "live") {
				err = fmt.Errorf("returned are %q", runIDs)
			}
			return err
		},
	},
	{
		"each mark continues where the one before ended",
		"the second of two polls must return an end between them",
		func(ctx context.Context, store session.Store) error {
			_, mark, err := store.Ended(ctx, "")
			if err != nil {
				return err
			}
			for i := range 5 {
				runID := fmt.Sprint("run-", i)
				if err := finish(ctx, store, runID); err != nil {
					return err
				}
				runIDs, next, err := store.Ended(ctx, mark)
				if err != nil {
					return err
				}
				if !slices.Contains(runIDs, runID) {
					return fmt.Errorf("after %s ended, returned are %q since the mark %q", runID, runIDs, mark)
				}
				mark = next
			}
			return nil
		},
	},
	{
		"a mark stays valid when the run that ended last is attached again",
		"a store that computes marks from the ended rows would give the next end an old number",
		func(ctx context.Context, store session.Store) error {
			if err := finish(ctx, store, "first"); err != nil {
				return err
			}
			return since(ctx, store, func() error {
				if _, err := attach(ctx, store, newSession("first")); err != nil {
					return err
				}
				return finish(ctx, store, "second")
			}, "second")
		},
	},
	{
		"a run that ends again is returned again",
		"a run that is cancelled, resumed and cancelled again must be returned each time",
		func(ctx context.Context, store session.Store) error {
			if err := finish(ctx, store, homeRun); err != nil {
				return err
			}
			return since(ctx, store, func() error { return finish(ctx, store, homeRun) }, homeRun)
		},
	},
}

// finish runs an attempt of each run from beginning to end.
func finish(ctx context.Context, store session.Store, runIDs ...string) error {
	for _, runID := range runIDs {
		if err := endAs(ctx, store, runID, session.Finished); err != nil {
			return err
		}
	}
	return nil
}

func endAs(ctx context.Context, store session.Store, runID string, status session.Status) error {
	s, err := attach(ctx, store, newSession(runID))
	if err != nil {
		return err
	}
	return end(ctx, store, session.Ending{RunID: runID, Attempt: s.Attempt, Status: status})
}

// since checks that Ended returns the runs that do ends.
func since(ctx context.Context, store session.Store, do func() error, want ...string) error {
	_, mark, err := store.Ended(ctx, "")
	if err != nil {
		return fmt.Errorf("ask for a mark: %w", err)
	}
	if err := do(); err != nil {
		return err
	}
	runIDs, _, err := store.Ended(ctx, mark)
	if err != nil {
		return fmt.Errorf("ask what ended since %q: %w", mark, err)
	}
	return contract.Each(want, func(runID string) error {
		if !slices.Contains(runIDs, runID) {
			return fmt.Errorf("ended since the mark %q are %q, want %q among them", mark, runIDs, runID)
		}
		return nil
	})
}
