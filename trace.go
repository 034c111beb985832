package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A SignalKind is a kind of [Signal].
type SignalKind string

// The kinds of signal.
const (
	// SignalAttach is where the trace of an attach begins, SignalExtend more time for the window, SignalEnd where it ends:
	// when the run's end was decided, by whatever limit, guard or call.
	SignalAttach SignalKind = "attach"
	SignalExtend SignalKind = "extend"
	SignalEnd    SignalKind = "end"
	// SignalActivity and SignalProgress are signs of life; a known digest is an activity.
	SignalActivity SignalKind = "activity"
	SignalProgress SignalKind = "progress"
	// SignalHold opens a hold, SignalRelease closes it.
	SignalHold    SignalKind = "hold"
	SignalRelease SignalKind = "release"
)

// A Signal is one thing that the decision heeds, as [Config].OnSignal gets it and [Replay] takes it. Its JSON form is the
// line of a recorded trace; durations are nanoseconds.
type Signal struct {
	Kind SignalKind `json:"kind"`
	// At is when it came: what had elapsed of the window.
	At time.Duration `json:"at"`
	// Key is that of a hold, Length its cap, or that of an extension; a cap of [NoLimit] is none. Of an attach, Length is
	// how much the window was extended before, and Warned how many warnings it had.
	Key    string        `json:"key,omitempty"`
	Length time.Duration `json:"length,omitempty"`
	Warned int           `json:"warned,omitempty"`
}

// A Decision is what the watchdog decided at one instant of a [Replay].
type Decision struct {
	// At is when it was due: what had elapsed of the window.
	At time.Duration
	// Kind is the directive, or empty for a warning of the wall clock, of which Fraction was used.
	Kind     DirectiveKind
	Fraction float64
	// Reason is the code of the limit; Attempt, Hold, Used and Allowed are as in a [Directive].
	Reason        StopReason
	Rung          int
	Hold          string
	Used, Allowed time.Duration
}

// Replay decides a recorded trace again under a budget: the same decisions, at the same instants, as a watchdog with a timer made for
// it, or those that other limits would have made. It ends at the first [DirectiveCancel]; with observeOnly it
// goes on, as a run does that is only observed. The trace is in the order of its times, as recorded.
//
// The error is that of [Budget.Validate].
func Replay(budget Budget, trace []Signal, observeOnly bool) ([]Decision, error) {
	if err := budget.Validate(); err != nil {
		return nil, err
	}
	r := replay{limits: budget.limits(), observeOnly: observeOnly, seen: verdict.Snapshot{Signs: &verdict.Signs{}}}
	for _, s := range trace {
		if s.Kind != SignalAttach && !r.until(s.At) {
			break
		}
		takeSignal(&r.seen, s)
	}
	return r.decisions, nil
}

// replay is a run whose time is its trace's.
type replay struct {
	limits      verdict.Limits
	observeOnly bool
	seen        verdict.Snapshot
	decisions   []Decision
}

// until decides all that is due up to the instant, which it leaves open, and reports whether the run goes on. What is due is decided when it is,
// as by a timer that is never late.
func (r *replay) until(end time.Duration) bool {
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
		At: now, Kind: DirectiveKind(v.Directive), Fraction: v.Fraction, Reason: codeOf(reasonOf(v.Limit)),
		Rung: v.Rung, Hold: v.Hold, Used: v.Used, Allowed: v.Allowed,
	}
}

// takeSignal is what a signal does to what is known of a run.
func takeSignal(seen *verdict.Snapshot, s Signal) {
	switch s.Kind {
	case SignalAttach:
		seen.Attached, seen.Extended, seen.Warned = s.At, s.Length, s.Warned
	case SignalActivity, SignalProgress:
		seen.Signs.Signal(s.Kind == SignalProgress, s.At)
	case SignalHold:
		seen.Signs.Open(s.Key, s.Length, s.At)
	case SignalRelease:
		seen.Signs.Close(s.Key, s.At)
	case SignalExtend:
		seen.Extended, seen.Warned = verdict.Sum(seen.Extended, s.Length), 0
	}
}

// take applies a signal to the decision, and tells the host's trace of it. The caller holds mu.
func (w *Watchdog) take(s Signal) {
	s.At = w.clock.elapsed()
	w.signs()
	takeSignal(&w.seen, s)
	w.traceOf(s)
}

// traceOf tells the host's trace of what is no signal of the run's own. The caller holds mu.
func (w *Watchdog) traceOf(s Signal) {
	if w.onSignal != nil {
		s.At = w.clock.elapsed()
		w.onSignal(s)
	}
}

// traceEnd tells it of the run's end, which was when it was decided, however long its record took. The caller holds mu.
func (w *Watchdog) traceEnd() {
	switch {
	case w.onSignal == nil:
	case w.trip != nil:
		w.onSignal(Signal{Kind: SignalEnd, At: w.trip.elapsed})
	default:
		w.traceOf(Signal{Kind: SignalEnd})
	}
}
