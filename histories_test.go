package watchdog_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

var historySeed = flag.Int64("history", -1, "the seed of the one history that TestHistories lives through")

// historySteps is how many steps a history has.
const historySteps = 20

// TestHistories has two processes live through random histories of one run on a store that they share, beside a model
// of the rules. Both must say the same after every step. A failure names the seed; -history replays it.
func TestHistories(t *testing.T) {
	if *historySeed >= 0 {
		replayHistory(t, uint64(*historySeed))
		return
	}
	t.Cleanup(watchdog.CheckpointAfter(2)) // most histories are short
	inShards(t, 1, func(t *testing.T, seed uint64) {
		if newPastimes(seed, false).live() != "" {
			replayHistory(t, seed)
		}
	})
}

// inShards has a goroutine for each processor live histories, by the first seed of so many at a time.
func inShards(t *testing.T, together uint64, live func(t *testing.T, from uint64)) {
	t.Helper()
	n := racing.Rounds[uint64](3_000, 100_000)
	t.Cleanup(func(percent int) func() { return func() { debug.SetGCPercent(percent) } }(debug.SetGCPercent(1000)))
	var next atomic.Uint64
	for shard := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			for from := next.Add(together) - together; from < n && !t.Failed(); from = next.Add(together) - together {
				live(t, from)
			}
		})
	}
}

func replayHistory(t *testing.T, seed uint64) {
	t.Helper()
	p := newPastimes(seed, true)
	if flaw := p.live(); flaw != "" {
		t.Errorf("seed %d (replay it with -history %d): %s\n%s", seed, seed, flaw, strings.Join(p.log, "\n"))
	} else if *historySeed < 0 {
		t.Errorf("seed %d fails and does not when it is replayed", seed)
	}
}

// Pastimes are a history: two processes, what they share, and the model of it.
type pastimes struct {
	rng       *rand.Rand
	real      atomic.Int64
	database  *database
	processes [2]*process
	budget    watchdog.Budget
	steady    bool           // nobody sets a clock
	continues bool           // the store keeps the start
	windows   []*modelWindow // the chain of the run
	persisted *modelWindow   // whose start the session's row has
	layers    []*modelWindow
	flaw      string
	logs      bool
	log       []string
}

// A process attaches to the run, and is closed, or killed, again and again.
type process struct {
	name       string
	host       *modelHost
	connection *connection
	cfg        watchdog.Config
	uptime     bool
	busy       *modelBusy
	runs       []*guarded // the run and its open layers, nothing while it is not attached
}

// A guarded run is one that the library and the model guard side by side.
type guarded struct {
	name  string
	wd    *watchdog.Watchdog
	model *modelRun
	holds []heldBoth
}

type heldBoth struct {
	hold  *watchdog.Hold
	model *modelHold
}

func newPastimes(seed uint64, logs bool) *pastimes {
	h := &pastimes{rng: rand.New(rand.NewPCG(seed, 17)), database: newDatabase(), logs: logs}
	h.budget = h.newBudget(time.Hour)
	h.steady, h.continues = h.chance(4), h.chance(4)
	for i := range h.processes {
		h.processes[i] = h.newProcess(string(rune('A' + i)))
	}
	h.windows = []*modelWindow{newModelWindow(noon)}
	h.persisted = h.windows[0]
	h.say("budget %+v, steady %v, continues %v", h.budget, h.steady, h.continues)
	return h
}

func (h *pastimes) newProcess(name string) *process {
	c := &hostClock{Mock: clock.NewMock(), real: &h.real}
	p := &process{name: name, connection: &connection{database: h.database}, uptime: !h.chance(4)}
	p.host = &modelHost{clock: c, transactional: h.chance(2)}
	p.cfg = watchdog.Config{Store: p.connection, Budget: h.budget, PollOnly: true, Logger: quiet, Clock: c}
	if h.chance(3) {
		p.busy = &modelBusy{}
		p.cfg.Busy = p.busy.answer
	}
	if p.host.transactional {
		p.cfg.Store = transactional{p.connection}
	}
	if p.uptime {
		p.cfg.Clock = uptimeHost{c}
	}
	h.say("%s: transactional %v, uptime %v, busy %v", name, p.host.transactional, p.uptime, p.busy != nil)
	return p
}

func (h *pastimes) chance(n int) bool { return h.rng.IntN(n) == 0 }

func (h *pastimes) say(format string, args ...any) {
	if h.logs {
		h.log = append(h.log, fmt.Sprintf(format, args...))
	}
}

func (h *pastimes) fail(format string, args ...any) {
	if h.flaw == "" {
		h.flaw = fmt.Sprintf(format, args...)
	}
}

// newBudget is a random one.
func (h *pastimes) newBudget(wall time.Duration) watchdog.Budget {
	maybe := func(n int, d time.Duration) time.Duration {
		if h.chance(n) {
			return d
		}
		return 0
	}
	ladder := func(limit time.Duration) (l []watchdog.DirectiveKind) {
		if limit == 0 {
			return nil
		}
		all := []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
		for range h.rng.IntN(len(all) + 1) {
			l = append(l, all[h.rng.IntN(len(all))])
		}
		return l
	}
	b := watchdog.Budget{
		WallClock: wall, Reserve: maybe(2, wall/6), Safety: maybe(6, 2*wall), Idle: maybe(2, wall/6),
		NoProgress: maybe(3, wall/4), Hold: maybe(2, wall/5),
	}
	if h.chance(10) {
		b.WallClock, b.Reserve = watchdog.NoLimit, 0
	}
	if b.Idle+b.NoProgress > 0 && h.chance(4) {
		b.FromFirstSign, b.FirstSign = true, maybe(2, wall/5)
	}
	b.Ladders = watchdog.Ladders{Idle: ladder(wall), NoProgress: ladder(b.NoProgress), Hold: ladder(wall)}
	return b
}

// live returns what was wrong first, nothing if all was well.
func (h *pastimes) live() string {
	h.attach(h.processes[0], false)
	for range historySteps {
		if h.flaw != "" {
			return h.flaw
		}
		h.step()
		h.compare()
	}
	h.compareStore()
	return h.flaw
}

// step is one thing that happens.
func (h *pastimes) step() {
	p := h.processes[h.rng.IntN(2)]
	switch n := h.rng.IntN(40); {
	case n < 9:
		h.pass()
	case n < 10:
		h.stepClock(p)
	case n < 12:
		h.fault(p)
		h.busyOrNot(p)
	case len(p.runs) == 0:
		h.attach(p, h.chance(2))
	case n < 14:
		h.detach(p, h.chance(2))
	case n < 15:
		if h.chance(250) {
			h.burst(p)
			return
		}
		h.foreign(p)
	default:
		h.act(p, p.runs[h.rng.IntN(len(p.runs))], n)
	}
}

// act is something that a process does with its run or with a layer.
func (h *pastimes) act(p *process, g *guarded, n int) {
	switch {
	case n < 16:
		h.complete(g)
	case n < 18:
		h.cancel(g)
	case n < 21:
		h.extend(g)
	case n < 22:
		h.sync(g)
	case n < 27:
		h.signal(g)
	case n < 31:
		h.open(g)
	case n < 34:
		h.release(g)
	case g == p.runs[0]:
		h.begin(p, g)
	default:
		h.closeLayer(p, g)
	}
}

func (h *pastimes) duration(most time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(most)))
}

// pass lets time pass, often to the edge of a limit.
func (h *pastimes) pass() {
	d := h.duration(15 * time.Minute)
	var edges []time.Duration
	for _, p := range h.processes {
		for _, g := range p.runs {
			edges = append(edges, g.model.edges()...)
		}
	}
	if len(edges) > 0 && h.chance(2) {
		d = edges[h.rng.IntN(len(edges))] + time.Duration(h.rng.IntN(3)-1)
	}
	h.passBy(d)
}

func (h *pastimes) passBy(d time.Duration) {
	h.say("pass %v", d)
	h.real.Add(int64(d))
	for _, p := range h.processes {
		for _, g := range p.runs {
			g.model.pass(d)
		}
	}
}

// stepClock sets the clock on the wall of one host, which counts as time only where nothing else tells it.
func (h *pastimes) stepClock(p *process) {
	if h.steady {
		return
	}
	to := h.duration(50*time.Minute) - 25*time.Minute
	by := to - time.Duration(p.host.clock.ahead.Swap(int64(to)))
	h.say("%s: the clock steps by %v to %v", p.name, by, p.host.clock.Now())
	for _, g := range p.runs {
		if by > 0 && !p.uptime {
			g.model.pass(by)
		}
	}
}

func (h *pastimes) fault(p *process) {
	f := noFault
	if p.host.fault == noFault {
		f = fault(h.rng.IntN(int(faults)))
	}
	h.say("%s: fault %d", p.name, f)
	p.host.fault, p.connection.fault = f, f
}
