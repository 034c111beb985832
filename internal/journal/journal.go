// Package journal reads and writes the events of a run in its store: what its window folds to, and what is decided
// about it in one exchange.
//
// A [Journal] is that of one run. Its exchanges do not overlap, so that a store which hangs is not asked again while it
// does, and each has a time-out. What the events come to is for package fold to say. A store that can transact is asked
// once for the whole window and then for what this process does not know yet, any other for all events of the run.
//
// The package decides nothing about a run, tries nothing again, and tells nobody: that is for package lane.
package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/unwrap"
)

// ErrUnreadableEvent is the root's of that name.
var ErrUnreadableEvent = errors.New("unreadable event")

// A Store is the host's, and what it can do besides.
type Store struct {
	event.Store
	Transactional event.TransactionalStore // the same, or one that it wraps; nil if it cannot
}

// StoreOf finds what a store can do.
func StoreOf(store event.Store) Store {
	transactional, _ := unwrap.To[event.TransactionalStore, event.Store](store)
	return Store{store, transactional}
}

// Transacts reports whether the store can transact.
func (s *Store) Transacts() bool { return s.Transactional != nil }

// ReadRun returns all events of a run, in their order.
func (s *Store) ReadRun(ctx context.Context, runID string) ([]event.Event, error) {
	return s.Read(ctx, event.AggregateType, runID)
}

// few is how many events of a run are read at once where the store can count them.
const few = 32

// isSmall reports that a run has next to no events, as far as the store can tell at once.
func (s *Store) isSmall(runID string) bool {
	counts, can := s.Store.(interface {
		Len(aggregateType, aggregateID string) int
	})
	return can && counts.Len(event.AggregateType, runID) <= few
}

// A Place is where a session and its layers are recorded, and how. It does not change.
type Place struct {
	Store   Store
	Clock   clocks.Clock // the host's; nil is the machine's
	Timeout time.Duration
	Inline  bool // everything is done on the goroutine of the caller
	Instant bool // the store answers at once: nobody has to wait for it
	Machine bool // the clock is the machine's, outside of a testing/synctest bubble, and so is every timer
}

// A Journal is what one run has in its store. It is safe for concurrent use. Whoever uses it has drawn the name of the
// window.
type Journal struct {
	place *Place
	name  *machine.Name
	more  atomic.Pointer[known]
}

// known is what a process knows of a run's events without reading them again, and what it has under way.
type known struct {
	gate chan struct{} // held during an exchange

	mu   sync.Mutex
	base *fold.Base // how far it has read; nil while that is next to nothing
	news int        // events that it has recorded since it was last read
}

// Open has the journal be that of the run with that name.
func (j *Journal) Open(place *Place, name *machine.Name) { j.place, j.name = place, name }

// known is made at the first need: most runs have few events.
func (j *Journal) known() *known {
	if k := j.more.Load(); k != nil {
		return k
	}
	j.more.CompareAndSwap(nil, &known{gate: make(chan struct{}, 1)})
	return j.more.Load()
}

// base is how far the process has read, nil if it reads its window from the beginning.
func (j *Journal) base() (base *fold.Base) {
	if k := j.more.Load(); k != nil {
		k.locked(func(k *known) { base = k.base })
	}
	return base
}

func (k *known) locked(call func(k *known)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	call(k)
}

// Left is what is left of the time-out for a caller that has waited since began.
func (p *Place) Left(began time.Time) time.Duration {
	return p.Timeout - max(clocks.Since(p.Clock, began), 0)
}

// Await waits for what is done on another goroutine, nil for nothing, and gives up at the time-out after began.
func (p *Place) Await(began time.Time, done <-chan struct{}) {
	if done == nil {
		return
	}
	left := p.Left(began)
	if left <= 0 {
		return
	}
	ctx, cancel := clocks.WithTimeout(context.Background(), p.Clock, left)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Place is where the run is recorded.
func (j *Journal) Place() *Place { return j.place }

// errNoAnswer says that the time-out ended an exchange.
var errNoAnswer = errors.New("event store did not answer in time")

// ErrExited says that the store ended the goroutine that called it.
var ErrExited = fmt.Errorf("event store: %w", bounded.ErrExited)

// Nothing is the value of an exchange that only succeeds or fails.
type Nothing = struct{}

// Within has one conversation with the store, for at most limit or as long as the caller's context lasts. A
// conversation that ignores its context is left behind; what it says later is dropped.
func Within[T any](
	caller context.Context, j *Journal, limit time.Duration, talk func(context.Context) (T, error),
) (T, error) {
	p := j.place
	if p.Instant {
		return Here(func() (T, error) { return talk(caller) })
	}
	var none T
	if limit <= 0 {
		return none, p.noAnswer(caller)
	}
	ctx, cancel := clocks.WithTimeout(caller, p.Clock, limit)
	defer cancel()
	if !j.enter(ctx) {
		return none, p.noAnswer(caller)
	}
	if p.Inline {
		defer j.Leave()
		return Here(func() (T, error) { return talk(ctx) })
	}
	return Converse(caller, ctx, p, j.Leave, talk)
}

// Ask is Within for what is asked before a run is guarded, when nothing else talks to the store about it.
func Ask[T any](caller context.Context, p *Place, talk func(context.Context) (T, error)) (T, error) {
	if p.Instant {
		return Here(func() (T, error) { return talk(caller) })
	}
	ctx, cancel := clocks.WithTimeout(caller, p.Clock, p.Timeout)
	defer cancel()
	if p.Inline {
		return Here(func() (T, error) { return talk(ctx) })
	}
	return Converse(caller, ctx, p, func() {}, talk)
}

// Here makes a call of the store on this goroutine.
func Here[T any](call func() (T, error)) (T, error) { return storeErr(bounded.Here(call)) }

// Converse talks on a goroutine of its own, which leaves when it has, and waits for it as long as ctx lasts.
func Converse[T any](
	caller, ctx context.Context, p *Place, leave func(), talk func(context.Context) (T, error),
) (T, error) {
	value, err := bounded.Do(ctx, func() (T, error) {
		defer leave()
		return talk(ctx)
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		var none T
		return none, p.noAnswer(caller)
	}
	return storeErr(value, err)
}

// storeErr names the store in the error of a call that did not return. Of a panic it has the type only, because what
// the value says may be a secret.
func storeErr[T any](value T, err error) (T, error) {
	if panicked := (*bounded.PanicError)(nil); errors.As(err, &panicked) {
		err = fmt.Errorf("event store panicked with a %T", panicked.Value)
	} else if errors.Is(err, bounded.ErrExited) {
		err = ErrExited
	}
	return value, err
}

// noAnswer is the error of an exchange that came to nothing: its caller ended it, or the time-out did.
func (p *Place) noAnswer(caller context.Context) error {
	if caller.Err() != nil {
		return fmt.Errorf("wait for the event store: %w", bounded.Cause(caller))
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, p.Timeout, context.DeadlineExceeded)
}

// enter waits for the run's other conversation to end, and reports whether it did before the context.
func (j *Journal) enter(ctx context.Context) bool {
	if j.Enter() {
		return true
	}
	select {
	case j.known().gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Enter begins a conversation of the run, unless it has another one. [Journal.Leave] ends it.
func (j *Journal) Enter() bool {
	select {
	case j.known().gate <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave ends a conversation.
func (j *Journal) Leave() { <-j.known().gate }

// Busy reports whether the run has a conversation.
func (j *Journal) Busy() bool {
	k := j.more.Load()
	return k != nil && len(k.gate) > 0
}
