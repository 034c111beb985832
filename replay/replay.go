// Package replay decides a run's recorded trace again under other limits, to tune them on what has happened before they
// cancel anything.
//
// [github.com/seed62658d38/watchdog.Config].OnSignal records a trace. What decides is the watchdog's own machine,
// driven by the trace in place of a host, so that a replay under the budget that the run had gives what the run was
// given, at the same instants.
//
// It reads no store and has no clock: the time of a replay is its trace's, and so are the store's answers.
package replay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Run decides the trace of one run under a budget: what a watchdog with a timer made for it, or would have made under
// these limits. It ends at the first [watchdog.DirectiveCancel]; with observeOnly it goes on, as a run does that is
// only observed. The trace must be as it was recorded: whole, in the order of its times. It may go on with another
// attach, of the process that continued the window; a hold ends with its process. The signals of the run's layers are
// passed over: they are runs of their own, under budgets of their own. The signals of one layer are a trace, too, whose
// budget is in its first signal. A call that was refused and fits in these limits uses nothing, because it was not
// made. Limits that the run shared with others are not in its budget.
//
// A cancel that the store took back when it was to be recorded, because another process had given the run more, is no
// decision: the run went on. Under other limits nobody knows what the store would have said, and a cancel is one.
//
// The error wraps [watchdog.ErrInvalid]: it is that of [watchdog.Budget.Validate], or names the position of a signal
// that no run can have recorded, that a later version has written, or that more than 100,000 decisions come before, as
// with limits of nanoseconds.
func Run(budget watchdog.Budget, trace []watchdog.Signal, observeOnly bool) ([]Decision, error) {
	limits, err := limitsOf(budget)
	if err != nil {
		return nil, fmt.Errorf("replay a trace: %w", err)
	}
	if err := check(trace); err != nil {
		return nil, fmt.Errorf("replay a trace: %w", err)
	}
	d := driver{rules: machine.Rules{Limits: &limits, ObserveOnly: observeOnly}, currency: budget.Spend.Cost.Currency}
	d.busy, d.rules.AsksBusy = busyAnswers(trace)
	d.failed = failedCompletes(trace)
	for i, s := range trace {
		if ofLayer(&s, trace[0].Run) {
			continue
		}
		if i == 0 || s.Kind == watchdog.SignalAttach {
			if d.trip != nil {
				break
			}
			d.attach(trace, i)
		}
		d.feed(i, s)
		if len(d.decisions) > maxDecisions {
			return nil, fmt.Errorf("replay a trace: %w budget: it gives more than %d decisions before signal %d (%s at %v)",
				watchdog.ErrInvalid, maxDecisions, i, s.Kind, s.At)
		}
	}
	d.look()
	return d.decisions, nil
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

// decision is a verdict with the counted limit that it is about, nil for one of time.
func decision(v *verdict.Verdict, spend *record.Spend, now time.Duration) Decision {
	d := Decision{
		At: now, Kind: watchdog.DirectiveKind(v.Directive), Fraction: v.Fraction,
		Reason: watchdog.StopReason(record.LimitCode(string(v.Limit))),
		Rung:   v.Rung, Hold: v.Hold, Used: v.Used, Allowed: v.Allowed,
	}
	if spend != nil {
		d.Usage = &watchdog.Usage{
			Limit: spend.Limit, Tool: spend.Tool, Currency: spend.Currency, Used: int64(spend.Used),
			Admitted: int64(spend.Admitted), Allowed: int64(spend.Allowed), Needed: int64(spend.Needed), Pattern: spend.Pattern,
		}
	}
	return d
}
