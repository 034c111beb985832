// Package replay decides a run's recorded trace again under other limits, to tune them on what has happened before they
// cancel anything.
//
// [github.com/seed62658d38/watchdog.Config].OnSignal records a trace. The decision is the watchdog's own, so that a
// replay under the budget that the run had gives what the run was given, at the same instants.
//
// It reads no store and has no clock: the time of a replay is its trace's.
package replay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
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
	// Usage is that of a counted limit, nil for a limit of time.
	Usage *watchdog.Usage
}

// Run decides the trace of one run under a budget: what a watchdog with a timer made for it, or would have made under
// these limits. It ends at the first [watchdog.DirectiveCancel]; with observeOnly it goes on, as a run does that is
// only observed. The trace must be as it was recorded: whole, in the order of its times. It may go on with another
// attach, of the process that continued the window; a hold ends with its process. The signals of the run's layers are
// passed over: they are runs of their own, under budgets of their own. A call that was refused and fits in these limits
// uses nothing, because it was not made. Limits that the run shared with others are not in its budget.
//
// The error wraps [watchdog.ErrInvalid]: it is that of [watchdog.Budget.Validate], or names the position of a signal
// that no run can have recorded or that more than 100,000 decisions come before, as with limits of nanoseconds.
func Run(budget watchdog.Budget, trace []watchdog.Signal, observeOnly bool) ([]Decision, error) {
	limits, err := limitsOf(budget)
	if err != nil {
		return nil, fmt.Errorf("replay a trace: %w", err)
	}
	if err := check(trace); err != nil {
		return nil, fmt.Errorf("replay a trace: %w", err)
	}
	r := run{limits: limits, observeOnly: observeOnly}
	answers := busyAnswers(trace)
	for i, s := range trace {
		if ofLayer(s, trace[0].Run) {
			continue
		}
		if i == 0 || s.Kind == watchdog.SignalAttach {
			r.seen = verdict.Snapshot{Signs: &verdict.Signs{}, Spend: verdict.NewSpend(limits.Counts, observeOnly)}
		}
		r.seen.Asking, r.seen.Asked = answers[i] != verdict.IdleTrip{}, answers[i]
		if r.attaching = attaches(s, r.attaching); !r.attaching && !r.until(s.At) {
			break
		}
		if len(r.decisions) > maxDecisions {
			return nil, fmt.Errorf("replay a trace: %w budget: it gives more than %d decisions before signal %d (%s at %v)",
				watchdog.ErrInvalid, maxDecisions, i, s.Kind, s.At)
		}
		r.seen.Take(&r.limits, signalOf(s))
		r.last = s.At
	}
	return r.decisions, nil
}

// limitsOf are the limits as the decision takes them: those of a run that is made for them.
func limitsOf(budget watchdog.Budget) (verdict.Limits, error) {
	if err := budget.Validate(); err != nil {
		return verdict.Limits{}, err
	}
	made, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
		Budget: budget, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return verdict.Limits{}, err
	}
	return *handle.Of(made.Context()).Settings().Limits, made.Close()
}

// signalOf is the signal as the decision takes it.
func signalOf(s watchdog.Signal) verdict.Signal {
	taken := verdict.Signal{
		Kind: verdict.SignalKind(s.Kind), At: s.At, Key: s.Key, Serial: s.Serial, Length: s.Length, Warned: s.Warned,
		Wrapped: s.Wrapped, From: s.From, Rung: s.Rung, Idle: s.Idle, Refused: s.NotMade, More: s.More,
	}
	if s.Amount != nil {
		taken.Use = useOf(s.Amount)
	}
	if u := s.Usage; u != nil {
		taken.Of = verdict.CountID{Kind: verdict.KindOf(u.Limit), Tool: u.Tool, Scope: u.Scope}
		taken.Count = u.Used
	}
	return taken
}

func useOf(a *watchdog.Amount) (u verdict.Use) {
	u.Tool, u.Result = a.Tool, verdict.Result(a.Result)
	u.Counts[verdict.KindInput], u.Counts[verdict.KindOutput] = a.InputTokens, a.OutputTokens
	u.Counts[verdict.KindCost], u.Counts[verdict.KindRequests] = a.Cost.Micros, a.Requests
	u.Counts[verdict.KindTurns], u.Counts[verdict.KindToolCalls] = a.Turns, a.ToolCalls
	u.Counts.SumTokens()
	return u
}

// busyAnswers returns, for each signal, the trip that did not come because the host said next that it is busy; the zero
// value if it said nothing any more.
func busyAnswers(trace []watchdog.Signal) []verdict.IdleTrip {
	answers := make([]verdict.IdleTrip, len(trace))
	var next verdict.IdleTrip
	for i, s := range slices.Backward(trace) {
		if s.Busy && !ofLayer(s, trace[0].Run) {
			next = verdict.IdleTrip{Since: s.From, Rung: s.Rung}
		}
		answers[i] = next
	}
	return answers
}

// attaches reports whether the signal is part of an attach, which is decided on when it is whole: what was open and
// where the ladders stood.
func attaches(s watchdog.Signal, attaching bool) bool {
	switch s.Kind {
	case watchdog.SignalAttach:
		return true
	case watchdog.SignalAttached, watchdog.SignalRung, watchdog.SignalHeld, watchdog.SignalPause, watchdog.SignalUnpause,
		watchdog.SignalSpent:
		return attaching
	}
	return false
}

// maxDecisions is how many decisions a replay gives: one each second of a day is less.
const maxDecisions = 100_000

// A run is one whose time is its trace's.
type run struct {
	limits      verdict.Limits
	observeOnly bool
	attaching   bool
	seen        verdict.Snapshot
	last        time.Duration // when the last signal came: what it exceeds, it exceeds then
	decisions   []Decision
}

// until decides all that is due up to the instant, which it leaves open, and reports whether the run goes on. Each
// decision comes when it is due, as by a timer that is never late. It leaves off when there are too many.
func (r *run) until(end time.Duration) bool {
	for now := max(r.seen.Attached, r.last); len(r.decisions) <= maxDecisions; {
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
	return true
}

func decision(v verdict.Verdict, now time.Duration) Decision {
	d := Decision{
		At: now, Kind: watchdog.DirectiveKind(v.Directive), Fraction: v.Fraction,
		Reason: watchdog.StopReason(record.LimitCode(string(v.Limit))),
		Rung:   v.Rung, Hold: v.Hold, Used: v.Used, Allowed: v.Allowed,
	}
	if c := v.Count; c != (verdict.CountUse{}) {
		d.Usage = &watchdog.Usage{
			Limit: c.Kind.String(), Tool: c.Tool, Used: c.Used, Admitted: c.Admitted, Allowed: c.Allowed, Needed: c.Needed,
		}
	}
	return d
}
