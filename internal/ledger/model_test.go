package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A store is what keeps a limit of requests: a number, and what each slice was granted.
type store struct {
	limit, charged int64
	granted        map[string]int64
	returned       map[string]bool
}

func (s *store) take(slice *ledger.Slice) *ledger.Grant {
	granted, again := s.granted[slice.ID]
	least := slice.Least[verdict.KindRequests]
	fits := again || slice.Force || verdict.Fits(least, s.limit, s.charged)
	if fits && !again {
		granted = least
		if !slice.Force {
			granted = verdict.SliceOf(least, s.limit, s.charged)
		}
		s.granted[slice.ID] = granted
		s.charged += granted
	}
	g := &ledger.Grant{Fits: fits, Ends: verdict.Never}
	g.Granted[verdict.KindRequests], g.Charged[verdict.KindRequests] = granted, s.charged
	return g
}

func (s *store) giveBack(all []ledger.Return) {
	for _, r := range all {
		if !s.returned[r.ID] {
			s.charged -= r.Unused[verdict.KindRequests]
		}
		s.returned[r.ID] = true
	}
}

// A call is one that was admitted: -1 is what is not settled.
type call struct {
	of         *ledger.Ledger
	id         ledger.ID
	most, used int64
	late       bool // settled after the end
}

// counts is what a store has to be charged with in the end, and spare how much more it may be: what was not used when
// the rest was given back already.
func (c *call) counts() (n, spare int64) {
	switch {
	case c.used < 0:
		return c.most, 0
	case c.late:
		return c.used, max(c.most-c.used, 0)
	}
	return c.used, 0
}

// A process is two sessions, each with a layer, that draw on one limit.
type process struct {
	shared   ledger.Shared
	sessions []*ledger.Ledger
	layers   [][]*ledger.Account
	taking   *ledger.Take // whose answer is not there yet
}

// A world is two processes and their store. Its faults are those of a net: what is asked, or what is answered, is lost.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	store     store
	processes []*process
	open      []*call
	all       []*call
	faults    bool
	observed  bool
	slices    int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 23)), faults: true}
	w.store = store{limit: w.rng.Int64N(600) + 1, granted: map[string]int64{}, returned: map[string]bool{}}
	w.observed = w.rng.IntN(4) == 0
	for range 2 {
		p := &process{}
		for range 2 {
			l, session, layer := &ledger.Ledger{}, &ledger.Account{}, &ledger.Account{}
			l.OpenSession(session, verdict.NewSpend(nil, w.observed), "")
			l.AddLimits([]verdict.CountLimit{{
				CountID: verdict.CountID{Kind: verdict.KindRequests, Scope: "team"}, Max: w.store.limit,
			}}, "")
			l.AddSource(&p.shared, "team", "")
			l.OpenLayer(layer, session, verdict.NewSpend([]verdict.CountLimit{{
				CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: w.store.limit,
			}}, w.observed), "")
			p.sessions, p.layers = append(p.sessions, l), append(p.layers, []*ledger.Account{session, layer})
		}
		w.processes = append(w.processes, p)
	}
	return w
}

// ask begins a slice, and answers it unless another is under way. It reports whether it was taken as wanted.
func (w *world) ask(p *process, want *ledger.Slice) (asked, fits bool) {
	w.slices++
	t, begun := p.shared.Begin(0, fmt.Sprint("slice ", w.slices), want)
	if t == nil || !begun {
		return false, false
	}
	p.taking = t
	if w.faults && w.rng.IntN(4) == 0 {
		return true, false // it is answered later
	}
	fits, again := w.answer(p), t.Again
	return true, fits && !again
}

// answer answers what is being taken, or loses it.
func (w *world) answer(p *process) (fits bool) {
	t := p.taking
	p.taking = nil
	fault := 3
	if w.faults {
		fault = w.rng.IntN(8)
	}
	if fault == 0 {
		p.shared.NotGranted(true)
		return false
	}
	g := w.store.take(&t.Slice)
	if fault == 1 {
		p.shared.NotGranted(true)
		return false
	}
	p.shared.Granted(g)
	return g.Fits
}

// admit admits a call as a driver does.
func (w *world) admit(p *process, i int) {
	l, a := p.sessions[i], p.layers[i][w.rng.IntN(2)]
	c := ledger.Call{}
	c.Use.Counts[verdict.KindRequests] = w.rng.Int64N(w.store.limit/3+2) + 1
	var o ledger.Outcome
	for a.Admit(&c, &o); o.Did == ledger.Lacking; a.Admit(&c, &o) {
		source := o.Why.Source
		want := l.Wants(&c, source)
		asked, fits := w.ask(p, &want)
		switch {
		case p.taking != nil || !asked: // a driver waits, at most the record timeout
			o = ledger.Outcome{}
		case fits && !want.Force:
			continue
		default:
			o = ledger.Outcome{}
			l.NotGranted(&c, source, &o)
		}
		c.Owes = w.observed
		if !c.Owes && (o.Did == ledger.Refused || w.rng.IntN(2) == 0) {
			return
		}
	}
	if o.Did == ledger.Charged {
		one := &call{of: l, id: o.ID, most: c.Use.Counts[verdict.KindRequests], used: -1}
		w.open, w.all = append(w.open, one), append(w.all, one)
	}
}

func (w *world) settle(late bool) {
	if len(w.open) == 0 {
		return
	}
	i := w.rng.IntN(len(w.open))
	c := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	c.late = late
	if w.rng.IntN(5) == 0 {
		require.True(w.t, c.of.Void(c.id))
		require.False(w.t, c.of.Void(c.id))
		c.used = 0
		return
	}
	var use verdict.Use
	c.used = w.rng.Int64N(c.most + c.most/2 + 1)
	use.Counts[verdict.KindRequests] = c.used
	var o, again ledger.Outcome
	c.of.Settle(c.id, &use, "", &o)
	require.Equal(w.t, ledger.Settled, o.Did)
	c.of.Settle(c.id, &use, "", &again)
	require.Equal(w.t, ledger.Nothing, again.Did)
}

// charged is what the store has to be charged with for all that was admitted, how much more it may be, and how much of
// it was used beyond an admission.
func (w *world) charged() (all, spare, beyond int64) {
	for _, c := range w.all {
		n, more := c.counts()
		all, spare = all+n, spare+more
		beyond += max(c.used-c.most, 0)
	}
	return all, spare, beyond
}

// requireHolds checks that the limit holds.
func (w *world) requireHolds(seed uint64) {
	all, _, beyond := w.charged()
	owed := int64(0)
	for _, p := range w.processes {
		owed += p.shared.Owed()[verdict.KindRequests]
	}
	require.LessOrEqual(w.t, all, w.store.charged+owed, "seed %d: more is used than charged", seed)
	if !w.observed {
		require.LessOrEqual(w.t, all, w.store.limit+beyond, "seed %d: the limit does not hold", seed)
	}
}

// pay takes what is owed, until it is taken.
func (w *world) pay(p *process) {
	for {
		if p.taking != nil {
			w.answer(p)
		}
		if asked, _ := w.ask(p, nil); !asked {
			return
		}
	}
}

// end closes both processes. Half of what is open is settled before, and some afterwards.
func (w *world) end() {
	for range len(w.open) / 2 {
		w.settle(false)
	}
	w.faults = false
	for _, p := range w.processes {
		if w.rng.IntN(2) == 0 {
			w.pay(p)
		}
		for i := range p.sessions {
			require.True(w.t, p.layers[i][0].Close())
			require.False(w.t, p.layers[i][0].Close())
		}
		p.shared.Close()
		w.giveBack(p)
	}
	for range len(w.open) / 2 {
		w.settle(true)
	}
	for _, p := range w.processes {
		w.pay(p)
		w.giveBack(p)
		require.Zero(w.t, p.shared.Owed())
	}
}

func (w *world) giveBack(p *process) {
	w.store.giveBack(p.shared.Returns())
}

// TestModel compares random calls of two processes, over a net that loses what they ask and what they are answered,
// with what was admitted and used: the limit holds all the time, and in the end the store is charged with that.
func TestModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](1_000, 50_000) {
		w := newWorld(t, seed)
		for range 40 {
			p := w.processes[w.rng.IntN(2)]
			switch what := w.rng.IntN(10); {
			case what < 5:
				w.admit(p, w.rng.IntN(2))
			case what < 8:
				w.settle(false)
			case p.taking != nil:
				w.answer(p)
			case what == 8 && p.shared.BeginCover():
				w.ask(p, nil)
				p.shared.EndCover()
			}
			w.requireHolds(seed)
		}
		w.end()
		all, spare, _ := w.charged()
		require.GreaterOrEqual(t, w.store.charged, all, "seed %d", seed)
		require.LessOrEqual(t, w.store.charged, all+spare, "seed %d", seed)
	}
}
