// Package seam is how the packages beside the root reach what they need of a run and a host need not see: its clock,
// its log, how long the work in it may last. The root registers itself here when it is initialized, so that it exports
// none of this, and the packages import the root so that it has.
package seam

import (
	"context"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Run is what a package beside the root needs of the run that a context belongs to.
type Run interface {
	// ID names the run, LastNote is what it noted last.
	ID() string
	LastNote() string
	// Clock is the host's, nil for the machine's.
	Clock() clock.Clock
	// Logger is never nil.
	Logger() *slog.Logger
	// Disabled reports that nothing guards the run.
	Disabled() bool
	// Left is how long the work inside the run may last, 0 for none. It is no limit for a run that ends nothing: one that
	// is only observed, or that has ended and whose context was detached for cleaning up.
	Left() time.Duration
	// Silence is the shortest time that the run, or one around it, may give no sign of life; watchdog.NoLimit for none.
	Silence() time.Duration
	// Ended reports whether the run is over.
	Ended() bool
	// RecordOverrun puts a call in the run on record. It never waits for the store.
	RecordOverrun(call Overrun)
	// RecordFinished ends the run, whose work finished by itself. If a cancel of the run was recorded, or is being, the
	// correction of it is recorded too, and RecordFinished reports true. It waits for the store at most the record
	// timeout, and Close tries again what was not stored.
	RecordFinished() (corrected bool)
}

// An Overrun is what a run records of a call that took longer than it may, or was abandoned.
type Overrun struct {
	Key, Layer, Note string
	Limit, Elapsed   time.Duration
	Abandoned        bool
	LimitedBy        string // the run whose remaining time was the limit
	Survivors        []int  // the processes of a command that are left alive, as far as they are known
}

// LayerCommand is the layer of an overrun that says that processes of a command could not be ended.
const LayerCommand = "command"

// Signs are what a sign of life is for: a run, or a timer of package idle. A sign is one of everything around it, too.
type Signs interface {
	// Alive is a sign of life.
	Alive()
	// AliveAt is Alive by a reading of the machine's clock that was made just now.
	AliveAt(now time.Time)
}

// A Timer is a timer of package idle, as innermost [Signs].
type Timer interface {
	Signs
	// Silence is the shortest time that it, or one around it, may be without a sign of life.
	Silence() time.Duration
	// Hold has it, and those around it, count no silence until release is called, once.
	Hold() (release func())
}

// TimerOf returns the timer of package idle that is innermost in the context, nil where that is a run or nothing.
func TimerOf(ctx context.Context) Timer {
	t, _ := SignsOf(ctx).(Timer)
	return t
}

// SignsKey is the key under which a context carries the innermost [Signs].
type SignsKey struct{}

// SignsOf returns what a sign of life in the context is for, nil where there is nothing.
func SignsOf(ctx context.Context) Signs {
	s, _ := ctx.Value(SignsKey{}).(Signs)
	return s
}

// A Work is the context of work that ends with a run besides: whoever makes one of it that can be cancelled has the run
// cancel that. It is used for one call.
type Work interface {
	context.Context
	// Begin has the run call cancel, on a goroutine of its own, when it ends or asks for the work to be done again. The
	// error says why the run has ended already. End takes that back.
	Begin(cancel context.CancelCauseFunc) error
	End()
}

// Within returns the context of work in a run, a *Watchdog of the root's, which ends with ctx, and with the run once
// Begin was called. It costs less than a Try for whoever makes a context anyway.
func Within(ctx context.Context, run any) Work { return root.Within(ctx, run) }

// A Root is what the root registers.
type Root struct {
	// Run returns the innermost run of a context, nil where there is none.
	Run func(ctx context.Context) Run
	// Within returns the context of work in a run, see [Work].
	Within func(ctx context.Context, run any) Work
	// Limits are a budget of the root's as the decision takes it, or why it cannot be kept.
	Limits func(budget any) (verdict.Limits, error)
	// Use is an amount of the root's as the decision takes it.
	Use func(amount any) verdict.Use
	// Begin guards a run of the root's in a window that begins now and shares nothing with any other. It takes a Run and
	// a Config of the root's and returns its *Watchdog.
	Begin func(ctx context.Context, run, cfg any) (any, error)
	// Silence returns how long a run, a *Watchdog of the root's, has given no sign of life, and whether it has given one
	// since its attach.
	Silence func(run any) (silence time.Duration, signalled bool)
	// Allowance returns how long a run, a *Watchdog of the root's, may give no sign of life until its own limits have
	// ended it; 0 if none does.
	Allowance func(run any) time.Duration
	// Recorded reports whether the store has all events of a run, a *Watchdog of the root's. If it has not, and retry is
	// true, it is tried again to append them, without waiting for that.
	Recorded func(run any, retry bool) bool
	// InDoubt reports whether the store may say that a run, a *Watchdog of the root's, is complete, and the run does not.
	InDoubt func(run any) bool
	// ResumeInDoubt reports whether a run, a *Watchdog of the root's, is that of a Resume which failed, and whose window
	// the store may have opened all the same.
	ResumeInDoubt func(run any) bool
	// Asked reports whether a directive or the stop of a run, a *Watchdog of the root's, was decided on and is not told
	// yet, because its record is being tried.
	Asked func(run any) bool
	// State is what there is to show of a run, a *Watchdog of the root's.
	State func(run any) State
	// Spend is how far the counted limits of a run, a *Watchdog of the root's, are used; nil if it has none. What it
	// repeats is not among them.
	Spend func(run any) []Spend
	// LoopState is what a run, a *Watchdog of the root's, remembers of its steps, nil if it had none. RestoreLoop has it
	// remember what it did before; a state that cannot be read is dropped.
	LoopState   func(run any) []byte
	RestoreLoop func(run any, state []byte)
	// End ends a run, a *Watchdog of the root's, with a cause that nothing records. It does nothing if the run has ended.
	End func(run any, cause error)
	// Window returns what events, a []Event of the root's, say of a run: see [WindowOf].
	Window func(events any, of Lineage, hostStart time.Time) Window
	// CompleteCommand completes a run, a *Watchdog of the root's, whose command ended.
	CompleteCommand func(run any, end CommandEnd) error
}

// A Lineage tells the windows of one run from others of its aggregate: by its parent, and by the name of a window that
// a layer or a command has for itself.
type Lineage struct{ Parent, Window string }

// A Window is what events say of the window that a run is in.
type Window struct {
	// StartedAt is its start, CompletedAt when the run was complete, or zero. A run that has a stop as well is one whose
	// stop was wrong.
	StartedAt, CompletedAt time.Time
	// Stop is a *Stop of the root's, or nil.
	Stop any
	// Extended is how much time it was given, Pauses are the holds that stopped its wall clock.
	Extended time.Duration
	Pauses   []verdict.Pause
}

// A State is what there is to show of a run: see the State of package session. Lengths are in seconds.
type State struct {
	WallClock, Safety, Idle, NoProgress, Reserve float64
	WarnAt                                       []float64 // nil for the default
	Warned                                       int
	WrappedUp                                    bool
	Paused                                       float64
	Holds                                        int
	Phase                                        string
	Command                                      CommandEnd // of a run that is complete
}

// A CommandEnd is how the command of a complete run ended; zero for a run that has none. The outcomes are those of
// package record.
type CommandEnd struct {
	Outcome    string
	ExitStatus *int // nil where it has none, or nobody saw it
	Signal     string
}

// A Spend is how far one counted limit is used: see the Usage of the root. Refused is how many calls did not fit, since
// this attach.
type Spend struct {
	Limit, Tool, Scope, Currency     string
	Used, Admitted, Allowed, Refused int64
	// Reserve is the part that is kept for wrapping up, WarnAt holds the fractions at which the run is warned; nil for the
	// default.
	Reserve int64
	WarnAt  []float64
}

// Add returns how far a limit of two runs is used. A shared one is the same for both, each of which knows of it as of
// another moment; the calls that were refused are each run's own.
func (s Spend) Add(more Spend) Spend {
	s.Refused += more.Refused
	if s.Scope != "" {
		s.Used, s.Admitted, s.Allowed = max(s.Used, more.Used), max(s.Admitted, more.Admitted), max(s.Allowed, more.Allowed)
		return s
	}
	s.Used = verdict.AddCount(s.Used, more.Used)
	s.Admitted = verdict.AddCount(s.Admitted, more.Admitted)
	s.Allowed = verdict.AddCount(s.Allowed, more.Allowed)
	return s
}

// root is written once, before main.
var root Root

// Register is called by an init function of the root.
func Register(r Root) { root = r }

// Of returns the innermost run that the context belongs to, nil where there is none.
func Of(ctx context.Context) Run { return root.Run(ctx) }

// Begin guards a run in a window of its own, of which nothing was read.
func Begin[W any](ctx context.Context, run, cfg any) (w W, err error) {
	made, err := root.Begin(ctx, run, cfg)
	if err != nil {
		return w, err
	}
	return made.(W), nil
}

// An Observer measures a run, a *Watchdog of the root's, that a package beside the root began. It returns what to call
// when the run has ended.
type Observer func(ctx context.Context, run any) (ended func())

type observerKey struct{}

// WithObserver returns a context in which the observer measures the runs that packages begin.
func WithObserver(ctx context.Context, observe Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// Observe has the context's observer, if there is one, measure a run. It never returns nil.
func Observe(ctx context.Context, run any) (ended func()) {
	if observe, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observe(ctx, run)
	}
	return func() {}
}

// Limits returns a budget's limits as the decision takes them.
func Limits(budget any) (verdict.Limits, error) { return root.Limits(budget) }

// Use returns an amount as the decision takes it.
func Use(amount any) verdict.Use { return root.Use(amount) }

// Silence returns how long a run of the root's has given no sign of life, and whether it has given one since its
// attach: a signal or a hold.
func Silence(run any) (silence time.Duration, signalled bool) { return root.Silence(run) }

// Allowance returns how long a run of the root's may give no sign of life until its own limits have ended it, and that
// is recorded; 0 if none does.
func Allowance(run any) time.Duration { return root.Allowance(run) }

// Recorded reports whether the store has all events of a run of the root's. If it has not, and retry is true, it is
// tried again to append them, without waiting for that.
func Recorded(run any, retry bool) bool { return root.Recorded(run, retry) }

// InDoubt reports whether the store may say that a run of the root's is complete, and the run does not: the answer to a
// Complete was lost.
func InDoubt(run any) bool { return root.InDoubt(run) }

// ResumeInDoubt reports whether a run of the root's is that of a Resume which failed, and whose window the store may
// have opened all the same.
func ResumeInDoubt(run any) bool { return root.ResumeInDoubt(run) }

// Asked reports whether a directive or the stop of a run of the root's was decided on and is not told yet, because its
// record is being tried.
func Asked(run any) bool { return root.Asked(run) }

// StateOf returns what there is to show of a run of the root's.
func StateOf(run any) State { return root.State(run) }

// SpendOf returns how far the counted limits of a run of the root's are used; nil if it has none.
func SpendOf(run any) []Spend { return root.Spend(run) }

// LoopState returns what a run of the root's remembers of its steps, nil if it had none.
func LoopState(run any) []byte { return root.LoopState(run) }

// RestoreLoop has a run of the root's remember what it did before. A state that cannot be read is dropped.
func RestoreLoop(run any, state []byte) { root.RestoreLoop(run, state) }

// End ends a run of the root's with a cause that nothing records. It does nothing if the run has ended.
func End(run any, cause error) { root.End(run, cause) }

// CompleteCommand completes a run of the root's, as its Complete does, and has the event say how its command ended.
func CompleteCommand(run any, end CommandEnd) error { return root.CompleteCommand(run, end) }

// WindowOf returns what events, a []Event of the root's, say of the window that a run is in, whose host says that it
// began at hostStart; zero if no host does. Events that cannot be read say nothing.
func WindowOf(events any, of Lineage, hostStart time.Time) Window {
	return root.Window(events, of, hostStart)
}
