package replay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// lifeSteps is how many things happen in a life.
const lifeSteps = 50

// A life is a random history of a session with layers, in a bubble of time: its processes, one after the other, and an
// operator beside them who extends it and pauses it. What the host is told, and the trace, are kept.
type life struct {
	seed     uint64
	rng      *rand.Rand
	store    *slowMemory
	cfg      watchdog.Config
	traced   bool
	steady   bool // the store never fails
	begun    time.Time
	process  *atomic.Bool // the one that lives
	wd       *watchdog.Watchdog
	operator *watchdog.Watchdog
	runs     []*watchdog.Watchdog // the session and its layers that were not closed
	dead     []*watchdog.Watchdog
	holds    []*watchdog.Hold
	charges  []watchdog.Charge
	named    int             // layers
	ran      map[string]bool // all of them

	mu     sync.Mutex // of what the host is told
	trace  []watchdog.Signal
	told   map[string][]string // directives, by the run
	warned map[string][]string
}

// newLife begins one. What happens depends on the seed alone, and not on whether it is traced.
func newLife(seed uint64, traced bool) *life {
	rng := rand.New(rand.NewPCG(seed, 41))
	l := &life{
		seed: seed, rng: rng, store: &slowMemory{}, traced: traced, begun: time.Now(),
		told: map[string][]string{}, warned: map[string][]string{}, ran: map[string]bool{},
	}
	if l.chance(6) {
		l.store.delay = time.Duration(1+rng.IntN(400)) * time.Millisecond
	}
	l.cfg = watchdog.Config{
		Budget: l.budget(time.Hour), ObserveOnly: l.chance(4), Logger: slog.New(slog.DiscardHandler), Store: l.store,
	}
	if l.chance(2) {
		l.cfg.Busy = l.busy
	}
	return l
}

func (l *life) chance(n int) bool { return l.rng.IntN(n) == 0 }

// busy answers at once, after a while, or too late. What it says depends on when it is asked, because a session and its
// layers ask at once.
func (l *life) busy() bool {
	answers := rand.New(rand.NewPCG(l.seed, uint64(time.Since(l.begun))))
	if answers.IntN(3) == 0 { // and never at the moment of anything else
		time.Sleep(time.Duration(answers.Int64N(int64(1500 * time.Millisecond))))
	}
	return answers.IntN(2) == 0
}

// budget is a random one.
func (l *life) budget(wall time.Duration) watchdog.Budget {
	maybe := func(n int, d time.Duration) time.Duration {
		if l.chance(n) {
			return d
		}
		return 0
	}
	b := watchdog.Budget{
		WallClock: wall, Reserve: maybe(2, wall/7), Safety: maybe(8, 2*wall), Idle: maybe(2, wall/8),
		NoProgress: maybe(3, wall/4), Hold: maybe(2, wall/6),
	}
	if l.chance(3) {
		b.WarnAt = [][]float64{{}, {0.3, 0.5}, {0.9}}[l.rng.IntN(3)]
	}
	if b.Idle+b.NoProgress > 0 && l.chance(4) {
		b.FromFirstSign, b.FirstSign = true, maybe(2, wall/9)
	}
	b.Ladders = watchdog.Ladders{
		Idle: randomLadder(l.rng), Hold: randomLadder(l.rng), Requests: randomLadder(l.rng), Errors: randomLadder(l.rng),
		Tokens: randomLadder(l.rng), ToolCalls: randomLadder(l.rng), Loop: randomLadder(l.rng),
	}
	if b.NoProgress > 0 {
		b.Ladders.NoProgress = randomLadder(l.rng)
	}
	if l.chance(2) {
		b.Spend = watchdog.Spend{
			Requests: 10 + l.rng.Int64N(60), Tools: map[string]int64{"rm": 3 + l.rng.Int64N(12)}, Errors: 1 + l.rng.Int64N(4),
			Tokens: 1000, Cost: watchdog.Money{Micros: 5000, Currency: "EUR"}, CallInput: 300,
			Reserve: watchdog.Totals{Requests: l.rng.Int64N(10), Tokens: l.rng.Int64N(100)},
		}
	}
	return b
}

func randomLadder(rng *rand.Rand) (l []watchdog.DirectiveKind) {
	for range rng.IntN(3) {
		all := []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
		l = append(l, all[rng.IntN(len(all))])
	}
	return l
}

// live is the whole life, up to the end of the session.
func (l *life) live() {
	l.attach()
	l.operate()
	l.pass(500 * time.Nanosecond) // no limit ends at the moment of an act
	for range lifeSteps {
		if l.wd.Context().Err() != nil {
			break
		}
		l.step()
	}
	synctest.Wait()
	time.Sleep(time.Duration(10) * l.store.delay)
	for _, wd := range append(append(l.dead, l.operator), l.wd) {
		_ = wd.Close()
	}
	l.pass(2*time.Second + 10*l.store.delay) // Busy has returned, and all is told
}

// attach is the next process.
func (l *life) attach() {
	alive := &atomic.Bool{}
	alive.Store(true)
	l.process = alive
	cfg := l.cfg
	cfg.Store = l.store
	hear := func(note func()) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if alive.Load() {
			note()
		}
	}
	cfg.OnWarning = func(w watchdog.Warning) {
		hear(func() {
			l.warned[w.RunID] = append(l.warned[w.RunID], warningText(w.Fraction, w.Elapsed, w.Budget, w.Usage))
		})
	}
	if l.traced {
		cfg.OnSignal = func(s watchdog.Signal) { hear(func() { l.trace = append(l.trace, s) }) }
	}
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: l.begun}, cfg)
	if err != nil {
		panic(err)
	}
	l.wd, l.runs, l.holds, l.charges = wd, []*watchdog.Watchdog{wd}, nil, nil
	l.subscribe(wd)
}

// subscribe hears of all directives, of those too that came while the run was attached.
func (l *life) subscribe(wd *watchdog.Watchdog) {
	alive := l.process
	hear := func(d watchdog.Directive) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if alive.Load() && (d.Reason.Own() || d.Usage != nil) {
			l.told[d.RunID] = append(l.told[d.RunID],
				directiveText(d.Kind, d.Reason, d.Rung, d.Hold, d.Used, d.Allowed, d.Usage, d.At.Sub(wd.StartedAt())))
		}
	}
	synctest.Wait() // their record was tried
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		hear(d)
	}
	wd.Subscribe(hear)
}

// restart has the process closed or killed, and another one attach. The dead one writes to a store of its own.
func (l *life) restart() {
	l.pass(3 * time.Second) // what was decided is told once its record was tried
	if l.wd.Context().Err() != nil {
		return
	}
	if l.store.delay > 0 || l.chance(2) {
		_ = l.wd.Close()
		l.pass(10 * l.store.delay) // what is being recorded of its layers is told later
		if l.wd.Stop() != nil || errors.Is(context.Cause(l.wd.Context()), watchdog.ErrComplete) {
			return
		}
	} else {
		for _, run := range l.runs { // a trace says how time went on up to its last signal
			run.Activity()
		}
		l.process.Store(false)
		l.dead = append(l.dead, l.wd)
		events, _ := l.store.Read(context.Background(), watchdog.AggregateType, "s-1")
		l.store = &slowMemory{}
		_ = l.store.Append(context.Background(), events...)
		_ = l.operator.Close()
		l.operator = nil
	}
	l.process.Store(false)
	l.pass(time.Duration(1+l.rng.IntN(60_000)) * time.Millisecond)
	l.attach()
	if l.operator == nil {
		l.operate()
	}
}

// operate attaches the operator, who never ends the run.
func (l *life) operate() {
	l.operator, _ = watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: l.begun}, watchdog.Config{
		Store: l.store, Logger: l.cfg.Logger, ObserveOnly: true,
		Budget: watchdog.Budget{WallClock: 1000 * time.Hour, WarnAt: []float64{}},
	})
}

func (l *life) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// step is one thing that happens.
func (l *life) step() { //nolint:cyclop // a table
	run := l.runs[l.rng.IntN(len(l.runs))]
	switch n := l.rng.IntN(100); {
	case n < 25:
		l.pass(time.Duration(1+l.rng.IntN(240_000)) * time.Millisecond)
	case n < 40:
		l.signal(run)
	case n < 50:
		l.hold(run)
	case n < 58:
		if len(l.holds) > 0 {
			l.holds[l.rng.IntN(len(l.holds))].Close()
		}
	case n < 68:
		l.admit(run)
	case n < 76:
		l.settle()
	case n < 82:
		l.layer(run)
	case n < 84:
		l.closeLayer()
	case n < 94:
		l.others(run)
	case n < 97:
		run.Step(loop.Step{Tool: "grep", Input: fmt.Appendf(nil, "%d", l.rng.IntN(2)), Class: loop.Look})
	case n < 98:
		l.restart()
	default:
		l.end(run)
	}
	l.pass(2 * time.Millisecond) // no two acts are of one moment, and no two signs count as one
}

func (l *life) signal(run *watchdog.Watchdog) {
	switch l.rng.IntN(3) {
	case 0:
		run.Activity()
	case 1:
		run.Progress()
	default:
		run.ProgressDigest(fmt.Sprint(l.rng.IntN(6)))
	}
}

func (l *life) hold(run *watchdog.Watchdog) {
	limit := watchdog.HoldLimit{PausesWallClock: l.chance(2)}
	if limit.PausesWallClock || l.chance(2) {
		limit.Cap = time.Duration(1+l.rng.IntN(20)) * time.Minute
	}
	if l.chance(2) {
		limit.Idle = time.Duration(1+l.rng.IntN(6)) * time.Minute
	}
	if h, err := run.Hold(context.Background(), fmt.Sprint("key ", l.rng.IntN(4)), limit); err == nil {
		l.holds = append(l.holds, h)
	}
}

func (l *life) amount() watchdog.Amount {
	a := watchdog.Amount{
		Requests: l.rng.Int64N(6), InputTokens: l.rng.Int64N(400), OutputTokens: l.rng.Int64N(60),
		Cost: watchdog.Money{Micros: l.rng.Int64N(900), Currency: "EUR"},
	}
	if l.chance(3) {
		a.ToolCalls, a.Tool = 1, "rm"
	}
	return a
}

func (l *life) admit(run *watchdog.Watchdog) {
	key := ""
	if l.chance(3) {
		key = fmt.Sprint(l.rng.IntN(5))
	}
	if c, err := run.Admit(context.Background(), key, l.amount()); err == nil {
		l.charges = append(l.charges, c)
	}
}

func (l *life) settle() {
	if len(l.charges) == 0 {
		return
	}
	i := l.rng.IntN(len(l.charges))
	if l.chance(6) {
		_ = l.charges[i].Void()
	} else {
		used := l.amount()
		used.Result = []string{"", watchdog.ResultOK, watchdog.ResultError, watchdog.ResultRetry}[l.rng.IntN(4)]
		_ = l.charges[i].Settle(used)
	}
	l.charges = slices.Delete(l.charges, i, i+1)
}

func (l *life) layer(run *watchdog.Watchdog) {
	if len(l.runs) > 4 {
		return
	}
	l.named++
	if layer, err := run.Layer(fmt.Sprint("step ", l.named), l.budget(20*time.Minute)); err == nil {
		l.ran[layer.ID()] = true
		l.subscribe(layer)
		l.runs = append(l.runs, layer)
	}
}

func (l *life) closeLayer() {
	if len(l.runs) > 1 {
		i := 1 + l.rng.IntN(len(l.runs)-1)
		_ = l.runs[i].Close()
		l.runs = slices.Delete(l.runs, i, i+1)
	}
}

// others gives the session more, pauses it, or looks at what was given, here or elsewhere.
func (l *life) others(run *watchdog.Watchdog) {
	more := time.Duration(1+l.rng.IntN(15)) * time.Minute
	switch l.rng.IntN(8) {
	case 0:
		_ = run.Extend(more)
	case 1, 2:
		_ = l.operator.Extend(more)
	case 3:
		_ = run.ExtendSpend(watchdog.Spend{Requests: 1 + l.rng.Int64N(20)})
	case 4, 5:
		limit := watchdog.HoldLimit{Cap: more, PausesWallClock: true}
		if h, err := l.operator.Hold(context.Background(), fmt.Sprint("key ", l.rng.IntN(4)), limit); err == nil && h != nil {
			l.holds = append(l.holds, h)
		}
	case 6:
		_, _ = l.wd.Sync(context.Background())
	default:
		_, _ = run.Fired()
	}
}

// end ends a run, if it is a layer or if there was enough of the session.
func (l *life) end(run *watchdog.Watchdog) {
	switch l.rng.IntN(8) {
	case 0:
		_ = run.Complete()
	case 1:
		_, _ = run.Cancel(watchdog.Cancellation{Reason: "user_gone", ObserveOnly: l.chance(2)})
	case 2:
		_ = run.Interrupt("SIGINT")
	case 3, 4:
		l.store.fails.Store(!l.steady)
		_ = run.Complete()
		l.store.fails.Store(false)
	}
}

// A slowMemory takes its time, and fails for a while.
type slowMemory struct {
	watchdog.Memory
	delay time.Duration
	fails atomic.Bool
}

func (m *slowMemory) pass() error {
	time.Sleep(m.delay)
	if m.fails.Load() {
		time.Sleep(2 * time.Second)
		return errors.New("disk full")
	}
	return nil
}

// Append implements [watchdog.EventStore].
func (m *slowMemory) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := m.pass(); err != nil {
		return err
	}
	return m.Memory.Append(ctx, events...)
}

// Transact implements [watchdog.TransactionalStore].
func (m *slowMemory) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := m.pass(); err != nil {
		return err
	}
	err := m.Memory.Transact(ctx, exchanges...)
	time.Sleep(m.delay)
	return err
}

// Select implements [watchdog.TransactionalStore].
func (m *slowMemory) Select(ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
	if err := m.pass(); err != nil {
		return nil, err
	}
	return m.Memory.Select(ctx, s)
}

func usageText(u *watchdog.Usage) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%s %q of %s: %d+%d of %d, %d, %s", u.Limit, u.Tool, u.Currency, u.Used, u.Admitted, u.Allowed,
		u.Needed, u.Pattern)
}

func warningText(fraction float64, used, allowed time.Duration, u *watchdog.Usage) string {
	return fmt.Sprintf("warned of %v, %v of %v, %s", fraction, used, allowed, usageText(u))
}

// directiveText says it as exactly as events have it, which know what a cancel used to the second.
func directiveText(
	kind watchdog.DirectiveKind, reason watchdog.StopReason, rung int, hold string, used, allowed time.Duration,
	u *watchdog.Usage, at time.Duration,
) string {
	if kind == watchdog.DirectiveCancel {
		used, allowed = used.Truncate(time.Second), allowed.Round(time.Millisecond)
	}
	return fmt.Sprintf("at %v %s for %s, rung %d, hold %q, %v of %v, %s", at.Truncate(time.Microsecond), kind, reason,
		rung, hold, used, allowed, usageText(u))
}
