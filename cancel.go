package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A trip is a limit that was found exceeded, or another guard's cancel: the run's end is decided, its event not yet recorded. Done is closed when
// that is over, after the run has its stop, or runs on because it was given more time.
type trip struct {
	verdict verdict.Verdict // without a limit where another guard decided
	reason  string
	at      time.Time
	elapsed time.Duration // of the window
	note    string
	done    chan struct{}
}

// A ruling is what the store says of a window: the stop that counts, and how much it was extended.
type ruling struct {
	stop     *Stop
	extended time.Duration
}

// carryOut records the trip and then ends the run, whatever the store says.
func (w *Watchdog) carryOut(t *trip) {
	event, own := w.cancelEvent(t)
	ruled, err := exchange(w, func(ctx context.Context) (ruling, error) { return w.recordTrip(ctx, t, event, own) })
	if err != nil {
		ruled = ruling{stop: own}
	}
	asleep := w.conclude(ruled, event, err)
	close(t.done)
	w.wake(asleep)
	if ruled.stop != nil {
		w.report(ruled.stop, err)
	}
}

// conclude makes the ruling what every reader sees, at once. It returns the subscribers that have to be told of a stop.
func (w *Watchdog) conclude(ruled ruling, event Event, recordErr error) (asleep []*subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ruled.stop == nil {
		w.trip, w.phase = nil, running
		w.extendTo(ruled.extended)
		return nil
	}
	if recordErr != nil {
		w.keepLocked(recordErr, event)
	}
	asleep = w.endStopped(ruled.stop)
	w.trip = nil
	return asleep
}

// endStopped ends the run with its stop, and returns the subscribers that have to be told. The caller holds mu.
func (w *Watchdog) endStopped(stop *Stop) (asleep []*subscriber) {
	w.stop = stop
	asleep = w.enqueueStop()
	w.end(stop)
	return asleep
}

// directive is the directive of a stop.
func (s *Stop) directive() Directive {
	return Directive{
		Kind: DirectiveCancel, RunID: s.RunID, Reason: s.Code, Rung: s.Rung, Used: s.Elapsed, Allowed: s.Budget,
		Hold: s.Hold, Note: s.Note, At: s.FiredAt,
	}
}

// cancelEvent returns the event of the trip and the stop that it says.
func (w *Watchdog) cancelEvent(t *trip) (Event, *Stop) {
	p := cancelPayload{
		Reason: t.reason, SessionStartedAt: stamp(w.startedAt), FiredAt: stamp(t.at),
		ElapsedSeconds: wholeSeconds(t.verdict.Used), ConfiguredBudgetSeconds: t.verdict.Allowed.Seconds(), Parent: w.parentID,
		Hold: t.verdict.Hold, Note: t.note,
	}
	if t.verdict.Limit != verdict.WallClock {
		p.MeasuredSeconds = exactSeconds(t.verdict.Used)
	}
	if t.verdict.Rung > 1 {
		p.Attempt = t.verdict.Rung
	}
	return w.newEvent(EventCancel, t.at, once, p), p.stop(w.id)
}

// yieldsTo reports whether the store knows better than the trip. An extension takes back what it gives more of, the wall clock's
// end, and nothing else.
func (t *trip) yieldsTo(known ruling, extended time.Duration) bool {
	return known.stop != nil || t.verdict.Limit == verdict.WallClock && known.extended > extended
}

// recordTrip appends the event, unless the store knows better, and returns what the store has then. What cannot be read does
// not hold up the stop.
func (w *Watchdog) recordTrip(ctx context.Context, t *trip, event Event, own *Stop) (ruling, error) {
	if known, err := w.consult(ctx); err == nil && t.yieldsTo(known, w.extension()) {
		return known, nil
	}
	if err := w.store.Append(ctx, event); err != nil {
		return ruling{}, fmt.Errorf("append cancel event: %w", err)
	}
	w.recorded(event)
	return ruling{stop: w.stored(ctx, event, own)}, nil
}

// consult reads what was done to the window, by whatever process: stopped it, or extended it.
func (w *Watchdog) consult(ctx context.Context) (ruling, error) {
	events, err := w.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return ruling{}, fmt.Errorf("read events: %w", err)
	}
	all, err := foldEvents(events)
	if err != nil {
		return ruling{}, err
	}
	win := all[w.startedAt]
	if win == nil {
		return ruling{}, nil
	}
	return ruling{win.stop, win.extended}, nil
}

// stored returns the stop of the event that the store kept, which another process can have written first.
func (w *Watchdog) stored(ctx context.Context, event Event, own *Stop) *Stop {
	events, err := w.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return own
	}
	for _, e := range events {
		if e.ID != event.ID || bytes.Equal(e.Payload, event.Payload) {
			continue
		}
		if p, err := decodePayload(e); err == nil {
			return p.(*cancelPayload).stop(w.id)
		}
	}
	return own
}

// extendTo counts warnings anew and lets the timer look. The caller holds mu and has seen the run running.
func (w *Watchdog) extendTo(extended time.Duration) {
	w.traceOf(Signal{Kind: SignalExtend, Length: extended - w.seen.Extended})
	w.seen.Extended, w.seen.Warned = extended, 0
	w.quietUntil.Store(0)
	w.arm(0)
}

func (w *Watchdog) extension() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Extended
}

// report tells the log of a stop. It spares a log that does not listen: ten thousand runs can stop at once.
func (w *Watchdog) report(stop *Stop, recordErr error) {
	if !w.log().Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	if recordErr != nil {
		w.log().Error("watchdog stopped a run and could not record it", "run", w.id, "reason", string(stop.Code), "error", recordErr)
		return
	}
	w.log().Warn("watchdog stopped a run", "run", w.id, "reason", string(stop.Code), "elapsed", stop.Elapsed, "budget", stop.Budget)
}

func (w *Watchdog) log() *slog.Logger {
	if w.logger == nil {
		return slog.Default()
	}
	return w.logger
}
