package watchdog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
)

// spendSteps is how many steps a history of spending has, spendBubble how many histories share a bubble.
const (
	spendSteps  = 15
	spendBubble = 50
)

// TestSpendHistories has two processes spend in random histories of runs that share a scope, beside a model that is a
// list and a sum. A failure names the seed; -history replays it.
func TestSpendHistories(t *testing.T) {
	if *historySeed >= 0 {
		synctest.Test(t, func(t *testing.T) { replaySpend(t, uint64(*historySeed)) })
		return
	}
	inShards(t, spendBubble, func(t *testing.T, from uint64) {
		synctest.Test(t, func(t *testing.T) { spendFrom(t, from) })
	})
}

func spendFrom(t *testing.T, from uint64) {
	for seed := from; seed < from+spendBubble; seed++ {
		if flaw := newSpendHistory(seed, false).live(); flaw != "" {
			t.Errorf("seed %d: %s", seed, flaw)
			replaySpend(t, seed)
			return
		}
	}
}

func replaySpend(t *testing.T, seed uint64) {
	h := newSpendHistory(seed, true)
	if flaw := h.live(); flaw != "" {
		t.Errorf("seed %d (replay it with -history %d): %s\n%s", seed, seed, flaw, strings.Join(h.log, "\n"))
	}
}

// A spendHistory is two processes, the runs that they attach to, and everything that was ever charged.
type spendHistory struct {
	rng       *rand.Rand
	memory    *watchdog.Memory
	processes [2]*spendProcess
	period    watchdog.Period
	shared    spendSum
	limits    map[string]spendSum // of the runs, with what they were given
	retired   map[string]bool     // runs that have ended
	given     map[string]int64    // that, in requests
	stands    map[string]spendStand
	charges   []*modelCharge
	dead      []*spendProcess
	late      map[string]bool // windows of which something was settled when they were over
	unpaid    []unpaidCall
	began     time.Time
	keys      int
	runs      int
	looks     int
	window    struct { // of the shared scope, as it was looked at last
		name     string
		at, ends time.Time
	}
	beyond   bool // calls may use more than was admitted
	observed bool
	pollOnly bool
	waits    int
	reserve  int64 // of each run's requests
	kept     int64 // of those of the shared scope
	warnAt   []float64
	flaw     string
	logs     bool
	log      []string
}

// A spendProcess is one life of a process, until it is killed.
type spendProcess struct {
	name       string
	connection *spendConnection
	runs       []*spendRun
	own        map[string]string // the scopes of the runs' own limits
	leaky      bool              // a run was closed while the store was not well
}

func newSpendHistory(seed uint64, logs bool) *spendHistory {
	time.Sleep(24*time.Hour - time.Since(time.Now().Truncate(24*time.Hour))) // at midnight, also when it is replayed
	h := &spendHistory{
		rng: rand.New(rand.NewPCG(seed, 19)), memory: &watchdog.Memory{}, logs: logs,
		limits: map[string]spendSum{}, retired: map[string]bool{}, given: map[string]int64{},
		stands: map[string]spendStand{}, late: map[string]bool{}, began: time.Now(),
	}
	h.period = [...]watchdog.Period{watchdog.PeriodNone, watchdog.PeriodHour}[h.rng.IntN(2)]
	h.shared = spendSum{h.size(), h.size()}
	h.beyond, h.observed, h.pollOnly = h.chance(4), h.chance(8), h.chance(3)
	h.waits = h.rng.IntN(3)
	if h.chance(2) {
		h.reserve = 1 + h.rng.Int64N(3)
	}
	if h.chance(2) {
		h.kept = 1 + h.rng.Int64N(3)
	}
	h.warnAt = [...][]float64{{}, {0.5}, {0.1, 0.8, 0.95}}[h.rng.IntN(3)]
	for i := range h.processes {
		h.processes[i] = h.newProcess(string(rune('A' + i)))
	}
	h.say("shared %v each %q, beyond %v, observed %v, poll-only %v, %d waits, reserves %d and %d, warn at %v", h.shared,
		h.period, h.beyond, h.observed, h.pollOnly, h.waits, h.reserve, h.kept, h.warnAt)
	return h
}

// size is that of a limit: some are of few calls, some of many slices.
func (h *spendHistory) size() int64 { return 4 + h.rng.Int64N(1<<h.rng.IntN(10)+1) }

func (h *spendHistory) chance(n int) bool { return h.rng.IntN(n) == 0 }

func (h *spendHistory) say(format string, args ...any) {
	if h.logs {
		h.log = append(h.log, fmt.Sprintf("%s "+format, append([]any{time.Now().Format("15:04:05")}, args...)...))
	}
}

func (h *spendHistory) fail(format string, args ...any) {
	if h.flaw == "" {
		h.flaw = fmt.Sprintf(format, args...)
	}
}

func (h *spendHistory) newProcess(name string) *spendProcess {
	return &spendProcess{name: name, own: map[string]string{}, connection: &spendConnection{
		memory: h.memory, ledgers: map[spendWindow]*spendLedger{}, slices: map[string]spendWindow{},
	}}
}

// live returns what was wrong first, nothing if all was well.
func (h *spendHistory) live() string {
	for range spendSteps {
		h.step()
		synctest.Wait()
		h.check()
		if h.flaw != "" {
			break
		}
	}
	h.end()
	return h.flaw
}

// step is one thing that happens.
func (h *spendHistory) step() {
	p := h.processes[h.rng.IntN(2)]
	if len(p.runs) == 0 {
		h.attach(p)
		return
	}
	r := p.runs[h.rng.IntN(len(p.runs))]
	if h.askedAll(p); slices.Contains(p.runs, r) {
		h.act(p, r)
	}
}

func (h *spendHistory) askedAll(p *spendProcess) {
	for _, one := range slices.Clone(p.runs) {
		h.asked(one)
	}
}

// act is something that a process does with a run, or that happens to it.
func (h *spendHistory) act(p *spendProcess, r *spendRun) {
	switch n := h.rng.IntN(40); {
	case n < 1 && len(p.runs) < 2:
		h.attach(p)
	case n < 2:
		h.closeFrom(r, 0)
	case n < 3:
		h.kill(p)
	case n < 5:
		h.fault(p)
	case n < 7:
		h.pass()
	case n < 9:
		h.layer(r)
	case n < 10 && len(r.layers) > 1:
		h.closeFrom(r, 1+h.rng.IntN(len(r.layers)-1))
	default:
		h.spend(p, r, n)
	}
}

// spend is something that a process does with what a run may spend.
func (h *spendHistory) spend(p *spendProcess, r *spendRun, n int) {
	switch {
	case n < 11:
		h.extend(r)
	case n < 13:
		h.again(r)
	case n < 25:
		h.admit(r, h.newKey(), h.amount())
	case n < 27:
		h.burst(r)
	default:
		h.finish(p)
	}
}

func (h *spendHistory) amount() spendSum {
	most := [...]int64{2, 5, 40}[h.rng.IntN(3)]
	return spendSum{h.rng.Int64N(most), h.rng.Int64N(most)}
}

func (h *spendHistory) newKey() string {
	if h.chance(2) {
		return ""
	}
	h.keys++
	return fmt.Sprint("key ", h.keys)
}

// attach attaches to a run, which the other process may have, too.
func (h *spendHistory) attach(p *spendProcess) {
	id := fmt.Sprint("run ", h.rng.IntN(h.runs+1))
	if h.retired[id] || slices.ContainsFunc(p.runs, func(r *spendRun) bool { return r.id == id }) {
		id = fmt.Sprint("run ", h.runs)
	}
	if _, known := h.limits[id]; !known {
		h.runs++
		h.limits[id] = spendSum{h.size(), h.size()}
	}
	h.attachTo(p, id)
}
