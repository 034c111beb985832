package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

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

// cancelTogether writes the cancels in one transaction. An outcome is empty if nothing was decided. An error may be
// that of a single row: then each half is written by itself, unless they are few, or it took long already. If the
// cancels were committed all the same, the next cancel finds the session changed and looks it up. A database that is
// locked ends the pass if some are lost: every other page of such would wait for it, too.
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
		return undecided, fmt.Errorf("cancel %d sessions: %w", len(all), err)
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
		return append(first, make([]session.Outcome, len(all)-half)...), err
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
