package watchdog

import (
	"context"
	"log/slog"

	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// What follows up to ReportStop implements [driver.Host].

func (r *run) Log() *slog.Logger { return r.log() }

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
	numbers := []any{"elapsed", stop.Elapsed, "budget", stop.Budget}
	if u := stop.Usage; u != nil {
		numbers = []any{
			"elapsed", stop.Elapsed, "used", u.Used, "admitted", u.Admitted, "needed", u.Needed, "allowed", u.Allowed,
		}
	}
	log.Warn("watchdog stopped a run", append([]any{"run", r.Node.Run, "reason", string(stop.Code)}, numbers...)...)
}

func (r *run) directiveOf(o *machine.Notice) *Directive {
	v := &o.Verdict
	return &Directive{
		Kind: DirectiveKind(v.Directive), RunID: r.Node.Run, Reason: codeOf(o.Reason), Rung: v.Rung,
		Used: v.Used, Allowed: v.Allowed, Hold: v.Hold, Note: o.Note, At: o.At, ObserveOnly: o.Observed(),
		Usage: usageOfRecord(r.Node.Run, o.Spend),
	}
}
