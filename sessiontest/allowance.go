package sessiontest

import (
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
	{"an allowance is read as it was written, and there is no threshold beside it",
		"sweepers leave it to the run's own limits to end it; those that cannot use the threshold beside it", func(e *env) {
			s := attachAllowed(e, "allowed")
			allows(e, s, allowed)
			for _, allowance := range []time.Duration{allowed + more, allowed + 2*more} {
				freshens(e, homeLease, allowing(quietSince(s, allowance), allowance))
				allows(e, s, allowance)
			}
		}},
	{"an allowance ends with the attempt, and where the keeper has none any more",
		"the next process may keep other limits", func(e *env) {
			s := attachAllowed(e, "allowed")
			freshens(e, homeLease, quietSince(s, more))
			allows(e, s, 0)
			attachAllowed(e, "allowed")
			allows(e, s, allowed)
			attachUnder(e, homeLease, s.RunID)
			allows(e, s, 0)
		}},
	{"a session that leaves its lease leaves its allowance behind",
		"the process that kept the run's limits is dead", func(e *env) {
			s := attachAllowed(e, "allowed")
			expires(e, observe(e, homeLease), true, 0)
			allows(e, s, 0)
		}},
	{"a session is stalled after more than its allowance and more than the threshold",
		"a live run is never ended for a silence that its own limits allow", func(e *env) {
			quiet := func(silence, allowance time.Duration) freshness {
				return allowing(freshness{Activity: vouched - silence, Quiet: true}, allowance)
			}
			inLease(e, nil, []freshness{
				quiet(allowed, allowed), quiet(allowed+more, allowed), quiet(threshold-more, time.Minute),
				quiet(threshold+more, time.Minute), quiet(threshold+more, allowed), quiet(beside+more, beside+2*more),
				quiet(vouched, beside),
			})
			findsYoung(e, "run-1", "run-3", "run-6")
		}},
	{"a session is not cancelled for a silence that its allowance covers",
		"its limits may have been raised after a sweeper had found it", func(e *env) {
			for runID, c := range map[string]struct {
				allowance time.Duration
				want      session.Outcome
			}{"allowed": {allowed + more, session.Changed}, "exceeded": {allowed, session.Done}} {
				s := attachAllowed(e, runID)
				freshens(e, homeLease, allowing(quietSince(s, vouched-allowed-more), c.allowance))
				cancels(e, look(e, runID), c.want)
			}
		}},
}

// attachAllowed begins the lease, and attaches to a run with an allowance.
func attachAllowed(e *env, runID string) row {
	beginAt(e, homeLease, vouched)
	s := underLease(newSession(runID), homeLease)
	s.Allowance, s.Threshold = allowed, beside
	return attach(e, s)
}

// allowing returns a freshness with an allowance, and what is beside it.
func allowing(f freshness, allowance time.Duration) freshness {
	f.Allowance, f.Threshold = allowance, beside
	return f
}

// allows checks the allowance of a run, which has no threshold.
func allows(e *env, of row, want time.Duration) {
	s := look(e, of.RunID)
	require(s.Allowance == want && s.Threshold == 0, "the row is %+v, want the allowance %v", s, want)
}
