// Package replay decides a run's recorded trace again under other limits, to tune them on what has happened before they cancel anything.
//
// [github.com/seed62658d38/watchdog.Config].OnSignal records a trace. The decision is the watchdog's own, so that a replay under the budget
// that the run had gives what the run was given, at the same instants.
//
// It reads no store and has no clock: the time of a replay is its trace's.
package replay

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/seam"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Decision is what the watchdog decides at one instant of a trace.
type Decision struct {
	// At is when it was due: what had elapsed of the window.
	At time.Duration
	// Kind is the directive, or empty for a warning of the wall clock, of which Fraction was used.
	Kind     watchdog.DirectiveKind
	Fraction float64
	// Reason is the code of the limit; Rung, Hold, Used and Allowed are as in a [watchdog.Directive].
	Reason        watchdog.StopReason
	Rung          int
	Hold          string
	Used, Allowed time.Duration
}

// Run decides the trace of one run under a budget: what a watchdog with a timer made for it, or would have made under these limits. It ends
// at the first [watchdog.DirectiveCancel]; with observeOnly it goes on, as a run does that is only observed. The trace must be in the
// order of its times, as recorded.
//
// The error is that of [watchdog.Budget.Validate].
func Run(budget watchdog.Budget, trace []watchdog.Signal, observeOnly bool) ([]Decision, error) {
	limits, err := seam.Limits(budget)
	if err != nil {
		return nil, fmt.Errorf("replay a trace: %w", err)
	}
	r := run{limits: limits, observeOnly: observeOnly, seen: verdict.Snapshot{Signs: &verdict.Signs{}}}
	for _, s := range trace {
		if s.Kind != watchdog.SignalAttach && !r.until(s.At) {
			break
		}
		r.seen.Take(verdict.Signal{Kind: verdict.SignalKind(s.Kind), At: s.At, Key: s.Key, Length: s.Length, Warned: s.Warned})
	}
	return r.decisions, nil
}

// A run is one whose time is its trace's.
type run struct {
	limits      verdict.Limits
	observeOnly bool
	seen        verdict.Snapshot
	decisions   []Decision
}

// until decides all that is due up to the instant, which it leaves open, and reports whether the run goes on. Each decision comes when it is
// due, as by a timer that is never late.
func (r *run) until(end time.Duration) bool {
	for now := r.seen.Attached; ; {
		v := verdict.Judge(r.limits, r.seen, now)
		if v.Action == verdict.Continue {
			if now = v.Next; now > end || now == verdict.Never {
				return true
			}
			continue
		}
		r.decisions = append(r.decisions, decision(v, now))
		if v.Action == verdict.Cancel && !r.observeOnly {
			return false
		}
		r.seen.Apply(v, now)
	}
}

func decision(v verdict.Verdict, now time.Duration) Decision {
	return Decision{
		At: now, Kind: watchdog.DirectiveKind(v.Directive), Fraction: v.Fraction,
		Reason: watchdog.StopReason(record.LimitCode(string(v.Limit))),
		Rung:   v.Rung, Hold: v.Hold, Used: v.Used, Allowed: v.Allowed,
	}
}
