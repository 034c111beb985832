package watchdog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

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
	}
	return told
}

func (r *run) directiveOf(o *machine.Notice) *Directive {
	v := &o.Verdict
	return &Directive{
		Kind: DirectiveKind(v.Directive), RunID: r.Node.Run, Reason: codeOf(o.Reason), Rung: v.Rung,
		Used: v.Used, Allowed: v.Allowed, Hold: v.Hold, Note: o.Note, At: o.At, ObserveOnly: o.Observed(),
		Usage: usageOfRecord(r.Node.Run, o.Spend),
	}
}

// The kinds of [Signal].
const (
	// SignalAttach is where the trace of an attach begins, SignalExtend more time for the window, SignalEnd where it
	// ends: when the run's end was decided, by whatever limit, guard or call.
	SignalAttach = string(verdict.SignalAttach)
	SignalExtend = string(verdict.SignalExtend)
	SignalEnd    = string(verdict.SignalEnd)
	// SignalAttached is when an attach that took time was done. Silence counts from there.
	SignalAttached = string(verdict.SignalAttached)
	// SignalActivity and SignalProgress are signs of life; a known digest is an activity.
	SignalActivity = string(verdict.SignalActivity)
	SignalProgress = string(verdict.SignalProgress)
	// SignalHold opens a hold, SignalRelease closes it.
	SignalHold    = string(verdict.SignalHold)
	SignalRelease = string(verdict.SignalRelease)
	// SignalHeld is a hold that was open when the run was attached, opened by a process that is gone.
	SignalHeld = string(verdict.SignalHeld)
	// SignalTakeOver is when such a hold was opened again by its key.
	SignalTakeOver = string(verdict.SignalTakeOver)
	// SignalPause and SignalUnpause are when it began to count that a hold stops the wall clock, and that it does not any
	// more. A layer has those of its run.
	SignalPause   = string(verdict.SignalPause)
	SignalUnpause = string(verdict.SignalUnpause)
	// SignalRung is where a ladder stood when the run was attached.
	SignalRung = string(verdict.SignalRung)
	// SignalAdmit, SignalSettle and SignalVoid are a call that was admitted, settled and voided, see [Watchdog.Admit].
	SignalAdmit  = string(verdict.SignalAdmit)
	SignalSettle = string(verdict.SignalSettle)
	SignalVoid   = string(verdict.SignalVoid)
	// SignalSpent is how far a counted limit was used when the run was attached, or by others since.
	SignalSpent = string(verdict.SignalSpent)
	// SignalNotBusy is that [Config].Busy said false, or nothing in time.
	SignalNotBusy = string(verdict.SignalNotBusy)
	// SignalIncomplete is that [Watchdog.Complete], called at From, was not recorded and the run goes on. No limit was
	// looked at meanwhile.
	SignalIncomplete = string(verdict.SignalIncomplete)
)

// TraceVersion is that of the traces that [Config].OnSignal gets, see [Signal]. A trace of before there were versions
// has none.
const TraceVersion = 2

// A Signal is one thing that the decision heeds, as [Config].OnSignal gets it. Its JSON
// form is the line of a recorded trace; durations are nanoseconds.
//
// A trace has what a run took, at the instants at which that was decided on: what the host did and said, what the store
// answered, what others used. What was decided of it is not in the trace.
type Signal struct {
	Kind string `json:"kind"`
	// Version is [TraceVersion] in the attach of a run or of a layer, the first signal of its trace, and 0 in others.
	Version int `json:"version,omitempty"`
	// Run is the ID of the run whose signal it is.
	Run string `json:"run,omitempty"`
	// Budget is that of a layer, in its attach. WallClock is what it got of the run around it.
	Budget *Budget `json:"budget,omitempty"`
	// At is when it came: what had elapsed of the window.
	At time.Duration `json:"at"`
	// Key is that of a hold, Length its cap, or that of an extension; a cap of [NoLimit] is none. Serial tells the holds
	// of layers, which may be open under one key, apart; it is 0 for a hold of the run itself. Of an attach, Length is
	// how much the window was extended before, and Warned how many warnings it had.
	Key    string        `json:"key,omitempty"`
	Serial int           `json:"serial,omitempty"`
	Length time.Duration `json:"length,omitempty"`
	Warned int           `json:"warned,omitempty"`
	// Wrapped tells of an attach that the host was asked to wrap up before.
	Wrapped bool `json:"wrapped,omitempty"`
	// From is since when, or until when, a pause counts, when a hold was opened that is found open, or when Complete was
	// called. Key names the pause.
	From time.Duration `json:"from,omitempty"`
	// Rung is where the ladder of the limit Key, or of the hold, stood. Of a loop it is 1 if the loop is another one than
	// the last, and its ladder begins.
	Rung int `json:"rung,omitempty"`
	// Idle is that of a hold's [HoldLimit], left out where that has no limit.
	Idle time.Duration `json:"idle,omitempty"`
	// Busy tells of an activity that it is what [Config].Busy said, before the trip on the rung Rung of a silence since
	// From. SignalNotBusy has these, too. Of an attach it tells that there is a Busy.
	Busy bool `json:"busy,omitempty"`
	// Amount is what a call was admitted or settled with; its signals have one Serial. NotMade tells that it was refused,
	// by the run or by one inside it. Of an extension and a pause it tells that the run's end, which was being recorded,
	// was not made because of them.
	Amount  *Amount `json:"amount,omitempty"`
	NotMade bool    `json:"not_made,omitempty"`
	// Usage names a counted limit and says how far it is used. More is what it was given, in an extension or, of
	// SignalSpent, before. Of a pause or an extension with NotMade it is the limit whose end was not made, one of time in
	// nanoseconds.
	Usage *Usage `json:"usage,omitempty"`
	More  int64  `json:"more,omitempty"`
}

func (b *Budget) copied() *Budget {
	c := *b
	c.WarnAt, c.Spend.WarnAt = slices.Clone(b.WarnAt), slices.Clone(b.Spend.WarnAt)
	c.Spend.Tools = maps.Clone(b.Spend.Tools)
	c.Ladders = b.Ladders.copied()
	return &c
}
