package sessiontest_test

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog/session"
)

// since returns a store that changes the result of Ended for a mark.
func since(change func(m *session.Memory, mark string, runIDs []string) []string) func() session.Store {
	return with(func(a *altered) {
		a.ended = func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error) {
			runIDs, next, err := m.Ended(ctx, mark)
			if mark != "" {
				runIDs = change(m, mark, runIDs)
			}
			return runIDs, next, err
		}
	})
}

var brokenEnded = []broken{
	{
		"takes an empty mark for the first one", "an empty mark is now: no run is returned",
		with(func(a *altered) {
			a.ended = func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error) {
				if mark != "" {
					return m.Ended(ctx, mark)
				}
				return m.Ended(ctx, "0")
			}
		}),
	},
	{
		"returns cancels only", "what ended since a mark is returned, however it ended",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			return slices.DeleteFunc(runIDs, func(runID string) bool { return row(m, runID).Status == session.Interrupted })
		}),
	},
	{
		"does not count a sweeper's cancels", "what was cancelled since a mark is returned",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			return slices.DeleteFunc(runIDs, func(runID string) bool { return row(m, runID).Reason != "" && runID == "run-1" })
		}),
	},
	{
		"returns whatever was written", "what has not ended is not returned",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			if row(m, "live").Attempt > 0 {
				runIDs = append(runIDs, "live")
			}
			return runIDs
		}),
	},
	{
		"moves its mark one too far", "each mark continues where the one before ended",
		func() session.Store {
			asked := 0
			return with(func(a *altered) {
				a.ended = func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error) {
					runIDs, next, err := m.Ended(ctx, mark)
					if asked++; asked > 2 {
						runIDs = nil
					}
					return runIDs, next, err
				}
			})()
		},
	},
	{
		"forgets the end of a run that is attached again",
		"a mark stays valid when the run that ended last is attached again",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			if row(m, "first").Status == session.Active {
				return nil
			}
			return runIDs
		}),
	},
	{
		"returns a run once", "a run that ends again is returned again",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			return slices.DeleteFunc(runIDs, func(runID string) bool {
				return runID == "run-1" && row(m, runID).Attempt > 1
			})
		}),
	},
}
