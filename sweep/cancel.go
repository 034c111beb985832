package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// cancel claims a session and stops what works on it, and then ends the session if it is still as it was judged.
func (w *walk) cancel(ctx context.Context, c Case, m pending, now time.Time) error {
	began := time.Now()
	m.by = cmp.Or(m.by, record.NewWindow())
	m.heedStop(c.Session)
	if goOn, err := w.claimAndStop(ctx, c, &m); !goOn {
		return err
	}
	took := time.Since(began)
	c.Silence += took
	c.StopFailed = m.stopFailed
	request := w.request(c, m, now.Add(took))
	outcome, err := bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Outcome, error) {
		return w.canceller.Cancel(ctx, c.Session, request)
	})
	switch {
	case errors.Is(err, session.ErrLocked): // who writes the row now may say that the run lives
		w.noteStopped(ctx, c, m)
		w.remember(c, m)
		w.locked(c)
		return nil
	case err != nil:
		return w.inDoubt(ctx, c, m, fmt.Errorf("cancel run %s: %w", c.Session.RunID, err))
	}
	w.answered()
	return w.outcome(ctx, c, m, outcome)
}

// heedStop heeds that another sweeper stopped what works on the session.
func (m *pending) heedStop(s session.Session) {
	if s.Stopped && !m.stopped {
		m.stopped, m.stopFailed = true, s.StopFailed
	}
}

// request returns the cancel of a session that was decided at a time.
func (w *walk) request(c Case, m pending, at time.Time) session.CancelRequest {
	row := w.rowAfter(c, m.by)
	request := session.CancelRequest{
		By: row.Claim, Reason: row.Reason, Resumes: row.Resumes, StopFailed: row.StopFailed,
		Events: c.stalledRun(at, w.cfg.Grace > 0).CancelEvents(),
	}
	if row.Start.Key != "" {
		request.StartFor = w.cfg.claimFor()
	}
	return request
}

func (w *walk) outcome(ctx context.Context, c Case, m pending, outcome session.Outcome) error {
	switch outcome {
	case session.Done:
		w.cancelled(ctx, c, w.rowAfter(c, m.by))
	case session.Taken:
		w.remember(c, m)
		w.taken(c)
	case session.EndStored:
		w.over(c, CaseEndStored, &w.pass.EndStored)
		w.logger().Info("a session had ended before, and its row now says how", c.attrs()...)
	default:
		return w.changed(ctx, c, m)
	}
	return nil
}

// changed handles a session that is not as it was judged. It was this sweeper that changed it if an earlier cancel was
// committed whose answer was lost.
func (w *walk) changed(ctx context.Context, c Case, m pending) error {
	if m.unanswered == nil {
		w.spared(c)
		return nil
	}
	switch settled, err := w.settle(ctx, c, m); {
	case err != nil:
		return w.failed(c, m, err)
	case !settled:
		w.spared(c)
	}
	return nil
}

// claimAndStop calls the stop hook, if there is one, under a claim that keeps other sweepers from doing so. It reports
// false if the session is not to be cancelled now. A hook that was called in this silence before is not called again.
func (w *walk) claimAndStop(ctx context.Context, c Case, m *pending) (goOn bool, err error) {
	if w.cfg.StopHook == nil {
		return true, nil
	}
	if w.claimer != nil {
		if outcome, err := w.claim(ctx, c, *m); outcome != session.Done {
			return false, err
		}
	}
	if w.claimer == nil || !m.stopped {
		err := w.callHost(ctx, func(ctx context.Context) error { return w.cfg.StopHook(ctx, c.Session) })
		if m.stopped, m.stopFailed = true, err != nil; err != nil { // it is cancelled all the same
			w.pass.addError(fmt.Errorf("stop what works on run %s: %w", c.Session.RunID, err))
		}
	}
	return true, nil
}

// noteStopped notes in the row of a session that was stopped, and not cancelled then, that this is so, for other
// sweepers not to call the hook again, and ends the claim. If that fails they may call it.
func (w *walk) noteStopped(ctx context.Context, c Case, m pending) {
	if w.cfg.StopHook == nil || w.claimer == nil || c.Session.Stopped {
		return
	}
	request := session.ClaimRequest{By: m.by, EndID: c.endID(), Stopped: true, StopFailed: m.stopFailed}
	_, _ = bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Outcome, error) {
		return w.claimer.Claim(ctx, c.Session, request)
	})
}

// claim claims a session for as long as the hook and the cancel may take. If the outcome is not [session.Done], the
// session has been handled.
func (w *walk) claim(ctx context.Context, c Case, m pending) (session.Outcome, error) {
	request := session.ClaimRequest{By: m.by, For: w.cfg.claimFor(), EndID: c.endID()}
	outcome, err := bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Outcome, error) {
		return w.claimer.Claim(ctx, c.Session, request)
	})
	switch {
	case errors.Is(err, session.ErrLocked):
		w.locked(c)
		return "", nil
	case err != nil: // a claim that was committed all the same is this sweeper's: it claims again under the same name
		return "", w.failed(c, m, fmt.Errorf("claim run %s: %w", c.Session.RunID, err))
	case outcome == session.Done:
		return outcome, nil
	}
	w.answered()
	return outcome, w.outcome(ctx, c, m, outcome)
}

// claimFor returns how long a claim lasts: the time that its answer, a func of the host and what is written after that
// may take.
func (c Config) claimFor() time.Duration {
	return c.StopTimeout + bounded.Lateness + 2*(c.RecordTimeout+bounded.Lateness)
}

// cancelled notes that this sweeper has cancelled a session, and starts its run again if the row says so.
func (w *walk) cancelled(ctx context.Context, c Case, row session.Session) {
	w.pending.drop(c.Session.RunID)
	w.pass.Cancelled++
	if w.counts(c.Session) {
		w.throttle.add(time.Now())
		w.counted++
	} else {
		w.pass.Lost++
	}
	w.logger().Warn("a stalled session was cancelled", c.attrs()...)
	c.Resumed = row.Start.Tries == 1 && w.start(ctx, row) // after more tries another sweeper has taken it over
	w.addCase(c, CaseCancelled)
	w.alert(ctx)
}

// over notes that there is nothing left to do about a session.
func (w *walk) over(c Case, handling Handling, count *int) {
	w.pending.drop(c.Session.RunID)
	*count++
	w.addCase(c, handling)
}

func (w *walk) spared(c Case) {
	w.over(c, CaseSpared, &w.pass.Spared)
	w.logger().Info("a stalled session has woken up or ended and was spared", c.attrs()...)
}

// taken notes that another sweeper is about to end a session.
func (w *walk) taken(c Case) {
	w.pass.Deferred++
	w.logger().Info("a stalled session is claimed by another sweeper", c.attrs()...)
}

func (w *walk) locked(c Case) {
	w.pass.Deferred++
	w.logger().Info("a stalled session is locked by another transaction and was not cancelled", c.attrs()...)
}

// inGrace warns a session, or waits for the end of its grace. It reports false if the session is to be cancelled.
func (w *walk) inGrace(ctx context.Context, c Case, m pending, now time.Time) (waits bool, err error) {
	left, warned := w.graceLeft(c, m, now)
	switch {
	case w.cfg.Grace == 0 || warned && left <= 0:
		return false, nil
	case warned:
		m.due = time.Now().Add(left)
		w.remember(c, m)
		w.pass.Deferred++
	case w.warned >= w.most && w.counts(c.Session):
		w.pass.Deferred++
	default:
		if err := w.cancelPlanned(ctx); err != nil { // they come before this session
			return true, err
		}
		return true, w.warn(ctx, c, m, now)
	}
	return true, nil
}

// graceLeft returns how much of a session's grace is left, and whether it was warned at all. The database knows when,
// so that other sweepers do. Without that the sweeper remembers it.
func (w *walk) graceLeft(c Case, m pending, now time.Time) (left time.Duration, warned bool) {
	if w.warner == nil {
		return w.cfg.Grace - time.Since(m.warnedAt), !m.warnedAt.IsZero()
	}
	at := c.Session.WarnedAt
	return w.cfg.Grace - w.certain(now.Sub(at)), !at.IsZero()
}

// warn appends the event that warns of the cancel, and starts the grace of the session.
func (w *walk) warn(ctx context.Context, c Case, m pending, now time.Time) error {
	outcome, err := w.writeWarning(ctx, c.Session, c.stalledRun(now, false).WarningEvent())
	switch {
	case errors.Is(err, session.ErrLocked):
		w.locked(c)
		return nil
	case err != nil:
		return w.failed(c, m, fmt.Errorf("warn run %s: %w", c.Session.RunID, err))
	}
	w.answered()
	switch outcome {
	case session.Done:
		m.warnedAt = time.Now()
		m.failures, m.next, m.due = 0, time.Time{}, m.warnedAt.Add(w.cfg.Grace)
		w.remember(c, m)
		w.pass.Warned++
		if w.counts(c.Session) {
			w.warned++
		}
		w.addCase(c, CaseWarned)
		w.logger().Warn("a session is stalled and was warned", append(c.attrs(), "grace", w.cfg.Grace)...)
	case session.Taken:
		w.taken(c)
	default:
		w.spared(c)
	}
	return nil
}

func (w *walk) writeWarning(ctx context.Context, s session.Session, event watchdog.Event) (session.Outcome, error) {
	return bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Outcome, error) {
		if w.warner != nil {
			return w.warner.Warn(ctx, s, []watchdog.Event{event})
		}
		return session.Done, w.appender.Append(ctx, event)
	})
}

// fewTogether is the largest number of sessions that are cancelled one by one if they cannot be cancelled together.
const fewTogether = 10

type planned struct {
	judged Case
	pending
	now time.Time // of the judgement, by the database's clock
}

func (p planned) isLost() bool { return p.judged.Session.Lost }

// together reports whether a session is cancelled in one transaction with others of its page. It is not if the host has
// a func that is called for it: neither a hook nor a start must wait for others under its claim.
func (w *walk) together(s session.Session) bool { return w.batch != nil && !w.callsHost(s) }

func (w *walk) plan(c Case, m pending, now time.Time) {
	m.by = cmp.Or(m.by, record.NewWindow())
	m.heedStop(c.Session)
	c.StopFailed = m.stopFailed
	w.planned = append(w.planned, planned{c, m, now})
}

// cancelPlanned cancels the planned sessions together, and then each by itself that was not decided. It returns an
// error if the pass has to end; those that were cancelled are noted all the same.
func (w *walk) cancelPlanned(ctx context.Context) (err error) {
	all, lasting := w.planned, context.WithoutCancel(ctx)
	w.planned = nil
	outcomes, err := w.cancelTogether(ctx, all, time.Now())
	for i, outcome := range outcomes {
		p := all[i]
		switch {
		case outcome != "":
			w.answered()
			err = cmp.Or(err, w.outcome(lasting, p.judged, p.pending, outcome))
		case err != nil:
		case ctx.Err() != nil:
			err = stopped(ctx)
		default:
			w.tryBegan = time.Now()
			err = w.cancel(lasting, p.judged, p.pending, p.now)
		}
	}
	return err
}

// cancelTogether writes the cancels in one transaction. An outcome is empty if nothing was decided; with an error the
// last ones are missing. An error may be that of a single row: then each half is written by itself, unless they are
// few, or it took long already. If the cancels were committed all the same, the next cancel finds the session changed
// and looks it up. A database that is locked ends the pass if some are lost: every other page of such would wait for
// it, too.
func (w *walk) cancelTogether(ctx context.Context, all []planned, began time.Time) ([]session.Outcome, error) {
	undecided := make([]session.Outcome, len(all))
	if len(all) < 2 {
		return undecided, nil
	}
	outcomes, err := w.cancelAll(ctx, all)
	switch {
	case err == nil && len(outcomes) == len(all):
		return outcomes, nil
	case errors.Is(err, session.ErrLocked) && slices.ContainsFunc(all, planned.isLost):
		for _, p := range all {
			w.remember(p.judged, p.pending)
			w.locked(p.judged)
		}
		return nil, fmt.Errorf("cancel %d sessions: %w", len(all), err)
	}
	for i := range all {
		p := &all[i]
		w.noteUnanswered(p.judged, &p.pending)
		w.remember(p.judged, p.pending)
	}
	w.logger().Debug("sessions could not be cancelled together and are cancelled in halves, or one by one",
		"sessions", len(all), "error", err)
	if len(all) <= fewTogether || ctx.Err() != nil || time.Since(began) >= w.cfg.RecordTimeout {
		return undecided, nil //nolint:nilerr // the cancels one by one have errors of their own
	}
	return w.cancelHalves(ctx, all, began)
}

func (w *walk) cancelHalves(ctx context.Context, all []planned, began time.Time) ([]session.Outcome, error) {
	half := len(all) / 2
	first, err := w.cancelTogether(ctx, all[:half], began)
	if err != nil {
		return first, err
	}
	second, err := w.cancelTogether(ctx, all[half:], began)
	return append(first, second...), err
}

func (w *walk) cancelAll(ctx context.Context, all []planned) ([]session.Outcome, error) {
	cancels := make([]session.BatchedCancel, len(all))
	for i := range all {
		p := &all[i]
		cancels[i] = session.BatchedCancel{Judged: p.judged.Session, Request: w.request(p.judged, p.pending, p.now)}
	}
	lasting := context.WithoutCancel(ctx)
	return bounded.Within(lasting, w.cfg.RecordTimeout, func(ctx context.Context) ([]session.Outcome, error) {
		return w.batch.CancelAll(ctx, cancels)
	})
}
