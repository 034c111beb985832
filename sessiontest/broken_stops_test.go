package sessiontest_test

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var brokenStops = []broken{
	{
		"does not note that a stop failed", "a claim can note that the agents were stopped, and whether that failed",
		claimsWith(func(_ *session.Memory, judged *session.Session, c *session.ClaimRequest) {
			if strings.HasPrefix(judged.RunID, "failed-") {
				c.StopFailed = false
			}
		}),
	},
	{
		"lets a sweeper claim that does not know of the stop",
		"a session that was judged before its agents were stopped cannot be claimed, and can be cancelled",
		claimsWith(func(m *session.Memory, judged *session.Session, _ *session.ClaimRequest) {
			judged.Stopped = row(m, judged.RunID).Stopped
		}),
	},
	{
		"keeps the note of a stop beside an end", "after the end of a session no row says that its agents were stopped",
		looks(func(s *session.Session) {
			if s.Status == session.Finished && s.Reason == "" && s.Claim == "pass-1" {
				s.StopFailed = true
			}
		}),
	},
	{
		"takes a warning for a stop",
		"a warning and a stop are noted beside each other, each until the session gives a sign of life",
		looks(func(s *session.Session) {
			if !s.WarnedAt.IsZero() && s.Activity == time.Second && s.Claim == "pass-1" {
				s.Stopped = true
			}
		}),
	},
	{
		"keeps the note of a stop beside an activity", "the note that agents were stopped is void after an activity",
		looks(func(s *session.Session) {
			if s.Activity == 1 && s.Claim == "pass-1" {
				s.Stopped = true
			}
		}),
	},
	{
		"keeps the note of a stop in the next attempt", "the note that agents were stopped is void after an attach",
		with(func(a *altered) {
			var stopped atomic.Bool // rules claim from several goroutines
			a.claim = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.ClaimRequest,
			) (session.Outcome, error) {
				if c.Stopped {
					stopped.Store(true)
				}
				return m.Claim(ctx, judged, c)
			}
			a.session = func(m *session.Memory, ctx context.Context, runID string) (session.Session, error) {
				s, err := m.Session(ctx, runID)
				s.Stopped = s.Stopped || stopped.Load() && s.Attempt == 2
				return s, err
			}
		}),
	},
}
