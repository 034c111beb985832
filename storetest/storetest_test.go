package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) watchdog.EventStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.Test(func() (watchdog.EventStore, error) { return new(watchdog.Memory), nil }))
	storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return new(watchdog.Memory), nil }))
}

func TestBrokenStores(t *testing.T) {
	require.NoError(t, testEvents(plain, sound), "a store without an optional interface breaks no rule")
	contracttest.EachBreaksOneRule(t, storetest.EventRules(), brokenEvents)
}

func TestBrokenDurableStores(t *testing.T) {
	contracttest.EachBreaksOneRule(t, storetest.DurableRules(), placeFaults)
}

func TestBrokenSpendStores(t *testing.T) {
	require.NoError(t, testSpend(sound))
	contracttest.EachBreaksOneRule(t, storetest.SpendRules(), brokenSpends)
}

var (
	sound        = before("", func(*call) {}) // is no fault
	brokenEvents = append(contracttest.Stores(plain, eventFaults), contracttest.Stores(able, ableFaults)...)
	brokenSpends = contracttest.Stores(spending, spendFaults)
)

func testEvents(open func(fault) watchdog.EventStore, f fault) error {
	return storetest.Test(func() (watchdog.EventStore, error) { return open(f), nil })
}

func testSpend(f fault) error {
	return storetest.TestSpend(func() (watchdog.SpendStore, error) { return spending(f), nil })
}

// A race that a broken store can win is no rule: the suite of its author would pass now and then.
func TestRacesAreAlwaysFound(t *testing.T) {
	alwaysFound(t, storetest.DurableRules(), placeFaults, oneIDOfStores, noOverlapOfStores)
	alwaysFound(t, storetest.SpendRules(), brokenSpends, oneIDTogether, returnTogether, crowdFits)
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
		m := new(memory)
		return func() (watchdog.EventStore, error) { return m, nil }
	}
	require.NoError(t, storetest.TestDurable(memory))
	storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) {
		return places(func() fault { return sound })()
	})
}

// A follower that is not told is found when the time of the check is over.
func TestMissedEvents(t *testing.T) {
	defer contract.SetTimeout(200 * time.Millisecond)()
	err := testEvents(able, before("Follow", func(c *call) { c.tell = func(event) {} }))
	require.ErrorContains(t, err, "a follower of all runs is told of each event that is stored from then on, once: ")
	require.ErrorContains(t, err, "a follower is told of what a transaction stores: ")
}

// A store whose answers are lost while it is busy keeps the rules: a host tries again under the same ID.
func TestBusySpendStore(t *testing.T) {
	var calls, inside, lost atomic.Int64
	busy := func(c *call, next func()) {
		others := inside.Add(1) - 1
		defer inside.Add(-1)
		next()
		runtime.Gosched()
		if c.err == nil && others > 0 && calls.Add(1)%2 == 0 {
			lost.Add(1)
			c.err = errOwn
		}
	}
	require.NoError(t, testSpend(both(around("Take", busy), around("Return", busy))))
	require.Positive(t, lost.Load())
}

func TestRunFailure(t *testing.T) {
	contracttest.RunFails(t, func() {
		storetest.Run(t, func(*testing.T) watchdog.EventStore { return brokenEvents[0].Open() })
		storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) { return placeFaults[0].Open() })
		storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return brokenSpends[0].Open() })
	}, contracttest.RuleOf(t, storetest.EventRules(), eventFaults[0].Breaks).Name,
		contracttest.RuleOf(t, storetest.DurableRules(), placeFaults[0].Breaks).Name,
		contracttest.RuleOf(t, storetest.SpendRules(), spendFaults[0].Breaks).Name)
}

type (
	slice  = watchdog.Slice
	totals = watchdog.Totals
	grant  = watchdog.Grant
)

// A ledger is a plain SpendStore. Its calls are altered, and the steps that they consist of.
type ledger struct {
	mu         sync.Mutex
	charged    map[page]totals
	currencies map[string]string
	slices     map[string]*entry
	meetings   map[string]chan struct{}
	alter      alteration
}

// A page is a window of a scope.
type page struct{ scope, window string }

type entry struct {
	at                page
	scope             string
	ends              time.Time
	name              string // of the window, in answers
	granted, returned totals
	back              bool
	written           chan struct{}
}

// An offer is what is granted of a slice, and whether it fits.
type offer struct {
	granted totals
	fits    bool
}

// spending returns an empty ledger with a fault.
func spending(f fault) watchdog.SpendStore {
	return &ledger{
		charged: map[page]totals{}, currencies: map[string]string{}, slices: map[string]*entry{},
		meetings: map[string]chan struct{}{}, alter: f(),
	}
}

func (l *ledger) does(step string, c *call, do func()) error {
	c.l = l
	return c.does(step, l.alter, do)
}

func (l *ledger) Take(ctx context.Context, s slice) (grant, error) {
	c := &call{ctx: ctx, slice: s}
	err := l.does("Take", c, func() {
		looked := &call{slice: c.slice}
		invalid := l.does("validate", looked, func() { looked.err = looked.slice.Validate() })
		if c.err = cmp.Or(c.ctx.Err(), invalid); c.err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.take(c)
		}
	})
	return c.grant, err
}

func (l *ledger) take(c *call) {
	_ = l.does("look up", c, func() { c.e = l.slices[c.slice.ID] })
	if c.e != nil {
		l.mu.Unlock()
		<-c.e.written
		l.mu.Lock()
		_ = l.does("take again", c, func() {
			if c.err = c.slice.CheckScope(c.e.scope); c.err == nil {
				c.grant = l.grant(c.e)
			}
		})
		return
	}
	_ = l.does("find", c, func() {
		c.account, c.at.scope = c.slice.Scope, c.slice.Scope
		c.at.window, c.ends = c.slice.WindowAt(time.Now())
	})
	c.known, c.charged = l.currencies[c.account], l.charged[c.at]
	if l.does("agree", c, func() { c.currency, c.err = c.slice.CurrencyOf(c.known) }) != nil {
		return
	}
	_ = l.does("fit", c, func() { c.granted, c.fits = c.slice.Fit(c.charged) })
	_ = l.does("name", c, func() { c.window, _ = c.slice.WindowAt(time.Now()) })
	if c.fits {
		l.charge(c)
	} else {
		c.grant = grant{Charged: l.charged[c.at], Window: c.window}.Until(c.ends, time.Now())
	}
}

func (l *ledger) charge(c *call) {
	e := &entry{
		at: c.at, scope: c.slice.Scope, ends: c.ends, name: c.window, granted: c.granted, written: make(chan struct{}),
	}
	defer close(e.written)
	l.slices[c.slice.ID], l.currencies[c.account] = e, c.currency
	_ = l.does("charge", c, func() { c.sum = c.charged.Add(c.granted) })
	l.charged[c.at] = c.sum
	c.grant = l.grant(e)
}

func (l *ledger) grant(e *entry) grant {
	return grant{Fits: true, Granted: e.granted, Charged: l.charged[e.at], Window: e.name}.Until(e.ends, time.Now())
}

func (l *ledger) Return(ctx context.Context, id string, unused totals) error {
	c := &call{ctx: ctx, id: id, unused: unused}
	return l.does("Return", c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.e = l.slices[c.id]
		switch {
		case c.ctx.Err() != nil:
			c.err = c.ctx.Err()
		case c.e == nil:
			c.err = fmt.Errorf("%w return: there is no such slice", watchdog.ErrInvalid)
		default:
			_ = l.does("give back", c, func() { l.giveBack(c) })
		}
	})
}

func (l *ledger) giveBack(c *call) {
	if _, c.err = l.charged[c.e.at].GiveBack(c.e.granted, c.unused); c.err == nil && !c.e.back {
		_ = l.does("discharge", c, func() {
			l.charged[c.e.at], c.err = l.charged[c.e.at].GiveBack(c.e.granted, c.unused)
			c.e.returned, c.e.back = c.unused, true
		})
	}
}

// meet unlocks the ledger until another caller comes to the same place, or a while has passed: two callers that could
// meet do.
func (l *ledger) meet(place string) {
	const patience = 10 * time.Millisecond
	met, waits := l.meetings[place]
	if waits {
		delete(l.meetings, place)
		close(met)
	} else {
		met = make(chan struct{})
		l.meetings[place] = met
	}
	l.mu.Unlock()
	select {
	case <-met:
	case <-time.After(patience):
	}
	l.mu.Lock()
	if l.meetings[place] == met {
		delete(l.meetings, place)
	}
}

type (
	event      = watchdog.Event
	selection  = watchdog.Selection
	exchange   = watchdog.Exchange
	memory     = watchdog.Memory
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
	m      *memory
	err    error

	events   []event // that are appended, read, selected or decided
	kind, id string
	s        selection
	all      []*exchange
	layers   []string
	ready    func()
	tell     func(e event)

	l               *ledger
	slice           slice
	grant           grant
	unused          totals
	e               *entry // that the ledger has of the slice
	at              page
	ends            time.Time
	account         string // that has a currency
	known, currency string
	window          string
	charged, sum    totals
	offer
}

func (c *call) Method() string   { return c.method }
func (c *call) Return(err error) { c.err = err }
func (c *call) ofRun() []event   { return c.stored(watchdog.AggregateType, "run-1") }

func (c *call) does(method string, alter alteration, do func()) error {
	c.method = method
	alter(c, do)
	return c.err
}

func (c *call) stored(kind, id string) []event {
	events, _ := c.m.Read(context.Background(), kind, id)
	return events
}

func (c *call) selected(s selection) []event {
	events, _ := c.m.Select(context.Background(), s)
	return events
}

// altered is a memory whose calls are altered.
type altered struct {
	*memory
	alter alteration
}

// A store that is able has all optional interfaces, and a plain one none.
func able(f fault) watchdog.EventStore  { return &altered{new(memory), f()} }
func plain(f fault) watchdog.EventStore { return struct{ watchdog.EventStore }{able(f)} }

func (a *altered) does(method string, c *call, do func()) error {
	c.m = a.memory
	return c.does(method, a.alter, do)
}

func (a *altered) Append(ctx context.Context, events ...event) error {
	c := &call{ctx: ctx, events: slices.Clone(events)}
	return a.does("Append", c, func() { c.err = a.memory.Append(c.ctx, c.events...) })
}

func (a *altered) Read(ctx context.Context, kind, id string) ([]event, error) {
	c := &call{ctx: ctx, kind: kind, id: id}
	err := a.does("Read", c, func() { c.events, c.err = a.memory.Read(c.ctx, c.kind, c.id) })
	return c.events, err
}

func (a *altered) Select(ctx context.Context, s selection) ([]event, error) {
	c := &call{ctx: ctx, s: s}
	err := a.does("Select", c, func() { c.events, c.err = a.memory.Select(c.ctx, c.s) })
	return c.events, err
}

func (a *altered) Transact(ctx context.Context, all ...*exchange) error {
	c := &call{ctx: ctx, all: all}
	return a.does("Transact", c, func() { c.err = a.memory.Transact(c.ctx, c.all...) })
}

func (a *altered) Layers(ctx context.Context, parent string) ([]string, error) {
	c := &call{ctx: ctx, id: parent}
	err := a.does("Layers", c, func() { c.layers, c.err = a.memory.Layers(c.ctx, c.id) })
	return c.layers, err
}

func (a *altered) Follow(ctx context.Context, id string, ready func(), tell func(event)) error {
	c := &call{ctx: ctx, id: id, ready: ready, tell: tell}
	return a.does("Follow", c, func() { c.err = a.memory.Follow(c.ctx, c.id, c.ready, c.tell) })
}

func (a *altered) Close() error { return a.does("Close", &call{}, func() {}) }

// errOwn is an error of a store that does not say what a rule wants to know.
var errOwn = errors.New("constraint failed")

// own returns the error, or one of its own in the place of ErrInvalid.
func own(err error) error {
	if errors.Is(err, watchdog.ErrInvalid) {
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
