package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// warn appends the event that warns of the cancel, and lets the session have its grace.
func (p *sweeping) warn(ctx context.Context, c Case, m pending, now time.Time) error {
	event := c.stalledRun(now, false).WarningEvent()
	_, err := limited(ctx, p.cfg.RecordTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.canceller.(appender).Append(ctx, event)
	})
	if err != nil {
		return p.failed(c, m, fmt.Errorf("warn run %s: %w", c.Session.RunID, err))
	}
	m.warnedAt = time.Now()
	m.failures, m.next, m.pass = 0, m.warnedAt.Add(p.cfg.Grace), p.number
	p.pending.keep(c.Session.RunID, m)
	p.inARow = 0
	p.pass.Warned++
	p.done(c, CaseWarned)
	p.logger().Warn("a session is stalled and was warned", append(c.attrs(), "grace", p.cfg.Grace)...)
	return nil
}

// cancel stops what works on a session and then ends the session, if it still is as it was judged.
func (p *sweeping) cancel(ctx context.Context, c Case, m pending, now time.Time) error {
	began := time.Now()
	p.stop(ctx, c.Session)
	took := time.Since(began)
	c.Silence += took
	resume := p.cfg.Resume.Max > c.Session.Resumes
	end := session.CancelRequest{Reason: watchdog.SessionIdleTimeout, Resumes: c.Session.Resumes, Events: c.stalledRun(now.Add(took), !m.warnedAt.IsZero()).CancelEvents()}
	if resume {
		end.Resumes++
	}
	cancelled, err := limited(ctx, p.cfg.RecordTimeout, func(ctx context.Context) (bool, error) { return p.canceller.Cancel(ctx, c.Session, end) })
	if err != nil {
		return p.failed(c, m, fmt.Errorf("cancel run %s: %w", c.Session.RunID, err))
	}
	p.inARow = 0
	p.pending.drop(c.Session.RunID)
	if !cancelled {
		p.pass.Spared++
		p.done(c, CaseSpared)
		p.logger().Info("a stalled session has woken up or ended and was spared", c.attrs()...)
		return nil
	}
	p.pass.Cancelled++
	p.logger().Warn("a stalled session was cancelled", c.attrs()...)
	c.Resumed = resume && p.resume(ctx, c.Session)
	p.done(c, CaseCancelled)
	p.alert(ctx)
	return nil
}

// stop stops what works on a session. What goes wrong there does not keep the session from being cancelled.
func (p *sweeping) stop(ctx context.Context, s session.Session) {
	if p.cfg.StopHook == nil {
		return
	}
	if err := p.callHost(ctx, func(ctx context.Context) error { return p.cfg.StopHook(ctx, s) }); err != nil {
		p.fault(fmt.Errorf("stop what works on run %s: %w", s.RunID, err))
	}
}

// resume has a session that was cancelled started again.
func (p *sweeping) resume(ctx context.Context, s session.Session) bool {
	if err := p.callHost(ctx, func(ctx context.Context) error { return p.cfg.Resume.Start(ctx, s) }); err != nil {
		p.fault(fmt.Errorf("resume run %s: %w", s.RunID, err))
		return false
	}
	p.pass.Resumed++
	p.logger().Info("a cancelled session was resumed", "run", s.RunID, "resumes", s.Resumes+1, "max", p.cfg.Resume.Max)
	return true
}

// alert counts a cancel, and tells the host when there are many.
func (p *sweeping) alert(ctx context.Context) {
	alert, cancels := p.rate.more(time.Now())
	if !alert {
		return
	}
	p.logger().Warn("many sessions were cancelled", "cancels", cancels, "within", p.rate.Within)
	if err := p.callHost(ctx, func(ctx context.Context) error { p.rate.Func(ctx, cancels); return nil }); err != nil {
		p.fault(fmt.Errorf("alert of %d cancels: %w", cancels, err))
	}
}

// failed puts a session off, and ends the pass after too many in a row.
func (p *sweeping) failed(c Case, m pending, err error) error {
	m = m.failed(p.cfg.Interval, time.Now())
	m.pass = p.number
	p.pending.keep(c.Session.RunID, m)
	p.pass.Failed++
	p.done(c, CaseFailed)
	p.fault(err)
	if p.inARow++; p.inARow < maxFailuresInARow {
		return nil
	}
	return fmt.Errorf("%d sessions in a row failed, the last: %w", p.inARow, err)
}

func (p *sweeping) done(c Case, outcome Handling) {
	c.Handling = outcome
	p.pass.Cases = append(p.pass.Cases, c)
}

func (c Case) attrs() []any {
	return []any{
		"run", c.Session.RunID, "reason", string(watchdog.SessionIdleTimeout), "silence", c.Silence, "threshold", c.Threshold,
		"host", c.Session.Host, "attempt", c.Session.Attempt,
	}
}
