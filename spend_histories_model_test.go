package watchdog_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
)

// sharedScope is the scope that all runs of a history share.
const sharedScope = "fleet"

// spendKinds are the limits of a history, in the order in which they are checked.
var spendKinds = [...]string{1: "output_tokens", 0: "requests"}

func kindOf(u *watchdog.Usage) int { return slices.Index(spendKinds[:], u.Limit) }

// A modelCharge is an admission, as anybody would note it.
type modelCharge struct {
	charge watchdog.Charge
	of     *spendRun
	layers []*spendLayer // and the run
	window string        // of the shared scope, in which it was admitted
	key    string
	most   spendSum
	open   bool
	voided bool
	// own and shared are what the store must be charged with for it. They stay as they are once the process that drew it
	// has given back the rest, or was killed.
	own, shared             spendSum
	ownFrozen, sharedFrozen bool
}

func (h *spendHistory) newCharge(r *spendRun, c watchdog.Charge, key string, most spendSum) *modelCharge {
	return &modelCharge{
		charge: c, of: r, layers: slices.Clone(r.layers), window: h.now(), key: key, most: most, open: true,
		own: most, shared: most,
	}
}

// A spendRun is a run that one process is attached to, with its layers, the innermost last.
type spendRun struct {
	id      string
	process *spendProcess
	layers  []*spendLayer
	// scopeRungs are those of the shared limits, scopeWarned how many warnings were given of them; scopeWrapped says that
	// the run was asked to wrap up for one.
	scopeRungs, scopeWarned spendSum
	scopeWrapped            bool
	window                  string // that they are of
	warnings                spendWarnings
}

// A spendLayer is a run or one of its layers, and what is known of it.
type spendLayer struct {
	wd      *watchdog.Watchdog
	limits  spendSum // 0 is none
	reserve int64    // of requests
	rungs   spendSum
	warned  spendSum // how many warnings were given
	wrapped bool
	used    spendSum // settled
	open    spendSum // admitted
	asked   int      // directives of the last step
}

// allowed is up to where the layer admits requests or tokens.
func (l *spendLayer) allowed(kind int) int64 {
	if kind == 0 && !l.wrapped {
		return l.limits[0] - l.reserve
	}
	return l.limits[kind]
}

// refuses is the kind in which the layer itself has no room, or -1.
func (l *spendLayer) refuses(n spendSum) int {
	for _, kind := range [...]int{1, 0} {
		if n[kind] > 0 && l.limits[kind] > 0 && l.used[kind]+l.open[kind]+n[kind] > l.allowed(kind) {
			return kind
		}
	}
	return -1
}

func amountOf(s spendSum) watchdog.Amount {
	return watchdog.Amount{Requests: s[0], OutputTokens: s[1]}
}

func (s spendSum) String() string { return fmt.Sprintf("%d requests, %d tokens", s[0], s[1]) }

// charged is what the store says that a window is charged with.
func (h *spendHistory) charged(scope string) spendSum {
	period := watchdog.PeriodNone
	if scope == sharedScope {
		period = h.period
	}
	h.looks++
	g, err := h.memory.Take(context.Background(), watchdog.Slice{
		ID: fmt.Sprint("look ", h.looks), Scope: scope, Period: period,
	})
	if err != nil {
		h.fail("look at %s: %v", scope, err)
	}
	return sumOf(g.Charged)
}

// now is the window of the shared scope at this moment.
func (h *spendHistory) now() string {
	if at := time.Now(); !at.Equal(h.window.at) {
		h.window.at = at
		h.window.name, h.window.ends = watchdog.Slice{Scope: sharedScope, Period: h.period}.WindowAt(at)
	}
	return h.window.name
}

// own is what is charged to a run's own limits, by one process or by all.
func (h *spendHistory) own(id string, p *spendProcess) (sum spendSum) {
	for _, c := range h.charges {
		if c.of.id == id && (p == nil || c.of.process == p) {
			sum = sum.plus(c.own)
		}
	}
	return sum
}

// sharedIn is what is charged to a window of the shared scope, by one process or by all.
func (h *spendHistory) sharedIn(window string, p *spendProcess) (sum spendSum) {
	for _, c := range h.charges {
		if c.window == window && (p == nil || c.of.process == p) {
			sum = sum.plus(c.shared)
		}
	}
	return sum
}

// chargedBy is what a process has charged in a window of the store.
func (h *spendHistory) chargedBy(p *spendProcess, w spendWindow) spendSum {
	if w.scope == sharedScope {
		return h.sharedIn(w.name, p)
	}
	for id, scope := range p.own {
		if scope == w.scope {
			return h.own(id, p)
		}
	}
	return spendSum{}
}

// strict reports whether no limit can be exceeded.
func (h *spendHistory) strict() bool { return !h.beyond && !h.observed }

// check compares what holds at every moment.
func (h *spendHistory) check() {
	for _, p := range append(h.dead, h.processes[:]...) {
		p.connection.each(func(w spendWindow, l *spendLedger) {
			if used, held := h.chargedBy(p, w), l.taken.minus(l.returned); h.strict() && !used.atMost(held) {
				h.fail("%s holds %v of %v and has charged %v", p.name, held, w, used)
			}
		})
		for _, r := range p.runs {
			h.checkUsage(r)
			h.checkWarned(r)
		}
	}
	if h.strict() {
		h.checkLimits()
	}
}

func (h *spendHistory) checkLimits() {
	if sum := h.sharedIn(h.now(), nil); !sum.atMost(h.shared) {
		h.fail("the scope was used up to %v of %v", sum, h.shared)
	}
	if charged := h.charged(sharedScope); !charged.atMost(h.shared) {
		h.fail("the scope is charged with %v of %v", charged, h.shared)
	}
	for id, limit := range h.limits {
		if sum := h.own(id, nil); !sum.atMost(limit) {
			h.fail("run %s was used up to %v of %v", id, sum, limit)
		}
	}
}

// checkUsage compares the numbers of Usage.
func (h *spendHistory) checkUsage(r *spendRun) {
	for depth, l := range r.layers {
		for _, u := range l.wd.Usage() {
			kind := kindOf(&u)
			want := l.used[kind]
			switch {
			case u.Scope != "" && (h.turning() || !h.strict()): // what is owed may count in the window after
				want = u.Used
			case u.Scope != "":
				want = h.usedOfScope(r.process)[kind]
			case depth == 0:
				ledger := r.process.connection.read(spendWindow{r.process.own[r.id], ""})
				want += max(ledger.last[kind]-ledger.answered[kind], 0)
			}
			if u.Used != want || u.Scope == "" && u.Admitted != l.open[kind] {
				h.fail("%s: usage of %s is %+v; want %d used and %d admitted", r.process.name, l.wd.ID(), u, want, l.open[kind])
			}
		}
	}
}

// usedOfScope is what a process knows to be used of the shared scope: the last answer, less what it has left.
func (h *spendHistory) usedOfScope(p *spendProcess) spendSum {
	w := spendWindow{sharedScope, h.now()}
	l := p.connection.read(w)
	return l.last.minus(l.answered).plus(h.sharedIn(w.name, p)).minus(l.before)
}

// turning reports that the window is about to end: a process leaves it before, by as much as the store was slow.
func (h *spendHistory) turning() bool {
	h.now()
	return !h.window.ends.IsZero() && time.Until(h.window.ends) < 10*time.Second
}

// refused compares a refusal with the model, and with what the store has.
func (h *spendHistory) refused(r *spendRun, n spendSum, refused *watchdog.Refused) {
	kind := kindOf(&refused.Usage)
	for _, l := range slices.Backward(r.layers) {
		if at := l.refuses(n); at >= 0 {
			if refused.Run != l.wd.ID() || at != kind || refused.Scope != "" {
				h.fail("%v refused the call of %v, and not %s of %s", refused, n, spendKinds[at], l.wd.ID())
			}
			h.tripped(r, l, kind, "")
			return
		}
	}
	limit, scope := r.layers[0].allowed(kind), r.process.own[r.id]
	if refused.Scope != "" {
		limit, scope = h.sharedUpTo(r, kind), sharedScope
	}
	if used := h.charged(scope)[kind] - h.left(r.process, scope)[kind]; used+n[kind] <= limit {
		h.fail("%v refused a call of %v, of which %d of %d are used", refused, n, used, limit)
	}
	h.tripped(r, r.layers[0], kind, refused.Scope)
}

// left is what a process has taken of a scope's window and not used.
func (h *spendHistory) left(p *spendProcess, scope string) spendSum {
	w := spendWindow{scope: scope}
	if scope == sharedScope {
		w.name = h.now()
	}
	l := p.connection.read(w)
	return l.answered.plus(l.before).minus(h.chargedBy(p, w))
}

// tripped expects the one directive of a refusal.
func (h *spendHistory) tripped(r *spendRun, l *spendLayer, kind int, scope string) {
	rung, wrapped, reserve := &l.rungs[kind], &l.wrapped, l.reserve
	if scope != "" {
		rung, wrapped, reserve = &r.scopeRungs[kind], &r.scopeWrapped, h.kept
	}
	want := watchdog.DirectiveCancel
	switch {
	case !h.strict():
		return
	case kind == 0 && reserve > 0 && !*wrapped:
		want, *wrapped = watchdog.DirectiveWrapUp, true
	case *rung < int64(h.waits):
		want = watchdog.DirectiveWait
		*rung++
	}
	h.expect(l, want, scope)
	if want == watchdog.DirectiveCancel {
		h.ended(r, l)
	}
}

// expect takes one directive from the layer.
func (h *spendHistory) expect(l *spendLayer, want watchdog.DirectiveKind, scope string) {
	d, ok := l.wd.Poll()
	if !ok || d.Kind != want || d.Usage == nil || d.Usage.Scope != scope {
		h.fail("%s: asked %v %+v, want %s", l.wd.ID(), ok, d, want)
	}
}

// quiet expects that nothing else was asked, but to wrap up where only the reserve is left.
func (h *spendHistory) quiet(r *spendRun, l *spendLayer) {
	for d, ok := l.wd.Poll(); ok; d, ok = l.wd.Poll() {
		if d.Usage.Scope != "" {
			h.quietScope(r, l, d)
			continue
		}
		before := d.Usage.Allowed < l.limits[0] // it was extended
		if d.Kind != watchdog.DirectiveWrapUp || l.wrapped && !before || d.Usage.Used < d.Usage.Allowed-l.reserve {
			h.fail("%s: asked %s out of the blue: %v", l.wd.ID(), d.Kind, d.Usage)
			return
		}
		l.wrapped = !before
	}
}

// quietScope expects that the run was asked to wrap up for the scope, once, and only the reserve is left of that.
func (h *spendHistory) quietScope(r *spendRun, l *spendLayer, d watchdog.Directive) {
	if d.Kind != watchdog.DirectiveWrapUp || r.scopeWrapped || d.Usage.Used < h.shared[0]-h.kept {
		h.fail("%s: asked %s for the scope out of the blue: %v", l.wd.ID(), d.Kind, d.Usage)
	}
	r.scopeWrapped = true
}

// sharedUpTo is up to where calls of the run are admitted in the shared scope.
func (h *spendHistory) sharedUpTo(r *spendRun, kind int) int64 {
	if kind == 0 && !r.scopeWrapped {
		return h.shared[0] - h.kept
	}
	return h.shared[kind]
}

// ended closes a layer that has ended with what is inside, and a run in every process.
func (h *spendHistory) ended(r *spendRun, l *spendLayer) {
	if _, fired := l.wd.Fired(); !fired {
		h.fail("%s was refused for good and has not ended", l.wd.ID())
	}
	if at := slices.Index(r.layers, l); at > 0 {
		h.closeFrom(r, at)
		return
	}
	h.retire(r.id)
}

// retire closes a run everywhere. Nobody attaches to it again.
func (h *spendHistory) retire(id string) {
	h.retired[id] = true
	for _, p := range h.processes {
		for _, r := range slices.Clone(p.runs) {
			if r.id == id {
				h.closeFrom(r, 0)
			}
		}
	}
}

// asked takes what was asked of the layers since, and closes those that have ended.
func (h *spendHistory) asked(r *spendRun) {
	for _, l := range slices.Clone(r.layers) {
		if h.strict() {
			h.quiet(r, l)
			continue
		}
		l.asked = 0
		for d, ok := l.wd.Poll(); ok; d, ok = l.wd.Poll() {
			l.asked++
			wrapUp := d.Kind == watchdog.DirectiveWrapUp
			l.wrapped = l.wrapped || wrapUp && d.Usage.Scope == "" && d.Usage.Allowed == l.limits[0]
			r.scopeWrapped = r.scopeWrapped || wrapUp && d.Usage.Scope != ""
		}
		if _, fired := l.wd.Fired(); fired && slices.Contains(r.layers, l) {
			h.ended(r, l)
			return
		}
	}
	if len(r.layers) > 0 {
		h.note(r)
	}
}

// SpendWarnings are those of a run and its layers that nobody has looked at.
type spendWarnings struct {
	mu  sync.Mutex
	all []watchdog.Warning
}

// add is an OnWarning.
func (s *spendWarnings) add(w watchdog.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, w)
}

// take returns them by their fractions: goroutines that warn at once tell of it in any order.
func (s *spendWarnings) take() (all []watchdog.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.all = s.all, nil
	slices.SortFunc(all, func(a, b watchdog.Warning) int { return cmp.Compare(a.Fraction, b.Fraction) })
	return all
}

// reached is how many fractions of a limit are reached.
func (h *spendHistory) reached(used, limit int64) (n int64) {
	for _, fraction := range h.warnAt {
		if float64(used) >= fraction*float64(limit) {
			n++
		}
	}
	return n
}

// checkWarned compares what was warned of with what the run and its layers have used. What others use of the run's own
// limits it learns later.
func (h *spendHistory) checkWarned(r *spendRun) {
	h.takeWarnings(r)
	for depth, l := range r.layers {
		for kind, warned := range l.warned {
			reached := h.reached(l.used[kind], l.limits[kind])
			if warned < reached || depth > 0 && warned > reached {
				h.fail("%s used %v of %v and was warned %v times", l.wd.ID(), l.used, l.limits, l.warned)
			}
		}
	}
}

// checkScopeWarned expects that a run whose call was settled was warned of what is used of the scope by then.
func (h *spendHistory) checkScopeWarned(c *modelCharge, used spendSum) {
	r := c.of
	if len(r.layers) == 0 || c.window != h.now() || h.turning() || !h.strict() {
		return
	}
	h.takeWarnings(r)
	sum := h.usedOfScope(r.process)
	for kind, n := range used {
		if n > 0 && r.scopeWarned[kind] < h.reached(sum[kind], h.shared[kind]) {
			h.fail("%s: %v of the scope are used, and it was warned %v times", r.id, sum, r.scopeWarned)
		}
	}
}

// takeWarnings takes the warnings of a run and its layers. Each must be the next of its limit, and be due.
func (h *spendHistory) takeWarnings(r *spendRun) {
	for _, w := range r.warnings.take() {
		at := slices.IndexFunc(r.layers, func(l *spendLayer) bool { return l.wd.ID() == w.RunID })
		if at < 0 {
			continue // it has ended
		}
		kind := kindOf(w.Usage)
		given, most := &r.layers[at].warned[kind], h.mostUsed(r, at)
		if w.Usage.Scope != "" {
			given, most = &r.scopeWarned[kind], h.shared
		} else if w.Usage.Allowed < r.layers[at].limits[kind] {
			continue // it was extended since
		}
		due := float64(w.Usage.Used) >= w.Fraction*float64(w.Usage.Allowed)
		if int(*given) >= len(h.warnAt) || w.Fraction != h.warnAt[*given] || !due || h.strict() && w.Usage.Used > most[kind] {
			h.fail("%s: warned of %v: %v, after %d warnings", w.RunID, w.Fraction, w.Usage, *given)
			return
		}
		*given++
	}
	if len(r.layers) > 0 {
		h.note(r)
	}
}

// mostUsed is what can be used at most of the limits of a layer: of the run's own, others may have used some.
func (h *spendHistory) mostUsed(r *spendRun, depth int) spendSum {
	used := r.layers[depth].used
	if depth > 0 {
		return used
	}
	return used.plus(r.process.connection.read(spendWindow{r.process.own[r.id], ""}).others)
}

// What a spendConnection does with the next calls.
type spendFault int

const (
	spendWell   spendFault = iota
	spendFails             // without carrying it out
	spendLost              // carries it out, and the answer is lost
	spendSlow              // answers after a second
	spendLate              // carries it out after the record timeout, whatever its context says
	spendFaults            // how many there are
)

var errSpendStore = errors.New("spend store is down")

// A spendLedger is what one process was granted and has returned of one window of a scope. The store is right; what a
// process may have forgotten is found by it.
type spendLedger struct {
	taken, returned spendSum
	// answered is what it was granted and knows of, since it began to draw on the scope; before is what it had charged by
	// then. Last is what the window was charged with at the last answer, others the most that others had of it.
	answered, before, last, others spendSum
}

// A spendSum is requests and output tokens.
type spendSum [2]int64

func (s spendSum) plus(more spendSum) spendSum  { return spendSum{s[0] + more[0], s[1] + more[1]} }
func (s spendSum) minus(less spendSum) spendSum { return spendSum{s[0] - less[0], s[1] - less[1]} }
func (s spendSum) most(other spendSum) spendSum {
	return spendSum{max(s[0], other[0]), max(s[1], other[1])}
}
func (s spendSum) atMost(most spendSum) bool { return s[0] <= most[0] && s[1] <= most[1] }

func sumOf(t watchdog.Totals) spendSum { return spendSum{t.Requests, t.OutputTokens} }

// A spendWindow is a window of a scope; the start of one that counts for ever is zero.
type spendWindow struct {
	scope string
	name  string
}

// A spendConnection is how one process reaches the store, until it is killed.
type spendConnection struct {
	memory *watchdog.Memory

	mu      sync.Mutex
	fault   spendFault
	dead    bool
	ledgers map[spendWindow]*spendLedger
	slices  map[string]spendWindow
	late    map[string]bool // scopes of which something is settled that no run of the process draws on
	calls   int             // that are under way
	doubt   bool            // something could not be returned
	faulty  bool            // it was not always well
}

func (c *spendConnection) ledger(w spendWindow) *spendLedger {
	if c.ledgers[w] == nil {
		c.ledgers[w] = &spendLedger{}
	}
	return c.ledgers[w]
}

// read is the ledger of a window as it is now.
func (c *spendConnection) read(w spendWindow) spendLedger {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.ledger(w)
}

// each looks at the ledgers.
func (c *spendConnection) each(look func(w spendWindow, l *spendLedger)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, l := range c.ledgers {
		look(w, l)
	}
}

// set changes what happens to the next calls.
func (c *spendConnection) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// unwell reports whether a call may fail, or wait for one that does.
func (c *spendConnection) unwell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead || c.fault != spendWell && c.fault != spendSlow || c.calls > 0
}

// begin is what happens to a call before it is carried out. Unless it fails, the caller has to unlock mu.
func (c *spendConnection) begin() (fault spendFault, err error) {
	c.mu.Lock()
	fault = c.fault
	c.calls++
	if wait := map[spendFault]time.Duration{spendSlow: time.Second, spendLate: 6 * time.Second}[fault]; wait > 0 {
		c.mu.Unlock()
		time.Sleep(wait)
		c.mu.Lock()
	}
	if c.calls--; c.dead || fault == spendFails {
		c.mu.Unlock()
		return fault, errSpendStore
	}
	return fault, nil
}

func (c *spendConnection) Take(ctx context.Context, s watchdog.Slice) (watchdog.Grant, error) {
	c.mu.Lock()
	late := c.late[s.Scope]
	c.mu.Unlock()
	fault, err := c.begin()
	if err != nil {
		return watchdog.Grant{}, err
	}
	defer c.mu.Unlock()
	name, _ := s.WindowAt(time.Now())
	w, again := c.slices[s.ID]
	if !again {
		w = spendWindow{s.Scope, name}
	}
	g, err := c.memory.Take(context.WithoutCancel(ctx), s)
	if err != nil {
		return g, err
	}
	l := c.ledger(w)
	if g.Fits && !again {
		l.taken = l.taken.plus(sumOf(g.Granted))
		c.slices[s.ID] = w
	}
	if fault == spendLost {
		return watchdog.Grant{}, errSpendStore
	}
	if late { // the runs that are there do not hear of it
		return g, nil
	}
	if g.Fits {
		l.answered = l.answered.plus(sumOf(g.Granted))
	}
	l.last = sumOf(g.Charged)
	l.others = l.others.most(l.last.minus(l.answered))
	return g, nil
}

func (c *spendConnection) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	fault, err := c.begin()
	if err != nil {
		c.set(func() { c.doubt = true })
		return err
	}
	defer c.mu.Unlock()
	l := c.ledger(c.slices[id])
	l.returned = l.returned.plus(sumOf(unused))
	if err := c.memory.Return(context.WithoutCancel(ctx), id, unused); err != nil || fault == spendLost {
		return errors.Join(err, errSpendStore)
	}
	return nil
}

// burst has many goroutines admit and settle at once. What was asked for it is not modelled: a run that refused ends.
func (h *spendHistory) burst(r *spendRun) {
	l := r.layers[len(r.layers)-1]
	h.say("%s: burst in %s", r.process.name, l.wd.ID())
	all, most, settled := make([]watchdog.Charge, 8), make([]spendSum, 8), make([]bool, 8)
	var refused atomic.Bool
	var together sync.WaitGroup
	for i := range all {
		most[i], settled[i] = h.amount(), h.chance(2)
		together.Go(func() {
			var err error
			if all[i], err = l.wd.Admit(context.Background(), "", amountOf(most[i])); err != nil {
				refused.Store(true)
			} else if settled[i] {
				_ = all[i].Settle(amountOf(most[i]))
			}
		})
	}
	together.Wait()
	synctest.Wait()
	for i, charge := range all {
		if charge == (watchdog.Charge{}) {
			continue
		}
		c := h.newCharge(r, charge, "", most[i])
		c.open = !settled[i]
		h.charges = append(h.charges, c)
		for _, l := range c.layers {
			if settled[i] {
				l.used = l.used.plus(c.most)
			} else {
				l.open = l.open.plus(c.most)
			}
		}
	}
	if refused.Load() {
		h.retire(r.id)
		return
	}
	h.asked(r)
}

// end heals everything, closes all runs, and compares what the store has with what was charged.
func (h *spendHistory) end() {
	for _, p := range h.processes {
		p.connection.set(func() { p.connection.fault = spendWell })
		for len(p.runs) > 0 {
			h.closeFrom(p.runs[0], 0)
		}
		time.Sleep(time.Minute) // for what was late
		synctest.Wait()
		h.pay(p)
		healed := !p.leaky && !p.connection.doubt && (h.strict() || !p.connection.faulty)
		p.connection.each(func(w spendWindow, l *spendLedger) {
			used, held := h.chargedBy(p, w), l.taken.minus(l.returned)
			if healed && !h.late[w.name] && used != held { // of one that is late the rest may have been given back before
				h.fail("%s holds %v of %v after its end and has charged %v", p.name, held, w, used)
			}
		})
	}
}

// An unpaidCall is one that returned that the store has not charged something, to be made again.
type unpaidCall struct {
	process *spendProcess
	about   string
	call    func() error
}

// settle settles a charge. Only that of a closed run may fail, while the store does.
func (h *spendHistory) settle(p *spendProcess, c *modelCharge, used spendSum) {
	began, unwell := time.Now(), p.connection.unwell()
	late := map[string]bool{p.own[c.of.id]: c.ownFrozen, sharedScope: c.sharedFrozen}
	call := func() error {
		p.connection.set(func() { p.connection.late = late })
		defer p.connection.set(func() { p.connection.late = nil })
		return c.charge.Settle(amountOf(used))
	}
	switch err := call(); {
	case err == nil:
	case h.strict() || !unwell || slices.Contains(p.runs, c.of):
		h.fail("settle: %v", err)
	default:
		h.unpaid = append(h.unpaid, unpaidCall{p, "settle again", call})
	}
	if took := time.Since(began); took > watchdog.DefaultRecordTimeout && !h.pollOnly {
		h.fail("Settle took %v", took)
	}
}

// chargeLate notes what was used beyond what stays charged. Runs that draw on the scope again do not draw on that.
func (h *spendHistory) chargeLate(c *modelCharge, charged *spendSum, used spendSum, w spendWindow) {
	before := *charged
	*charged = charged.most(used)
	c.of.process.connection.set(func() {
		l := c.of.process.connection.ledger(w)
		l.before = l.before.plus(charged.minus(before))
	})
}

// pay makes the calls again that returned that the store has not charged something.
func (h *spendHistory) pay(p *spendProcess) {
	for _, c := range h.unpaid {
		if c.process != p {
			continue
		}
		if err := c.call(); err != nil {
			h.fail("%s: %v", c.about, err)
		}
		synctest.Wait()
	}
}
