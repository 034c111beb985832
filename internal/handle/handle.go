// Package handle is how the packages beside the root reach what they need of a run and a host need not see: its clock,
// its log, what became of its record. The context of a run carries its handle, so that the root exports none of this.
//
// What the root exports is not here again, but for what packages ask that a program may use alone: who has a handle has
// the run, by watchdog.FromContext, and links all that a run can do.
package handle

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// ErrHeld is in the error of a call that waited until it might no more for calls under way.
var ErrHeld = errors.New("calls under way hold what is left")

// A Run is what a package beside the root needs of a run. The root's own is the only one. All methods are safe for
// concurrent use.
type Run interface {
	Signs
	// Settings are what the run was made with. They do not change.
	Settings() Settings
	// Silence returns how long the run has given no sign of life, and whether it has given one since its attach: a signal
	// or a hold.
	Silence() (silence time.Duration, signalled bool)
	// StandStill has the silence and the lack of progress of the run, and of those around it, not count until it ends: a
	// hold without a key, a cap or a record.
	StandStill()
	// IdleNow is how long the run, or one around it, may give no sign of life now, whatever stands still;
	// watchdog.NoLimit for any time. It reports whether a hold says so.
	IdleNow() (allowed time.Duration, held bool)
	// Paused returns how long the run's wall clock has stood still, and for how much longer it will: 0 if it goes on. If
	// it does not, and a hold is released earlier, the waiter is told once, on a goroutine of its own, unless it is nil or
	// was forgotten by then.
	Paused(w Waiter) (paused, longer time.Duration)
	Forget(w Waiter)
	// State is what there is to show of the run.
	State() State
	// LastNote is the last thing noted, empty for nothing.
	LastNote() string
	// Recorded reports whether the store has all events of the run. If it has not, and retry is true, it is tried again
	// to append them, without waiting for that.
	Recorded(retry bool) bool
	// InDoubt reports what the store may say and the run does not: that it is complete, because the answer to a Complete
	// was lost, and that it is resumed, because a Resume failed.
	InDoubt() (complete, resumed bool)
	// RecordOverrun puts a call in the run on record; the run fills in itself and the time. It never waits for the store.
	RecordOverrun(call record.Overrun)
	// RecordFinished ends the run, whose work finished by itself. If a cancel of the run was recorded, or is being, the
	// correction of it is recorded too, and RecordFinished reports true. It waits for the store at most the record
	// timeout, and Close tries again what was not stored.
	RecordFinished() (corrected bool)
	// CompleteCommand completes the run, as its Complete does, and has the event say how its command ended.
	CompleteCommand(end record.CommandEnd) error
	// End ends the run with a cause that nothing records. It does nothing if the run has ended.
	End(cause error)
}

// A Waiter waits for the run's wall clock to go on. It can be compared.
type Waiter interface{ Released() }

// A Key is the key under which a run's context carries its [Run].
type Key struct{}

// Of returns the innermost run that the context belongs to, nil where there is none.
func Of(ctx context.Context) Run {
	run, _ := ctx.Value(Key{}).(Run)
	return run
}

// LoggerOf returns the log of the run that ctx belongs to, or else the default.
func LoggerOf(ctx context.Context) *slog.Logger {
	if run := Of(ctx); run != nil {
		return run.Settings().Logger
	}
	return slog.Default()
}

// Settings are what a run was made with.
type Settings struct {
	Clock         clocks.Clock    // the host's, nil for the machine's
	Logger        *slog.Logger    // never nil
	Limits        *verdict.Limits // without extensions; not to be changed
	RecordTimeout time.Duration
	Disabled      bool // nothing guards the run
	ObserveOnly   bool // its limits end nothing
}

// A State is what there is to show of a run: see the State of package session.
type State struct {
	Extended  time.Duration // how much more wall clock it was given
	Paused    time.Duration
	Warned    int
	WrappedUp bool
	Holds     int               // that are open
	Command   record.CommandEnd // of a run that is complete
}

// Signs are what a sign of life is for: a run, or a timer of package idle. A sign is one of everything around it, too.
type Signs interface {
	// Alive is a sign of life.
	Alive()
	// AliveAt is Alive by a reading of the machine's clock that was made just now.
	AliveAt(now time.Time)
}

// SignsKey is the key under which a context carries the innermost [Signs].
type SignsKey struct{}

// SignsOf returns what a sign of life in the context is for, nil where there is nothing.
func SignsOf(ctx context.Context) Signs {
	s, _ := ctx.Value(SignsKey{}).(Signs)
	return s
}

// A Timer is a timer of package idle, as innermost [Signs].
type Timer interface {
	Signs
	// MaxSilence is the shortest time that it, or one around it, may be without a sign of life.
	MaxSilence() time.Duration
	// Hold has it, and those around it, count no silence until release is called, once.
	Hold() (release func())
}

// TimerOf returns the timer of package idle that is innermost in the context, nil where that is a run or nothing.
func TimerOf(ctx context.Context) Timer {
	t, _ := SignsOf(ctx).(Timer)
	return t
}

// A Fresh has watchdog.New begin a run in its Context that reads nothing and shares nothing with any other. What is in
// the run does not find it.
type Fresh struct{ context.Context }

// An Observer measures a run that a package beside the root began in ctx, by the run's own context. It returns what to
// call when the run has ended.
type Observer func(ctx, run context.Context) (ended func())

type observerKey struct{}

// WithObserver returns a context in which the observer measures the runs that packages begin.
func WithObserver(ctx context.Context, observe Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// Observe has the context's observer, if there is one, measure a run. It never returns nil.
func Observe(ctx, run context.Context) (ended func()) {
	if observe, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observe(ctx, run)
	}
	return func() {}
}

type execvpKey struct{}

// WithExecvp has commands started by the rule of execvp: a shell reads a script that does not say what reads it.
func WithExecvp(ctx context.Context) context.Context {
	return context.WithValue(ctx, execvpKey{}, true)
}

// ByExecvp reports whether WithExecvp is around ctx.
func ByExecvp(ctx context.Context) bool { return ctx.Value(execvpKey{}) != nil }
