package sessiontest_test

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) session.Store { return new(session.Memory) })
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return frozen(), nil }))
}

// frozen returns a memory whose clock stands still, so that rows can be exactly at a limit.
func frozen() *session.Memory {
	now := time.Date(2026, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	return &session.Memory{Clock: func() time.Time { return now }}
}

var brokenStores = contracttest.Stores(open, brokenRows, brokenLeases, brokenCancels, brokenTold)

// The rules without a testing.T.
func ExampleTest() {
	err := sessiontest.Test(func() (session.Store, error) { return &session.Memory{}, nil })
	fmt.Println("broken rules:", err)
	// Output: broken rules: <nil>
}

func TestBrokenStores(t *testing.T) {
	t.Cleanup(sessiontest.SetRows(2000, 50)) // their clock stands still, and no limit of theirs is higher
	contracttest.EachBreaksOneRule(t, sessiontest.Rules(), brokenStores)
}

// plain is a store that is neither a Putter nor a Listener.
type plain struct{ session.Store }

// A store that is not a Putter skips the rules that need one, and only those.
func TestPlainStore(t *testing.T) {
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return plain{frozen()}, nil }))
	err := sessiontest.Test(func() (session.Store, error) {
		return plain{open(attaches(func(_, _ row, after *row) { after.Attempt = 1 }))}, nil
	})
	require.ErrorContains(t, err, "attaching again counts the attempt, and returns the row as it was: ")
}

func TestRunFailure(t *testing.T) {
	broken := brokenStores[0]
	contracttest.RunFails(t, func() {
		sessiontest.Run(t, func(*testing.T) session.Store { return broken.Open() })
	}, contracttest.RuleOf(t, sessiontest.Rules(), broken.Breaks).Name)
}

type (
	row        = session.Session
	lease      = session.Lease
	attempt    = session.AttemptID
	freshness  = session.Freshness
	ending     = session.Ending
	batched    = session.BatchedCancel
	listQuery  = session.ListQuery
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

const (
	active      = session.Active
	finished    = session.Finished
	cancelled   = session.Cancelled
	interrupted = session.Interrupted
	noActivity  = session.NoActivity
	done        = session.Done
	changed     = session.Changed
	endStored   = session.EndStored
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
	all              []batched
	outcomes         []session.Outcome
	events           []event.Event
	fresh            []freshness
	ends             []ending
	skipped          session.Skipped
	q                session.Query
	page             session.Page
	list             listQuery
	listed           session.ListPage
	history          session.HistoryQuery
	counts           []session.CancelCount
	told, named      []attempt
	ready            func()
	tell             func(runID string)
	l                lease
	suspects         []string
	leases           []lease
	expired, done    bool
	left             int
	lasts, pause     time.Duration
}

func (c *call) Method() string   { return c.method }
func (c *call) Return(err error) { c.err = err }

// row returns the row of a run, or an empty one if there is none.
func (c *call) row(runID string) row {
	s, _ := c.m.Session(context.Background(), runID)
	return s
}

func (c *call) there() row { return c.row(c.judged.RunID) }
func (c *call) put(s row)  { _ = c.m.Put(c.ctx, s) }

// edit changes the row of a run, if there is one.
func (c *call) edit(runID string, change func(s *row)) {
	s := c.row(runID)
	was := s
	if change(&s); was.Attempt > 0 && !reflect.DeepEqual(s, was) {
		c.put(s)
	}
}

// leaseOf returns a lease, or an empty one if there is none.
func (c *call) leaseOf(id string) lease {
	all, _ := c.m.ObserveLeases(context.Background(), nil)
	if i := slices.IndexFunc(all, func(l lease) bool { return l.ID == id }); i >= 0 {
		return all[i]
	}
	return lease{}
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
	events, _ := c.m.Read(context.Background(), event.AggregateType, runID)
	return slices.ContainsFunc(events, func(e event.Event) bool { return e.ID == what || e.Type == what })
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

func open(f fault) session.Store { return &altered{frozen(), f()} }

// altered is a memory whose calls are altered.
type altered struct {
	*session.Memory
	alter alteration
}

func (a *altered) does(method string, c *call, do func(c *call)) error {
	c.method, c.m = method, a.Memory
	a.alter(c, func() { do(c) })
	return c.err
}

func answer[T any](result *T, err error) (T, error) { return *result, err }

func (a *altered) Attach(ctx context.Context, s row) (before, after row, err error) {
	c := &call{ctx: ctx, s: s}
	err = a.does("Attach", c, func(*call) { c.before, c.after, c.err = c.m.Attach(c.ctx, c.s) })
	return c.before, c.after, err
}

func (a *altered) Freshen(ctx context.Context, lease string, fresh []freshness) (session.Skipped, error) {
	c := &call{ctx: ctx, lease: lease, fresh: slices.Clone(fresh)}
	err := a.does("Freshen", c, func(*call) { c.skipped, c.err = c.m.Freshen(c.ctx, c.lease, c.fresh) })
	return c.skipped, err
}

func (a *altered) End(ctx context.Context, ends []ending) (session.Skipped, error) {
	c := &call{ctx: ctx, ends: slices.Clone(ends)}
	return answer(&c.skipped, a.does("End", c, func(*call) { c.skipped, c.err = c.m.End(c.ctx, c.ends) }))
}

func (a *altered) Session(ctx context.Context, runID string) (row, error) {
	c := &call{ctx: ctx, runID: runID}
	return answer(&c.s, a.does("Session", c, func(*call) { c.s, c.err = c.m.Session(c.ctx, c.runID) }))
}

func (a *altered) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	c := &call{ctx: ctx, q: q}
	return answer(&c.page, a.does("Stalled", c, func(*call) { c.page, c.err = c.m.Stalled(c.ctx, c.q) }))
}

func (a *altered) Claim(ctx context.Context, judged row, r session.ClaimRequest) (session.Outcome, error) {
	c := &call{ctx: ctx, judged: judged, claim: r}
	return answer(&c.outcome, a.does("Claim", c, func(*call) { c.outcome, c.err = c.m.Claim(c.ctx, c.judged, c.claim) }))
}

func (a *altered) Warn(ctx context.Context, judged row, events []event.Event) (session.Outcome, error) {
	c := &call{ctx: ctx, judged: judged, events: events}
	return answer(&c.outcome, a.does("Warn", c, func(*call) { c.outcome, c.err = c.m.Warn(c.ctx, c.judged, c.events) }))
}

func (a *altered) Cancel(ctx context.Context, judged row, r session.CancelRequest) (session.Outcome, error) {
	c := &call{ctx: ctx, judged: judged, cancel: r}
	err := a.does("Cancel", c, func(*call) { c.outcome, c.err = c.m.Cancel(c.ctx, c.judged, c.cancel) })
	return c.outcome, err
}

// CancelAll does what a BatchCanceller does, if nobody else writes meanwhile: a memory is none.
func (a *altered) CancelAll(ctx context.Context, all []batched) ([]session.Outcome, error) {
	c := &call{ctx: ctx, all: slices.Clone(all)}
	return answer(&c.outcomes, a.does("CancelAll", c, func(*call) {
		for _, one := range c.all {
			for _, e := range one.Request.Events {
				c.err = cmp.Or(c.err, e.Validate())
			}
		}
		if c.err == nil {
			c.cancelEach()
		}
	}))
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
	return answer(&c.s, a.does("ClaimStart", c, func(*call) { c.s, c.err = c.m.ClaimStart(c.ctx, c.lasts) }))
}

func (a *altered) PutOffStart(ctx context.Context, claimed row, pause time.Duration) (bool, error) {
	c := &call{ctx: ctx, s: claimed, pause: pause}
	return answer(&c.done, a.does("PutOffStart", c, func(*call) { c.done, c.err = c.m.PutOffStart(c.ctx, c.s, c.pause) }))
}

func (a *altered) Ended(ctx context.Context, lease string, told []attempt) ([]attempt, error) {
	c := &call{ctx: ctx, lease: lease, told: told}
	return answer(&c.named, a.does("Ended", c, func(*call) { c.named, c.err = c.m.Ended(c.ctx, c.lease, c.told) }))
}

func (a *altered) History(ctx context.Context, q session.HistoryQuery) ([]session.CancelCount, error) {
	c := &call{ctx: ctx, history: q}
	return answer(&c.counts, a.does("History", c, func(*call) { c.counts, c.err = c.m.History(c.ctx, c.history) }))
}

func (a *altered) List(ctx context.Context, q listQuery) (session.ListPage, error) {
	c := &call{ctx: ctx, list: q}
	return answer(&c.listed, a.does("List", c, func(*call) { c.listed, c.err = c.m.List(c.ctx, c.list) }))
}

func (a *altered) Listen(ctx context.Context, ready func(), tell func(string)) error {
	c := &call{ctx: ctx, ready: ready, tell: tell}
	return a.does("Listen", c, func(*call) { c.err = c.m.Listen(c.ctx, c.ready, c.tell) })
}

func (a *altered) BeginLease(ctx context.Context, l lease) error {
	return a.does("BeginLease", &call{ctx: ctx, l: l}, func(c *call) { c.err = c.m.BeginLease(c.ctx, c.l) })
}

func (a *altered) RenewLease(ctx context.Context, l lease) error {
	return a.does("RenewLease", &call{ctx: ctx, l: l}, func(c *call) { c.err = c.m.RenewLease(c.ctx, c.l) })
}

func (a *altered) ObserveLeases(ctx context.Context, suspects []string) ([]lease, error) {
	c := &call{ctx: ctx, suspects: suspects}
	err := a.does("ObserveLeases", c, func(*call) { c.leases, c.err = c.m.ObserveLeases(c.ctx, c.suspects) })
	return c.leases, err
}

func (a *altered) ExpireLease(ctx context.Context, l lease) (expired bool, left int, err error) {
	c := &call{ctx: ctx, l: l}
	err = a.does("ExpireLease", c, func(*call) { c.expired, c.left, c.err = c.m.ExpireLease(c.ctx, c.l) })
	return c.expired, c.left, err
}

func (a *altered) LeaseSessions(ctx context.Context, lease string) ([]attempt, error) {
	c := &call{ctx: ctx, lease: lease}
	return answer(&c.named, a.does("LeaseSessions", c, func(*call) { c.named, c.err = c.m.LeaseSessions(c.ctx, c.lease) }))
}

func (a *altered) Append(ctx context.Context, events ...event.Event) error {
	return a.does("Append", &call{ctx: ctx, events: events}, func(c *call) { c.err = c.m.Append(c.ctx, c.events...) })
}
