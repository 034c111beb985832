package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A rowBuilder says what the rows of runs are to have. It asks the runs: a question can end a run with its parent, and
// so call the host. No mutex may be held.
type rowBuilder struct {
	cfg     *KeeperConfig
	allowed func(w *watchdog.Watchdog) time.Duration // by the run's own limits of silence
}

// attached returns the row of a run that attaches, without its lease.
func (b *rowBuilder) attached(w *watchdog.Watchdog, threshold time.Duration) Session {
	return Session{
		RunID: w.ID(), Parent: w.Parent(), Threshold: threshold, Allowance: b.allowance(w, threshold),
		StartedAt: w.StartedAt(), Host: b.cfg.Host, State: b.state(w),
	}
}

// freshness returns what the row is to say, whether the run woke up, and whether the row has to be written now. A row
// says the latest instant that the activity can have had, and is behind if that is too early for certain.
func (b *rowBuilder) freshness(r *keptRun, l *heldLease) (f Freshness, woke, wanted bool) {
	seen := r.look(l)
	allowance := b.allowance(r.run, r.own)
	woke = r.woke(seen) || r.quiet && allowance > r.allowance
	quiet := seen.latest != NoActivity && verdict.Quiet(r.threshold, seen.silence)
	wanted = r.recheck || quiet != r.quiet || woke || allowance != r.allowance ||
		verdict.ShouldWriteRow(r.threshold, r.written, seen.after, seen.at)
	f = Freshness{
		RunID: r.run.ID(), Attempt: r.attempt, Activity: NoActivity, Quiet: quiet,
		Allowance: allowance,
	}
	if seen.latest != NoActivity {
		f.Activity = max(seen.latest, r.written, r.tried)
	}
	if wanted {
		f.State = b.newState(r)
	}
	return f, woke, wanted
}

func (b *rowBuilder) newState(r *keptRun) json.RawMessage {
	if state := b.state(r.run); !bytes.Equal(state, r.state) {
		return state
	}
	return nil
}

// ending returns how a run that has ended did so, with the state where its command's end or what the host adds need
// that.
func (b *rowBuilder) ending(r *keptRun) Ending {
	runID := r.run.ID()
	e := Ending{RunID: runID, Attempt: r.attempt, Status: Interrupted, Age: r.run.SinceActivity()}
	cause := context.Cause(r.run.Context())
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop) && stop.RunID == runID:
		e.Status, e.Reason = Cancelled, stop.Code
	case errors.Is(cause, watchdog.ErrComplete):
		e.Status, e.Reason = Finished, record.CompleteReason
	case errors.Is(cause, watchdog.ErrClosed):
		e.Status = Finished
	}
	if handle.Of(r.run.Context()).State().Command.Outcome != "" || b.cfg.RunState != nil {
		e.State = b.state(r.run)
	}
	return e
}

// state returns what the row says of a run. How it ended must not be missing because RunState adds what is no JSON.
func (b *rowBuilder) state(w *watchdog.Watchdog) json.RawMessage {
	text, err := stateWith(w, b.cfg.RunState)
	if err != nil {
		text, _ = stateWith(w, nil) // numbers and texts
	}
	return text
}

// stateWith returns what the watchdog knows of a run, and what else is added.
func stateWith(w *watchdog.Watchdog, add func(*watchdog.Watchdog, *State)) (json.RawMessage, error) {
	state := stateOf(w)
	if add != nil {
		add(w, &state)
	}
	if w.Context().Err() != nil {
		state.Escalation = nil // its command has ended, or nobody waits for that
	}
	return json.Marshal(&state)
}

// allowance returns how long a run may be silent until its own limits have ended it and its row says so; 0 for none, as
// for a run whose threshold the host has set.
func (b *rowBuilder) allowance(w *watchdog.Watchdog, own time.Duration) time.Duration {
	if own > 0 {
		return 0
	}
	allowed := b.allowed(w)
	if allowed == 0 {
		return 0
	}
	looked := max(b.cfg.Pace, verdict.RenewAfter(min(b.cfg.Promise, DefaultPromise))) // at the longest
	return verdict.Sum(allowed, looked+b.cfg.RecordTimeout)
}

// allowedBy returns how long a run may be silent until its own limits have ended it, and that is recorded; 0 if none
// does. At each rung the host is asked, and the store has to answer.
func allowedBy(w *watchdog.Watchdog) time.Duration {
	run := handle.Of(w.Context()).Settings()
	if run.Disabled || run.ObserveOnly {
		return 0
	}
	return verdict.AllowedSilence(run.Limits, run.RecordTimeout)
}
