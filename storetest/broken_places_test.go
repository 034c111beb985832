package storetest_test

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
)

const (
	oneIDOfStores     = "open at once keep one event"
	noOverlapOfStores = "open at once do not overlap"
)

type opener = func() (watchdog.EventStore, error)

// places makes places whose stores share a memory, and what the fault of a place closes over.
func places(faulty func() fault) func() opener {
	return func() opener {
		m, f := new(memory), faulty()
		return func() (watchdog.EventStore, error) {
			a := &altered{m, f()}
			return struct { // without transactions
				watchdog.EventStore
				io.Closer
			}{a, a}, nil
		}
	}
}

// keeps is a fault of stores that keep events of their own. Those that were there when a store was closed are old.
func keeps(which func(c *call, e event, old bool) bool, read func(c *call, mine, old *sync.Map)) func() fault {
	return func() fault {
		var all, old sync.Map
		return func() alteration {
			var mine sync.Map
			return both(before("Append", func(c *call) {
				for _, e := range c.events {
					if which(c, e, has(&old, e.ID)) {
						mine.LoadOrStore(e.ID, e)
					}
					all.Store(e.ID, e)
				}
			}), both(after("Read", func(c *call) { read(c, &mine, &old) }), after("Close", func(*call) {
				for id, e := range all.Range {
					old.Store(id, e)
				}
			})))()
		}
	}
}

func has(events *sync.Map, id string) bool {
	_, has := events.Load(id)
	return has
}

// readsMine has a store read its own events in the place of those that are stored.
func readsMine(c *call, mine, _ *sync.Map) {
	each(c.events, func(e *event) {
		if own, is := mine.Load(e.ID); is {
			*e = own.(event)
		}
	})
}

var placeFaults = []contracttest.Broken[opener]{
	{"loses its events until they are appended again", "stored when the store is opened again", places(func() fault {
		var lost atomic.Bool
		found := both(before("Append", func(*call) { lost.Store(false) }),
			after("Read", func(c *call) { setIf(lost.Load(), &c.events, nil) }))
		return both(after("Close", func(*call) { lost.Store(true) }), found)
	})},
	{"forgets its IDs when it is closed", "before the store was opened again",
		places(keeps(func(_ *call, _ event, old bool) bool { return old }, readsMine))},
	{"does not read what others wrote", "see each other's events",
		places(keeps(func(*call, event, bool) bool { return true }, func(c *call, mine, old *sync.Map) {
			c.events = slices.DeleteFunc(c.events, func(e event) bool { return !has(mine, e.ID) && !has(old, e.ID) })
		}))},
	{"knows only the IDs it wrote", oneIDOfStores,
		places(keeps(func(_ *call, _ event, old bool) bool { return !old }, readsMine))},
	{"locks only within itself", oneIDOfStores, places(keeps(func(c *call, e event, _ bool) bool {
		known := slices.ContainsFunc(c.beside(), func(other event) bool { return other.ID == e.ID })
		runtime.Gosched() // as does a store that waits for its disk
		return !known
	}, readsMine))},
	{"locks only within itself for a transaction", noOverlapOfStores, placeOfTransactions},
}

// placeOfTransactions returns a place whose stores each have a lock of their own for a transaction.
func placeOfTransactions() opener {
	m := new(memory)
	return func() (watchdog.EventStore, error) {
		var own sync.Mutex
		return &altered{m, around("Transact", func(c *call, _ func()) {
			own.Lock()
			defer own.Unlock()
			for _, x := range c.all {
				x.Kept = x.Decide(c.selected(x.Selection))
				_ = c.m.Append(c.ctx, x.Kept...)
			}
		})()}, nil
	}
}
