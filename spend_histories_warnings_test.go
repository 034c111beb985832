package watchdog_test

import (
	"cmp"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog"
)

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
