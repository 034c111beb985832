package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/seam"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The packages beside the root reach what they need of a run through here, so that it need not be exported.
func init() {
	seam.Register(seam.Root{
		Run: seamRunOf, Within: seamWithin, Limits: seamLimits, Begin: seamBegin, Silence: seamSilence,
		Allowance: seamAllowance,
		LoopState: seamLoopState, RestoreLoop: seamRestoreLoop,
		Use:           func(amount any) verdict.Use { a := amount.(Amount); return a.use() },
		ResumeInDoubt: seamResumeInDoubt, Asked: seamAsked,
		Recorded: seamRecorded, InDoubt: seamInDoubt, State: seamState, Spend: seamSpend, End: seamEnd,
		Window: seamWindow,
		CompleteCommand: func(run any, end seam.CommandEnd) error {
			return run.(*Watchdog).completeCommand(end)
		},
	})
}

// A seamRun is a run as the packages beside the root see it.
type seamRun struct{ w *Watchdog }

func seamRunOf(ctx context.Context) seam.Run {
	if w := FromContext(ctx); w != nil {
		return seamRun{w}
	}
	return nil
}

func seamWithin(ctx context.Context, run any) seam.Work {
	return &try{Context: ctx, w: run.(*Watchdog)}
}

func (r seamRun) ID() string           { return r.w.id }
func (r seamRun) LastNote() string     { return r.w.LastNote() }
func (r seamRun) Clock() clock.Clock   { return r.w.clock.other }
func (r seamRun) Logger() *slog.Logger { return r.w.log() }
func (r seamRun) Disabled() bool       { return r.w.disabled }

// Left is how long the work inside the run may last.
func (r seamRun) Left() time.Duration {
	if r.w.observeOnly || r.w.inner.Err() != nil {
		return NoLimit
	}
	return r.w.Remaining()
}

// Silence is the shortest time that the run, or one around it, may give no sign of life.
func (r seamRun) Silence() time.Duration {
	shortest := time.Duration(NoLimit)
	for w := r.w; w != nil; w = w.outer {
		if w.disabled {
			continue
		}
		shortest = min(shortest, w.limits.Idle, w.holdsIdle())
		if w.limits.FromFirstSign {
			shortest = min(shortest, w.limits.FirstSign)
		}
	}
	return shortest
}

// holdsIdle is how silent the open holds allow the run to be.
func (w *Watchdog) holdsIdle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Signs == nil {
		return NoLimit
	}
	return w.seen.Signs.Holds.Idle()
}

// Ended looks at the parent, too.
func (r seamRun) Ended() bool { return r.w.Context().Err() != nil }

func (r seamRun) RecordOverrun(call seam.Overrun) { r.w.recordOverrun(call) }

func (r seamRun) RecordFinished() (corrected bool) { return r.w.recordFinished() }

// seamSigns are the run for those who give signs of life and do not care what for.
type seamSigns struct{ w *Watchdog }

func (s seamSigns) Alive() { s.w.Activity() }

func (s seamSigns) AliveAt(now time.Time) {
	for w := s.w; w != nil; w = w.outer {
		pulse := w.pulse.Load()
		switch {
		case pulse == nil:
		case w.clock.other != nil || w.trace != nil:
			w.signalLocked(false)
		default:
			w.signalAt(pulse, false, now.Sub(w.clock.base.Time()))
		}
	}
}

func seamBegin(ctx context.Context, run, cfg any) (any, error) {
	c := cfg.(Config)
	return begin(ctx, run.(Run), &c)
}

func seamLimits(budget any) (verdict.Limits, error) {
	b, ok := budget.(Budget)
	if !ok {
		return verdict.Limits{}, fmt.Errorf("%w budget: it is a %T", ErrInvalid, budget)
	}
	if err := b.Validate(); err != nil {
		return verdict.Limits{}, err
	}
	return b.limits(), nil
}

func seamSilence(run any) (time.Duration, bool) { return run.(*Watchdog).silence() }

// seamAllowance is 0 for a run that nothing ends. At each rung the host is asked, and the store has to answer.
func seamAllowance(run any) time.Duration {
	w := run.(*Watchdog)
	if w.disabled || w.observeOnly {
		return 0
	}
	return verdict.AllowedSilence(&w.limits.Limits, w.recorder.timeout+BusyTimeout)
}

func seamRecorded(run any, retry bool) bool {
	w := run.(*Watchdog)
	if retry && w.recorder.waiting() {
		w.recorder.retry(w.storeContext(), clocks.Now(w.clock.other))
	}
	return !w.recorder.waiting()
}

func seamInDoubt(run any) bool {
	w := run.(*Watchdog)
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.complete && w.failed().tries > 0
}

func seamResumeInDoubt(run any) bool {
	w := run.(*Watchdog)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.more != nil && w.more.resumeInDoubt
}

func seamAsked(run any) bool {
	w := run.(*Watchdog)
	w.mu.Lock()
	stops := w.phase == recording
	w.mu.Unlock()
	r := w.readers.Load()
	if r == nil {
		return stops
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return stops || len(r.outbox) > 0
}

func seamState(run any) seam.State {
	w := run.(*Watchdog)
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.limits
	s := seam.State{
		WallClock: secondsOf(verdict.Sum(l.WallClock, w.seen.Extended)), Safety: secondsOf(l.Safety),
		Idle: secondsOf(l.Idle), NoProgress: secondsOf(l.NoProgress), Reserve: secondsOf(l.Reserve),
		Warned: w.seen.Warned, WrappedUp: w.seen.Wrapped, Phase: w.LastNote(),
		Paused: secondsOf(verdict.Paused(w.seen, w.clock.elapsed()).Truncate(time.Second)),
	}
	if w.complete {
		s.Command = w.commandEnd()
	}
	if w.seen.Signs != nil {
		s.Holds = w.seen.Signs.Holds.Len()
	}
	if !slices.Equal(l.WarnAt, defaultWarnAt) {
		s.WarnAt = append([]float64{}, l.WarnAt...)
	}
	return s
}

// seamSpend is Usage with how many calls were refused, and without what the run repeats.
func seamSpend(run any) (all []seam.Spend) {
	w := run.(*Watchdog)
	used := w.Usage()
	if used == nil {
		return nil
	}
	a := w.accountOf()
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for i, u := range used {
		limit := &a.spend.Limits[i]
		if limit.Kind == verdict.KindLoop {
			continue
		}
		all = append(all, seam.Spend{
			Limit: u.Limit, Tool: u.Tool, Scope: u.Scope, Currency: u.Currency,
			Used: u.Used, Admitted: u.Admitted, Allowed: u.Allowed, Refused: a.spend.Refusals(i),
			Reserve: limit.Reserve, WarnAt: warnsOf(limit),
		})
	}
	return all
}

// warnsOf are the fractions of a limit at which a run is warned, nil for the default. What one call may send is used
// anew by each, so that no part of it is ever used up.
func warnsOf(l *verdict.CountLimit) []float64 {
	switch {
	case l.Kind == verdict.KindCallInput:
		return []float64{}
	case slices.Equal(l.WarnAt, defaultWarnAt):
		return nil
	}
	return append([]float64{}, l.WarnAt...)
}

// secondsOf returns 0 for no limit.
func secondsOf(d time.Duration) float64 {
	if d == NoLimit {
		return 0
	}
	return d.Seconds()
}

// seamEnd waits for the host's code that the end runs as Close does.
func seamEnd(run any, cause error) {
	w := run.(*Watchdog)
	began := clocks.Now(w.clock.other)
	w.endRunning(cause)
	w.recorder.awaitSince(began, w.tellTrace())
}

func seamLoopState(run any) []byte {
	w := run.(*Watchdog)
	w.mu.Lock()
	l := w.extras().looper
	w.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state, _ := l.detector.MarshalBinary() // never fails
	return state
}

func seamRestoreLoop(run any, state []byte) {
	w := run.(*Watchdog)
	l := w.looper()
	l.mu.Lock()
	err := l.detector.UnmarshalBinary(state)
	l.mu.Unlock()
	if err != nil {
		w.log().Warn("what a run did before is not known, and a loop is found later", "run", w.id, "error", err)
	}
}

// seamWindow is the window of a run, as its events have it.
func seamWindow(events any, of seam.Lineage, hostStart time.Time) seam.Window {
	h := foldEvents(windowID{of.Parent, of.Window}, events.([]Event))
	h.unreadable = nil // current fails for these, and there is a story to tell all the same
	found, _ := h.current(hostStart)
	w := seam.Window{
		StartedAt: found.startedAt, CompletedAt: found.completedAt, Extended: found.extended, Pauses: found.verdictPauses(),
	}
	if found.stop != nil {
		w.Stop = found.stop
	}
	return w
}
