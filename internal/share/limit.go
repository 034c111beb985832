// Package share carries what this process holds of limits that a store keeps: it takes slices of them, waits for those
// that are being taken, charges what was used beyond them, and gives back what is left. The runs that share a limit
// share what is held of it.
//
// What to take and what to give back is for package ledger to say. It knows no run, and tries nothing again by itself.
package share

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Store keeps one limit. Those that are equal keep the same one.
type Store interface {
	// Take charges the slice, Return gives back what is left of one. MayBeCharged reports whether a slice may be charged
	// all the same after that error of Take.
	Take(ctx context.Context, s *ledger.Slice) (ledger.Grant, error)
	Return(ctx context.Context, one ledger.Return) error
	MayBeCharged(err error) bool
	// AnswersAtOnce reports that nobody has to wait for it.
	AnswersAtOnce() bool
	// String is the name of the limit, Amounts the counts that are not zero, as people read them.
	String() string
	Amounts(counts *verdict.Counts) string
}

// A Carrier is how a run has its store asked.
type Carrier struct {
	Clock   clock.Clock // the host's; nil is the machine's
	Timeout time.Duration
	Inline  bool // everything is done on the goroutine of the caller
	// Stopwatch begins to count, and returns how much real time has gone by since.
	Stopwatch func() func() time.Duration
}

// Context is one that lasts no longer than the timeout.
func (c *Carrier) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return clocks.WithTimeout(parent, c.Clock, c.Timeout)
}

// A Limit is what this process holds of a limit. It is safe for concurrent use.
type Limit struct {
	store  Store
	number int // in the order of the locks; 0 of one that nobody shares
	runs   int // that share it, guarded by the mutex of all that are shared

	mu      sync.Mutex // guards the rest
	Held    ledger.Shared
	elapsed func() time.Duration // times its windows
	taking  *taking              // the slice that is being taken; nil if none is
	failed  error                // why the last try to take what is owed failed
	rest    []ledger.Return      // what there was no time for
}

// shared are the limits that all runs of the process share.
var shared struct {
	mu   sync.Mutex
	last int // number
	open map[Store]*Limit
}

// Own returns a limit of one run, in one process.
func Own(store Store) *Limit { return &Limit{store: store, runs: 1} }

// Open returns what this process holds of a limit, for one more run. Of a store that cannot be compared, each run holds
// its own.
func Open(store Store) *Limit {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	l := &Limit{store: store}
	if compares(store) {
		if shared.open == nil {
			shared.open = map[Store]*Limit{}
		}
		l = cmp.Or(shared.open[store], l)
		shared.open[store] = l
	}
	if l.runs++; l.number == 0 {
		shared.last++
		l.number = shared.last
	}
	return l
}

// Leave lets go of it for one run, and reports whether nobody draws on it any more. That one closes it.
func (l *Limit) Leave() (last bool) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if l.runs--; l.runs > 0 {
		return false
	}
	if compares(l.store) && shared.open[l.store] == l {
		delete(shared.open, l.store)
	}
	return true
}

func compares(store Store) bool { return reflect.ValueOf(store).Comparable() }

// String is the name of the limit.
func (l *Limit) String() string { return l.store.String() }

// Lock locks what is held, and leaves a window that is over.
func (l *Limit) Lock() {
	if l.mu.Lock(); l.Held.Timed() {
		l.Held.Turn(l.elapsed())
	}
}

// Unlock unlocks what is held.
func (l *Limit) Unlock() { l.mu.Unlock() }

// Owed is what was used beyond what was taken.
func (l *Limit) Owed() verdict.Counts {
	l.Lock()
	defer l.Unlock()
	return l.Held.Owed()
}

// InOrder returns the limits as they are locked together: each once.
func InOrder(limits []*Limit) []*Limit {
	limits = slices.Clone(limits)
	ordered.Sort(limits, func(a, b *Limit) int { return a.number - b.number })
	return slices.Compact(limits)
}
