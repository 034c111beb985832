package sessiontest_test

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// altered is a memory whose methods can be replaced.
type altered struct {
	*session.Memory
	attach  func(m *session.Memory, ctx context.Context, s session.Session) (before, after session.Session, err error)
	freshen func(m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error)
	end     func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error)
	session func(m *session.Memory, ctx context.Context, runID string) (session.Session, error)
	stalled func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error)
	claim   func(
		m *session.Memory, ctx context.Context, judged session.Session, c session.ClaimRequest,
	) (session.Outcome, error)
	warn func(
		m *session.Memory, ctx context.Context, judged session.Session, events []watchdog.Event,
	) (session.Outcome, error)
	cancel func(
		m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
	) (session.Outcome, error)
	cancelAll func(
		ctx context.Context, m *session.Memory, all []session.BatchedCancel,
	) ([]session.Outcome, error)
	ended func(
		m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
	) ([]session.AttemptID, error)
	history  func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error)
	list     func(m *session.Memory, ctx context.Context, q session.ListQuery) (session.ListPage, error)
	listen   func(m *session.Memory, ctx context.Context, ready func(), told func(string)) error
	begin    func(m *session.Memory, ctx context.Context, l session.Lease) error
	renew    func(m *session.Memory, ctx context.Context, l session.Lease) error
	observe  func(m *session.Memory, ctx context.Context, suspects []string) ([]session.Lease, error)
	expire   func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error)
	sessions func(m *session.Memory, ctx context.Context, id string) ([]session.AttemptID, error)

	append        func(m *session.Memory, ctx context.Context, events []watchdog.Event) error
	putNotices    func(m *session.Memory, ctx context.Context, notices []session.Notice) error
	claimNotices  func(m *session.Memory, ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error)
	finishNotices func(m *session.Memory, ctx context.Context, notices []session.Notice) error
	delayNotice   func(m *session.Memory, ctx context.Context, n session.Notice, pause time.Duration) error
}

// with returns a memory with some methods replaced.
func with(change func(a *altered)) func() session.Store {
	return func() session.Store {
		a := &altered{Memory: frozen(), cancelAll: cancelAll}
		change(a)
		return a
	}
}

func (a *altered) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	if a.attach != nil {
		return a.attach(a.Memory, ctx, s)
	}
	return a.Memory.Attach(ctx, s)
}

func (a *altered) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	if a.freshen != nil {
		return a.freshen(a.Memory, ctx, lease, fresh)
	}
	return a.Memory.Freshen(ctx, lease, fresh)
}

func (a *altered) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	if a.end != nil {
		return a.end(a.Memory, ctx, ends)
	}
	return a.Memory.End(ctx, ends)
}

func (a *altered) Session(ctx context.Context, runID string) (session.Session, error) {
	if a.session != nil {
		return a.session(a.Memory, ctx, runID)
	}
	return a.Memory.Session(ctx, runID)
}

func (a *altered) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	if a.stalled != nil {
		return a.stalled(a.Memory, ctx, q)
	}
	return a.Memory.Stalled(ctx, q)
}

func (a *altered) Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error) {
	if a.claim != nil {
		return a.claim(a.Memory, ctx, judged, c)
	}
	return a.Memory.Claim(ctx, judged, c)
}

func (a *altered) Warn(ctx context.Context, judged session.Session, events []watchdog.Event) (session.Outcome, error) {
	if a.warn != nil {
		return a.warn(a.Memory, ctx, judged, events)
	}
	return a.Memory.Warn(ctx, judged, events)
}

func (a *altered) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	if a.cancel != nil {
		return a.cancel(a.Memory, ctx, judged, c)
	}
	return a.Memory.Cancel(ctx, judged, c)
}

func (a *altered) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	return a.cancelAll(ctx, a.Memory, all)
}

func (a *altered) Ended(
	ctx context.Context, lease string, told []session.AttemptID,
) ([]session.AttemptID, error) {
	if a.ended != nil {
		return a.ended(a.Memory, ctx, lease, told)
	}
	return a.Memory.Ended(ctx, lease, told)
}

func (a *altered) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	if a.history != nil {
		return a.history(a.Memory, ctx, h)
	}
	return a.Memory.History(ctx, h)
}

func (a *altered) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	if a.list != nil {
		return a.list(a.Memory, ctx, q)
	}
	return a.Memory.List(ctx, q)
}

func (a *altered) Listen(ctx context.Context, ready func(), told func(string)) error {
	if a.listen != nil {
		return a.listen(a.Memory, ctx, ready, told)
	}
	return a.Memory.Listen(ctx, ready, told)
}

func (a *altered) BeginLease(ctx context.Context, l session.Lease) error {
	if a.begin != nil {
		return a.begin(a.Memory, ctx, l)
	}
	return a.Memory.BeginLease(ctx, l)
}

func (a *altered) RenewLease(ctx context.Context, l session.Lease) error {
	if a.renew != nil {
		return a.renew(a.Memory, ctx, l)
	}
	return a.Memory.RenewLease(ctx, l)
}

func (a *altered) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	if a.observe != nil {
		return a.observe(a.Memory, ctx, suspects)
	}
	return a.Memory.ObserveLeases(ctx, suspects)
}

func (a *altered) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	if a.expire != nil {
		return a.expire(a.Memory, ctx, l)
	}
	return a.Memory.ExpireLease(ctx, l)
}

func (a *altered) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	if a.sessions != nil {
		return a.sessions(a.Memory, ctx, id)
	}
	return a.Memory.LeaseSessions(ctx, id)
}

func (a *altered) Append(ctx context.Context, events ...watchdog.Event) error {
	if a.append != nil {
		return a.append(a.Memory, ctx, events)
	}
	return a.Memory.Append(ctx, events...)
}

func (a *altered) PutNotices(ctx context.Context, notices ...session.Notice) error {
	if a.putNotices != nil {
		return a.putNotices(a.Memory, ctx, notices)
	}
	return a.Memory.PutNotices(ctx, notices...)
}

func (a *altered) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	if a.claimNotices != nil {
		return a.claimNotices(a.Memory, ctx, most, lasts)
	}
	return a.Memory.ClaimNotices(ctx, most, lasts)
}

func (a *altered) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	if a.finishNotices != nil {
		return a.finishNotices(a.Memory, ctx, notices)
	}
	return a.Memory.FinishNotices(ctx, notices...)
}

func (a *altered) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	if a.delayNotice != nil {
		return a.delayNotice(a.Memory, ctx, n, pause)
	}
	return a.Memory.DelayNotice(ctx, n, pause)
}
