package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/oracle/frozen"
	"github.com/seed62658d38/watchdog/oracle/frozen/loop"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// A setup is what a world is made of.
type setup struct {
	clock     clock.Clock // nil for the machine's
	pollOnly  bool
	looks     int  // a look at one step of so many
	passive   bool // nobody asks for more at the others: whoever asks a context whether it has ended may end it
	instant   bool
	forgets   bool // there is no store
	period    watchdog.Period
	scoped    bool
	starts    map[string]time.Time
	shared    []watchdog.SharedSpend
	stepClock func(time.Duration)
}

// knownErrors are what errors.Is and errors.As can find.
var knownErrors = []struct {
	name string
	in   func(error) bool
}{
	{"ErrInvalid", func(err error) bool { return errors.Is(err, watchdog.ErrInvalid) }},
	{"ErrParentEnded", func(err error) bool { return errors.Is(err, watchdog.ErrParentEnded) }},
	{"ErrEnded", func(err error) bool { return errors.Is(err, watchdog.ErrEnded) }},
	{"ErrComplete", func(err error) bool { return errors.Is(err, watchdog.ErrComplete) }},
	{"ErrClosed", func(err error) bool { return errors.Is(err, watchdog.ErrClosed) }},
	{"ErrHeld", func(err error) bool { return errors.Is(err, watchdog.ErrHeld) }},
	{"ErrFailing", func(err error) bool { return errors.Is(err, watchdog.ErrFailing) }},
	{"ErrUnreadableEvent", func(err error) bool { return errors.Is(err, watchdog.ErrUnreadableEvent) }},
	{"down", func(err error) bool { return errors.Is(err, errDown) }},
	{"Canceled", func(err error) bool { return errors.Is(err, context.Canceled) }},
	{"DeadlineExceeded", func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	{"Timeout", os.IsTimeout},
	{"net", func(err error) bool { var e net.Error; return errors.As(err, &e) && e.Timeout() }},
	{"*Stop", func(err error) bool { var e *watchdog.Stop; return errors.As(err, &e) }},
	{"*Directive", func(err error) bool { var e *watchdog.Directive; return errors.As(err, &e) }},
	{"*Refused", func(err error) bool { var e *watchdog.Refused; return errors.As(err, &e) }},
	{"*Interruption", func(err error) bool { var e *watchdog.Interruption; return errors.As(err, &e) }},
}

// sessions are the runs that processes attach to.
var sessions = []string{"s-1", "s-2", "s-3"}

// setUp draws the world.
func (w *world) setUp(rng *rand.Rand) {
	w.drawClock(rng)
	s := &w.setup
	s.looks, s.passive = pick(rng, 1, 2, 4, 8), chance(rng, 3)
	s.instant, s.forgets = chance(rng, 14), chance(rng, 40)
	s.starts = map[string]time.Time{}
	for _, id := range sessions {
		s.starts[id] = w.began.Add(-time.Duration(rng.Int64N(int64(20*time.Second))) / time.Microsecond * time.Microsecond)
	}
	if s.scoped = chance(rng, 2); s.scoped {
		w.drawScopes(rng)
	}
	w.db = newDatabase(w)
	if s.instant {
		w.ends = append(w.ends, w.db.follow())
	}
	cfg := w.drawConfig(rng)
	for i := range w.procs {
		if i > 0 && !chance(rng, 4) { // most of the time what two processes find at one moment is not the same
			cfg = w.drawConfig(rng)
		}
		w.procs[i] = w.newProcess(string(rune('A'+i)), cfg, !chance(rng, 3))
	}
	w.say(history.Did, "clock %T, poll only %v, instant %v, forgets %v", s.clock, s.pollOnly, s.instant, s.forgets)
	w.say(history.Did, "starts %v, shared %+v", s.starts, s.shared)
	for _, p := range w.procs {
		w.say(history.Did, "%s: transactional %v, %s", p.name, p.transactional, configText(&p.cfg))
	}
}

// drawClock draws which clock there is, and whether it sets timers.
func (w *world) drawClock(rng *rand.Rand) {
	n := rng.IntN(20)
	w.setup.pollOnly = n >= 8 && n < 16 && os.Getenv("ORACLE_TIMERS") == ""
	if n < 12 {
		return
	}
	w.mock = clock.NewMock()
	w.mock.Set(w.began)
	w.setup.clock = w.mock
	switch {
	case n < 14 || n == 18:
		set := &setClock{Mock: w.mock}
		w.setup.clock, w.setup.stepClock = set, func(d time.Duration) { set.ahead.Store(int64(d)) }
	case n < 15 || n == 19:
		set := uptimeClock{&setClock{Mock: w.mock}, w.began}
		w.setup.clock, w.setup.stepClock = set, func(d time.Duration) { set.ahead.Store(int64(d)) }
	}
}

// A setClock is one that somebody sets.
type setClock struct {
	*clock.Mock
	ahead atomic.Int64
}

// Now implements [clock.Clock].
func (c *setClock) Now() time.Time { return c.Mock.Now().Add(time.Duration(c.ahead.Load())) }

// Since implements [clock.Clock].
func (c *setClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// An uptimeClock counts besides how long it has been up.
type uptimeClock struct {
	*setClock
	began time.Time
}

// Uptime is what a watchdog takes elapsed time from.
func (c uptimeClock) Uptime() time.Duration { return c.Mock.Now().Sub(c.began) }

func (w *world) drawScopes(rng *rand.Rand) {
	if w.mock == nil { // the window is that of the store's clock, which is the machine's
		w.setup.period = pick(rng, watchdog.PeriodNone, watchdog.PeriodHour)
	}
	w.setup.shared = []watchdog.SharedSpend{{
		Scope: "tenant", Period: w.setup.period, Spend: drawSpend(rng, 4),
	}}
	if chance(rng, 4) {
		w.setup.shared = append(w.setup.shared, watchdog.SharedSpend{Scope: "fleet", Spend: drawSpend(rng, 6)})
	}
	for i := range w.setup.shared {
		s := &w.setup.shared[i].Spend
		s.CallInput, s.Errors, s.Retries = 0, 0, 0
		if s.Requests == 0 {
			s.Requests = 3 + rng.Int64N(300)
		}
	}
}

// drawConfig draws what both processes may have in common.
func (w *world) drawConfig(rng *rand.Rand) watchdog.Config {
	cfg := watchdog.Config{
		Budget: drawBudget(rng, pick(rng, 0, time.Minute, 10*time.Minute, time.Hour, time.Hour, 3*time.Hour)),
		Scopes: w.setup.shared, PollOnly: w.setup.pollOnly, Clock: w.setup.clock,
		MaxStops: pick(rng, 0, 0, 0, 1, 2), RecordTimeout: pick(rng, 0, 0, time.Second, 20*time.Second),
		ObserveOnly: chance(rng, 10), Disabled: chance(rng, 40), RecordInterrupts: chance(rng, 2),
		Kinds: watchdog.Kinds{Material: []string{"file.written"}, Activity: []string{"token"}},
	}
	if chance(rng, 3) {
		cfg.Loop = loop.Config{Rounds: 2 + rng.IntN(2), Pairs: 2 + rng.IntN(4), After: 1 + rng.IntN(2)}
	}
	return cfg
}

// length draws a length near most, on which nothing else comes by chance.
func length(rng *rand.Rand, most time.Duration) time.Duration {
	return most/8 + time.Duration(rng.Int64N(int64(most/2)))/time.Microsecond*time.Microsecond
}

// drawBudget draws a budget whose other limits fit its wall clock, which is the default if it is 0.
func drawBudget(rng *rand.Rand, wall time.Duration) watchdog.Budget {
	about := wall
	if wall == 0 {
		about = 20 * time.Minute
	}
	maybe := func(n int, most time.Duration) time.Duration {
		if chance(rng, n) {
			return length(rng, most)
		}
		return 0
	}
	b := watchdog.Budget{
		WallClock: wall, Reserve: maybe(3, about/3), Safety: maybe(6, 2*about), Idle: maybe(2, about/2),
		NoProgress: maybe(3, about), Hold: maybe(3, about/2),
	}
	if chance(rng, 12) {
		b.WallClock, b.Reserve = watchdog.NoLimit, 0
	}
	if b.Idle+b.NoProgress > 0 && chance(rng, 5) {
		b.FromFirstSign, b.FirstSign = true, maybe(2, about/2)
	}
	switch rng.IntN(4) {
	case 0:
		b.WarnAt = []float64{}
	case 1:
		b.WarnAt = []float64{0.25, 0.5, 0.9}
	}
	if chance(rng, 2) {
		b.Spend = drawSpend(rng, 3)
	}
	b.Ladders = drawLadders(rng, &b)
	return b
}

func drawLadders(rng *rand.Rand, b *watchdog.Budget) (l watchdog.Ladders) {
	rungs := []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
	draw := func() (all []watchdog.DirectiveKind) {
		if chance(rng, 3) {
			return nil
		}
		for range 1 + rng.IntN(3) {
			all = append(all, rungs[rng.IntN(len(rungs))])
		}
		if chance(rng, 3) {
			all = append(all, watchdog.DirectiveCancel)
		}
		return all
	}
	l.Idle, l.Hold, l.Loop = draw(), draw(), draw()
	if b.NoProgress > 0 {
		l.NoProgress = draw()
	}
	if chance(rng, 2) {
		l.Tokens, l.Cost, l.Requests, l.ToolCalls = draw(), draw(), draw(), draw()
		l.Errors, l.Turns, l.CallInput = draw(), draw(), draw()
	}
	return l
}

// drawSpend draws limits, of which each is on once in n times.
func drawSpend(rng *rand.Rand, n int) (s watchdog.Spend) {
	size := func() int64 {
		if !chance(rng, n) {
			return 0
		}
		return 3 + rng.Int64N(1<<(2+rng.IntN(10)))
	}
	s = watchdog.Spend{
		InputTokens: size(), OutputTokens: size(), Tokens: size(), CallInput: size(), Requests: size(), Turns: size(),
		ToolCalls: size(),
	}
	if chance(rng, n) {
		s.Cost = watchdog.Money{Micros: 10 + rng.Int64N(5000), Currency: "EUR"}
	}
	if chance(rng, 2*n) {
		s.Tools = map[string]int64{"grep": 1 + rng.Int64N(9)}
	}
	if chance(rng, n) {
		s.Errors = 1 + rng.Int64N(3)
	}
	if chance(rng, 2*n) {
		s.Retries = 1 + rng.Int64N(3)
	}
	if chance(rng, 2) {
		s.Reserve = watchdog.Totals{Requests: s.Requests / 4, Tokens: s.Tokens / 5, Cost: s.Cost.Micros / 4}
	}
	switch rng.IntN(3) {
	case 0:
		s.WarnAt = []float64{}
	case 1:
		s.WarnAt = []float64{0.1, 0.5}
	}
	return s
}

// configText is what a config says, without what differs between two programs.
func configText(cfg *watchdog.Config) string {
	return fmt.Sprintf("budget %+v, max stops %d, timeout %v, observe only %v, disabled %v, interrupts %v, loop %+v",
		cfg.Budget, cfg.MaxStops, cfg.RecordTimeout, cfg.ObserveOnly, cfg.Disabled, cfg.RecordInterrupts, cfg.Loop)
}
