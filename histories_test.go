package watchdog_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/watchdogtest"
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
	t.Cleanup(watchdog.Much(2)) // most histories are short
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
	if flaw := p.live(); flaw == "" && *historySeed < 0 {
		t.Errorf("seed %d fails and does not when it is replayed", seed)
	}
	p.report(t, seed)
}

// Pastimes are a history: two processes, what they share, and the model of it.
type pastimes struct {
	history
	real      atomic.Int64
	database  *database
	processes [2]*process
	budget    watchdog.Budget
	steady    bool           // nobody sets a clock
	continues bool           // the store keeps the start
	windows   []*modelWindow // the chain of the run
	persisted *modelWindow   // whose start the session's row has
	layers    []*modelWindow
}

// A history is chosen by a seed, and keeps what was wrong first, and what happened if that is to be logged.
type history struct {
	rng  *rand.Rand
	flaw string
	logs bool
	log  []string
}

func (h *history) chance(n int) bool { return h.rng.IntN(n) == 0 }

func (h *history) say(format string, args ...any) {
	if h.logs {
		h.log = append(h.log, fmt.Sprintf(format, args...))
	}
}

func (h *history) fail(format string, args ...any) {
	if h.flaw == "" {
		h.flaw = fmt.Sprintf(format, args...)
	}
}

// report fails the test if something was wrong.
func (h *history) report(t *testing.T, seed uint64) {
	t.Helper()
	if h.flaw != "" {
		t.Errorf("seed %d (replay it with -history %d): %s\n%s", seed, seed, h.flaw, strings.Join(h.log, "\n"))
	}
}

// A process attaches to the run, and is closed, or killed, again and again.
type process struct {
	name       string
	host       *modelHost
	connection *connection
	cfg        watchdog.Config
	uptime     bool
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
	h := &pastimes{history: history{rng: rand.New(rand.NewPCG(seed, 17)), logs: logs}, database: newDatabase()}
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
	c := &hostClock{MockClock: watchdogtest.NewMockClock(), real: &h.real}
	p := &process{name: name, uptime: !h.chance(4)}
	p.connection = &connection{database: h.database, elsewhere: h.chance(3), openers: map[string]bool{}}
	p.host = &modelHost{clock: c, transactional: h.chance(2)}
	p.cfg = watchdog.Config{Store: p.connection, Budget: h.budget, PollOnly: true, Logger: quiet, Clock: c}
	if p.host.transactional {
		p.cfg.Store = transactional{p.connection}
	}
	if p.uptime {
		p.cfg.Clock = uptimeHost{c}
	}
	h.say("%s: transactional %v, uptime %v, elsewhere %v", name, p.host.transactional, p.uptime, p.connection.elsewhere)
	return p
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

// attach is New or Resume.
func (h *pastimes) attach(p *process, resume bool) {
	w, start := h.persisted, h.persisted.start
	run := watchdog.Run{ID: "s-1"}
	if h.continues {
		start = h.begun(p)
	} else {
		if h.steady && w == h.windows[len(h.windows)-1] && len(w.counts) > 0 {
			start = h.inexact(w)
		}
		run.StartedAt = start
	}
	attach := watchdog.New
	if resume {
		attach = watchdog.Resume
	}
	wd, err := attach(context.Background(), run, p.cfg)
	w, want := h.modelAttach(p, start, resume)
	h.say("%s: attach with %v at %v, resume %v: %v", p.name, start, p.host.clock.Now(), resume, err)
	if !h.agree("attach", err, want) || err != nil {
		return
	}
	if !wd.StartedAt().Equal(w.start) {
		h.fail("the window began at %v, want %v", wd.StartedAt(), w.start)
	}
	g := &guarded{name: p.name, wd: wd, model: takeUp(p, w, h.budget)}
	g.model.look()
	p.runs = []*guarded{g}
	if h.chance(2) {
		h.persisted = w
	}
}

// begun is the start that the store has for a process: that of a resume which is not in its future, of the last one if
// it can ask for that alone, or the run's first.
func (h *pastimes) begun(p *process) time.Time {
	resumed := slices.SortedFunc(slices.Values(h.windows[1:]), func(a, b *modelWindow) int {
		return a.start.Compare(b.start)
	})
	for _, w := range slices.Backward(resumed) {
		if !p.host.future(w.start) {
			return w.start
		}
		if p.host.transactional {
			break
		}
	}
	return h.windows[0].start
}

// inexact is a start as a host may have kept it that rounds.
func (h *pastimes) inexact(w *modelWindow) time.Time {
	start := w.start.Add(h.duration(2*time.Second) - time.Second).Truncate(time.Microsecond)
	if stop := w.stop(); stop != nil && start.After(stop.at) {
		return w.start
	}
	return start
}

func (h *pastimes) modelAttach(p *process, start time.Time, resume bool) (*modelWindow, error) {
	w, future := h.windows[len(h.windows)-1], p.host.future
	switch {
	case !h.continues && future(start):
		return nil, watchdog.ErrInvalid
	case !p.host.fault.reads():
		return nil, errDiskFull
	case future(start):
		return nil, watchdog.ErrInvalid
	case resume && (w.complete() || w.stop() != nil || future(w.start)):
		return h.modelResume(p)
	case w.complete():
		return nil, watchdog.ErrComplete
	case future(w.start):
		return nil, watchdog.ErrInvalid
	}
	return w, nil
}

func (h *pastimes) modelResume(p *process) (*modelWindow, error) {
	if !p.host.fault.writes() {
		return nil, errDiskFull
	}
	w := h.openWindow(p.host.now())
	if !p.host.fault.says() {
		return nil, errDiskFull
	}
	return w, nil
}

// openWindow opens the next of the chain, under a start that no other has.
func (h *pastimes) openWindow(start time.Time) *modelWindow {
	for slices.ContainsFunc(h.windows, func(w *modelWindow) bool { return w.start.Equal(start) }) {
		start = start.Add(time.Microsecond)
	}
	w := newModelWindow(start)
	w.keep(&modelFact{kind: "resume"})
	h.windows = append(h.windows, w)
	return w
}

// detach closes a process's watchdogs, or kills it.
func (h *pastimes) detach(p *process, kill bool) {
	h.say("%s: ends, killed %v", p.name, kill)
	if !kill {
		runs := slices.Clone(p.runs)
		if h.chance(2) {
			slices.Reverse(runs)
		}
		for _, g := range runs {
			h.close(g)
		}
	}
	p.runs[0].model.opener.over = true
	p.connection.kill()
	p.runs = nil
}

func (h *pastimes) close(g *guarded) {
	if err, stored := g.wd.Close(), g.model.close(); (err == nil) != stored {
		h.fail("close of %s: %v, everything is stored: %v", g.name, err, stored)
	}
}

// foreign is a cancel by somebody who derives no IDs.
func (h *pastimes) foreign(p *process) {
	w := p.runs[0].model.window
	stop := &modelEnd{code: "user_cancelled", rung: 1, at: p.host.now()}
	h.say("a foreign cancel of the window of %v", w.start)
	h.database.keep([]watchdog.Event{{
		ID:            fmt.Sprintf("0-%d-%s", len(w.foreign), w.start.Format("150405.000000")),
		AggregateType: event.AggregateType, AggregateID: "s-1", Type: event.Cancel, Timestamp: stop.at,
		Payload: fmt.Appendf(nil, `{"reason":"user_cancelled","session_started_at":%q,"fired_at":%q}`,
			w.start.Format(time.RFC3339Nano), stop.at.Format(time.RFC3339Nano)),
	}})
	w.foreign = append(w.foreign, stop)
	w.counts["cancel"]++
}

func (h *pastimes) complete(g *guarded) {
	h.say("%s: complete", g.name)
	h.agree("complete", g.wd.Complete(), g.model.finish())
}

func (h *pastimes) cancel(g *guarded) {
	h.say("%s: cancel", g.name)
	stop, err := g.wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
	code, want := g.model.cancel("host_gone")
	if h.agree("cancel", err, want) && err == nil && stop.Code != code {
		h.fail("cancel: stopped by %s, want %s", stop.Code, code)
	}
}

func (h *pastimes) extend(g *guarded) {
	d := h.duration(20*time.Minute) + time.Microsecond
	h.say("%s: extend by %v", g.name, d)
	h.agree("extend", g.wd.Extend(d), g.model.extend(d))
}

func (h *pastimes) sync(g *guarded) {
	h.say("%s: sync", g.name)
	_, err := g.wd.Sync(context.Background())
	h.agree("sync", err, g.model.sync())
}

func (h *pastimes) signal(g *guarded) {
	switch n := h.rng.IntN(6); {
	case n < 2:
		h.say("%s: activity", g.name)
		g.wd.Activity()
		g.model.signal(false)
	case n < 4:
		h.say("%s: progress", g.name)
		g.wd.Progress()
		g.model.signal(true)
	default:
		digest := []string{"red", "green"}[n-4]
		h.say("%s: digest %s", g.name, digest)
		if got, want := g.wd.ProgressDigest(digest), g.model.digest(digest); got != want {
			h.fail("digest: %v, want %v", got, want)
		}
	}
}

func (h *pastimes) open(g *guarded) {
	key := []string{"tool", "approval"}[h.rng.IntN(2)]
	var limit watchdog.HoldLimit
	if h.chance(2) {
		limit.Cap = time.Duration(len(key)) * 3 * time.Minute
	}
	limit.PausesWallClock = h.chance(2)
	if h.chance(2) {
		limit.Idle = time.Duration(1+h.rng.IntN(3)) * time.Minute
	}
	if (limit.PausesWallClock || len(g.model.leftOpen) > 0) && h.pausesBeginNow(g.model) { // which of two is the first is known to their process only
		h.passBy(h.duration(time.Second) + time.Microsecond)
		h.compare()
	}
	h.say("%s: hold %s %+v", g.name, key, limit)
	hold, err := g.wd.Hold(context.Background(), key, limit)
	model, want := g.model.hold(key, limit)
	if h.agree("hold", err, want) && err == nil {
		g.holds = append(g.holds, heldBoth{hold, model})
	}
}

// burst is more than waits for a store that takes nothing.
func (h *pastimes) burst(p *process) {
	p.host.fault = []fault{noWrites, noAnswers, noHolds}[h.rng.IntN(3)]
	p.connection.fault = p.host.fault
	h.say("%s: a burst with fault %d", p.name, p.host.fault)
	g := p.runs[0]
	for i := range 25 + h.rng.IntN(25) {
		key := fmt.Sprint("burst ", i)
		h.passBy(h.duration(time.Second) + time.Microsecond)
		h.compare()
		limit := watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true}
		hold, err := g.wd.Hold(context.Background(), key, limit)
		model, want := g.model.hold(key, limit)
		if !h.agree("hold", err, want) || err != nil || h.flaw != "" {
			return
		}
		g.holds = append(g.holds, heldBoth{hold, model})
		h.passBy(h.duration(time.Second) + time.Microsecond)
		h.compare()
		if !h.chance(9) {
			hold.Close()
			model.release()
		}
	}
}

func (h *pastimes) pausesBeginNow(r *modelRun) bool {
	now := r.elapsed.Truncate(time.Microsecond)
	for _, p := range h.processes {
		for _, g := range p.runs {
			if slices.ContainsFunc(g.model.pauses, func(p modelKnown) bool { return p.opened == now }) {
				return true
			}
		}
	}
	return slices.ContainsFunc(r.window.pauses, func(p *modelPause) bool { return p.opened == now })
}

func (h *pastimes) release(g *guarded) {
	if len(g.holds) == 0 {
		return
	}
	held := g.holds[h.rng.IntN(len(g.holds))]
	h.say("%s: release %s", g.name, held.model.key)
	if got, want := held.hold.Close(), held.model.release(); got != want {
		h.fail("release: %v, want %v", got, want)
	}
}

// begin begins a layer, whatever ran under its name before.
func (h *pastimes) begin(p *process, g *guarded) {
	if len(p.runs) > 2 {
		return
	}
	budget := h.newBudget(20 * time.Minute)
	if h.chance(3) && budget.Reserve == 0 {
		budget.WallClock = 0
	}
	wd, err := g.wd.Layer("step", budget)
	model, want := g.model.layer(budget)
	h.say("%s: layer of %+v: %v", p.name, budget, err)
	if !h.agree("layer", err, want) || err != nil {
		return
	}
	h.layers = append(h.layers, model.window)
	p.runs = append(p.runs, &guarded{name: fmt.Sprintf("%s/step %d", p.name, len(h.layers)), wd: wd, model: model})
	model.look()
}

func (h *pastimes) closeLayer(p *process, g *guarded) {
	h.say("%s: close", g.name)
	h.close(g)
	p.runs = slices.DeleteFunc(p.runs, func(other *guarded) bool { return other == g })
}

// agree reports whether the error is the wanted one.
func (h *pastimes) agree(what string, err, want error) bool {
	ok := errors.Is(err, want) && (err == nil) == (want == nil)
	if !ok {
		h.fail("%s: %v, want %v", what, err, want)
	}
	return ok
}

// compare looks at all that is guarded, and then again: what one process finds the other can learn of.
func (h *pastimes) compare() {
	for _, p := range h.processes {
		for _, g := range p.runs {
			g.wd.Fired()
			g.model.look()
		}
	}
	for _, p := range h.processes {
		for _, g := range p.runs {
			if h.flaw == "" {
				h.compareRun(g)
			}
		}
	}
	if h.database.exchanges > maxExchanges {
		h.fail("a process asks the store for ever")
	}
	h.database.exchanges = 0
}

func (h *pastimes) compareRun(g *guarded) {
	g.model.look()
	code, fired := g.wd.Fired()
	if m := g.model; fired != (m.stop != nil) || fired && code != m.stop.code {
		h.fail("%s: fired %v %s, want %+v", g.name, fired, code, m.stop)
	}
	cause := context.Cause(g.wd.Context())
	if cause == nil != g.model.running() || !errors.Is(cause, g.model.cause) {
		h.fail("%s: ended with %v, want %v", g.name, cause, g.model.cause)
	}
	if got, want := g.wd.Elapsed(), g.model.elapsed; got != want {
		h.fail("%s: elapsed %v, want %v", g.name, got, want)
	}
	if got, want := g.wd.Remaining(), g.model.remaining(); got != want {
		h.fail("%s: remaining %v, want %v", g.name, got, want)
	}
	var asked []modelMail
	for d, ok := g.wd.Poll(); ok; d, ok = g.wd.Poll() {
		asked = append(asked, modelMail{d.Kind, d.Reason, d.Hold, d.Rung})
	}
	if want := g.model.polled(); !slices.Equal(asked, want) {
		h.fail("%s: asked %+v, want %+v", g.name, asked, want)
	}
	if h.logs && len(asked) > 0 {
		h.say("  %s is asked %+v", g.name, asked)
	}
}

// compareStore compares the events of every window. The names of layers' windows are random: they are told apart, and
// then only counted.
func (h *pastimes) compareStore() {
	run := h.storedCounts("s-1", func(p storedPayload) string { return p.Start.UTC().Format(time.RFC3339Nano) })
	for _, w := range h.windows {
		name := w.start.Format(time.RFC3339Nano)
		if !maps.Equal(run[name], w.counts) && len(run[name])+len(w.counts) > 0 {
			h.fail("the store has %v of the window of %s, want %v", run[name], name, w.counts)
		}
		delete(run, name)
	}
	if len(run) > 0 {
		h.fail("the store has windows that never were: %v", run)
	}
	h.compareLayers()
}

func (h *pastimes) compareLayers() {
	var got, want []string
	for _, counts := range h.storedCounts("s-1/step", func(p storedPayload) string { return p.Window }) {
		got = append(got, fmt.Sprint(counts))
	}
	for _, w := range h.layers {
		if len(w.counts) > 0 {
			want = append(want, fmt.Sprint(w.counts))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.fail("the store has layers with %v, want %v", got, want)
	}
}

type storedPayload struct {
	Start  time.Time `json:"session_started_at"`
	Window string    `json:"window"`
	Parent string    `json:"parent"`
}

// storedCounts counts the events of an aggregate by window and kind.
func (h *pastimes) storedCounts(aggregate string, window func(storedPayload) string) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, e := range h.database.events[aggregate] {
		if e.Type == event.Start { // nothing happened
			continue
		}
		var p storedPayload
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			h.fail("event %s: %v", e.Payload, err)
		}
		if (p.Parent == "s-1") != strings.Contains(aggregate, "/") {
			h.fail("event of %s names its parent %q", aggregate, p.Parent)
		}
		name := window(p)
		if all[name] == nil {
			all[name] = map[string]int{}
		}
		all[name][strings.TrimPrefix(e.Type, "runtime.watchdog.")]++
	}
	return all
}
