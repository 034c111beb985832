package sweep

import (
	"cmp"
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// A planned is a session that was judged, and that the pass is about to cancel.
type planned struct {
	judged Case
	pending
	now time.Time // of the judgement, by the database's clock
}

// together reports whether the sessions of a page are cancelled in one transaction. They are not if the host has a func
// that is called for each: a hook must not wait for others under its claim, and a process that ends must not leave many
// sessions behind that it has cancelled and not resumed.
func (w *walk) together() bool {
	return w.batch != nil && w.cfg.StopHook == nil && w.cfg.Resume.Max == 0
}

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
	for i, outcome := range w.cancelTogether(lasting, all) {
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

// cancelTogether writes the cancels in one transaction. An outcome is empty if nothing was decided. That is so for all
// after an error, which may be that of a single row. If the cancels were committed all the same, the next cancel finds
// the session changed and looks it up.
func (w *walk) cancelTogether(ctx context.Context, all []planned) []session.Outcome {
	undecided := make([]session.Outcome, len(all))
	if len(all) < 2 {
		return undecided
	}
	cancels := make([]session.BatchedCancel, len(all))
	for i := range all {
		p := &all[i]
		cancels[i] = session.BatchedCancel{Judged: p.judged.Session, Request: w.request(p.judged, &p.pending, p.now)}
	}
	outcomes, err := limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) ([]session.Outcome, error) {
		return w.batch.CancelAll(ctx, cancels)
	})
	if err == nil && len(outcomes) == len(all) {
		return outcomes
	}
	w.logger().Debug("sessions could not be cancelled together and are cancelled one by one",
		"sessions", len(all), "error", err)
	for i := range all {
		p := &all[i]
		p.doubt, p.lookUp = &p.judged, true
		w.remember(p.judged, p.pending)
	}
	return undecided
}
