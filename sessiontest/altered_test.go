package sessiontest_test

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/session"
)

type (
	row        = session.Session
	alteration = contracttest.Alteration[*call]
	fault      = contracttest.Fault[*call]
	broken     = contracttest.Row[*call]
)

var (
	around = contracttest.Around[*call]
	before = contracttest.Before[*call]
	after  = contracttest.After[*call]
	fails  = contracttest.Fails[*call]
	both   = contracttest.Both[*call]
)

// A call is a call of a method of a store: those of its fields that the method has as arguments and, when the call was
// made, as results.
type call struct {
	method string
	ctx    context.Context
	m      *session.Memory
	err    error

	runID, lease     string
	s, before, after row // before and after are of an attach
	judged           row
	outcome          session.Outcome
	claim            session.ClaimRequest
	cancel           session.CancelRequest
	all              []session.BatchedCancel
	outcomes         []session.Outcome
	events           []watchdog.Event
	fresh            []session.Freshness
	ends             []session.Ending
	skipped          session.Skipped
	q                session.Query
	page             session.Page
	list             session.ListQuery
	listed           session.ListPage
	history          session.HistoryQuery
	counts           []session.CancelCount
	told, named      []session.AttemptID
	ready            func()
	tell             func(runID string)
	l                session.Lease
	suspects         []string
	leases           []session.Lease
	expired, done    bool
	left, most       int
	lasts, pause     time.Duration
	n                session.Notice
	notices          []session.Notice
}

func (c *call) Method() string { return c.method }

func (c *call) Return(err error) { c.err = err }

// row returns the row of a run, or an empty one if there is none.
func (c *call) row(runID string) row {
	s, _ := c.m.Session(context.Background(), runID)
	return s
}

// there returns the row of the session that was judged.
func (c *call) there() row { return c.row(c.judged.RunID) }

// put writes a row, unless the context of the call is done.
func (c *call) put(s row) { _ = c.m.Put(c.ctx, s) }

// edit changes the row of a run, if there is one.
func (c *call) edit(runID string, change func(s *row)) {
	was := c.row(runID)
	if s := was; was.Attempt > 0 {
		if change(&s); !reflect.DeepEqual(s, was) {
			c.put(s)
		}
	}
}

// leaseOf returns a lease, or an empty one if there is none.
func (c *call) leaseOf(id string) session.Lease {
	all, _ := c.m.ObserveLeases(context.Background(), nil)
	if i := slices.IndexFunc(all, func(l session.Lease) bool { return l.ID == id }); i >= 0 {
		return all[i]
	}
	return session.Lease{}
}

// rowsOf returns the active rows that name a lease.
func (c *call) rowsOf(lease string) (rows []row) {
	named, _ := c.m.LeaseSessions(context.Background(), lease)
	for _, a := range named {
		rows = append(rows, c.row(a.RunID))
	}
	return rows
}

// hasEvent reports whether a run has an event with an ID, or of a type.
func (c *call) hasEvent(runID, what string) bool {
	events, _ := c.m.Read(context.Background(), watchdog.AggregateType, runID)
	return slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.ID == what || e.Type == what })
}

// setIf changes a value in some calls: those of the rule that a fault is to break.
func setIf[T any](which bool, at *T, value T) {
	if which {
		*at = value
	}
}

// each changes all values of a list.
func each[T any](all []T, change func(one *T)) {
	for i := range all {
		change(&all[i])
	}
}

// open returns an empty store with a fault.
func open(f fault) session.Store { return &altered{frozen(), f()} }

// altered is a memory whose calls are altered.
type altered struct {
	*session.Memory
	alter alteration
}

// does makes a call of a method.
func (a *altered) does(method string, c *call, do func()) error {
	c.method, c.m = method, a.Memory
	a.alter(c, do)
	return c.err
}

func (a *altered) Attach(ctx context.Context, s row) (before, after row, err error) {
	c := &call{ctx: ctx, s: s}
	err = a.does("Attach", c, func() { c.before, c.after, c.err = a.Memory.Attach(c.ctx, c.s) })
	return c.before, c.after, err
}

func (a *altered) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	c := &call{ctx: ctx, lease: lease, fresh: slices.Clone(fresh)}
	err := a.does("Freshen", c, func() { c.skipped, c.err = a.Memory.Freshen(c.ctx, c.lease, c.fresh) })
	return c.skipped, err
}

func (a *altered) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	c := &call{ctx: ctx, ends: slices.Clone(ends)}
	err := a.does("End", c, func() { c.skipped, c.err = a.Memory.End(c.ctx, c.ends) })
	return c.skipped, err
}

func (a *altered) Session(ctx context.Context, runID string) (row, error) {
	c := &call{ctx: ctx, runID: runID}
	err := a.does("Session", c, func() { c.s, c.err = a.Memory.Session(c.ctx, c.runID) })
	return c.s, err
}

func (a *altered) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	c := &call{ctx: ctx, q: q}
	err := a.does("Stalled", c, func() { c.page, c.err = a.Memory.Stalled(c.ctx, c.q) })
	return c.page, err
}

func (a *altered) Claim(ctx context.Context, judged row, r session.ClaimRequest) (session.Outcome, error) {
	c := &call{ctx: ctx, judged: judged, claim: r}
	err := a.does("Claim", c, func() { c.outcome, c.err = a.Memory.Claim(c.ctx, c.judged, c.claim) })
	return c.outcome, err
}

func (a *altered) Warn(ctx context.Context, judged row, events []watchdog.Event) (session.Outcome, error) {
	c := &call{ctx: ctx, judged: judged, events: events}
	err := a.does("Warn", c, func() { c.outcome, c.err = a.Memory.Warn(c.ctx, c.judged, c.events) })
	return c.outcome, err
}

func (a *altered) Cancel(ctx context.Context, judged row, r session.CancelRequest) (session.Outcome, error) {
	c := &call{ctx: ctx, judged: judged, cancel: r}
	err := a.does("Cancel", c, func() { c.outcome, c.err = a.Memory.Cancel(c.ctx, c.judged, c.cancel) })
	return c.outcome, err
}

// CancelAll does what a BatchCanceller does, if nobody else writes meanwhile: a memory is none.
func (a *altered) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	c := &call{ctx: ctx, all: slices.Clone(all)}
	err := a.does("CancelAll", c, func() {
		for _, one := range c.all {
			for _, event := range one.Request.Events {
				if c.err = event.Validate(); c.err != nil {
					return
				}
			}
		}
		c.cancelEach()
	})
	return c.outcomes, err
}

// cancelEach cancels one session after the other.
func (c *call) cancelEach() {
	for _, one := range c.all {
		var outcome session.Outcome
		if outcome, c.err = c.m.Cancel(c.ctx, one.Judged, one.Request); c.err != nil {
			return
		}
		c.outcomes = append(c.outcomes, outcome)
	}
}

func (a *altered) ClaimStart(ctx context.Context, lasts time.Duration) (row, error) {
	c := &call{ctx: ctx, lasts: lasts}
	err := a.does("ClaimStart", c, func() { c.s, c.err = a.Memory.ClaimStart(c.ctx, c.lasts) })
	return c.s, err
}

func (a *altered) PutOffStart(ctx context.Context, claimed row, pause time.Duration) (bool, error) {
	c := &call{ctx: ctx, s: claimed, pause: pause}
	err := a.does("PutOffStart", c, func() { c.done, c.err = a.Memory.PutOffStart(c.ctx, c.s, c.pause) })
	return c.done, err
}

func (a *altered) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	c := &call{ctx: ctx, lease: lease, told: told}
	err := a.does("Ended", c, func() { c.named, c.err = a.Memory.Ended(c.ctx, c.lease, c.told) })
	return c.named, err
}

func (a *altered) History(ctx context.Context, q session.HistoryQuery) ([]session.CancelCount, error) {
	c := &call{ctx: ctx, history: q}
	err := a.does("History", c, func() { c.counts, c.err = a.Memory.History(c.ctx, c.history) })
	return c.counts, err
}

func (a *altered) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	c := &call{ctx: ctx, list: q}
	err := a.does("List", c, func() { c.listed, c.err = a.Memory.List(c.ctx, c.list) })
	return c.listed, err
}

func (a *altered) Listen(ctx context.Context, ready func(), tell func(string)) error {
	c := &call{ctx: ctx, ready: ready, tell: tell}
	return a.does("Listen", c, func() { c.err = a.Memory.Listen(c.ctx, c.ready, c.tell) })
}

func (a *altered) BeginLease(ctx context.Context, l session.Lease) error {
	c := &call{ctx: ctx, l: l}
	return a.does("BeginLease", c, func() { c.err = a.Memory.BeginLease(c.ctx, c.l) })
}

func (a *altered) RenewLease(ctx context.Context, l session.Lease) error {
	c := &call{ctx: ctx, l: l}
	return a.does("RenewLease", c, func() { c.err = a.Memory.RenewLease(c.ctx, c.l) })
}

func (a *altered) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	c := &call{ctx: ctx, suspects: suspects}
	err := a.does("ObserveLeases", c, func() { c.leases, c.err = a.Memory.ObserveLeases(c.ctx, c.suspects) })
	return c.leases, err
}

func (a *altered) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	c := &call{ctx: ctx, l: l}
	err = a.does("ExpireLease", c, func() { c.expired, c.left, c.err = a.Memory.ExpireLease(c.ctx, c.l) })
	return c.expired, c.left, err
}

func (a *altered) LeaseSessions(ctx context.Context, lease string) ([]session.AttemptID, error) {
	c := &call{ctx: ctx, lease: lease}
	err := a.does("LeaseSessions", c, func() { c.named, c.err = a.Memory.LeaseSessions(c.ctx, c.lease) })
	return c.named, err
}

func (a *altered) Append(ctx context.Context, events ...watchdog.Event) error {
	c := &call{ctx: ctx, events: events}
	return a.does("Append", c, func() { c.err = a.Memory.Append(c.ctx, c.events...) })
}

func (a *altered) PutNotices(ctx context.Context, notices ...session.Notice) error {
	c := &call{ctx: ctx, notices: notices}
	return a.does("PutNotices", c, func() { c.err = a.Memory.PutNotices(c.ctx, c.notices...) })
}

func (a *altered) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	c := &call{ctx: ctx, most: most, lasts: lasts}
	err := a.does("ClaimNotices", c, func() { c.notices, c.err = a.Memory.ClaimNotices(c.ctx, c.most, c.lasts) })
	return c.notices, err
}

func (a *altered) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	c := &call{ctx: ctx, notices: notices}
	return a.does("FinishNotices", c, func() { c.err = a.Memory.FinishNotices(c.ctx, c.notices...) })
}

func (a *altered) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	c := &call{ctx: ctx, n: n, pause: pause}
	return a.does("DelayNotice", c, func() { c.err = a.Memory.DelayNotice(c.ctx, c.n, c.pause) })
}
