package sessiontest_test

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A call is a call of a method of a store: its arguments and, when it was made, its results.
type call struct {
	ctx context.Context
	m   *session.Memory
	err error
}

type (
	attachCall struct {
		call
		s, before, after session.Session
	}
	freshenCall struct {
		call
		lease   string
		fresh   []session.Freshness
		skipped session.Skipped
	}
	endCall struct {
		call
		ends    []session.Ending
		skipped session.Skipped
	}
	sessionCall struct {
		call
		runID string
		s     session.Session
	}
	stalledCall struct {
		call
		q    session.Query
		page session.Page
	}
	// A judgedCall is what is common to those about a session that was judged.
	judgedCall struct {
		call
		judged  session.Session
		outcome session.Outcome
	}
	claimCall struct {
		judgedCall
		request session.ClaimRequest
	}
	warnCall struct {
		judgedCall
		events []watchdog.Event
	}
	cancelCall struct {
		judgedCall
		request session.CancelRequest
	}
	cancelAllCall struct {
		call
		all      []session.BatchedCancel
		outcomes []session.Outcome
	}
	claimStartCall struct {
		call
		lasts time.Duration
		s     session.Session
	}
	putOffStartCall struct {
		call
		s     session.Session
		pause time.Duration
		done  bool
	}
	endedCall struct {
		call
		lease       string
		told, ended []session.AttemptID
	}
	historyCall struct {
		call
		h      session.HistoryQuery
		counts []session.CancelCount
	}
	listCall struct {
		call
		q    session.ListQuery
		page session.ListPage
	}
	listenCall struct {
		call
		ready func()
		tell  func(runID string)
	}
	beginCall struct {
		call
		l session.Lease
	}
	renewCall struct {
		call
		l session.Lease
	}
	observeCall struct {
		call
		suspects []string
		all      []session.Lease
	}
	expireCall struct {
		call
		l       session.Lease
		expired bool
		left    int
	}
	leaseSessionsCall struct {
		call
		lease string
		named []session.AttemptID
	}
	appendCall struct {
		call
		events []watchdog.Event
	}
	putNoticesCall struct {
		call
		notices []session.Notice
	}
	claimNoticesCall struct {
		call
		most    int
		lasts   time.Duration
		claimed []session.Notice
	}
	finishNoticesCall struct {
		call
		notices []session.Notice
	}
	delayNoticeCall struct {
		call
		n     session.Notice
		pause time.Duration
	}
)

// row returns the row of a run, or an empty one if there is none.
func (c *call) row(runID string) session.Session {
	s, _ := c.m.Session(context.Background(), runID)
	return s
}

// put writes a row, unless the context of the call is done.
func (c *call) put(s session.Session) { _ = c.m.Put(c.ctx, s) }

// leaseOf returns a lease, or an empty one if there is none.
func (c *call) leaseOf(id string) session.Lease {
	all, _ := c.m.ObserveLeases(context.Background(), nil)
	if i := slices.IndexFunc(all, func(l session.Lease) bool { return l.ID == id }); i >= 0 {
		return all[i]
	}
	return session.Lease{}
}

// rowsOf returns the active rows that name a lease.
func (c *call) rowsOf(lease string) (rows []session.Session) {
	named, _ := c.m.LeaseSessions(context.Background(), lease)
	for _, a := range named {
		rows = append(rows, c.row(a.RunID))
	}
	return rows
}

// An alteration gets each call of a store, a pointer to one of the types above, and next, which makes the call.
type alteration func(call any, next func())

// A fault makes the alteration of one store.
type fault func() alteration

// around is a fault in the calls of one method.
func around[C any](alter func(c *C, next func())) fault {
	return func() alteration {
		return func(call any, next func()) {
			if c, ok := call.(*C); ok {
				alter(c, next)
			} else {
				next()
			}
		}
	}
}

// before is a fault that changes the arguments of a method.
func before[C any](change func(c *C)) fault {
	return around(func(c *C, next func()) { change(c); next() })
}

// after is a fault that changes the results of a method, or does something else after it.
func after[C any](change func(c *C)) fault {
	return around(func(c *C, next func()) { next(); change(c) })
}

// when is a change of some calls: those of the rule that a fault is to break.
func when[C any](which func(c C) bool, change func(c C)) func(c C) {
	return func(c C) {
		if which(c) {
			change(c)
		}
	}
}

// both is a fault in two methods.
func both(one, other fault) fault {
	return func() alteration {
		first, second := one(), other()
		return func(call any, next func()) { first(call, func() { second(call, next) }) }
	}
}

// open returns an empty store with the fault.
func (f fault) open() session.Store { return &altered{frozen(), f()} }

// altered is a memory whose calls are altered.
type altered struct {
	*session.Memory
	alter alteration
}

func (a *altered) call(ctx context.Context) call { return call{ctx: ctx, m: a.Memory} }

func (a *altered) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	c := &attachCall{call: a.call(ctx), s: s}
	a.alter(c, func() { c.before, c.after, c.err = a.Memory.Attach(c.ctx, c.s) })
	return c.before, c.after, c.err
}

func (a *altered) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	c := &freshenCall{call: a.call(ctx), lease: lease, fresh: slices.Clone(fresh)}
	a.alter(c, func() { c.skipped, c.err = a.Memory.Freshen(c.ctx, c.lease, c.fresh) })
	return c.skipped, c.err
}

func (a *altered) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	c := &endCall{call: a.call(ctx), ends: slices.Clone(ends)}
	a.alter(c, func() { c.skipped, c.err = a.Memory.End(c.ctx, c.ends) })
	return c.skipped, c.err
}

func (a *altered) Session(ctx context.Context, runID string) (session.Session, error) {
	c := &sessionCall{call: a.call(ctx), runID: runID}
	a.alter(c, func() { c.s, c.err = a.Memory.Session(c.ctx, c.runID) })
	return c.s, c.err
}

func (a *altered) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	c := &stalledCall{call: a.call(ctx), q: q}
	a.alter(c, func() { c.page, c.err = a.Memory.Stalled(c.ctx, c.q) })
	return c.page, c.err
}

func (a *altered) Claim(ctx context.Context, judged session.Session, r session.ClaimRequest) (session.Outcome, error) {
	c := &claimCall{judgedCall{call: a.call(ctx), judged: judged}, r}
	a.alter(c, func() { c.outcome, c.err = a.Memory.Claim(c.ctx, c.judged, c.request) })
	return c.outcome, c.err
}

func (a *altered) Warn(ctx context.Context, judged session.Session, events []watchdog.Event) (session.Outcome, error) {
	c := &warnCall{judgedCall{call: a.call(ctx), judged: judged}, events}
	a.alter(c, func() { c.outcome, c.err = a.Memory.Warn(c.ctx, c.judged, c.events) })
	return c.outcome, c.err
}

func (a *altered) Cancel(
	ctx context.Context, judged session.Session, r session.CancelRequest,
) (session.Outcome, error) {
	c := &cancelCall{judgedCall{call: a.call(ctx), judged: judged}, r}
	a.alter(c, func() { c.outcome, c.err = a.Memory.Cancel(c.ctx, c.judged, c.request) })
	return c.outcome, c.err
}

// CancelAll does what a BatchCanceller does, if nobody else writes meanwhile: a memory is none.
func (a *altered) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	c := &cancelAllCall{call: a.call(ctx), all: slices.Clone(all)}
	a.alter(c, func() {
		for _, one := range c.all {
			for _, event := range one.Request.Events {
				if c.err = event.Validate(); c.err != nil {
					return
				}
			}
		}
		c.cancelEach()
	})
	return c.outcomes, c.err
}

// cancelEach cancels one session after the other.
func (c *cancelAllCall) cancelEach() {
	for _, one := range c.all {
		var outcome session.Outcome
		if outcome, c.err = c.m.Cancel(c.ctx, one.Judged, one.Request); c.err != nil {
			return
		}
		c.outcomes = append(c.outcomes, outcome)
	}
}

func (a *altered) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	c := &claimStartCall{call: a.call(ctx), lasts: lasts}
	a.alter(c, func() { c.s, c.err = a.Memory.ClaimStart(c.ctx, c.lasts) })
	return c.s, c.err
}

func (a *altered) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	c := &putOffStartCall{call: a.call(ctx), s: claimed, pause: pause}
	a.alter(c, func() { c.done, c.err = a.Memory.PutOffStart(c.ctx, c.s, c.pause) })
	return c.done, c.err
}

func (a *altered) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	c := &endedCall{call: a.call(ctx), lease: lease, told: told}
	a.alter(c, func() { c.ended, c.err = a.Memory.Ended(c.ctx, c.lease, c.told) })
	return c.ended, c.err
}

func (a *altered) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	c := &historyCall{call: a.call(ctx), h: h}
	a.alter(c, func() { c.counts, c.err = a.Memory.History(c.ctx, c.h) })
	return c.counts, c.err
}

func (a *altered) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	c := &listCall{call: a.call(ctx), q: q}
	a.alter(c, func() { c.page, c.err = a.Memory.List(c.ctx, c.q) })
	return c.page, c.err
}

func (a *altered) Listen(ctx context.Context, ready func(), tell func(string)) error {
	c := &listenCall{call: a.call(ctx), ready: ready, tell: tell}
	a.alter(c, func() { c.err = a.Memory.Listen(c.ctx, c.ready, c.tell) })
	return c.err
}

func (a *altered) BeginLease(ctx context.Context, l session.Lease) error {
	c := &beginCall{call: a.call(ctx), l: l}
	a.alter(c, func() { c.err = a.Memory.BeginLease(c.ctx, c.l) })
	return c.err
}

func (a *altered) RenewLease(ctx context.Context, l session.Lease) error {
	c := &renewCall{call: a.call(ctx), l: l}
	a.alter(c, func() { c.err = a.Memory.RenewLease(c.ctx, c.l) })
	return c.err
}

func (a *altered) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	c := &observeCall{call: a.call(ctx), suspects: suspects}
	a.alter(c, func() { c.all, c.err = a.Memory.ObserveLeases(c.ctx, c.suspects) })
	return c.all, c.err
}

func (a *altered) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	c := &expireCall{call: a.call(ctx), l: l}
	a.alter(c, func() { c.expired, c.left, c.err = a.Memory.ExpireLease(c.ctx, c.l) })
	return c.expired, c.left, c.err
}

func (a *altered) LeaseSessions(ctx context.Context, lease string) ([]session.AttemptID, error) {
	c := &leaseSessionsCall{call: a.call(ctx), lease: lease}
	a.alter(c, func() { c.named, c.err = a.Memory.LeaseSessions(c.ctx, c.lease) })
	return c.named, c.err
}

func (a *altered) Append(ctx context.Context, events ...watchdog.Event) error {
	c := &appendCall{call: a.call(ctx), events: events}
	a.alter(c, func() { c.err = a.Memory.Append(c.ctx, c.events...) })
	return c.err
}

func (a *altered) PutNotices(ctx context.Context, notices ...session.Notice) error {
	c := &putNoticesCall{call: a.call(ctx), notices: notices}
	a.alter(c, func() { c.err = a.Memory.PutNotices(c.ctx, c.notices...) })
	return c.err
}

func (a *altered) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	c := &claimNoticesCall{call: a.call(ctx), most: most, lasts: lasts}
	a.alter(c, func() { c.claimed, c.err = a.Memory.ClaimNotices(c.ctx, c.most, c.lasts) })
	return c.claimed, c.err
}

func (a *altered) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	c := &finishNoticesCall{call: a.call(ctx), notices: notices}
	a.alter(c, func() { c.err = a.Memory.FinishNotices(c.ctx, c.notices...) })
	return c.err
}

func (a *altered) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	c := &delayNoticeCall{call: a.call(ctx), n: n, pause: pause}
	a.alter(c, func() { c.err = a.Memory.DelayNotice(c.ctx, c.n, c.pause) })
	return c.err
}
