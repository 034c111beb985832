package watchdog

import (
	"context"
	"log/slog"

	"github.com/seed62658d38/watchdog/internal/feed"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// What follows up to ReportStop implements [driver.Host].

func (r *run) Log() *slog.Logger { return r.log() }

func (r *run) Busy() bool { return r.busyHost() }

func (r *run) Stopped(stop *record.Cancel) error {
	s := stopOf(stop, r.Node.Run)
	s.forgets = r.forgets
	if all := r.readers.Load(); all != nil { // else the first one finds it
		all.End(s.directive())
	}
	return s
}

func (r *run) Asks(e *machine.Entry) { r.readersOf().Line(e, *r.directiveOf(e.Notice)) }

func (r *run) Asked(e *machine.Entry) { r.readersOf().Tried(e) }

// Again returns the directive that was put in line: hosts compare what ended their work with what they poll.
func (r *run) Again(e *machine.Entry) error {
	if d, ok := r.readersOf().Lined(e); ok {
		return &d
	}
	return r.directiveOf(e.Notice)
}

func (r *run) Traced(s *machine.Signal) {
	told := signalOf(r.Node.Run, s)
	if s.Kind == verdict.SignalAttach {
		told.Version, told.Busy = TraceVersion, r.busyHost != nil
		if r.more != nil {
			told.Budget, r.more.budget = r.more.budget, nil
		}
	}
	r.trace().Add(told)
}

func (r *run) Warns() bool { return r.onWarning != nil }

func (r *run) Warn(o *machine.Notice) {
	v := &o.Verdict
	warning := Warning{
		RunID: r.Node.Run, Fraction: v.Fraction, Elapsed: v.Used, Budget: v.Allowed, Remaining: o.Remaining,
		Usage: usageOfRecord(r.Node.Run, o.Spend), At: o.At,
	}
	r.CallHost("OnWarning", func() { r.onWarning(warning) })
}

func (r *run) Deliver(here bool) { r.readers.Load().Deliver(here) }

// ReportStop skips formatting when Warn is off: ten thousand runs can stop at once.
func (r *run) ReportStop(recordErr error) {
	log, stop := r.log(), r.stopped()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	if recordErr != nil {
		log.Error("watchdog stopped a run and could not record it", "run", r.Node.Run, "reason", string(stop.Code), "error",
			recordErr)
		return
	}
	log.Warn("watchdog stopped a run", "run", r.Node.Run, "reason", string(stop.Code), "elapsed", stop.Elapsed, "budget",
		stop.Budget)
}

// trace is the queue of what the host's OnSignal gets, nil if it has none.
func (r *run) trace() *feed.Queue[Signal] {
	queue, _ := r.Tree.Trace.(*feed.Queue[Signal])
	return queue
}

func signalOf(runID string, s *machine.Signal) Signal {
	told := Signal{
		Kind: string(s.Kind), Run: runID, At: s.At, Key: s.Key, Serial: s.Serial, Length: s.Length, Warned: s.Warned,
		Wrapped: s.Wrapped, From: s.From, Rung: s.Rung, Idle: s.Idle, Busy: s.Busy, Usage: usageOfRecord(runID, s.Spend),
		More: s.More, NotMade: s.Refused,
	}
	switch s.Kind {
	case verdict.SignalAdmit, verdict.SignalSettle:
		told.Amount = &Amount{Cost: Money{Currency: s.Currency}, Tool: s.Use.Tool, Result: string(s.Use.Result)}
		told.Amount.setCounts(&s.Use)
	case verdict.SignalLoop:
		told.Key, told.Usage = "", &Usage{Run: runID, Limit: verdict.KindLoop.String(), Used: s.Count, Pattern: s.Key}
	}
	return told
}

func (r *run) directiveOf(o *machine.Notice) *Directive {
	v := &o.Verdict
	d := &Directive{
		Kind: DirectiveKind(v.Directive), RunID: r.Node.Run, Reason: codeOf(o.Reason), Rung: v.Rung,
		Used: v.Used, Allowed: v.Allowed, Hold: v.Hold, Note: o.Note, At: o.At, ObserveOnly: o.Observed(),
		Usage: usageOfRecord(r.Node.Run, o.Spend),
	}
	if d.Reason == LoopDetected && r.more != nil {
		d.Loop = r.more.loop
	}
	return d
}
