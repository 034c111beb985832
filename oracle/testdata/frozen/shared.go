package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/ledger"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A sharedLimit is what this process holds of a limit that is kept in a store. The runs that share the limit share it.
type sharedLimit struct {
	sharedKey
	number int // in the order of the locks
	runs   int // that share it; the mutex of all shared limits guards it

	mu sync.Mutex // guards the rest
	ledger.Shared
	clock  runClock // of its windows
	taking *taking  // the slice that is being taken; nil if none is
	failed error    // why the last try to take what is owed failed
}

// A sharedKey is what the windows of a scope are told apart by.
type sharedKey struct {
	store    SpendStore
	scope    string
	period   Period
	zone     string
	currency string
}

// spendShares are those of the scopes, which all runs of the process share.
var spendShares struct {
	mu   sync.Mutex
	last int // number
	open map[sharedKey]*sharedLimit
}

// shareLimit returns what this process holds of the limit, for one more run. Of a store that cannot be compared, each
// run holds its own.
func shareLimit(key sharedKey) *sharedLimit {
	spendShares.mu.Lock()
	defer spendShares.mu.Unlock()
	s := &sharedLimit{sharedKey: key}
	if key.isShared() {
		if spendShares.open == nil {
			spendShares.open = map[sharedKey]*sharedLimit{}
		}
		s = cmp.Or(spendShares.open[key], s)
		spendShares.open[key] = s
	}
	if s.runs++; s.number == 0 {
		spendShares.last++
		s.number = spendShares.last
	}
	return s
}

// leave lets go of it for one run, and reports whether nobody draws on it any more.
func (s *sharedLimit) leave() (last bool) {
	spendShares.mu.Lock()
	defer spendShares.mu.Unlock()
	if s.runs--; s.runs > 0 {
		return false
	}
	if s.isShared() {
		delete(spendShares.open, s.sharedKey)
	}
	return true
}

func (key sharedKey) isShared() bool { return reflect.ValueOf(key.store).Comparable() }

// lock locks it, and leaves a window that is over.
func (s *sharedLimit) lock() {
	if s.mu.Lock(); s.Timed() {
		s.Turn(s.clock.elapsed())
	}
}

// openSpend has a session draw on what a store keeps of its limits, and learn what was used before.
func (w *Watchdog) openSpend(ctx context.Context, cfg *Config, found *fold.Window) error {
	store := cfg.spendStore()
	if store == nil || w.disabled || len(w.limits.Counts) == 0 && len(cfg.Scopes) == 0 || w.hasEnded() {
		return nil
	}
	in := w.accountOf().in
	in.share(w, cfg, store, found)
	w.restoreScopes(found)
	ctx, cancel := clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
	defer cancel()
	for i, s := range in.sources {
		in.lock()
		limit := in.Open(i)
		in.unlock()
		if err := s.begin(ctx, &w.recorder, &limit); err != nil {
			return fmt.Errorf("read what was spent: %w", err)
		}
	}
	in.lock()
	defer in.unlock()
	in.session.Learn()
	return nil
}

// share has the session draw on its limits. The run's keeper and its timer may look at them already.
func (l *sessionLedger) share(w *Watchdog, cfg *Config, store SpendStore, found *fold.Window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !cfg.forgets {
		window := found.SpendName()
		for _, tool := range toolsOf(w.limits.Counts) {
			name := record.EventID(w.id, window, "spend", record.Once+" "+tool)
			l.add(&sharedLimit{sharedKey: sharedKey{store: store, scope: name, currency: w.limits.currency}}, "", tool)
		}
	}
	for i := range cfg.Scopes {
		s := &cfg.Scopes[i]
		limits, currency := s.Spend.limits(s.Scope), s.Spend.Cost.Currency
		l.AddLimits(limits, currency)
		for _, tool := range toolsOf(limits) {
			l.add(shareLimit(sharedKey{store, toolScope(s.Scope, tool), s.Period, s.Zone, currency}), s.Scope, tool)
		}
	}
	l.locks = slices.Clone(l.sources)
	slices.SortFunc(l.locks, func(a, b *sharedLimit) int { return a.number - b.number })
	l.locks = slices.Compact(l.locks)
}

func (l *sessionLedger) add(s *sharedLimit, scope, tool string) {
	l.sources = append(l.sources, s)
	l.AddSource(&s.Shared, scope, tool)
}

// toolsOf are the tools that the limits are of which add up, each once; the empty one is all.
func toolsOf(limits []verdict.CountLimit) (tools []string) {
	for _, l := range limits {
		if l.Kind < verdict.KindCallInput && !slices.Contains(tools, l.Tool) {
			tools = append(tools, l.Tool)
		}
	}
	return tools
}

// begin takes the first slice of a window, unless there is one, and so learns what that is charged with.
func (s *sharedLimit) begin(ctx context.Context, r *recorder, limit *verdict.Counts) error {
	for {
		s.lock()
		begun := s.Begun()
		s.mu.Unlock()
		if begun {
			return nil
		}
		if _, err := s.take(ctx, r, &ledger.Slice{Limit: *limit}); err != nil {
			return err
		}
	}
}

// instantSpend reports that the store answers at once.
func (r *recorder) instantSpend(store SpendStore) bool {
	_, memory := store.(*Memory)
	return memory
}

// amounts are the counts that are not zero, as people read them.
func (s *sharedLimit) amounts(c *verdict.Counts) string {
	var parts []string
	for kind, n := range c {
		switch {
		case n == 0:
		case verdict.Kind(kind) == verdict.KindCost:
			parts = append(parts, Usage{Currency: s.currency}.amount(n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(verdict.Kind(kind).String(), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}
