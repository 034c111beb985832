package watchdog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// spendSteps is how many steps a history of spending has.
const spendSteps = 20

// TestSpendHistories has a run with layers spend in random histories, whose process is killed and begins again with what
// its host kept, beside a model that is sums. A failure names the seed; -history replays it.
func TestSpendHistories(t *testing.T) {
	if *historySeed >= 0 {
		liveSpending(t, uint64(*historySeed))
		return
	}
	inShards(t, 1, func(t *testing.T, seed uint64) { liveSpending(t, seed) })
}

// A spendLevel is the session, or a layer in the one before, as the model has it.
type spendLevel struct {
	wd             *watchdog.Watchdog
	limit          int64 // with what it was given
	used, admitted int64
	beyond         int64 // what calls used above their admissions
}

// A spendCall is a call that is admitted, in a level and those around it.
type spendCall struct {
	charge watchdog.Charge
	level  int
	most   int64
}

// A spendHistory is one run, and what its host knows.
type spendHistory struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	store   watchdog.Memory
	began   time.Time
	budget  watchdog.Budget // of the session
	levels  []spendLevel
	open    []spendCall
	kept    [3][]byte // what the host keeps of each level: Usage as JSON
	beyond  bool      // calls may use more than was admitted
	observe bool

	reserve int64
	wrapped bool
	rungs   int // of the session's ladder that were taken
	asked   []watchdog.DirectiveKind
}

func liveSpending(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 19))
	h := &spendHistory{
		t: t, seed: seed, rng: rng, began: time.Now(), levels: make([]spendLevel, 1+rng.IntN(3)), beyond: rng.IntN(3) == 0,
		observe: rng.IntN(8) == 0,
	}
	for i := range h.levels {
		h.levels[i].limit = 4 + rng.Int64N(1<<rng.IntN(10)+1)
	}
	if rng.IntN(2) == 0 {
		h.reserve = 1 + rng.Int64N(3)
	}
	h.budget = watchdog.Budget{
		Spend: watchdog.Spend{
			Requests: h.levels[0].limit, Tools: map[string]int64{"rm": 1 << 40}, WarnAt: []float64{},
			Reserve: watchdog.Totals{Requests: h.reserve},
		},
		Ladders: watchdog.Ladders{Requests: many(watchdog.DirectiveRetry, rng.IntN(4))},
	}
	h.attach(watchdog.New)
	for range spendSteps {
		h.step()
	}
	for i := range h.levels {
		require.NoError(t, h.levels[i].wd.Close())
	}
}

// attach attaches to the run with what the host kept of it, and begins its layers again.
func (h *spendHistory) attach(
	begin func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error),
) {
	used := func(level int) (all []watchdog.Usage) {
		if h.kept[level] != nil {
			require.NoError(h.t, json.Unmarshal(h.kept[level], &all))
		}
		return all
	}
	budget := h.budget
	budget.Spend.Used = used(0)
	wd, err := begin(context.Background(), watchdog.Run{ID: "s-1", StartedAt: h.began}, watchdog.Config{
		Store: &h.store, Budget: budget, PollOnly: true, ObserveOnly: h.observe, Logger: quiet,
	})
	require.NoError(h.t, err, "seed %d", h.seed)
	h.levels[0].wd = wd
	for i := 1; i < len(h.levels); i++ {
		wd = openLayer(h.t, wd, "in", watchdog.Budget{
			Spend:   watchdog.Spend{Requests: h.levels[i].limit, WarnAt: []float64{}, Used: used(i)},
			Ladders: watchdog.Ladders{Requests: many(watchdog.DirectiveWait, 1)}, // it never ends the layer
		})
		h.levels[i].wd = wd
	}
	h.look()
}

func (h *spendHistory) step() {
	switch what := h.rng.IntN(20); {
	case what < 9 || len(h.open) == 0 && what < 16:
		h.admit()
	case what < 16:
		h.settle()
	case what == 16:
		more := 1 + h.rng.Int64N(h.levels[0].limit)
		require.NoError(h.t, h.levels[0].wd.ExtendSpend(watchdog.Spend{Requests: more}))
		h.levels[0].limit += more
		h.wrapped, h.rungs = false, 0
	default:
		h.restart()
	}
	h.look()
	if h.levels[0].wd.Stop() != nil {
		h.resume()
	}
	h.check()
}

// admit admits a call, which is refused by the first level that has no room for it, from the innermost out.
func (h *spendHistory) admit() {
	c := spendCall{level: h.rng.IntN(len(h.levels)), most: 1 + h.rng.Int64N(h.levels[0].limit/2+1)}
	refuses := -1
	for i := c.level; i >= 0 && refuses < 0; i-- {
		l, room := &h.levels[i], h.levels[i].limit
		if i == 0 && !h.wrapped {
			room -= h.reserve
		}
		if l.used+l.admitted+c.most > room {
			if refuses = i; i == 0 {
				h.trip(true)
			}
			if h.observe { // and the others are asked, too
				refuses = -1
			}
		}
	}
	amount := watchdog.Amount{Requests: c.most, ToolCalls: c.most, Tool: "rm"}
	var err error
	c.charge, err = h.levels[c.level].wd.Admit(context.Background(), "", amount)
	if refuses < 0 {
		require.NoError(h.t, err, "seed %d", h.seed)
		h.open = append(h.open, c)
		h.add(c.level, func(l *spendLevel) { l.admitted += c.most })
		return
	}
	var refused *watchdog.Refused
	require.ErrorAs(h.t, err, &refused, "seed %d", h.seed)
	require.Equal(h.t, h.levels[refuses].wd.ID(), refused.Run, "seed %d", h.seed)
}

func (h *spendHistory) add(level int, change func(l *spendLevel)) {
	for i := range level + 1 {
		change(&h.levels[i])
	}
}

// settle settles a call, or voids it.
func (h *spendHistory) settle() {
	i := h.rng.IntN(len(h.open))
	c := h.open[i]
	h.open = slices.Delete(h.open, i, i+1)
	h.add(c.level, func(l *spendLevel) { l.admitted -= c.most })
	if h.rng.IntN(5) == 0 {
		require.NoError(h.t, c.charge.Void())
		return
	}
	n := h.rng.Int64N(c.most + 1)
	if h.beyond {
		n += h.rng.Int64N(c.most + 1)
	}
	require.NoError(h.t, c.charge.Settle(watchdog.Amount{Requests: n, ToolCalls: n}))
	h.add(c.level, func(l *spendLevel) { l.used, l.beyond = l.used+n, l.beyond+max(n-c.most, 0) })
	if l := &h.levels[0]; n > 0 && l.used > l.limit {
		h.trip(false)
	}
}

// trip is a trip of the session's limit.
func (h *spendHistory) trip(refused bool) {
	kind := watchdog.DirectiveCancel
	switch ladder := h.budget.Ladders.Requests; {
	case refused && h.reserve > 0 && !h.wrapped && h.levels[0].used <= h.levels[0].limit:
		kind, h.wrapped = watchdog.DirectiveWrapUp, true
	case h.rungs > len(ladder): // an observed cancel, which comes once
		return
	case h.rungs < len(ladder):
		kind = ladder[h.rungs]
		h.rungs++
	default:
		h.rungs++
	}
	h.asked = append(h.asked, kind)
}

// look compares what the session asks for.
func (h *spendHistory) look() {
	l := &h.levels[0]
	if h.reserve > 0 && !h.wrapped && l.used >= l.limit-h.reserve && l.used <= l.limit {
		h.wrapped = true
		h.asked = append(h.asked, watchdog.DirectiveWrapUp)
	}
	require.Equal(h.t, h.asked, askedOf(l.wd), "seed %d", h.seed)
	h.asked = nil
}

// keep has the host keep what was used.
func (h *spendHistory) keep() {
	for i := range h.levels {
		var err error
		h.kept[i], err = json.Marshal(h.levels[i].wd.Usage())
		require.NoError(h.t, err)
	}
}

// restart kills the process. Its open calls stay charged.
func (h *spendHistory) restart() {
	h.keep()
	h.open = nil
	for i := range h.levels {
		h.levels[i].used, h.levels[i].admitted = h.levels[i].used+h.levels[i].admitted, 0
	}
	h.rungs = min(h.rungs, len(h.budget.Ladders.Requests)) // an observed cancel comes once in each process
	h.attach(watchdog.New)
}

// resume goes on after the cancel, which has the totals. What was used before is the host's word.
func (h *spendHistory) resume() {
	stop := h.levels[0].wd.Stop()
	require.Equal(h.t, watchdog.RequestsExceeded, stop.Code, "seed %d", h.seed)
	events, err := h.store.Read(context.Background(), event.AggregateType, "s-1")
	require.NoError(h.t, err)
	var spent struct {
		Spent []watchdog.Usage `json:"spent"`
	}
	require.NoError(h.t, json.Unmarshal(events[len(events)-1].Payload, &spent))
	l := &h.levels[0]
	for _, u := range spent.Spent {
		require.Equal(h.t, [2]int64{l.used, l.admitted}, [2]int64{u.Used, u.Admitted}, "seed %d: %s", h.seed, u)
	}
	require.Equal(h.t, l.used+l.admitted > 0, len(spent.Spent) > 0, "seed %d", h.seed)
	h.keep()
	h.open, h.wrapped, h.rungs, l.limit = nil, false, 0, h.budget.Spend.Requests
	for i := range h.levels {
		h.levels[i].used, h.levels[i].admitted = h.levels[i].used+h.levels[i].admitted, 0
	}
	if h.rng.IntN(2) == 0 {
		h.kept = [3][]byte{}
		for i := range h.levels {
			h.levels[i].used, h.levels[i].beyond = 0, 0
		}
	}
	l.beyond = max(l.beyond, l.used-l.limit) // it was given more, which is over
	h.attach(watchdog.Resume)
}

// check compares what is used, and that no limit is exceeded by more than what calls used above their admissions.
func (h *spendHistory) check() {
	for i := range h.levels {
		l := &h.levels[i]
		u := l.wd.Usage()[0]
		about := fmt.Sprintf("seed %d, level %d: %s", h.seed, i, u)
		require.Equal(h.t, [3]int64{l.used, l.admitted, l.limit}, [3]int64{u.Used, u.Admitted, u.Allowed}, about)
		if i == 0 {
			tool := l.wd.Usage()[1]
			require.Equal(h.t, [2]int64{l.used, l.admitted}, [2]int64{tool.Used, tool.Admitted}, about)
		}
		if !h.observe {
			require.LessOrEqual(h.t, l.used+l.admitted, l.limit+l.beyond, about)
		}
	}
}

// TestUsedBefore protects limits from what ran before this process.
func TestUsedBefore(t *testing.T) {
	wait := many(watchdog.DirectiveWait, 1)
	runFixture(t, "it counts from the first call on, with what was admitted", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{
			Tokens: 100, Cost: euros(10), Errors: 2, CallInput: 50, Tools: map[string]int64{"rm": 3}, WarnAt: []float64{},
			Used: []watchdog.Usage{
				{Limit: "tokens", Used: 50, Admitted: 10, Allowed: 7, Run: "other"}, {Limit: "cost", Currency: "EUR", Used: 9},
				{Limit: "errors", Used: 2}, {Limit: "call_input", Used: 50}, {Limit: "tool_calls", Tool: "rm", Used: 2},
				{Limit: "tool_calls", Tool: "ls", Used: 9}, {Limit: "turns", Used: 9},
			},
		}
		f.cfg.Budget.Ladders = watchdog.Ladders{Tokens: wait, Cost: wait, ToolCalls: wait}
		wd := f.attach()
		var used []int64
		for _, u := range wd.Usage() {
			used = append(used, u.Used)
		}
		require.Equal(f.t, []int64{60, 0, 9, 0, 2}, used, "a row of errors, and the input of a call, are of this process")
		all := watchdog.Amount{InputTokens: 40, Cost: euros(1), ToolCalls: 1, Tool: "rm"}
		require.NoError(f.t, admit(f.t, wd, all).Settle(all), "at the limits it fits")
		refuse(f.t, wd, tokens(1, 0))
		refuse(f.t, wd, watchdog.Amount{Cost: euros(1)})
		refuse(f.t, wd, watchdog.Amount{ToolCalls: 1, Tool: "rm"})
		requireRunning(f.t, wd)
		f.cfg.Budget.Spend.Used = wd.Usage()
		require.Equal(f.t, wd.Usage()[0].Used, f.attach().Usage()[0].Used)
	})
	runFixture(t, "more than the limit is used when a call comes, and warned of at once", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, Used: []watchdog.Usage{{Limit: "requests", Used: 11}}}
		wd := f.attach()
		f.pass(0)
		requireRunning(f.t, wd)
		require.Len(f.t, f.events(event.Warning), 1)
		require.Zero(f.t, refuse(f.t, wd, requests(1)).Remaining())
		require.Equal(f.t, watchdog.RequestsExceeded, wd.Stop().Code)
	})
	runFixture(t, "that of a layer counts for the layer alone", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
		wd := f.attach()
		layer := openLayer(f.t, wd, "in", watchdog.Budget{
			Spend: watchdog.Spend{Requests: 5, WarnAt: []float64{}, Used: []watchdog.Usage{{Limit: "requests", Used: 4}}},
		})
		require.NoError(f.t, admit(f.t, layer, requests(1)).Settle(requests(1)))
		require.EqualValues(f.t, 5, layer.Usage()[0].Used)
		require.EqualValues(f.t, 1, wd.Usage()[0].Used)
	})
	runFixture(t, "a resume begins with what is handed in", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
		refuse(f.t, f.attach(), requests(11))
		f.pass(time.Second)
		require.Zero(f.t, f.resume().Usage()[0].Used)
		f.cfg.Budget.Spend.Used = []watchdog.Usage{{Limit: "requests", Used: 8}}
		require.EqualValues(f.t, 8, f.attach().Usage()[0].Used)
	})
}

// TestUsedInvalid protects a host from handing in what Usage never returned.
func TestUsedInvalid(t *testing.T) {
	one := watchdog.Usage{Limit: "requests", Used: 1}
	for text, used := range map[string][]watchdog.Usage{
		`Spend.Used[0] has the limit "moons"`:                {{Limit: "moons"}},
		"Spend.Used[1] is -1, and 0 admitted":                {one, {Limit: "turns", Used: -1}},
		"Spend.Used[0] is 0, and -1 admitted":                {{Limit: "turns", Admitted: -1}},
		"Spend.Used[0] is in USD, and Cost in EUR":           {{Limit: "cost", Currency: "USD", Used: 1}},
		"Spend.Used[2] is a second one of its limit":         {one, {Limit: "tool_calls", Tool: "rm"}, one},
		"budget: Spend.Used[0] has the limit \"\", which is": {{}},
	} {
		for _, spend := range []watchdog.Spend{{Requests: 5, Cost: euros(5), Used: used}, {Cost: euros(5), Used: used}} {
			err := watchdog.Budget{Spend: spend}.Validate()
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, text)
			_, err = watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Spend: spend}})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		}
	}
	none := watchdog.Spend{Used: []watchdog.Usage{one}}
	require.NoError(t, watchdog.Budget{Spend: none}.Validate(), "a limit that is gone")
}
