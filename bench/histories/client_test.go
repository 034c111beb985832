//go:build linux

package histories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

const (
	clients = 3 // goroutines of a process
	// slot is how long the clients of all processes call about the same objects: this many runs, and a scope.
	slot       = 50 * time.Millisecond
	runsOfSlot = 2
	// patienceOfCall is how long a client waits for an answer.
	patienceOfCall = 300 * time.Millisecond
)

// A store is what the calls are about.
type store interface {
	session.Store
	watchdog.SpendStore
}

// A job is what a child does.
type job struct {
	Name     string // of the process
	Database string // a path or a connection string
	Journal  string
	Began    time.Duration // of the first slot, since boot
	Length   time.Duration // of all slots
	Seed     uint64
}

// work is the main of a child. It returns when the job is over.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	s, closed, err := openStore(j.Database)
	if err != nil {
		return err
	}
	return errors.Join(j.do(s), closed())
}

// do calls a store from several clients until the job is over.
func (j job) do(s store) error {
	book, err := openJournal(j.Journal)
	if err != nil {
		return err
	}
	lease := j.begin(s)
	var all sync.WaitGroup
	for i := range clients {
		name := fmt.Sprintf("%s-%d", j.Name, i)
		c := client{
			name: name, store: s, book: book, lease: lease, rand: rand.New(rand.NewPCG(j.Seed, uint64(i))),
			seen: map[string]session.Session{}, grants: map[string]int64{},
		}
		all.Go(func() {
			for now := sinceBoot() - j.Began; now < j.Length; now = sinceBoot() - j.Began {
				c.call(int(now / slot))
			}
		})
	}
	all.Wait()
	return book.close()
}

// begin begins the lease of the process, if the database lets it. Without one its rows name none.
func (j job) begin(s store) string {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfCall)
	defer cancel()
	if s.BeginLease(ctx, session.Lease{ID: j.Name, Host: j.Name, Promise: time.Hour}) != nil {
		return ""
	}
	return j.Name
}

// A client makes one call after the other, about the objects of the current slot.
type client struct {
	name  string
	store store
	book  *journal
	lease string
	rand  *rand.Rand
	// seen is the row of each run as the client knows it: it is judged by that, though the row may be another by now.
	seen map[string]session.Session
	// grants is what was granted of each slice that the client took.
	grants map[string]int64
}

func (c *client) call(slot int) {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfCall)
	defer cancel()
	if c.rand.IntN(3) == 0 {
		c.spend(ctx, fmt.Sprintf("scope-%d", slot))
		return
	}
	c.end(ctx, fmt.Sprintf("run-%d-%d", slot, c.rand.IntN(runsOfSlot)))
}

// spend takes a slice, or gives one back.
func (c *client) spend(ctx context.Context, scope string) {
	n := c.rand.IntN(slicesOfScope)
	id := fmt.Sprintf("%s/%d", scope, n)
	if c.rand.IntN(3) == 0 {
		call := spendCall{Slice: n, Unused: c.rand.Int64N(c.grants[id] + 1)}
		answered := c.book.call(scope, call)
		err := c.store.Return(ctx, id, watchdog.Totals{Requests: call.Unused})
		if invalid := errors.Is(err, watchdog.ErrInvalid); err == nil || invalid {
			answered(spendAnswer{Invalid: invalid})
		}
		return
	}
	call := spendCall{Slice: n, Least: 1 + c.rand.Int64N(mostOfSlice)}
	answered := c.book.call(scope, call)
	g, err := c.store.Take(ctx, watchdog.Slice{
		ID: id, Scope: scope, Least: watchdog.Totals{Requests: call.Least}, Limit: limitOfScope,
	})
	if invalid := errors.Is(err, watchdog.ErrInvalid); err == nil || invalid {
		answered(spendAnswer{Fits: g.Fits, Granted: g.Granted.Requests, Charged: g.Charged.Requests, Invalid: invalid})
		c.grants[id] = g.Granted.Requests
	}
}

var limitOfScope = watchdog.Totals{
	InputTokens: watchdog.NoLimit, OutputTokens: watchdog.NoLimit, Tokens: watchdog.NoLimit, Cost: watchdog.NoLimit,
	Requests: spendLimit, Turns: watchdog.NoLimit, ToolCalls: watchdog.NoLimit,
}

// quiet is the logger of runs, whose stores fail.
var quiet = slog.New(slog.DiscardHandler)
