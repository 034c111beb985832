package eventtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	eventtest.Run(t, func(*testing.T) event.Store { return new(event.Memory) })
	require.NoError(t, eventtest.Test(func() (event.Store, error) { return new(event.Memory), nil }))
}

func TestBrokenStores(t *testing.T) {
	require.NoError(t, testEvents(plain, sound), "a store without an optional interface breaks no rule")
	contracttest.EachBreaksOneRule(t, eventtest.EventRules(), brokenEvents)
}

func TestBrokenDurableStores(t *testing.T) {
	contracttest.EachBreaksOneRule(t, eventtest.DurableRules(), placeFaults)
}

var (
	sound        = before("", func(*call) {}) // is no fault
	brokenEvents = append(contracttest.Stores(plain, eventFaults), contracttest.Stores(able, ableFaults)...)
)

func testEvents(open func(fault) event.Store, f fault) error {
	return eventtest.Test(func() (event.Store, error) { return open(f), nil })
}

// A race that a broken store can win is no rule: the suite of its author would pass now and then.
func TestRacesAreAlwaysFound(t *testing.T) {
	alwaysFound(t, eventtest.DurableRules(), placeFaults, oneIDOfStores, noOverlapOfStores)
}

func alwaysFound[S any](t *testing.T, rules []contract.Rule[S], all []contracttest.Broken[S], races ...string) {
	t.Helper()
	for _, b := range all {
		if !slices.Contains(races, b.Breaks) {
			continue
		}
		rule := contracttest.RuleOf(t, rules, b.Breaks)
		t.Run(b.Flaw, func(t *testing.T) {
			for run := range racing.Rounds(100, 100) {
				require.Error(t, contract.Check(t.Context(), rule, b.Open()), "run %d", run+1)
			}
		})
	}
}

// A place whose stores lock each other out keeps the rules, whether or not its stores have transactions.
func TestDurablePlace(t *testing.T) {
	memory := func() opener {
		m := new(event.Memory)
		return func() (event.Store, error) { return m, nil }
	}
	require.NoError(t, eventtest.TestDurable(memory))
	eventtest.RunDurable(t, func(*testing.T) func() (event.Store, error) {
		return places(func() fault { return sound })()
	})
}

func TestRunFailure(t *testing.T) {
	contracttest.RunFails(t, func() {
		eventtest.Run(t, func(*testing.T) event.Store { return brokenEvents[0].Open() })
		eventtest.RunDurable(t, func(*testing.T) func() (event.Store, error) { return placeFaults[0].Open() })
	}, contracttest.RuleOf(t, eventtest.EventRules(), eventFaults[0].Breaks).Name,
		contracttest.RuleOf(t, eventtest.DurableRules(), placeFaults[0].Breaks).Name)
}

type (
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
	m      *event.Memory
	err    error

	events   []event.Event // that are appended, read, selected or decided
	kind, id string
	s        event.Selection
	all      []*event.Exchange
	layers   []string
}

func (c *call) Method() string       { return c.method }
func (c *call) Return(err error)     { c.err = err }
func (c *call) ofRun() []event.Event { return c.stored(event.AggregateType, "run-1") }

func (c *call) does(method string, alter alteration, do func()) error {
	c.method = method
	alter(c, do)
	return c.err
}

func (c *call) stored(kind, id string) []event.Event {
	events, _ := c.m.Read(context.Background(), kind, id)
	return events
}

func (c *call) selected(s event.Selection) []event.Event {
	events, _ := c.m.Select(context.Background(), s)
	return events
}

// altered is a memory whose calls are altered.
type altered struct {
	*event.Memory
	alter alteration
}

// A store that is able has all optional interfaces, and a plain one none.
func able(f fault) event.Store  { return &altered{new(event.Memory), f()} }
func plain(f fault) event.Store { return struct{ event.Store }{able(f)} }

func (a *altered) does(method string, c *call, do func()) error {
	c.m = a.Memory
	return c.does(method, a.alter, do)
}

func (a *altered) Append(ctx context.Context, events ...event.Event) error {
	c := &call{ctx: ctx, events: slices.Clone(events)}
	return a.does("Append", c, func() { c.err = a.Memory.Append(c.ctx, c.events...) })
}

func (a *altered) Read(ctx context.Context, kind, id string) ([]event.Event, error) {
	c := &call{ctx: ctx, kind: kind, id: id}
	err := a.does("Read", c, func() { c.events, c.err = a.Memory.Read(c.ctx, c.kind, c.id) })
	return c.events, err
}

func (a *altered) Select(ctx context.Context, s event.Selection) ([]event.Event, error) {
	c := &call{ctx: ctx, s: s}
	err := a.does("Select", c, func() { c.events, c.err = a.Memory.Select(c.ctx, c.s) })
	return c.events, err
}

func (a *altered) Transact(ctx context.Context, all ...*event.Exchange) error {
	c := &call{ctx: ctx, all: all}
	return a.does("Transact", c, func() { c.err = a.Memory.Transact(c.ctx, c.all...) })
}

func (a *altered) Layers(ctx context.Context, parent string) ([]string, error) {
	c := &call{ctx: ctx, id: parent}
	err := a.does("Layers", c, func() { c.layers, c.err = a.Memory.Layers(c.ctx, c.id) })
	return c.layers, err
}

func (a *altered) Close() error { return a.does("Close", &call{}, func() {}) }

// errOwn is an error of a store that does not say what a rule wants to know.
var errOwn = errors.New("constraint failed")

// own returns the error, or one of its own in the place of ErrInvalid.
func own(err error) error {
	if errors.Is(err, event.ErrInvalid) {
		return errOwn
	}
	return err
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

func ignoresContext(method string) fault {
	return before(method, func(c *call) { c.ctx = context.WithoutCancel(c.ctx) })
}

// looksAtContextLate is a fault in a method that does what it must not do any more.
func looksAtContextLate(method string) fault {
	return around(method, func(c *call, next func()) {
		ctx := c.ctx
		c.ctx = context.WithoutCancel(ctx)
		next()
		c.err = errors.Join(c.err, ctx.Err())
	})
}

func hidesContext(method string) fault {
	return fails(method, errOwn, func(c *call) bool { return c.ctx.Err() != nil })
}
