package sessiontest_test

import (
	"bytes"
	"context"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var brokenTakeovers = []broken{
	{
		"keeps the activity of the attempt before", "attaching under a lease names it, without an activity",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.Lease == after.Lease && before.Activity == time.Hour {
				after.Activity = before.Activity
			}
		}),
	},
	{
		"keeps the state of the attempt before",
		"attaching again clears the lease, the warning, the claim and the state of the attempt before",
		attaches(func(before, s session.Session, after *session.Session) {
			if s.State == nil {
				after.State = before.State
			}
		}),
	},
	{
		"keeps that a stop failed", "attaching again clears that the agents could not be stopped",
		attaches(func(before, _ session.Session, after *session.Session) { after.StopFailed = before.StopFailed }),
	},
	{
		"counts its own attempts", "attaching with an attempt makes a lost row again, with that attempt",
		attaches(func(before, s session.Session, after *session.Session) {
			if s.Attempt > 0 && s.RunID == "run-1" && before.Attempt < s.Attempt {
				after.Attempt = before.Attempt + 1
			}
		}),
	},
	{
		"takes a run back", "attaching with an attempt that is in the row, or is over, changes nothing",
		with(func(a *altered) {
			a.attach = func(
				m *session.Memory, ctx context.Context, s session.Session,
			) (session.Session, session.Session, error) {
				if s.Attempt == 2 {
					s.Attempt = 0
				}
				return m.Attach(ctx, s)
			}
		}),
	},
	{
		"does not count takeovers", "a lease is told of an attempt that is followed by another before it ended",
		tellsBut(without("lost")),
	},
	{
		"notifies of each attach", "a listener is notified of each takeover, and of no other attach",
		with(func(a *altered) {
			a.listen = func(m *session.Memory, ctx context.Context, ready func(), told func(string)) error {
				return m.Listen(ctx, ready, func(runID string) {
					if runID == "taken over" {
						told("new")
					}
					told(runID)
				})
			}
		}),
	},
	{
		"keeps the numbers of a state as floats", "a state is read as it was written",
		looks(func(s *session.Session) {
			s.State = bytes.Replace(s.State, []byte("12345678901234567890.125"), []byte("12345678901234567000"), 1)
		}),
	},
}
