package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
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

const (
	oneIDTogether  = "many take at once"
	returnTogether = "many give back at once"
	crowdFits      = "many callers at once"
)

// Faults in the steps of a take and a return.
func grants(change func(c *call)) fault                       { return after("fit", change) }
func answers(change func(c *call)) fault                      { return after("take again", change) }
func finds(change func(c *call)) fault                        { return after("find", change) }
func beforeReturn(do func(c *call)) fault                     { return before("give back", do) }
func answersReturn(err error, which func(c *call) bool) fault { return fails("give back", err, which) }

func grantsRequests(which func(c *call) bool, requests func(c *call) int64) fault {
	return grants(func(c *call) { setIf(which(c), &c.granted.Requests, requests(c)) })
}

// What a slice asks for, of what is left.
func (c *call) rest() int64                           { return c.slice.Limit.Requests - c.charged.Requests }
func (c *call) unlimited() bool                       { return c.slice.Limit.Requests == watchdog.NoLimit }
func (c *call) hasPeriod(period watchdog.Period) bool { return c.slice.Period == period }
func isForced(c *call) bool                           { return c.slice.Force }
func hasShare(c *call) bool                           { return c.fits && !c.slice.Force && !c.unlimited() }

// reaches reports whether a kind that has a limit reaches it.
func reaches(least, limit, charged int64) bool {
	return least > 0 && limit < watchdog.NoLimit && charged+least == limit
}

// chargesAgain is a fault in which a slice that is taken again is charged once more.
func chargesAgain(which func(c *call) bool, at func(c *call) page, more func(e *entry) totals) fault {
	return before("take again", func(c *call) {
		if which(c) {
			c.l.charged[at(c)] = c.l.charged[at(c)].Add(more(c.e))
		}
	})
}

// What is charged again.
func ownPage(c *call) page    { return c.e.at }
func granted(e *entry) totals { return e.granted }

func unknown(err error) fault {
	return after("Return", func(c *call) { setIf(c.e == nil, &c.err, err) })
}

func chargesTo(scope func(scope string) string) fault {
	return finds(func(c *call) { c.at.scope = scope(c.at.scope) })
}

// currencies is a fault in the currency of a scope. It is a late one if the scope had none at first.
func currencies(change func(c *call, late bool)) fault {
	return func() alteration {
		late := map[string]bool{}
		return after("agree", func(c *call) {
			scope := c.slice.Scope
			late[scope] = late[scope] || c.known == "" && c.slice.Currency == "" && c.slice.Least.Cost > 0
			change(c, late[scope])
		})()
	}
}

func names(name func(c *call) string) fault {
	return after("name", func(c *call) { c.window = name(c) })
}

func validates(change func(s *slice)) fault {
	return before("validate", func(c *call) { change(&c.slice) })
}

func hidesContext(method string) fault {
	return fails(method, errOwn, func(c *call) bool { return c.ctx.Err() != nil })
}

var spendFaults = []broken{
	{"refuses what reaches the limit", "fits up to the limit", grants(func(c *call) {
		least, limit := c.slice.Least, c.slice.Limit
		input := reaches(least.InputTokens, limit.InputTokens, c.charged.InputTokens)
		setIf(input || reaches(least.Requests, limit.Requests, c.charged.Requests), &c.offer, offer{})
	})},
	{"allows one more", "fits up to the limit", grants(func(c *call) {
		more := c.slice.Limit.Requests > 0 && c.rest() == c.slice.Least.Requests-1
		setIf(more, &c.offer, offer{c.slice.Least, true})
	})},
	{"mixes up two kinds", "every kind is charged", grants(func(c *call) {
		c.granted.InputTokens, c.granted.OutputTokens = c.granted.OutputTokens, c.granted.InputTokens
	})},
	{"has no column for a kind", "every kind", after("charge", func(c *call) { c.sum.ToolCalls -= c.granted.ToolCalls })},
	{"charges the kinds that fit", "if one kind does not fit", grants(func(c *call) {
		if turns := c.slice.Least.Turns; !c.fits && turns > 0 && turns <= c.slice.Limit.Turns {
			c.l.charged[c.at] = c.charged.Add(totals{Turns: turns})
		}
	})},
	{"knows no limit of cost", "if one kind does not fit",
		before("fit", func(c *call) { c.slice.Limit.Cost = max(c.slice.Limit.Cost, c.slice.Least.Cost) })},
	{"charges what is needed, and no more", "a sixty-fourth of what is left",
		grants(func(c *call) { setIf(c.fits, &c.granted, c.slice.Least) })},
	{"charges a share of the limit", "a sixty-fourth of what is left",
		grantsRequests(hasShare, func(c *call) int64 { return max(c.granted.Requests, c.slice.Limit.Requests/64) })},
	{"charges a share beside what is needed", "a sixty-fourth of what is left",
		grantsRequests(func(c *call) bool { return hasShare(c) && c.granted.Requests > 0 },
			func(c *call) int64 { return c.slice.Least.Requests + c.rest()/64 })},
	{"charges a share of no limit", "has no limit", grantsRequests(func(c *call) bool { return c.fits && c.unlimited() },
		func(c *call) int64 { return max(c.granted.Requests, math.MaxInt64/64) })},
	{"lets a sum become negative", "too large for a number",
		after("charge", func(c *call) { c.sum.Requests = c.charged.Requests + c.granted.Requests })},
	{"gives back of a sum that was too large", "too large for a number", after("give back", func(c *call) {
		if c.l.charged[c.e.at].Requests == math.MaxInt64 {
			c.l.charged[c.e.at] = totals{Requests: math.MaxInt64 - c.unused.Requests}
		}
	})},
	{"refuses what is forced", "a forced slice", before("fit", func(c *call) { c.slice.Force = false })},
	{"charges a share of what is forced", "a forced slice",
		grantsRequests(isForced, func(c *call) int64 { return max(c.granted.Requests, c.rest()/64) })},
	{"charges of what is forced what fits", "a forced slice",
		grantsRequests(isForced, func(c *call) int64 { return min(c.granted.Requests, c.rest()) })},
	{"charges a share of a negative rest", "above its limit",
		grantsRequests(func(c *call) bool { return c.fits && c.rest() < 0 && c.slice.Least.Requests == 0 },
			func(c *call) int64 { return c.rest() / 64 })},
	{"charges a slice again", "again is charged", chargesAgain(func(c *call) bool {
		return c.e.granted.Requests == 25 && !c.e.back && c.e.scope == c.slice.Scope
	}, ownPage, granted)},
	{"grants again what is asked for now", "again is charged", answers(func(c *call) { c.grant.Granted = c.slice.Least })},
	{"refuses again what does not fit now", "again is charged",
		answers(func(c *call) { setIf(c.slice.Least.Requests > c.slice.Limit.Requests, &c.grant, grant{}) })},
	{"grants a returned slice anew", "again is charged",
		chargesAgain(func(c *call) bool { return c.e.back && c.e.granted.Requests == 25 }, ownPage,
			func(e *entry) totals { return e.returned })},
	{"grants of a returned slice what was kept", "again is charged",
		answers(func(c *call) { setIf(c.e.granted.Requests == 25, &c.grant.Granted, c.e.granted.Sub(c.e.returned)) })},
	{"remembers what did not fit", "a slice that did not fit", func() alteration {
		refused := map[string]bool{}
		return grants(func(c *call) {
			refused[c.slice.ID] = refused[c.slice.ID] || !c.fits && c.slice.Least.Requests == 50
			setIf(refused[c.slice.ID], &c.offer, offer{})
		})()
	}},
	{"looks an ID up before it writes it", oneIDTogether, after("look up", func(c *call) {
		if c.e == nil {
			c.l.meet(c.slice.ID)
		}
	})},
	{"gives back each time", "given back of a slice",
		beforeReturn(func(c *call) { setIf(c.e.granted.Requests == 40, &c.e.back, false) })},
	{"fails when a slice is returned again", "given back of a slice",
		answersReturn(errOwn, func(c *call) bool { return c.e.back && c.e.granted.Requests < 50 })},
	{"puts a later return in the place of the first", "given back of a slice", beforeReturn(func(c *call) {
		if c.e.back && c.unused.Requests < c.e.returned.Requests {
			c.l.charged[c.e.at] = c.l.charged[c.e.at].Add(c.e.returned.Sub(c.unused))
		}
	})},
	{"gives nothing back after another slice of the scope", "back of a slice", answersReturn(nil, func(c *call) (is bool) {
		for _, other := range c.l.slices {
			is = is || other != c.e && other.at == c.e.at && other.back && c.e.granted.Requests == 35
		}
		return is
	})},
	{"says nothing of an unknown slice", "what no slice has", unknown(nil)},
	{"has an error of its own for an unknown slice", "what no slice has", unknown(errOwn)},
	{"gives back whatever it is told", "no more is given back",
		beforeReturn(func(c *call) { c.unused.Requests = min(c.unused.Requests, c.e.granted.Requests) })},
	{"looks at requests alone when they are returned", "no more is given back",
		beforeReturn(func(c *call) { c.unused = totals{Requests: c.unused.Requests} })},
	{"takes a refused return for the one", "no more is given back", after("give back", func(c *call) { c.e.back = true })},
	{"has an error of its own for a negative return", "no more is given back",
		answersReturn(errOwn, func(c *call) bool { return c.unused.Requests < 0 })},
	{"looks up whether a slice was returned before it writes that", returnTogether,
		before("discharge", func(c *call) { c.l.meet(c.e.scope) })},
	{"does not tell scopes apart by case", "scopes are charged apart", chargesTo(strings.ToLower)},
	{"drops the blanks at the end of a scope", "scopes are charged apart", chargesTo(strings.TrimSpace)},
	{"lets two scopes share a slice", "charged to another scope",
		around("take again", func(c *call, _ func()) { c.grant = c.l.grant(c.e) })},
	{"knows IDs by their scope", "to another scope", chargesAgain(func(c *call) bool { return c.e.scope != c.slice.Scope },
		func(c *call) page { return page{c.slice.Scope, c.e.at.window} }, granted)},
	{"has an error of its own for an ID of another scope", "another scope", answers(func(c *call) { c.err = own(c.err) })},
	{"adds euros and dollars", "a scope has one currency", currencies(func(c *call, late bool) {
		if !late {
			c.currency, c.err = c.known+c.slice.Currency, nil
		}
	})},
	{"has one currency for all scopes", "a scope has one currency", finds(func(c *call) { c.account = "" })},
	{"has a currency for each window", "has one currency", finds(func(c *call) { c.account += string(c.slice.Period) })},
	{"takes no currency for one", "a scope has one currency", currencies(func(c *call, _ bool) {
		none := c.known != "" && c.slice.Currency == "" && c.slice.Least.Requests == 0
		setIf(none, &c.err, fmt.Errorf("%w slice: no currency", watchdog.ErrInvalid))
	})},
	{"has an error of its own for another currency", "a scope has one currency",
		currencies(func(c *call, late bool) { setIf(!late, &c.err, own(c.err)) })},
	{"never learns the currency of a scope", "that had no currency",
		currencies(func(c *call, late bool) { setIf(late, &c.currency, "") })},
	{"cuts a scope to fit", "IDs and scopes are kept",
		chargesTo(func(scope string) string { return string([]rune(scope)[:min(254, len([]rune(scope)))]) })},
	{"normalizes a scope", "IDs and scopes are kept",
		chargesTo(func(scope string) string { return strings.ReplaceAll(scope, "e\u0301", "é") })},
	{"cannot write a quote", "IDs and scopes are kept",
		validates(func(s *slice) { setIf(strings.Contains(s.Scope, "'"), &s.Scope, "") })},
	{"does not tell IDs apart by case", "IDs that differ in case are different slices",
		before("look up", func(c *call) { setIf(len(c.slice.ID) == 2, &c.slice.ID, strings.ToLower(c.slice.ID)) })},
	{"has a window for each slice", "slices of one period",
		finds(func(c *call) { setIf(!c.hasPeriod(watchdog.PeriodNone), &c.at.window, c.slice.ID) })},
	{"has windows without an end", "slices of one period", finds(func(c *call) { c.ends = time.Time{} })},
	{"has windows that have ended", "slices of one period",
		finds(func(c *call) { setIf(!c.hasPeriod(watchdog.PeriodNone), &c.ends, c.ends.AddDate(-1, 0, 0)) })},
	{"has hours of a day", "slices of one period",
		finds(func(c *call) { setIf(c.hasPeriod(watchdog.PeriodHour), &c.ends, c.ends.AddDate(0, 0, 1)) })},
	{"ends what has no period", "a slice without a period",
		finds(func(c *call) { setIf(c.hasPeriod(watchdog.PeriodNone), &c.ends, time.Now().Add(time.Hour)) })},
	{"ends it when it is asked again", "a slice without a period", answers(func(c *call) { c.grant.Ends = 0 })},
	{"has one window for all periods", "the periods of a scope",
		finds(func(c *call) { setIf(strings.HasPrefix(c.slice.ID, "slice-"), &c.at.window, "") })},
	{"gives back in the window without an end", "in its own window", beforeReturn(func(c *call) { c.e.at.window = "" })},
	{"names no window", "a grant names", names(func(*call) string { return "" })},
	{"names a window by its period", "a grant names", names(func(c *call) string { return string(c.slice.Period) })},
	{"names a window by the slice", "a grant names", names(func(c *call) string { return c.slice.ID })},
	{"names what counts for ever", "a grant names", names(func(c *call) string { return cmp.Or(c.window, "ever") })},
	{"names no window of what does not fit", "a grant names",
		after("name", func(c *call) { setIf(!c.fits, &c.window, "") })},
	{"names no window when it is asked again", "a grant names", answers(func(c *call) { c.grant.Window = "" })},
	{"does not look at a slice's ID", "an invalid slice", validates(func(s *slice) { s.ID = "a" })},
	{"does not look at a slice's scope", "an invalid slice", validates(func(s *slice) { s.Scope = "a" })},
	{"does not look at a slice's zone", "an invalid slice", validates(func(s *slice) { s.Zone = "" })},
	{"has an error of its own for an invalid slice", "an invalid slice",
		after("validate", func(c *call) { c.err = own(c.err) })},
	{"ignores the context of a take", "a take or a return with", ignoresContext("Take")},
	{"charges and then returns the context's error", "a take or a return with", looksAtContextLate("Take")},
	{"has an error of its own for a take with a done context", "a take or a return with", hidesContext("Take")},
	{"ignores the context of a return", "a take or a return with", ignoresContext("Return")},
	{"gives back and then returns the context's error", "a take or a return with", looksAtContextLate("Return")},
	{"has an error of its own for a return with a done context", "a take or a return with", hidesContext("Return")},
	{"reads what is charged before it writes it", crowdFits, before("charge", func(c *call) { c.l.meet(c.slice.Scope) })},
}
